"""The conditions of a search for orders, and the rows that it reads."""

from collections.abc import Mapping

import msgspec

from opentill.gateways.model import Method
from opentill.orders.model import SessionStatus
from opentill.orders.search import customer_words, terms
from opentill.orders.statuses import ClosedAs, ShownStatus, Status, refund_progress, shown_status


class Condition(msgspec.Struct, frozen=True):
    """A term that an order must have in ``field``; None: in any field.

    Orders whose ids are in ``ids``, and orders that fulfill one of ``others``, fulfill the
    condition whatever their terms are. ``others`` must be such that an order has only one of all
    the terms: different email addresses, or one amount in different currencies.
    """

    term: str
    field: str | None = None
    ids: frozenset[str] = frozenset()
    others: tuple["Condition", ...] = ()

    @property
    def every(self) -> tuple["Condition", ...]:
        """The condition and its others."""
        return (self, *self.others)

    def holds(self, order_id: str, order_terms: terms.Terms) -> bool:
        """Whether an order with these terms fulfills the condition."""
        return order_id in self.ids or any(
            (place := order_terms.get(one.term)) is not None
            and (one.field is None or terms.has_field(place, one.field))
            for one in self.every
        )


class OrderFilters(msgspec.Struct, frozen=True, kw_only=True):
    """The orders of a merchant that fulfill all conditions; times are inclusive Unix ms.

    ``shown`` are statuses that pages show, () for any of them; a filter by ``method`` must have
    them too, because the index of methods has the status before the time.
    """

    merchant_id: str
    since: int
    until: int
    conditions: tuple[Condition, ...] = ()
    status: Status | None = None
    product_id: str | None = None
    session_status: SessionStatus | None = None
    shown: tuple[ShownStatus, ...] = ()
    method: Method | None = None

    def fits(self, candidate: "Candidate") -> bool:
        """Whether an order passes the filter, apart from the conditions on its terms."""
        return (
            self.since <= candidate.created_at <= self.until
            and self.status in {None, candidate.status}
            and self.product_id in {None, candidate.product_id}
            and self.session_status in {None, candidate.session_status}
            and (not self.shown or candidate.shown_status in self.shown)
            and self.method in {None, candidate.payment_method}
        )

    @property
    def columns(self) -> Mapping[str, str]:
        """The filters that are columns of orders and have one value, with their values."""
        columns = {"status": self.status, "product_id": self.product_id}
        return {name: value for name, value in columns.items() if value is not None}

    @property
    def columns_with_shown(self) -> tuple[str, ...]:
        """The names of the filters of a search whose driver are the statuses that pages show."""
        others = {"product_id": self.product_id, "method": self.method}
        return ("shown", *(name for name, value in others.items() if value is not None))


class Candidate(msgspec.Struct, frozen=True):
    """The columns of an order that a search reads.

    ``is_new``: the index of terms does not contain the order yet.
    """

    id: str
    created_at: int
    status: Status
    product_id: str
    customer_email: str
    customer_name: str | None
    amount_minor: int
    currency: str
    metadata: str
    client_reference: str | None
    card_last4: str | None
    session_status: SessionStatus
    refunded_minor: int
    refund_held_minor: int
    refund_failed: bool
    closed_as: ClosedAs | None
    attempt_failed: bool
    payment_method: Method | None
    is_new: bool

    @property
    def shown_status(self) -> ShownStatus:
        """The status that pages show."""
        progress = refund_progress(
            self.amount_minor,
            self.refunded_minor,
            self.refund_held_minor,
            has_failed=self.refund_failed,
        )
        return shown_status(
            self.status, progress, self.closed_as, attempt_failed=self.attempt_failed
        )

    @property
    def terms(self) -> terms.Terms:
        """Terms of the order as it is now."""
        return terms.terms_of(
            self.customer_email,
            self.amount_minor,
            self.currency,
            self.metadata,
            self.card_last4,
            reference=self.client_reference,
        )


class PendingOrder(Candidate, frozen=True):
    """A pending order of any merchant."""

    merchant_id: str

    def has_word(self, prefix: str) -> bool:
        """Whether a word of the customer begins with a text."""
        words = customer_words.words_of(self.customer_email, self.customer_name)
        return any(word.startswith(prefix) for word in words)


class ChangedOrder(msgspec.Struct, frozen=True):
    """An order to be indexed.

    ``were`` are its email addresses since it was last indexed. At that time its card was either
    unknown or the present one. ``is_new``: it was never indexed.
    """

    id: str
    created_at: int
    customer_email: str
    customer_name: str | None
    amount_minor: int
    currency: str
    metadata: str
    client_reference: str | None
    card_last4: str | None
    were: list[str]
    is_new: bool

    def terms(
        self, email: str, card_last4: str | None, *, with_currency: bool = True
    ) -> terms.Terms:
        """Return the order's terms for an email address and a card.

        ``with_currency``: False for the terms as they were before migration 0054.
        """
        return terms.terms_of(
            email,
            self.amount_minor,
            self.currency,
            self.metadata,
            card_last4,
            reference=self.client_reference,
            with_currency=with_currency,
        )


class IndexRow(msgspec.Struct, frozen=True):
    """A row of the index of terms."""

    term: str
    place: str
    created_at: int
    order_id: str


class CountChange(msgspec.Struct, frozen=True):
    """A change of a count: how many index rows of one day's orders have a term in a place.

    ``since`` is the start of the day (Unix ms); ``rows`` is below zero if rows were removed.
    """

    term: str
    place: str
    since: int
    rows: int


class Place(msgspec.Struct, frozen=True):
    """A term, and a place in which orders have it."""

    term: str
    place: str


class MerchantPlace(msgspec.Struct, frozen=True):
    """A term, and a place in which orders of a merchant have it."""

    merchant_id: str
    term: str
    place: str


class Bucket(msgspec.Struct, frozen=True):
    """A term, a place, and how many orders have the term in that place."""

    term: str
    place: str
    rows: int


class SearchedMerchant(msgspec.Struct, frozen=True):
    """A merchant with orders to be indexed, and the number of their changes."""

    merchant_id: str
    changes: int


class SizedOrder(msgspec.Struct, frozen=True):
    """An order in an export, and the approximate size of its line in bytes."""

    created_at: int
    id: str
    size: int


class ShownCount(msgspec.Struct, frozen=True):
    """The number of orders with a status that pages show; ``status`` is their status in the API."""

    status: Status
    shown: ShownStatus
    rows: int


class OrderRef(msgspec.Struct, frozen=True):
    """The key of an order to which an id or a number belongs."""

    merchant_id: str
    order_id: str


class ExportCursor(msgspec.Struct, frozen=True):
    """A position in the list of orders, oldest first: after the order with this time and id."""

    created_at: int
    id: str
