"""Why a provider could not complete a refund, in words for people: its codes, in each language."""

from collections.abc import Mapping
from typing import Final

from opentill.web.catalogue import Language

# https://docs.stripe.com/api/refunds/object#refund_object-failure_reason
_TEXTS: Final[Mapping[str, Mapping[Language, str]]] = {
    "charge_for_pending_refund_disputed": {
        "en": "The customer disputed the payment while the refund was on its way.",
        "zh-Hans": "退款处理期间，客户对付款提出了争议。",
        "zh-Hant": "退款處理期間，客戶對付款提出了爭議。",
    },
    "declined": {
        "en": "The customer’s bank or the payment provider declined the refund.",
        "zh-Hans": "客户的银行或支付服务商拒绝了退款。",
        "zh-Hant": "客戶的銀行或支付服務商拒絕了退款。",
    },
    "expired_or_canceled_card": {
        "en": "The customer’s card has expired or was cancelled.",
        "zh-Hans": "客户的银行卡已过期或已注销。",
        "zh-Hant": "客戶的卡片已到期或已註銷。",
    },
    "insufficient_funds": {
        "en": "There was not enough money at the payment provider for the refund.",
        "zh-Hans": "支付服务商处的余额不足以退款。",
        "zh-Hant": "支付服務商處的餘額不足以退款。",
    },
    "lost_or_stolen_card": {
        "en": "The customer’s card was reported as lost or stolen.",
        "zh-Hans": "客户的银行卡已挂失或被盗。",
        "zh-Hant": "客戶的卡片已掛失或遭竊。",
    },
    "merchant_request": {
        "en": "The refund was cancelled at the merchant’s request.",
        "zh-Hans": "退款已应商户要求取消。",
        "zh-Hant": "退款已應商家要求取消。",
    },
    "unknown": {
        "en": "The payment provider gave no reason.",
        "zh-Hans": "支付服务商未说明原因。",
        "zh-Hant": "支付服務商未說明原因。",
    },
}
CODES: Final = frozenset(_TEXTS)


def text_of(reason: str, language: Language) -> str:
    """Return the text of a provider's code; what is no known code is returned as it is."""
    texts = _TEXTS.get(reason)
    return reason if texts is None else texts[language]
