"""What pages of one payment show of it, the merchant's and the staff's alike."""

from decimal import Decimal
from typing import Any, Final

import msgspec

from opentill.core import money
from opentill.portal.payment_details import MOST_REFUNDS, Payment, amounts
from opentill.portal.payment_timeline import Timeline
from opentill.web.language import Localizer

_LONGEST_VALUE: Final = 500  # characters of a value of metadata that are shown


def template_values(found: Payment, localizer: Localizer) -> dict[str, Any]:
    """Return what ``payment_facts.html`` takes, but for ``resend_to``."""
    return {
        "payment": found,
        "order": found.order,
        "zone": found.zone,
        "timeline": Timeline(found, localizer).items(),
        "amount": amounts(localizer),
        "share": _share,
        "rate": money.rate_text,
        "metadata": _metadata(found),
        "most_refunds": MOST_REFUNDS,
    }


def _share(rate: Decimal) -> str:
    return f"{money.rate_text(rate * 100)}%"


def _metadata(payment: Payment) -> list[tuple[str, str]]:
    """Return the metadata as pairs of texts, values that are no texts as JSON."""
    kept: dict[str, object] = msgspec.json.decode(payment.order.metadata, type=dict[str, object])
    texts = (
        (name, value if isinstance(value, str) else msgspec.json.encode(value).decode())
        for name, value in kept.items()
    )
    return [
        (name, text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…")
        for name, text in texts
    ]
