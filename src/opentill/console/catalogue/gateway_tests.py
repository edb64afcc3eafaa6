"""What the page of test payments says."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "tested_link": "Test payment",
        "tested_title": "Test payment through {gateway}",
        "tested_about": "An ordinary payment of a merchant: where the gateway takes real money, "
        "it is real. It stands in the merchant's lists and figures, its endpoints get the events, "
        "and the fee is taken. Open it, pay it at its address, and refund it on its page.",
        "tested_looks": "Administrators and finance staff open test payments.",
        "tested_merchant": "Merchant",
        "tested_merchant_hint": "Its id, mer_…; best one of your own",
        "tested_amount_hint": "Such as 1.00; gateways have a smallest amount",
        "tested_method": "Method",
        "tested_open": "Open the payment",
        "tested_opened": "Opened. It can be paid here until {until}:",
        "tested_newest": "Test payments, newest first",
        "tested_none": "No test payment was opened yet.",
        "tested_through": "Gateway",
        "tested_status": "Status",
        "tested_error_gateway": "Choose one of the gateways of this deployment",
        "tested_error_first": "Payments of this method and currency go to {wait} first, and this "
        "one would too. Choose another method or currency, or put this gateway first for it with "
        "OPENTILL_ROUTES or OPENTILL_GATEWAYS; one that was not reached within 30 seconds comes "
        "last",
        "tested_error_merchant": "Enter the id of a merchant, such as mer_…",
        "tested_error_off": "This merchant may not take payments: {wait}",
        "tested_error_agreement": "This merchant has not accepted the agreement yet",
        "tested_error_amount": "Enter an amount above 0, such as 1.00",
        "tested_error_currency": "Enter an ISO 4217 code such as EUR",
        "tested_error_method": "Choose a method that this gateway offers in this currency",
        "tested_error_rate": "There is no exchange rate from this currency to the merchant's, or "
        "the amount is worth too little or too much in it",
    },
    "zh-Hans": {
        "tested_link": "测试付款",
        "tested_title": "通过 {gateway} 的测试付款",
        "tested_about": "这是商户的一笔普通付款：若该支付通道收取真实资金，付款即为真实。它会出现"
        "在商户的列表和统计中，商户的端点会收到事件，并照常收取手续费。请创建后在其地址付款，再到"
        "付款页面退款。",
        "tested_looks": "测试付款由管理员和财务人员创建。",
        "tested_merchant": "商户",
        "tested_merchant_hint": "商户编号 mer_…；最好是您自己的商户",
        "tested_amount_hint": "例如 1.00；支付通道有最低金额",
        "tested_method": "方式",
        "tested_open": "创建付款",
        "tested_opened": "已创建。在 {until} 之前可在此付款：",
        "tested_newest": "测试付款，最新在前",
        "tested_none": "尚无测试付款。",
        "tested_through": "支付通道",
        "tested_status": "状态",
        "tested_error_gateway": "请选择本部署的支付通道之一",
        "tested_error_first": "此方式和货币的付款首先发往 {wait}，这一笔也会如此。"
        "请选择其他方式或货币，或用 OPENTILL_ROUTES 或 OPENTILL_GATEWAYS 将此支付通道排在首位；"
        "30 秒内未能连接的支付通道排在最后",
        "tested_error_merchant": "请输入商户编号，例如 mer_…",
        "tested_error_off": "该商户不能收款：{wait}",
        "tested_error_agreement": "该商户尚未接受协议",
        "tested_error_amount": "请输入大于 0 的金额，例如 1.00",
        "tested_error_currency": "请输入 ISO 4217 代码，例如 EUR",
        "tested_error_method": "请选择此支付通道在该货币下提供的方式",
        "tested_error_rate": "没有从该货币到商户货币的汇率，或折算后的金额过小或过大",
    },
    "zh-Hant": {
        "tested_link": "測試付款",
        "tested_title": "透過 {gateway} 的測試付款",
        "tested_about": "這是商家的一筆普通付款：若該支付通道收取真實資金，付款即為真實。它會出現"
        "在商家的清單和統計中，商家的端點會收到事件，並照常收取手續費。請建立後在其位址付款，再到"
        "付款頁面退款。",
        "tested_looks": "測試付款由管理員和財務人員建立。",
        "tested_merchant": "商家",
        "tested_merchant_hint": "商家編號 mer_…；最好是您自己的商家",
        "tested_amount_hint": "例如 1.00；支付通道有最低金額",
        "tested_method": "方式",
        "tested_open": "建立付款",
        "tested_opened": "已建立。在 {until} 之前可在此付款：",
        "tested_newest": "測試付款，最新在前",
        "tested_none": "尚無測試付款。",
        "tested_through": "支付通道",
        "tested_status": "狀態",
        "tested_error_gateway": "請選擇本部署的支付通道之一",
        "tested_error_first": "此方式和貨幣的付款首先送往 {wait}，這一筆也會如此。"
        "請選擇其他方式或貨幣，或用 OPENTILL_ROUTES 或 OPENTILL_GATEWAYS 將此支付通道排在首位；"
        "30 秒內未能連線的支付通道排在最後",
        "tested_error_merchant": "請輸入商家編號，例如 mer_…",
        "tested_error_off": "該商家不能收款：{wait}",
        "tested_error_agreement": "該商家尚未接受協議",
        "tested_error_amount": "請輸入大於 0 的金額，例如 1.00",
        "tested_error_currency": "請輸入 ISO 4217 代碼，例如 EUR",
        "tested_error_method": "請選擇此支付通道在該貨幣下提供的方式",
        "tested_error_rate": "沒有從該貨幣到商家貨幣的匯率，或換算後的金額過小或過大",
    },
}
