"""What the page of a payment says of notes, and of the notification of an Epay shop."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "line_note": "Note of {who}",
        "line_note_operator": "Note of the operator",
        "note_new": "Add a note",
        "note_field": "Note",
        "note_hint": "Plain text, at most {number} characters. Your team and the operator read it, "
        "the customer does not, and nobody can change it afterwards.",
        "note_do": "Add the note",
        "note_done": "Your note is added. It stands in the timeline.",
        "note_full": "There are {number} notes, which is the most.",
        "error_note": "Enter plain text of 1 to 5,000 characters",
        "error_note_full": "There are as many notes as there may be, so this one was not added",
        "fact_tries": "Attempts",
        "fact_result": "Outcome of the last one",
        "fact_next_try": "Next attempt",
        "shop_notice_WAITING": "The shop’s Epay notification is being sent",
        "shop_notice_DELIVERED": "The shop has the Epay notification",
        "shop_notice_FAILED": "The shop did not take the Epay notification",
    },
    "zh-Hans": {
        "line_note": "{who} 的备注",
        "line_note_operator": "平台方的备注",
        "note_new": "添加备注",
        "note_field": "备注",
        "note_hint": "纯文本，最多 {number} 个字符。您的团队和平台方可以看到，"
        "客户看不到；添加后不能更改。",
        "note_do": "保存备注",
        "note_done": "备注已添加，显示在时间线中。",
        "note_full": "已有 {number} 条备注，达到上限。",
        "error_note": "请输入 1 至 5,000 个字符的纯文本",
        "error_note_full": "备注数量已达上限，因此没有添加",
        "fact_tries": "尝试次数",
        "fact_result": "最近一次的结果",
        "fact_next_try": "下次尝试",
        "shop_notice_WAITING": "正在向商店发送易支付通知",
        "shop_notice_DELIVERED": "商店已收到易支付通知",
        "shop_notice_FAILED": "商店未接收易支付通知",
    },
    "zh-Hant": {
        "line_note": "{who} 的備註",
        "line_note_operator": "平台方的備註",
        "note_new": "新增備註",
        "note_field": "備註",
        "note_hint": "純文字，最多 {number} 個字元。您的團隊和平台方可以看到，"
        "客戶看不到；新增後不能更改。",
        "note_do": "儲存備註",
        "note_done": "備註已新增，顯示在時間軸中。",
        "note_full": "已有 {number} 則備註，達到上限。",
        "error_note": "請輸入 1 至 5,000 個字元的純文字",
        "error_note_full": "備註數量已達上限，因此沒有新增",
        "fact_tries": "嘗試次數",
        "fact_result": "最近一次的結果",
        "fact_next_try": "下次嘗試",
        "shop_notice_WAITING": "正在向商店傳送易支付通知",
        "shop_notice_DELIVERED": "商店已收到易支付通知",
        "shop_notice_FAILED": "商店未接收易支付通知",
    },
}
