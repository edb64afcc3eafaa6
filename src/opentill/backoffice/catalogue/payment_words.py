"""What statuses and some facts of orders are called, wherever they are shown."""

from typing import Final

from opentill.web.catalogue import Language

SENTENCES: Final[dict[Language, dict[str, str]]] = {
    "en": {
        "status_CREATING": "Waiting for the bank",
        "status_PENDING": "Not paid yet",
        "status_PAID": "Paid",
        "status_SETTLED": "Settled",
        "status_REFUNDED": "Refunded",
        "status_DISPUTED": "Disputed",
        "status_CHARGEBACK": "Charged back",
        "status_FAILED": "Failed",
        "status_CLOSED": "Closed",
        "status_REVOKED": "Revoked",
        "payment_link": "Payment link",
        "payment_reference": "Your own number",
        "payment_quantity": "Quantity",
    },
    "zh-Hans": {
        "status_CREATING": "等待银行",
        "status_PENDING": "未支付",
        "status_PAID": "已支付",
        "status_SETTLED": "已结算",
        "status_REFUNDED": "已退款",
        "status_DISPUTED": "有争议",
        "status_CHARGEBACK": "已拒付",
        "status_FAILED": "失败",
        "status_CLOSED": "已关闭",
        "status_REVOKED": "已撤销",
        "payment_link": "付款链接",
        "payment_reference": "您的单号",
        "payment_quantity": "数量",
    },
    "zh-Hant": {
        "status_CREATING": "等待銀行",
        "status_PENDING": "未付款",
        "status_PAID": "已付款",
        "status_SETTLED": "已結算",
        "status_REFUNDED": "已退款",
        "status_DISPUTED": "有爭議",
        "status_CHARGEBACK": "已拒付",
        "status_FAILED": "失敗",
        "status_CLOSED": "已關閉",
        "status_REVOKED": "已撤銷",
        "payment_link": "付款連結",
        "payment_reference": "您的單號",
        "payment_quantity": "數量",
    },
}
