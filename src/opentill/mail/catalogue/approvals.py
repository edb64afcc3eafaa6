"""What needs a second person is called, in mails and in the console: adjustments and payouts."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "approval_payout": "Payout",
        "approval_freeze": "Freeze",
        "approval_unfreeze": "Unfreeze",
        "approval_recharge": "Recharge",
        "approval_correct": "Correction",
        "approval_fee": "Fee",
    },
    "zh-Hans": {
        "approval_payout": "打款",
        "approval_freeze": "冻结",
        "approval_unfreeze": "解冻",
        "approval_recharge": "充值",
        "approval_correct": "更正",
        "approval_fee": "费用",
    },
    "zh-Hant": {
        "approval_payout": "撥款",
        "approval_freeze": "凍結",
        "approval_unfreeze": "解凍",
        "approval_recharge": "儲值",
        "approval_correct": "更正",
        "approval_fee": "費用",
    },
}
