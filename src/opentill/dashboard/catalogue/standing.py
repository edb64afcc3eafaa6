"""What pages of a merchant say about what the operator has switched off."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "off_title": "Switched off by the operator",
        "off_status_APPLIED": "The application for this account has not been decided yet.",
        "off_status_SUSPENDED": "This account is suspended. Payments that are on their way still "
        "arrive, and what was paid still settles.",
        "off_status_CLOSED": "This account is closed.",
        "off_charge": "No sessions can be opened and no payments started.",
        "off_refund": "Payments cannot be refunded.",
        "off_payout": "The balance is not paid out.",
        "error_session_off": "No session can be opened. The operator has switched payments off: "
        "{wait}",
    },
    "zh-Hans": {
        "off_title": "已被运营方关闭",
        "off_status_APPLIED": "此账户的申请尚未审核。",
        "off_status_SUSPENDED": "此账户已被暂停。处理中的付款仍会到账，已付款项仍会结算。",
        "off_status_CLOSED": "此账户已关闭。",
        "off_charge": "无法创建会话，也无法发起付款。",
        "off_refund": "无法退款。",
        "off_payout": "余额暂停打款。",
        "error_session_off": "无法创建会话。运营方已关闭收款：{wait}",
    },
    "zh-Hant": {
        "off_title": "已被營運方關閉",
        "off_status_APPLIED": "此帳戶的申請尚未審核。",
        "off_status_SUSPENDED": "此帳戶已被暫停。處理中的付款仍會入帳，已付款項仍會結算。",
        "off_status_CLOSED": "此帳戶已關閉。",
        "off_charge": "無法建立工作階段，也無法發起付款。",
        "off_refund": "無法退款。",
        "off_payout": "餘額暫停撥款。",
        "error_session_off": "無法建立工作階段。營運方已關閉收款：{wait}",
    },
}
