"""What the console's pages of payments say."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "menu_payments": "Payments",
        "payments_about": "An id or a number leads straight to its payment, of whichever "
        "merchant. Texts, amounts and digits of cards are searched within one merchant: choose it "
        "below.",
        "payments_query": "Search",
        "payments_query_hint": "Any id, a refundNo or an Epay number; with a merchant also an "
        "e-mail, a reference, an amount, or the last four digits of the card.",
        "payments_merchant": "Merchant",
        "payments_merchant_hint": "Its id or name.",
        "payments_status": "Status",
        "payments_when": "Opened",
        "payments_customer": "Customer",
        "payments_product": "Product",
        "payments_none": "This merchant has no payments yet.",
        "payments_visit": "That you look at this merchant’s payments is in the audit log.",
        "payments_of_it": "Its payments in the console, where something can be done to them",
        "payments_led": "Payments that this leads to: {number}",
        "payments_not_led": "No payment has this id or number. To search for a text, choose a "
        "merchant too.",
        "payments_choose": "Search for an id or a number, or choose a merchant to see its newest "
        "payments.",
        "payments_find_merchant": "Find a merchant",
        "payments_error_query": "Too much is found by this, or it is too long. Enter more of what "
        "you look for, or add days",
        "payments_error_merchant": "No merchant has this id or name",
        "payments_error_merchants": "Several merchants have this in their name. Enter all of the "
        "name, or the id",
        "payment_staff_title": "Staff’s view",
        "payment_staff": "You see this as staff, and your visit is in the audit log. Below stands "
        "what the merchant reads, so “you” in it is the merchant.",
        "payment_its_page": "The merchant’s own page",
        "payment_actions": "What can be done",
        "payment_disputes": "Disputes: deadline, evidence and notes",
        "payment_reason": "Reason",
        "payment_amount": "Amount ({currency})",
        "payment_amount_hint": "Up to {amount}, what is left of the payment.",
        "payment_not_done": "Nothing was done",
        "payment_typed": "You gave this reason:",
        "payment_error_amount": "Enter an amount that is not more than what is left",
        "payment_error_stale": "The payment has changed since this was shown ({wait}), or this "
        "form was used already. Nothing was done by it. Look at the payment, then send it again",
        "payment_do_confirm": "Confirm that it was paid",
        "payment_text_confirm": "For money that arrived without a gateway’s word, such as a bank "
        "transfer. It cannot be undone, only refunded.",
        "payment_done_confirm": "The payment is confirmed.",
        "payment_moves_taken": "Counts as received",
        "payment_moves_fee": "Fee of the platform",
        "payment_moves_pending": "The merchant’s pending balance gains",
        "payment_do_revoke": "Revoke it",
        "payment_text_revoke": "It cannot be paid any more. No money moves.",
        "payment_done_revoke": "The payment is revoked.",
        "payment_do_refund-done": "End a refund as done",
        "payment_text_refund-done": "When you know that the customer has the money, and the "
        "gateway does not report it.",
        "payment_done_refund-done": "The refund has ended as done.",
        "payment_do_refund-failed": "End a refund as failed",
        "payment_text_refund-failed": "When you know that the money was not sent. It returns to "
        "the merchant’s balance, and the merchant reads the reason.",
        "payment_done_refund-failed": "The refund has ended as failed.",
        "payment_do_refund-reversed": "Reverse a refund",
        "payment_text_refund-reversed": "When you know that the money of the refund came back. It "
        "returns to the merchant’s balance, and the payment can be refunded again.",
        "payment_done_refund-reversed": "The refund is reversed.",
        "payment_moves_back": "The customer has got back",
        "payment_moves_left": "Leaves the merchant’s frozen balance",
        "payment_moves_returned": "Returns to the merchant’s balance",
        "payment_do_given-back": "Second payment given back",
        "payment_text_given-back": "When a gateway refuses for good to give a second "
        "payment back, or does not say what became of it, and you know that the customer has the "
        "money, by a transfer for example. Nothing moves in the books, which never had it.",
        "payment_done_given-back": "That the second payment went back is recorded.",
        "payment_do_dispute-open": "Open a dispute",
        "payment_text_dispute-open": "When the customer takes the payment back through the bank, "
        "and the gateway does not report it. A payment that has settled is frozen so far.",
        "payment_done_dispute-open": "The dispute is open.",
        "payment_do_dispute-won": "Dispute won",
        "payment_text_dispute-won": "The bank decided for the merchant. What was frozen is free.",
        "payment_done_dispute-won": "The dispute has ended as won.",
        "payment_do_dispute-lost": "Dispute lost",
        "payment_text_dispute-lost": "The bank decided for the customer: a chargeback. What is "
        "held in reserve of this payment covers it first.",
        "payment_done_dispute-lost": "The dispute has ended as lost.",
        "payment_do_dispute-recovered": "Money recovered after a loss",
        "payment_text_dispute-recovered": "The bank has returned the money. The fee stays lost, "
        "and what the reserve had covered is held again.",
        "payment_done_dispute-recovered": "That the money was recovered is recorded.",
        "payment_moves_kept": "The merchant keeps",
        "payment_moves_lost": "The merchant loses",
        "payment_moves_dispute_fee": "And the fee of the dispute",
        "payment_do_notify": "Send the Epay notification again",
        "payment_text_notify": "The shop is notified again that this payment was paid, at once and "
        "with all attempts. No money moves.",
        "payment_done_notify": "The notification is sent again now.",
        "payment_done_refund": "The refund is on its way. Its end is shown in the timeline.",
        "payment_done_note": "The note is added. It stands in the timeline.",
        "payment_note_hint": "Plain text, at most {number} characters. The merchant’s team reads "
        "it, the customer does not, and nobody can change it afterwards.",
    },
    "zh-Hans": {
        "menu_payments": "付款",
        "payments_about": "输入编号可直接打开任一商户的付款。文本、"
        "金额和卡号末尾数字只能在一个商户"
        "内搜索：请在下方选择商户。",
        "payments_query": "搜索",
        "payments_query_hint": "任意编号、refundNo 或易支付单号；选择商户后还可搜索邮箱、"
        "商户单号、"
        "金额或卡号末四位。",
        "payments_merchant": "商户",
        "payments_merchant_hint": "商户编号或名称。",
        "payments_status": "状态",
        "payments_when": "创建时间",
        "payments_customer": "客户",
        "payments_product": "商品",
        "payments_none": "此商户尚无付款。",
        "payments_visit": "您查看此商户付款的行为已记入审计日志。",
        "payments_of_it": "在控制台中查看并处理其付款",
        "payments_led": "对应的付款：{number}",
        "payments_not_led": "没有付款使用此编号。如要搜索文本，请同时选择商户。",
        "payments_choose": "请搜索编号，或选择商户以查看其最近的付款。",
        "payments_find_merchant": "查找商户",
        "payments_error_query": "结果过多或内容过长。请输入更多内容，或添加日期",
        "payments_error_merchant": "没有商户使用此编号或名称",
        "payments_error_merchants": "多个商户的名称包含此内容。请输入完整名称或编号",
        "payment_staff_title": "员工视图",
        "payment_staff": "您以员工身份查看，此次访问已记入审计日志。"
        "以下内容与商户所见相同，其中的“您”"
        "指商户。",
        "payment_its_page": "商户自己的页面",
        "payment_actions": "可执行的操作",
        "payment_disputes": "争议：截止时间、证据和备注",
        "payment_reason": "原因",
        "payment_amount": "金额（{currency}）",
        "payment_amount_hint": "不超过此付款的剩余金额 {amount}。",
        "payment_not_done": "未执行任何操作",
        "payment_typed": "您填写的原因：",
        "payment_error_amount": "请输入不超过剩余金额的数额",
        "payment_error_stale": "显示之后付款已有变化（{wait}），或此表单已使用过。"
        "此表单未执行任何操作。"
        "请查看付款后重新提交",
        "payment_do_confirm": "确认已付款",
        "payment_text_confirm": "用于未经网关通知的到账，例如银行转账。此操作无法撤销，只能退款。",
        "payment_done_confirm": "付款已确认。",
        "payment_moves_taken": "视为已收款",
        "payment_moves_fee": "平台手续费",
        "payment_moves_pending": "商户待结算余额增加",
        "payment_do_revoke": "撤销付款",
        "payment_text_revoke": "此付款将不能再支付。没有资金变动。",
        "payment_done_revoke": "付款已撤销。",
        "payment_do_refund-done": "将退款结束为成功",
        "payment_text_refund-done": "适用于已知客户收到款项、而网关不报告结果的情况。",
        "payment_done_refund-done": "退款已结束为成功。",
        "payment_do_refund-failed": "将退款结束为失败",
        "payment_text_refund-failed": "适用于已知款项未发出的情况。款项退回商户余额，"
        "原因会告知商户。",
        "payment_done_refund-failed": "退款已结束为失败。",
        "payment_do_refund-reversed": "冲回退款",
        "payment_text_refund-reversed": "适用于已知退款款项被退回的情况。"
        "款项恢复到商户余额，付款可再次退款。",
        "payment_done_refund-reversed": "退款已冲回。",
        "payment_moves_back": "客户已收到",
        "payment_moves_left": "从商户冻结余额扣除",
        "payment_moves_returned": "退回商户余额",
        "payment_do_given-back": "重复付款已退回",
        "payment_text_given-back": "适用于网关最终拒绝退回重复付款或不告知其结果、而您已知客户"
        "以其他方式（例如转账）收到款项的情况。账目中从未计入此款，没有资金变动。",
        "payment_done_given-back": "已记录重复付款的退回。",
        "payment_do_dispute-open": "发起争议",
        "payment_text_dispute-open": "适用于客户通过银行追回付款、而网关不报告的情况。"
        "已结算的付款将被"
        "冻结。",
        "payment_done_dispute-open": "争议已发起。",
        "payment_do_dispute-won": "争议胜诉",
        "payment_text_dispute-won": "银行裁定商户胜诉。冻结的款项解冻。",
        "payment_done_dispute-won": "争议已结束为胜诉。",
        "payment_do_dispute-lost": "争议败诉",
        "payment_text_dispute-lost": "银行裁定客户胜诉，即拒付。优先由此付款的保证金承担。",
        "payment_done_dispute-lost": "争议已结束为败诉。",
        "payment_do_dispute-recovered": "败诉后追回款项",
        "payment_text_dispute-recovered": "银行已退还款项。手续费不退，保证金承担的部分重新扣留。",
        "payment_done_dispute-recovered": "已记录追回款项。",
        "payment_moves_kept": "商户保留",
        "payment_moves_lost": "商户损失",
        "payment_moves_dispute_fee": "另加争议手续费",
        "payment_do_notify": "重新发送易支付通知",
        "payment_text_notify": "立即再次通知商店此付款已支付，并重新计算尝试次数。没有资金变动。",
        "payment_done_notify": "正在重新发送通知。",
        "payment_done_refund": "退款正在处理，结果会显示在时间线中。",
        "payment_done_note": "备注已添加，显示在时间线中。",
        "payment_note_hint": "纯文本，最多 {number} 个字符。商户团队可以看到，客户看不到；"
        "添加后不能"
        "更改。",
    },
    "zh-Hant": {
        "menu_payments": "付款紀錄",
        "payments_about": "輸入編號可直接開啟任一商家的付款。文字、"
        "金額和卡號末尾數字只能在一個商家"
        "內搜尋：請在下方選擇商家。",
        "payments_query": "搜尋",
        "payments_query_hint": "任意編號、refundNo 或易支付單號；"
        "選擇商家後還可搜尋電子郵件、商家單號、"
        "金額或卡號末四碼。",
        "payments_merchant": "商家",
        "payments_merchant_hint": "商家編號或名稱。",
        "payments_status": "狀態",
        "payments_when": "建立時間",
        "payments_customer": "客戶",
        "payments_product": "產品",
        "payments_none": "此商家尚無付款。",
        "payments_visit": "您檢視此商家付款的行為已記入稽核記錄。",
        "payments_of_it": "在主控台中檢視並處理其付款",
        "payments_led": "對應的付款：{number}",
        "payments_not_led": "沒有付款使用此編號。如要搜尋文字，請同時選擇商家。",
        "payments_choose": "請搜尋編號，或選擇商家以檢視其最近的付款。",
        "payments_find_merchant": "尋找商家",
        "payments_error_query": "結果過多或內容過長。請輸入更多內容，或加上日期",
        "payments_error_merchant": "沒有商家使用此編號或名稱",
        "payments_error_merchants": "多個商家的名稱包含此內容。請輸入完整名稱或編號",
        "payment_staff_title": "員工檢視",
        "payment_staff": "您以員工身分檢視，此次造訪已記入稽核記錄。"
        "以下內容與商家所見相同，其中的「您」"
        "指商家。",
        "payment_its_page": "商家自己的頁面",
        "payment_actions": "可執行的操作",
        "payment_disputes": "爭議：截止時間、證據和備註",
        "payment_reason": "原因",
        "payment_amount": "金額（{currency}）",
        "payment_amount_hint": "不超過此付款的剩餘金額 {amount}。",
        "payment_not_done": "未執行任何操作",
        "payment_typed": "您填寫的原因：",
        "payment_error_amount": "請輸入不超過剩餘金額的數額",
        "payment_error_stale": "顯示之後付款已有變化（{wait}），或此表單已使用過。"
        "此表單未執行任何操作。"
        "請檢視付款後重新送出",
        "payment_do_confirm": "確認已付款",
        "payment_text_confirm": "用於未經閘道通知的入帳，例如銀行轉帳。此操作無法復原，只能退款。",
        "payment_done_confirm": "付款已確認。",
        "payment_moves_taken": "視為已收款項",
        "payment_moves_fee": "平台手續費",
        "payment_moves_pending": "商家待結算餘額增加",
        "payment_do_revoke": "撤銷付款",
        "payment_text_revoke": "此付款將不能再支付。沒有資金變動。",
        "payment_done_revoke": "付款已撤銷。",
        "payment_do_refund-done": "將退款結束為成功",
        "payment_text_refund-done": "適用於已知客戶收到款項、而閘道不回報結果的情況。",
        "payment_done_refund-done": "退款已結束為成功。",
        "payment_do_refund-failed": "將退款結束為失敗",
        "payment_text_refund-failed": "適用於已知款項未送出的情況。款項退回商家餘額，"
        "原因會告知商家。",
        "payment_done_refund-failed": "退款已結束為失敗。",
        "payment_do_refund-reversed": "沖回退款",
        "payment_text_refund-reversed": "適用於已知退款款項被退回的情況。"
        "款項恢復到商家餘額，付款可再次退款。",
        "payment_done_refund-reversed": "退款已沖回。",
        "payment_moves_back": "客戶已收到",
        "payment_moves_left": "從商家凍結餘額扣除",
        "payment_moves_returned": "退回商家餘額",
        "payment_do_given-back": "重複付款已退回",
        "payment_text_given-back": "適用於閘道最終拒絕退回重複付款或不告知其結果、而您已知客戶"
        "以其他方式（例如轉帳）收到款項的情況。帳目中從未計入此款，沒有資金變動。",
        "payment_done_given-back": "已記錄重複付款的退回。",
        "payment_do_dispute-open": "提出爭議",
        "payment_text_dispute-open": "適用於客戶透過銀行追回付款、而閘道不回報的情況。"
        "已結算的付款將被"
        "凍結。",
        "payment_done_dispute-open": "爭議已提出。",
        "payment_do_dispute-won": "爭議勝訴",
        "payment_text_dispute-won": "銀行裁定商家勝訴。凍結的款項解凍。",
        "payment_done_dispute-won": "爭議已結束為勝訴。",
        "payment_do_dispute-lost": "爭議敗訴",
        "payment_text_dispute-lost": "銀行裁定客戶勝訴，即拒付。優先由此付款的保證金承擔。",
        "payment_done_dispute-lost": "爭議已結束為敗訴。",
        "payment_do_dispute-recovered": "敗訴後追回款項",
        "payment_text_dispute-recovered": "銀行已退還款項。手續費不退，保證金承擔的部分重新保留。",
        "payment_done_dispute-recovered": "已記錄追回款項。",
        "payment_moves_kept": "商家保留",
        "payment_moves_lost": "商家損失",
        "payment_moves_dispute_fee": "另加爭議手續費",
        "payment_do_notify": "重新傳送易支付通知",
        "payment_text_notify": "立即再次通知商店此付款已支付，並重新計算嘗試次數。沒有資金變動。",
        "payment_done_notify": "正在重新傳送通知。",
        "payment_done_refund": "退款正在處理，結果會顯示在時間軸中。",
        "payment_done_note": "備註已新增，顯示在時間軸中。",
        "payment_note_hint": "純文字，最多 {number} 個字元。商家團隊可以看到，客戶看不到；"
        "新增後不能"
        "更改。",
    },
}
