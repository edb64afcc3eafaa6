"""The columns of lists of payments, and which of them are shown by default."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.dashboard import listed_payments
from opentill.dashboard.labels import PAYMENT_COLUMN
from opentill.dashboard.listed_payments import Listed
from opentill.disputes import Dispute
from opentill.orders import Order, ShownStatus
from opentill.portal.labels import DECLINE_NAME, PAYMENT_METHOD, SHOWN_STATUS
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

_EMPTY: Final = "–"
_LONGEST: Final = 160  # a cell shows at most this many characters of metadata


class Cells:
    """Formats an order's values for the columns of a list."""

    def __init__(self, localizer: Localizer, zone: ZoneInfo, now: int, listed: Listed) -> None:
        """``zone`` is the time zone of the texts; times of the year of ``now`` omit it."""
        self._localizer = localizer
        self._now = now
        self._zone = zone
        self._listed = listed
        self._order = listed.order

    def _moment(self, at: int | None) -> str:
        return _EMPTY if at is None else self._localizer.time_element(at, self._zone, self._now)

    def _money(self, minor: int, currency: str) -> str:
        return self._localizer.amount(Money(minor, currency))

    def when(self) -> str:
        """The time of creation."""
        return self._moment(self._order.created_at)

    def status(self) -> str:
        """The payment's status, translated."""
        return self._localizer.gettext(SHOWN_STATUS[self._listed.shown_status])

    def customer(self) -> str:
        """The customer's name or, if it is unknown, the email address."""
        return self._order.customer_name or self._order.customer_email or _EMPTY

    def email(self) -> str:
        """The customer's email address."""
        return self._order.customer_email or _EMPTY

    def product(self) -> str:
        """The name of the product."""
        return self._order.product_name

    def method(self) -> str:
        """The payment method or the card, of an unpaid order those of the last attempt."""
        method = self._listed.method
        if method is None:
            return _EMPTY
        return self._listed.card or self._localizer.gettext(PAYMENT_METHOD[method])

    def reason(self) -> str:
        """Why the last attempt failed."""
        reason = self._listed.decline_reason
        return self._localizer.gettext(DECLINE_NAME[reason]) if reason else _EMPTY

    def order(self) -> str:
        """The id of the order."""
        return self._order.id

    def paid(self) -> str:
        """The time of the payment."""
        return self._moment(self._order.paid_at)

    def settled(self) -> str:
        """The time of the settlement."""
        return self._moment(self._order.settled_at)

    def metadata(self) -> str:
        """The merchant's own keys and values."""
        try:
            values = msgspec.json.decode(self._order.metadata, type=dict[str, Any])
        except msgspec.DecodeError:  # somebody has stored another JSON value by SQL
            return self._order.metadata[:_LONGEST]
        pairs = (
            f"{key}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"
            for key, value in values.items()
        )
        text = " · ".join(pairs)
        return f"{text[:_LONGEST]}…" if len(text) > _LONGEST else text or _EMPTY

    def refunded(self) -> str:
        """The refunded amount or, if there is none, that of the newest refund and its status."""
        order, newest = self._order, self._listed.refund
        if order.refunded_minor:
            return self._money(-order.refunded_minor, order.currency)
        if newest is None or newest.status == "SUCCEEDED":
            return _EMPTY
        return self._localizer.gettext(
            N_("{amount} failed") if newest.status == "FAILED" else N_("{amount} pending"),
            amount=self._money(newest.amount_minor, newest.currency),
        )

    def refund_date(self) -> str:
        """The time of the newest refund, unless it failed."""
        refund = self._listed.refund
        if refund is None or refund.status == "FAILED":
            return _EMPTY
        return self._moment(refund.created_at)

    def fee(self) -> str:
        """The platform's fee for an order that was paid."""
        order = self._order
        if order.paid_at is None:
            return _EMPTY
        return self._money(order.platform_fee_minor, order.currency)

    def net(self) -> str:
        """The net amount, in the settlement currency, of an order that was paid."""
        order = self._order
        if order.paid_at is None:
            return _EMPTY
        return self._money(order.net_settled_minor, order.settled_currency)

    def amount(self) -> str:
        """The amount that the customer pays."""
        return self._money(self._order.amount_minor, self._order.currency)


