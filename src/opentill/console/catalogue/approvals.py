"""What the page of approvals says."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "approvals_error_invited": "Whoever asked for this has invited this "
        "person or given them a new password within the last 72 hours. "
        "Somebody else must approve.",
        "approvals_error_browser": "Whoever asked for this has logged in in this "
        "browser. Approve it in a browser of your own.",
        "approvals_waits": "This waits for a second person now: {link}. Nothing has moved yet.",
        "menu_approvals": "Approvals",
        "need_approvals": "Waiting for a second person: {number}",
        "approvals_title": "Waiting for a second person",
        "approvals_about": "Nothing of this has moved yet. What is available is checked when "
        "somebody approves.",
        "approvals_none": "Nothing waits. Above the limit of this deployment, payouts, refunds by "
        "staff, adjustments of balances and other manual actions wait here until a second person "
        "approves.",
        "approvals_with_fee": "and a fee of {fee}",
        "approvals_asked": "Asked for by {who}",
        "approvals_yours": "You asked for this: somebody else approves it.",
        "approvals_approve": "Approve",
        "approvals_reject": "Reject",
        "approvals_reason": "Why it is rejected",
        "approvals_approved": "Approved.",
        "approvals_rejected": "Rejected. Nothing was moved.",
        "approvals_error": "This could not be done. Nothing was moved.",
        "approvals_error_same": "Somebody else than who asked for it must approve.",
        "approvals_error_decided": "Somebody has decided about this already.",
        "approvals_error_amount": "The balance does not allow this amount now. It goes on waiting.",
        "approvals_error_off": "This merchant's payouts are switched off. It goes on waiting.",
        "approvals_error_closed": "The merchant was closed after this was asked for: reject it.",
        "approvals_error_reason": "Say why, in a few words.",
    },
    "zh-Hans": {
        "approvals_error_invited": "申请人在过去 72 小时内邀请了此人或为其设置了"
        "新密码，须由其他人批准。",
        "approvals_error_browser": "申请人曾在此浏览器登录。请在您自己的浏览器中批准。",
        "approvals_waits": "此操作正在等待第二人审批：{link}。尚未移动任何资金。",
        "menu_approvals": "审批",
        "need_approvals": "待第二人审批：{number}",
        "approvals_title": "等待第二人审批",
        "approvals_about": "以下尚未移动任何资金。审批时会检查可用余额。",
        "approvals_none": "没有待审批的事项。超过本部署限额的打款、员工退款、余额调整和其他手动操"
        "作会在此等待，由申请人以外的人批准。",
        "approvals_with_fee": "另收费用 {fee}",
        "approvals_asked": "申请人：{who}",
        "approvals_yours": "这是您申请的：须由他人批准。",
        "approvals_approve": "批准",
        "approvals_reject": "驳回",
        "approvals_reason": "驳回原因",
        "approvals_approved": "已批准。",
        "approvals_rejected": "已驳回。未移动任何资金。",
        "approvals_error": "操作未能完成。未移动任何资金。",
        "approvals_error_same": "须由申请人以外的人批准。",
        "approvals_error_decided": "此事项已有人处理。",
        "approvals_error_amount": "余额目前不允许此金额。该事项继续等待。",
        "approvals_error_off": "该商户的打款已停用。该事项继续等待。",
        "approvals_error_closed": "此申请提出后该商户已关闭：请予以驳回。",
        "approvals_error_reason": "请简要说明原因。",
    },
    "zh-Hant": {
        "approvals_error_invited": "申請人在過去 72 小時內邀請了此人或為其設定了"
        "新密碼，須由其他人核准。",
        "approvals_error_browser": "申請人曾在此瀏覽器登入。請在您自己的瀏覽器中核准。",
        "approvals_waits": "此操作正在等待第二人核准：{link}。尚未移動任何資金。",
        "menu_approvals": "核准",
        "need_approvals": "待第二人核准：{number}",
        "approvals_title": "等待第二人核准",
        "approvals_about": "以下尚未移動任何資金。核准時會檢查可用餘額。",
        "approvals_none": "沒有待核准的事項。超過本部署限額的撥款、員工退款、餘額調整和其他手動操"
        "作會在此等待，由申請人以外的人核准。",
        "approvals_with_fee": "另收費用 {fee}",
        "approvals_asked": "申請人：{who}",
        "approvals_yours": "這是您申請的：須由他人核准。",
        "approvals_approve": "核准",
        "approvals_reject": "駁回",
        "approvals_reason": "駁回原因",
        "approvals_approved": "已核准。",
        "approvals_rejected": "已駁回。未移動任何資金。",
        "approvals_error": "操作未能完成。未移動任何資金。",
        "approvals_error_same": "須由申請人以外的人核准。",
        "approvals_error_decided": "此事項已有人處理。",
        "approvals_error_amount": "餘額目前不允許此金額。該事項繼續等待。",
        "approvals_error_off": "該商家的撥款已停用。該事項繼續等待。",
        "approvals_error_closed": "此申請提出後該商家已關閉：請予以駁回。",
        "approvals_error_reason": "請簡要說明原因。",
    },
}
