"""Movements, entries and balances, and their representation in the API."""

from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from opentill.core import money, structs
from opentill.http.fields import CreatedAt, DecimalText
from opentill.ledger.postings import BY_MOVE, Account, Cause, Type


class Movement(msgspec.Struct, frozen=True):
    """A posting to make: a positive amount of minor units and its cause."""

    type: Type
    source: Account
    target: Account
    amount_minor: int
    cause_type: Cause
    cause_id: str
    description: str

    @property
    def shown_minor(self) -> int:
        """The amount with the sign that the merchant sees."""
        return BY_MOVE[self.type, self.source, self.target].shown * self.amount_minor


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A posting as it is stored, with the merchant's balances after it."""

    merchant_id: str
    currency: str
    number: int
    id: str
    type: Type
    from_account: Account
    to_account: Account
    amount_minor: int
    shown_minor: int
    pending_after: int
    available_after: int
    frozen_after: int
    reserve_after: int
    prepaid_after: int
    source_type: str
    source_id: str
    description: str
    created_at: int


class RowCounts(msgspec.Struct, frozen=True):
    """The numbers of a merchant's entries, and of rows in which a payment includes its fee.

    The numbers of money leave out transfers between the merchant's own accounts. ``types`` are the
    types of these entries, in the order of ``TYPES``.
    """

    entries: int
    rows: int
    money_rows: int
    money_entries: int
    types: tuple[Type, ...] = ()


