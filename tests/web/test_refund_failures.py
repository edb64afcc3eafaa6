"""Texts for the reasons why providers cannot complete refunds."""

import pytest

from opentill.core.languages import Language, offered
from opentill.web import refund_failures

# Stripe's list: https://docs.stripe.com/api/refunds/object#refund_object-failure_reason
STRIPES_CODES = {
    "charge_for_pending_refund_disputed",
    "declined",
    "expired_or_canceled_card",
    "insufficient_funds",
    "lost_or_stolen_card",
    "merchant_request",
    "unknown",
}


def test_every_reason_of_stripe_has_a_text() -> None:
    assert refund_failures.CODES == STRIPES_CODES


@pytest.mark.parametrize("language", offered("merchant"))
def test_a_reason_is_written_in_each_language(language: Language) -> None:
    texts = {refund_failures.text_of(code, language) for code in STRIPES_CODES}
    assert len(texts) == len(STRIPES_CODES)
    assert not any(code in text for code in STRIPES_CODES - {"declined"} for text in texts)


@pytest.mark.parametrize("reason", ["R05", "account closed", ""])
def test_an_unknown_reason_is_shown_unchanged(reason: str) -> None:
    assert refund_failures.text_of(reason, "zh-Hans") == reason
