"""The columns of a list of payments: the table of what may be shown, and what is shown at first."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.dashboard.request import PageRequest
from opentill.orders import Order
from opentill.web.language import Localizer

_NOTHING: Final = "–"
_LONGEST: Final = 160  # characters of metadata
Text = Callable[[Localizer, ZoneInfo, Order], str]


class Column(NamedTuple):
    """A column: its name in the address, what a cell says, and whether it is there unasked.

    ``number``: its cells stand at the end, as amounts do.
    """

    name: str
    text: Text
    unasked: bool = False
    number: bool = False

    @property
    def field(self) -> str:
        """The field of the address that chooses it."""
        return f"with_{self.name}"

    @property
    def title(self) -> str:
        """The key of its heading."""
        return f"payments_column_{self.name}"


class Row(NamedTuple):
    """An order, the text of each column, and whether to say that its money is not real."""

    order: Order
    cells: Sequence[tuple[Column, str]]
    test: bool


def _moment(localizer: Localizer, zone: ZoneInfo, at: int | None) -> str:
    return _NOTHING if at is None else localizer.moment_in(at, zone)


def _money(localizer: Localizer, minor: int, currency: str, *, known: bool = True) -> str:
    return localizer.amount(Money(minor, currency)) if known else _NOTHING


def _method(localizer: Localizer, order: Order) -> str:
    method = order.payment_method
    return _NOTHING if method is None else localizer.say(f"payments_method_{method}")


def _metadata(order: Order) -> str:
    try:
        found = msgspec.json.decode(order.metadata, type=dict[str, Any])
    except msgspec.DecodeError:  # no JSON object: written by somebody in SQL
        return order.metadata[:_LONGEST]
    pairs = (
        f"{key}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
        for key, value in found.items()
    )
    text = " · ".join(pairs)
    return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text or _NOTHING


# In the order in which they stand; the amount, which leads to the payment, is always there.
COLUMNS: Final = (
    Column("when", lambda local, zone, order: _moment(local, zone, order.created_at), unasked=True),
    Column("status", lambda local, _, order: local.say(f"status_{order.status}"), unasked=True),
    Column("customer", lambda _, __, order: order.customer_email or _NOTHING, unasked=True),
    Column("name", lambda _, __, order: order.customer_name or _NOTHING),
    Column("product", lambda _, __, order: order.product_name, unasked=True),
    Column("method", lambda local, _, order: _method(local, order), unasked=True),
    Column("order", lambda _, __, order: order.id),
    Column("paid", lambda local, zone, order: _moment(local, zone, order.paid_at)),
    Column("settled", lambda local, zone, order: _moment(local, zone, order.settled_at)),
    Column("metadata", lambda _, __, order: _metadata(order)),
    Column(
        "refunded",
        lambda local, _, order: _money(
            local, order.refunded_minor, order.currency, known=order.refunded_minor > 0
        ),
        number=True,
    ),
    Column(
        "fee",
        lambda local, _, order: _money(
            local, order.platform_fee_minor, order.currency, known=order.paid_at is not None
        ),
        number=True,
    ),
    Column(
        "net",
        lambda local, _, order: _money(
            local, order.net_settled_minor, order.settled_currency, known=order.paid_at is not None
        ),
        number=True,
    ),
)
AMOUNT: Final = Column(
    "amount",
    lambda local, _, order: _money(local, order.amount_minor, order.currency),
    unasked=True,
    number=True,
)


def chosen(request: PageRequest) -> tuple[Column, ...]:
    """Return the columns that the address asks for; where it asks for none, those unasked."""
    asked = [one for one in COLUMNS if one.field in request.query]
    return (*(asked or [one for one in COLUMNS if one.unasked]), AMOUNT)


def rows(
    request: PageRequest, zone: ZoneInfo, columns: Sequence[Column], found: Sequence[Order]
) -> list[Row]:
    """Return the rows of some orders, whose ``livemode`` is known."""
    real = request.app.settings.livemode  # otherwise the whole page says that it is a test
    return [
        Row(
            order,
            [(column, column.text(request.localizer, zone, order)) for column in columns],
            real and not order.livemode,
        )
        for order in found
    ]