class Column(NamedTuple):
    """A column: its name in the query, the text of a cell, and whether it is shown by default.

    Numbers are aligned with the end of the cell. ``place`` is the CSS class that places the
    column's cells in the two lines of a row on a phone (``templates/lists.html``), "" for none.
    ``tabs`` are the only ones that show the column by default, () for any; ``not_in`` is a tab
    whose other columns need its place.
    """

    name: str
    text: Callable[[Cells], str]
    is_default: bool = False
    is_number: bool = False
    place: str = ""
    tabs: tuple[str, ...] = ()
    not_in: str = "none"

    @property
    def field(self) -> str:
        """The field of the query that chooses the column."""
        return f"with_{self.name}"

    @property
    def title(self) -> str:
        """The message id of the column's heading."""
        return PAYMENT_COLUMN[self.name]


class Row(NamedTuple):
    """An order, the text of each column, and whether to mark it as a test payment."""

    order: Order
    status: ShownStatus
    dispute: Dispute | None
    cells: Sequence[tuple[Column, str]]
    is_test: bool


# These are in the order of the page. The amount, which links to the payment, is always shown.
COLUMNS: Final = (
    Column("when", Cells.when, is_default=True, place="below"),
    Column("status", Cells.status, is_default=True, place="below-end"),
    Column("customer", Cells.customer, is_default=True, place="at-start"),
    Column("email", Cells.email),
    Column("product", Cells.product, is_default=True, place="below"),
    Column("method", Cells.method, is_default=True, not_in="refunded"),
    Column("reason", Cells.reason, is_default=True, place="under", tabs=("failed", "incomplete")),
    Column("order", Cells.order),
    Column("paid", Cells.paid),
    Column("settled", Cells.settled),
    Column("metadata", Cells.metadata),
    Column("refund_date", Cells.refund_date, is_default=True, tabs=("refunded",)),
    Column(
        "refunded",
        Cells.refunded,
        is_default=True,
        is_number=True,
        place="under named",
        tabs=("refunded",),
    ),
    Column("fee", Cells.fee, is_number=True),
    Column("net", Cells.net, is_number=True),
)
_AMOUNT: Final = Column("amount", Cells.amount, is_default=True, is_number=True, place="at-end")


def chosen(request: PageRequest, tab: str) -> tuple[Column, ...]:
    """Return the columns that the query chooses, the default ones of the tab if it chooses none."""
    columns = [column for column in COLUMNS if request.query.get(column.field)]
    return (*(columns or _defaults(tab)), _AMOUNT)


def without(name: str) -> tuple[Column, ...]:
    """Return the default columns except one whose value is the same in every row."""
    return (*(column for column in _defaults("") if column.name != name), _AMOUNT)


def _defaults(tab: str) -> list[Column]:
    return [
        column
        for column in COLUMNS
        if column.is_default and (not column.tabs or tab in column.tabs) and column.not_in != tab
    ]


async def rows(
    request: PageRequest, zone: ZoneInfo, columns: Sequence[Column], orders: Sequence[Order]
) -> list[Row]:
    """Return the rows of orders, whose ``livemode`` must be set."""
    return rows_of(request, zone, columns, await listed_payments.read(request, orders))


def rows_of(
    request: PageRequest, zone: ZoneInfo, columns: Sequence[Column], listed: Sequence[Listed]
) -> list[Row]:
    """Return the rows of orders that were read with what lists show of them."""
    # In test mode every page has a banner, so that its payments need no mark.
    marks_tests = request.app.settings.livemode

    def row(each: Listed) -> Row:
        cells = Cells(request.localizer, zone, request.now, each)
        texts = [(column, column.text(cells)) for column in columns]
        is_test = marks_tests and not each.order.livemode
        return Row(each.order, each.shown_status, each.dispute, texts, is_test)

    return [row(each) for each in listed]
