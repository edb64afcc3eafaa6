"""What needs a second person is called, in mails and in the console: adjustments and payouts."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "approval_payout-returned": "Payout marked as returned",
        "approval_confirm": "Confirmation of a payment",
        "approval_refund": "Refund",
        "approval_refund-recorded": "Refund made elsewhere, to be recorded",
        "approval_refund-failed": "Refund marked as failed",
        "approval_refund-reversed": "Refund marked as reversed",
        "approval_dispute-won": "Dispute marked as won",
        "approval_dispute-recovered": "Dispute marked as recovered",
        "approval_payout-failed": "Payout marked as failed",
        "approval_payout": "Payout",
        "approval_freeze": "Freeze",
        "approval_unfreeze": "Unfreeze",
        "approval_recharge": "Recharge",
        "approval_correct": "Correction",
        "approval_fee": "Fee",
    },
    "zh-Hans": {
        "approval_payout-returned": "将打款标为已退回",
        "approval_confirm": "确认收款",
        "approval_refund": "退款",
        "approval_refund-recorded": "记录在别处完成的退款",
        "approval_refund-failed": "将退款标为失败",
        "approval_refund-reversed": "将退款标为已冲回",
        "approval_dispute-won": "将争议标为胜诉",
        "approval_dispute-recovered": "将争议标为追回",
        "approval_payout-failed": "将打款标为失败",
        "approval_payout": "打款",
        "approval_freeze": "冻结",
        "approval_unfreeze": "解冻",
        "approval_recharge": "充值",
        "approval_correct": "更正",
        "approval_fee": "费用",
    },
    "zh-Hant": {
        "approval_payout-returned": "將撥款標為已退回",
        "approval_confirm": "確認收款",
        "approval_refund": "退款",
        "approval_refund-recorded": "記錄在別處完成的退款",
        "approval_refund-failed": "將退款標為失敗",
        "approval_refund-reversed": "將退款標為已沖回",
        "approval_dispute-won": "將爭議標為勝訴",
        "approval_dispute-recovered": "將爭議標為追回",
        "approval_payout-failed": "將撥款標為失敗",
        "approval_payout": "撥款",
        "approval_freeze": "凍結",
        "approval_unfreeze": "解凍",
        "approval_recharge": "儲值",
        "approval_correct": "更正",
        "approval_fee": "費用",
    },
}
