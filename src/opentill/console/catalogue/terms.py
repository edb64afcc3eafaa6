"""What the form of a merchant’s terms says."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "terms_change": "Change the terms",
        "change_terms_of": "Terms of",
        "terms_about": "New terms hold for sessions that are opened from then on. The overdraft "
        "limit, the smallest payout and the addresses hold at once.",
        "terms_only_admin": "Only an administrator changes terms.",
        "terms_do": "Set the terms",
        "term_now": "It is now: {value}",
        "terms_hint_percent": "A number from 0 to below 100, such as 2.9",
        "terms_hint_amount": "An amount such as 15.00",
        "terms_hint_rows": "A row for each, such as CREDIT_CARD:EUR=0.014+0.25; the rate is a "
        "share, what follows is fixed.",
        "terms_hint_addresses": "An address or network in each row, such as 192.0.2.0/24; none: "
        "from everywhere.",
        "terms_reason": "Why",
        "terms_reason_hint": "It stands beside the new version, and in the audit log.",
        "terms_error_reason": "Say why, in a few words",
        "terms_error_percent": "Enter a number from 0 to below 100 with at most four decimals, "
        "such as 2.9",
        "terms_error_amount": "Enter an amount such as 15.00",
        "terms_error_days": "Enter a whole number of days: at most 365 until settlement, 3650 "
        "for the reserve",
        "terms_error_choice": "Choose one of the values",
        "terms_error_rows": "Enter rows such as CREDIT_CARD:EUR=0.014+0.25, with a method and a "
        "currency that exist",
        "terms_error_addresses": "Enter addresses or networks such as 192.0.2.0/24",
        "terms_error_terms": "The terms could not be set like this",
        "terms_error_stale": "The terms were changed meanwhile. Compare what you entered with "
        "what holds now, then send it again",
    },
    "zh-Hans": {
        "terms_change": "更改条款",
        "change_terms_of": "条款：",
        "terms_about": "新条款对之后创建的收银台生效。透支限额、最低付款额和允许的地址立即生效。",
        "terms_only_admin": "只有管理员可以更改条款。",
        "terms_do": "保存条款",
        "term_now": "当前为：{value}",
        "terms_hint_percent": "0 至 100 以下的数字，例如 2.9",
        "terms_hint_amount": "金额，例如 15.00",
        "terms_hint_rows": "每行一条，例如 CREDIT_CARD:EUR=0.014+0.25；前者为比例，后者为固定金额"
        "。",
        "terms_hint_addresses": "每行一个地址或网段，例如 192.0.2.0/24；留空表示不限制。",
        "terms_reason": "更改原因",
        "terms_reason_hint": "将与新版本一并保存，并记入审计日志。",
        "terms_error_reason": "请简要说明原因",
        "terms_error_percent": "请输入 0 至 100 以下、至多四位小数的数字，例如 2.9",
        "terms_error_amount": "请输入金额，例如 15.00",
        "terms_error_days": "请输入整数天数：结算至多 365 天，保证金至多 3650 天",
        "terms_error_choice": "请选择其中一项",
        "terms_error_rows": "请按 CREDIT_CARD:EUR=0.014+0.25 的格式输入，方式和货币须存在",
        "terms_error_addresses": "请输入地址或网段，例如 192.0.2.0/24",
        "terms_error_terms": "无法这样设置条款",
        "terms_error_stale": "条款在此期间已被更改。请将您输入的内容与当前内容比较后再次提交",
    },
    "zh-Hant": {
        "terms_change": "變更條款",
        "change_terms_of": "條款：",
        "terms_about": "新條款對之後建立的結帳生效。透支限額、最低撥款額和允許的位址立即生效。",
        "terms_only_admin": "只有管理員可以變更條款。",
        "terms_do": "儲存條款",
        "term_now": "目前為：{value}",
        "terms_hint_percent": "0 至 100 以下的數字，例如 2.9",
        "terms_hint_amount": "金額，例如 15.00",
        "terms_hint_rows": "每行一條，例如 CREDIT_CARD:EUR=0.014+0.25；前者為比例，後者為固定金額"
        "。",
        "terms_hint_addresses": "每行一個位址或網段，例如 192.0.2.0/24；留空表示不限制。",
        "terms_reason": "變更原因",
        "terms_reason_hint": "將與新版本一併保存，並記入稽核記錄。",
        "terms_error_reason": "請簡要說明原因",
        "terms_error_percent": "請輸入 0 至 100 以下、至多四位小數的數字，例如 2.9",
        "terms_error_amount": "請輸入金額，例如 15.00",
        "terms_error_days": "請輸入整數天數：結算至多 365 天，保證金至多 3650 天",
        "terms_error_choice": "請選擇其中一項",
        "terms_error_rows": "請按 CREDIT_CARD:EUR=0.014+0.25 的格式輸入，方式和貨幣須存在",
        "terms_error_addresses": "請輸入位址或網段，例如 192.0.2.0/24",
        "terms_error_terms": "無法這樣設定條款",
        "terms_error_stale": "條款在此期間已被變更。請將您輸入的內容與目前內容比較後再次送出",
    },
}
