"""The values of ``payment_facts.html``, which the merchant's and the staff's pages include."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec

from opentill import products
from opentill.core import money
from opentill.orders import PaymentAttempt
from opentill.portal import payment_technical
from opentill.portal.payment_details import MOST_REFUNDS, Payment, amount_formatter
from opentill.portal.payment_timeline import Fact, Timeline
from opentill.web.language import Localizer

_LONGEST_VALUE: Final = 500  # at most this many characters of a metadata value are shown


def template_values(
    payment: Payment,
    localizer: Localizer,
    now: int,
    attempt_facts: Callable[[PaymentAttempt], tuple[Fact, ...]] = lambda _: (),
    *,
    for_staff: bool = False,
) -> dict[str, Any]:
    """Return the template's values except ``resend_to``.

    ``attempt_facts`` returns what the timeline says of an attempt, besides its method. The
    timeline is written to the merchant or, ``for_staff``, about the merchant.
    """
    return {
        "payment": payment,
        "order": payment.order,
        # Orders of Epay have a product of their own that stands for what the shop sells.
        "has_product": payment.notice is None
        and not products.is_stand_in(payment.order.product_id),
        "by_staff": for_staff,
        "zone": payment.zone,
        "timeline": Timeline(payment, localizer, attempt_facts, for_staff=for_staff).items(),
        "ledger": payment_technical.ledger_rows(payment, localizer),
        "events": payment_technical.event_rows(payment),
        "notice": payment_technical.notice_row(payment, localizer, now),
        "references": payment_technical.references(payment),
        "names": payment.names,
        "amount": amount_formatter(localizer),
        "share": _percentage,
        "rate": money.rate_text,
        "metadata": metadata(payment),
        "most_refunds": MOST_REFUNDS,
    }


def _percentage(rate: Decimal) -> str:
    return f"{money.rate_text(rate * 100)}%"


def metadata(payment: Payment) -> list[tuple[str, str]]:
    """Return the metadata as pairs of texts; values that are not texts as JSON."""
    values: dict[str, object] = msgspec.json.decode(payment.order.metadata, type=dict[str, object])
    texts = (
        (name, value if isinstance(value, str) else msgspec.json.encode(value).decode())
        for name, value in values.items()
    )
    return [
        (name, text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…")
        for name, text in texts
    ]
