"""What a search for orders asks for, and the rows that it works on."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from opentill.orders.model import Status
from opentill.orders.search import terms

SessionStatus = Literal["OPEN", "COMPLETE", "EXPIRED"]


class Condition(msgspec.Struct, frozen=True):
    """What an order must have: a term, in a certain field or in any.

    ``begins``: an e-mail that begins with the term instead. ``ids`` are orders that fulfil it
    whatever their terms are.
    """

    term: str
    field: str | None = None
    ids: frozenset[str] = frozenset()
    begins: bool = False

    def holds(self, order_id: str, found: terms.Terms) -> bool:
        """Return whether an order with these terms fulfils it."""
        if order_id in self.ids:
            return True
        if self.begins:
            return any(
                term.startswith(self.term) and terms.stands(place, terms.EMAIL)
                for term, place in found.items()
            )
        place = found.get(self.term)
        return place is not None and (self.field is None or terms.stands(place, self.field))


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which orders of a merchant are searched: all conditions hold. Times are inclusive Unix ms."""

    merchant_id: str
    since: int
    until: int
    conditions: tuple[Condition, ...] = ()
    status: Status | None = None
    product_id: str | None = None
    session_status: SessionStatus | None = None

    def fits(self, candidate: "Candidate") -> bool:
        """Return whether an order is what is wanted, its terms aside."""
        return (
            self.since <= candidate.created_at <= self.until
            and self.status in {None, candidate.status}
            and self.product_id in {None, candidate.product_id}
            and self.session_status in {None, candidate.session_status}
        )

    @property
    def columns(self) -> Mapping[str, str]:
        """The filters that are columns of orders, with their values."""
        given = {"status": self.status, "product_id": self.product_id}
        return {name: value for name, value in given.items() if value is not None}


class Candidate(msgspec.Struct, frozen=True):
    """What a search looks at of an order; ``is_new``: it is not in the index of terms."""

    id: str
    created_at: int
    status: Status
    product_id: str
    customer_email: str
    amount_minor: int
    currency: str
    metadata: str
    client_reference: str | None
    card_last4: str | None
    session_status: SessionStatus
    is_new: bool

    @property
    def terms(self) -> terms.Terms:
        """Its terms as they are now."""
        return terms.of(
            self.customer_email,
            self.amount_minor,
            self.currency,
            self.metadata,
            self.card_last4,
            reference=self.client_reference,
        )


class ChangedOrder(msgspec.Struct, frozen=True):
    """An order to be indexed, and the e-mails that it had since it was last indexed.

    It had no card then, or the one that it has. ``is_new``: none of its rows is in the index.
    """

    id: str
    created_at: int
    customer_email: str
    amount_minor: int
    currency: str
    metadata: str
    client_reference: str | None
    card_last4: str | None
    were: list[str]
    is_new: bool

    def terms(self, email: str, card_last4: str | None) -> terms.Terms:
        """Return its terms with an e-mail and a card."""
        return terms.of(
            email,
            self.amount_minor,
            self.currency,
            self.metadata,
            card_last4,
            reference=self.client_reference,
        )


class IndexRow(msgspec.Struct, frozen=True):
    """A row of the index of terms."""

    term: str
    place: str
    created_at: int
    order_id: str


class CountChange(msgspec.Struct, frozen=True):
    """How many rows more, or fewer, a term in a place has of the orders of a day."""

    term: str
    place: str
    since: int
    rows: int


class Place(msgspec.Struct, frozen=True):
    """A term and a place where some order has it."""

    term: str
    place: str


class Bucket(msgspec.Struct, frozen=True):
    """A term, a place, and how many orders have the one in the other."""

    term: str
    place: str
    rows: int


class SearchedMerchant(msgspec.Struct, frozen=True):
    """A merchant with orders to be indexed, and how many rows say so."""

    merchant_id: str
    changes: int


class Sized(msgspec.Struct, frozen=True):
    """An order in an export, and about how many bytes its line has."""

    created_at: int
    id: str
    size: int


class Concerned(msgspec.Struct, frozen=True):
    """An order that an id or number leads to."""

    merchant_id: str
    order_id: str


class ExportCursor(msgspec.Struct, frozen=True):
    """A place in the list of orders, oldest first: right after the order of this time and id."""

    created_at: int
    id: str