class TypeSum(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of the merchant's accounts by entries of one type; minor units."""

    type: Type
    entries: int
    pending: int
    available: int
    frozen: int
    reserve: int
    prepaid: int


class Accounts(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of minor units for each account of a merchant in one currency."""

    pending: int
    available: int
    frozen: int
    reserve: int
    prepaid: int
    gateway: int
    bank: int
    platform: int


class Balance(Accounts, frozen=True, kw_only=True):
    """The balances after ``entries`` entries, the last of them at ``last_at`` (Unix ms).

    ``prepaid_reserved`` is the part of the prepaid balance that payments which may still be paid
    have reserved; 0 for a balance of the past.
    """

    merchant_id: str
    currency: str
    entries: int
    last_at: int
    prepaid_reserved: int = 0

    @property
    def free_prepaid(self) -> int:
        """The part of the prepaid balance that no payment has reserved."""
        return self.prepaid - self.prepaid_reserved


class PrepaidFees(msgspec.Struct, frozen=True):
    """A sum of fees of a prepaid balance, and the smallest of them; ``first_at`` is the oldest."""

    fees_minor: int
    smallest_minor: int
    number: int
    first_at: int


class TrialBalance(Accounts, frozen=True, kw_only=True):
    """The sum of each account in one currency over ``merchants`` balances; they add up to zero."""

    currency: str
    merchants: int


class MerchantId(msgspec.Struct, frozen=True, kw_only=True):
    """The id of a merchant that has a balance."""

    merchant_id: str


class Violation(msgspec.Struct, frozen=True):
    """A place where an integrity rule does not hold."""

    rule: str
    merchant_id: str
    subject: str
    detail: str


class Progress(Accounts, frozen=True, kw_only=True):
    """The progress of the current pass over a balance, with the sums of all accounts so far."""

    merchant_id: str
    currency: str
    checked_to: int
    last_at: int
    pass_violations: int
    pass_violation_rows: str = "[]"  # noqa: S105 - the first violations of this pass, as JSON


class RangeSums(Accounts, frozen=True, kw_only=True):
    """How many entries a range has, the last one's number and time, and the sums by account."""

    entries: int
    last: int
    last_at: int


class Transaction(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A movement on the balance, with the balances after it (contract.md#transaction-fields)."""

    id: Annotated[str, Meta(description="The id of this movement.")]
    type: Annotated[Type, Meta(description="What moved the money.")]
    amount: Annotated[
        DecimalText, Meta(description="How much moved, as you see it: negative when you have less.")
    ]
    currency: Annotated[str, Meta(description="Your settlement currency.")]
    available_after: Annotated[
        DecimalText, Meta(description="What could be paid out after this movement.")
    ]
    pending_after: Annotated[
        DecimalText,
        Meta(description="What was paid by customers and not settled yet, after this movement."),
    ]
    frozen_after: Annotated[
        DecimalText,
        Meta(
            description="What was held for refunds, disputes and as rolling reserve, and the "
            "prepaid balance, after this movement."
        ),
    ]
    source_type: Annotated[
        str, Meta(description="What kind of thing moved it, such as `order`, `refund` or `payout`.")
    ]
    source_id: Annotated[str, Meta(description="The id of that thing.")]
    description: Annotated[str, Meta(description="The movement in one line, for people.")]
    created_at: CreatedAt

    @classmethod
    def from_entry(cls, entry: Entry) -> Self:
        """Convert an entry; frozen funds include the rolling reserve and the prepaid balance."""
        currency = entry.currency
        return structs.convert(
            entry,
            cls,
            amount=money.show(entry.shown_minor, currency),
            available_after=money.show(entry.available_after, currency),
            pending_after=money.show(entry.pending_after, currency),
            frozen_after=money.show(
                entry.frozen_after + entry.reserve_after + entry.prepaid_after, currency
            ),
        )


class BalanceOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The balance in the settlement currency (contract.md#balance-read)."""

    available: Annotated[
        DecimalText,
        Meta(
            description="What can be paid out. It is below zero when refunds or chargebacks took "
            "more than there was."
        ),
    ]
    pending: Annotated[
        DecimalText, Meta(description="What customers have paid and what is not settled yet.")
    ]
    frozen: Annotated[
        DecimalText,
        Meta(
            description="What is held for refunds, disputes and as rolling reserve, and the "
            "prepaid balance."
        ),
    ]
    currency: Annotated[str, Meta(description="Your settlement currency, an ISO 4217 code.")]
    updated_at: Annotated[
        int | None, Meta(description="When money last moved, Unix ms. Null if it never has.")
    ]

    @classmethod
    def from_balance(cls, balance: Balance | None, currency: str) -> Self:
        """Convert a balance; None is the empty balance of a merchant without movements."""
        if balance is None:
            return cls(
                available="0.00", pending="0.00", frozen="0.00", currency=currency, updated_at=None
            )
        return cls(
            available=money.show(balance.available, currency),
            pending=money.show(balance.pending, currency),
            frozen=money.show(balance.frozen + balance.reserve + balance.prepaid, currency),
            currency=currency,
            updated_at=balance.last_at,
        )


Held = Literal["pending", "available"]


class BalanceCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the incremental check of a balance.

    The balance has ``entries`` entries, of which the running pass has checked ``checked_to`` (0: no
    pass runs). The last pass or the running one has checked ``entries_checked``: newer entries wait
    for the next pass. ``finished_at`` is the end of the last full pass (real time, Unix ms; None:
    none yet). ``rows`` are the first violations as JSON, ``wrong`` as structs.
    """

    merchant_id: str
    currency: str
    entries: int
    checked_to: int
    entries_checked: int
    violations: int
    finished_at: int | None
    rows: str

    @property
    def wrong(self) -> list[Violation]:
        """The first violations; empty if an older OpenTill has checked, as it stored none."""
        return msgspec.json.decode(self.rows, type=list[Violation])


class PassesSum(msgspec.Struct, frozen=True):
    """How many balances exist, how many lack a finished pass, and when the oldest last pass ended.

    ``oldest`` is real time, Unix ms; None if no pass is finished. The balances have ``entries``
    entries, of which ``entries_checked`` are checked: newer ones wait for the next pass.
    """

    balances: int
    unfinished: int
    oldest: int | None
    entries: int
    entries_checked: int


class CheckedBalance(msgspec.Struct, frozen=True):
    """A balance in which the incremental check found violations; ``checked_at`` is Unix ms."""

    merchant_id: str
    currency: str
    violations: int
    checked_at: int


class Checked(msgspec.Struct, frozen=True):
    """The numbers of violations found and of entries checked by the incremental check."""

    violations: int
    entries: int
