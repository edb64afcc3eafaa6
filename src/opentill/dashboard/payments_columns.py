"""The columns of a list of payments: the table of what may be shown, and what is shown at first."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.dashboard.labels import PAYMENT_COLUMN, PAYMENT_METHOD_NAME
from opentill.orders import Order
from opentill.portal.labels import ORDER_STATUS
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer

_NOTHING: Final = "–"
_LONGEST: Final = 160  # characters of metadata


class Cells:
    """What the columns say of an order."""

    def __init__(self, localizer: Localizer, zone: ZoneInfo, order: Order) -> None:
        """Times are those of ``zone``."""
        self._localizer = localizer
        self._zone = zone
        self._order = order

    def _moment(self, at: int | None) -> str:
        return _NOTHING if at is None else self._localizer.moment_in(at, self._zone)

    def _money(self, minor: int, currency: str) -> str:
        return self._localizer.amount(Money(minor, currency))

    def when(self) -> str:
        """When it was created."""
        return self._moment(self._order.created_at)

    def status(self) -> str:
        """Where it stands."""
        return self._localizer.gettext(ORDER_STATUS[self._order.status])

    def customer(self) -> str:
        """The e-mail of the customer."""
        return self._order.customer_email or _NOTHING

    def name(self) -> str:
        """Their name."""
        return self._order.customer_name or _NOTHING

    def product(self) -> str:
        """What was sold."""
        return self._order.product_name

    def method(self) -> str:
        """By what it was paid."""
        method = self._order.payment_method
        return _NOTHING if method is None else self._localizer.gettext(PAYMENT_METHOD_NAME[method])

    def order(self) -> str:
        """Its id."""
        return self._order.id

    def paid(self) -> str:
        """When it was paid."""
        return self._moment(self._order.paid_at)

    def settled(self) -> str:
        """When its money became available."""
        return self._moment(self._order.settled_at)

    def metadata(self) -> str:
        """The merchant's own keys and values."""
        try:
            found = msgspec.json.decode(self._order.metadata, type=dict[str, Any])
        except msgspec.DecodeError:  # no JSON object: written by somebody in SQL
            return self._order.metadata[:_LONGEST]
        pairs = (
            f"{key}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
            for key, value in found.items()
        )
        text = " · ".join(pairs)
        return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text or _NOTHING

    def refunded(self) -> str:
        """What the customer has got back."""
        order = self._order
        return (
            self._money(order.refunded_minor, order.currency) if order.refunded_minor else _NOTHING
        )

    def fee(self) -> str:
        """The platform's fee, once it was paid."""
        order = self._order
        if order.paid_at is None:
            return _NOTHING
        return self._money(order.platform_fee_minor, order.currency)

    def net(self) -> str:
        """What is left for the merchant, as settled, once it was paid."""
        order = self._order
        if order.paid_at is None:
            return _NOTHING
        return self._money(order.net_settled_minor, order.settled_currency)

    def amount(self) -> str:
        """What it costs the customer."""
        return self._money(self._order.amount_minor, self._order.currency)


class Column(NamedTuple):
    """A column: its name in the address, what a cell says, and whether it is there unasked.

    ``number``: its cells stand at the end, as amounts do.
    """

    name: str
    text: Callable[[Cells], str]
    unasked: bool = False
    number: bool = False

    @property
    def field(self) -> str:
        """The field of the address that chooses it."""
        return f"with_{self.name}"

    @property
    def title(self) -> str:
        """The key of its heading."""
        return PAYMENT_COLUMN[self.name]


class Row(NamedTuple):
    """An order, the text of each column, and whether to say that its money is not real."""

    order: Order
    cells: Sequence[tuple[Column, str]]
    test: bool


# In the order in which they stand; the amount, which leads to the payment, is always there.
COLUMNS: Final = (
    Column("when", Cells.when, unasked=True),
    Column("status", Cells.status, unasked=True),
    Column("customer", Cells.customer, unasked=True),
    Column("name", Cells.name),
    Column("product", Cells.product, unasked=True),
    Column("method", Cells.method, unasked=True),
    Column("order", Cells.order),
    Column("paid", Cells.paid),
    Column("settled", Cells.settled),
    Column("metadata", Cells.metadata),
    Column("refunded", Cells.refunded, number=True),
    Column("fee", Cells.fee, number=True),
    Column("net", Cells.net, number=True),
)
AMOUNT: Final = Column("amount", Cells.amount, unasked=True, number=True)


def chosen(request: PageRequest) -> tuple[Column, ...]:
    """Return the columns that the address asks for; where it asks for none, those unasked."""
    asked = [one for one in COLUMNS if request.query.get(one.field)]
    return (*(asked or [one for one in COLUMNS if one.unasked]), AMOUNT)


def rows(
    request: PageRequest, zone: ZoneInfo, columns: Sequence[Column], found: Sequence[Order]
) -> list[Row]:
    """Return the rows of some orders, whose ``livemode`` is known."""
    real = request.app.settings.livemode  # otherwise the whole page says that it is a test
    made: list[Row] = []
    for order in found:
        cells = Cells(request.localizer, zone, order)
        texts = [(column, column.text(cells)) for column in columns]
        made.append(Row(order, texts, real and not order.livemode))
    return made
