"""What the page of a merchant's payout says."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "payout_of_title": "Payout of {amount}",
        "payout_is_returned": "The bank returned it after it was paid.",
        "payout_fee": "Fee",
        "payout_bank_reference": "Bank’s reference",
        "payout_do_paid": "Mark as paid",
        "payout_about_paid": "The bank has sent it. No balance changes.",
        "payout_done_paid": "The payout is paid.",
        "payout_do_failed": "Mark as failed",
        "payout_about_failed": "The bank cannot send it. {amount} returns to the merchant’s "
        "available balance.",
        "payout_done_failed": "The payout has failed, and its money is available again.",
        "payout_do_returned": "Mark as returned",
        "payout_about_returned": "The money is on your bank account again. {amount} returns to the "
        "merchant’s available balance, and the merchant gets an event and a mail.",
        "payout_done_returned": "The payout was returned, and its money is available again.",
        "payout_error_reference": "Enter the bank’s reference, at most 140 characters.",
        "payout_error_reason": "Say why, in a few words.",
        "payout_error_payout": "Nothing was done: this payout has another status meanwhile.",
        "need_returned": "Payouts that banks returned: {number}",
        "need_returned_title": "Payouts that banks returned",
        "need_returned_text": "They were paid and came back; the money is available again. Ask the "
        "merchant for the right account. A payout leaves this list with the merchant’s next "
        "payout, another bank account, or once you confirm the account on its page.",
        "need_returned_at": "Came back",
    },
    "zh-Hans": {
        "payout_of_title": "打款 {amount}",
        "payout_is_returned": "付款后被银行退回。",
        "payout_fee": "手续费",
        "payout_bank_reference": "银行参考号",
        "payout_do_paid": "标记为已付",
        "payout_about_paid": "银行已汇出。余额不变。",
        "payout_done_paid": "打款已标记为已付。",
        "payout_do_failed": "标记为失败",
        "payout_about_failed": "银行无法汇出。{amount} 将恢复到商户的可用余额。",
        "payout_done_failed": "打款失败，款项已恢复可用。",
        "payout_do_returned": "标记为已退回",
        "payout_about_returned": "款项已回到您的银行账户。{amount} 将恢复到商户的可用余额，"
        "并通知商户。",
        "payout_done_returned": "打款已退回，款项已恢复可用。",
        "payout_error_reference": "请输入银行参考号，最多 140 个字符。",
        "payout_error_reason": "请简要说明原因。",
        "payout_error_payout": "未执行任何操作：该打款的状态已变化。",
        "need_returned": "被银行退回的打款：{number}",
        "need_returned_title": "被银行退回的打款",
        "need_returned_text": "这些打款付出后被退回，款项已恢复可用。请向商户确认正确的账户。"
        "商户有下一笔打款、更换银行账户，或您确认其账户后，即从此列表移除。",
        "need_returned_at": "退回时间",
    },
    "zh-Hant": {
        "payout_of_title": "撥款 {amount}",
        "payout_is_returned": "付款後遭銀行退回。",
        "payout_fee": "手續費",
        "payout_bank_reference": "銀行參考號",
        "payout_do_paid": "標記為已付",
        "payout_about_paid": "銀行已匯出。餘額不變。",
        "payout_done_paid": "撥款已標記為已付。",
        "payout_do_failed": "標記為失敗",
        "payout_about_failed": "銀行無法匯出。{amount} 將恢復到商家的可用餘額。",
        "payout_done_failed": "撥款失敗，款項已恢復可用。",
        "payout_do_returned": "標記為已退回",
        "payout_about_returned": "款項已回到您的銀行帳戶。{amount} 將恢復到商家的可用餘額，"
        "並通知商家。",
        "payout_done_returned": "撥款已退回，款項已恢復可用。",
        "payout_error_reference": "請輸入銀行參考號，最多 140 個字元。",
        "payout_error_reason": "請簡要說明原因。",
        "payout_error_payout": "未執行任何操作：此撥款的狀態已變更。",
        "need_returned": "遭銀行退回的撥款：{number}",
        "need_returned_title": "遭銀行退回的撥款",
        "need_returned_text": "這些撥款付出後遭退回，款項已恢復可用。請向商家確認正確的帳戶。"
        "商家有下一筆撥款、更換銀行帳戶，或您確認其帳戶後，即從此清單移除。",
        "need_returned_at": "退回時間",
    },
}
