"""Texts for merchants and staff that explain providers' codes of failed refunds."""

from collections.abc import Mapping
from typing import Final

from opentill.core.languages import Language
from opentill.web.translations import N_, translate

# Stripe's failure reason of a refund → the text on pages
# (https://docs.stripe.com/api/refunds/object#refund_object-failure_reason).
_TEXTS: Final[Mapping[str, str]] = {
    "charge_for_pending_refund_disputed": N_(
        "The customer disputed the payment while the refund was on its way."
    ),
    "declined": N_("The customer’s bank or the payment provider declined the refund."),
    "expired_or_canceled_card": N_("The customer’s card has expired or was canceled."),
    "insufficient_funds": N_("There was not enough money at the payment provider for the refund."),
    "lost_or_stolen_card": N_("The customer’s card was reported as lost or stolen."),
    "merchant_request": N_("The refund was canceled at the merchant’s request."),
    "unknown": N_("The payment provider gave no reason."),
}
CODES: Final = frozenset(_TEXTS)


def text_of(reason: str, language: Language) -> str:
    """Return the text of a provider's code. An unknown code is returned unchanged."""
    text = _TEXTS.get(reason)
    return reason if text is None else translate("merchant", language, text)
