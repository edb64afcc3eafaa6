"""Payouts, the table of their transitions, and the API's view of them."""

import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Final, Literal, Self, get_args

import msgspec
from msgspec import Meta

from opentill import webhooks
from opentill.core import money, structs
from opentill.core.bankaccounts import BankAccount, PostalAddress
from opentill.http.fields import CreatedAt, DecimalText, UpdatedAt
from opentill.ledger import Movement
from opentill.ledger import Type as PostingType
from opentill.merchants import Actor

Status = Literal["PENDING", "PAID", "FAILED"]
Event = Literal["created", "paid", "failed", "returned"]
RunStatus = Literal["OPEN", "READY", "SENT"]
# A run's progress: its status, with READY and SENT divided by the results of its payouts. EMPTY is
# a READY run without payouts, which older versions created.
RunProgress = Literal["OPEN", "EMPTY", "READY", "SENT", "PAID", "FAILED"]
Form = Literal["xml", "csv"]
Exclusion = Literal[
    "payouts off", "other currency", "no account", "payout returned", "account changed",
    "below minimum",
]  # fmt: skip
FORMS: Final[tuple[Form, ...]] = get_args(Form)
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)


# Codes of ISO 20022 (ExternalReturnReason1Code) for a wrong account or holder: another payout to
# this account would fail too. AC02, AC05, BE05, BE07 and RC03 are about the payer. The expression
# means the same in Python and PostgreSQL.
ACCOUNT_REASON: Final = (
    "(^|[^A-Za-z0-9])((?!AC02|AC05|BE05|BE07|RC03)(AC|BE|RC)[0-9][0-9]|AG01|CNOR|MD07|RR03)"
    "($|[^A-Za-z0-9])"
)
# In a failure reason, this text precedes the bank's reference of the booking.
BANK_REFERENCE: Final = " (bank reference "


class Transition(msgspec.Struct, frozen=True):
    """An allowed transition of a payout, the postings it makes and the webhook event it emits.

    A payout without a fee lacks the posting of the fee.
    """

    source: Status | None
    event: Event
    target: Status
    postings: tuple[PostingType, ...] = ()
    emits: webhooks.Type | None = None


# All transitions that are possible (contract.md#payout-transitions, contract.md#event-emitted).
TRANSITIONS: Final = (
    #    source     event      target     postings     emits
    Transition(None, "created", "PENDING", ("PAYOUT", "FEE")),
    Transition("PENDING", "paid", "PAID", (), "payout.paid"),
    Transition("PENDING", "failed", "FAILED", ("PAYOUT", "BALANCE_CORRECTION"), "payout.failed"),
    Transition("PAID", "returned", "FAILED", ("PAYOUT", "BALANCE_CORRECTION"), "payout.failed"),
)
BY_EVENT: Final = {(row.source, row.event): row for row in TRANSITIONS}


class Payout(msgspec.Struct, frozen=True, kw_only=True):
    """A payout as it is stored; amounts in minor units. The fee comes on top of the amount."""

    merchant_id: str
    id: str
    status: Status
    amount_minor: int
    fee_minor: int
    currency: str
    reference: str
    bank_reference: str  # "" until the payout is PAID; is kept if the bank returns the payout
    failure_reason: str  # "" unless the payout is FAILED
    reason: str
    created_by: str
    approved_by: str | None
    created_at: int
    updated_at: int
    paid_at: int | None
    failed_at: int | None

    @property
    def is_returned(self) -> bool:
        """Whether the bank returned the payout after it was PAID."""
        return self.status == "FAILED" and self.paid_at is not None

    @property
    def concerns_account(self) -> bool:
        """Whether its failure holds back other payouts to the account (see ``_HELD_SINCE``)."""
        return self.status == "FAILED" and (
            self.paid_at is not None or names_account(self.failure_reason)
        )


def names_account(failure_reason: str) -> bool:
    """Whether a failure reason says that the account was wrong to which the payout was sent."""
    return re.search(ACCOUNT_REASON, failure_reason.partition(BANK_REFERENCE)[0]) is not None


class DuePayout(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant with an available balance, and what may withhold it. Times are Unix ms."""

    merchant_id: str
    merchant_name: str
    currency: str
    available: int
    minimum: int  # the merchant's smallest payout, in minor units
    payout_off: str | None  # why payouts are switched off; None: they are on
    settlement_currency: str  # runs pay this currency only
    account: str | None  # the last characters of the bank account; None: there is no account
    # When the hold after a change of the account ends; None: there is no account.
    usable_from: int | None
    # When the bank returned a payout to this account (Unix ms), which holds its payouts back; None:
    # they are not held.
    held_since: int | None
    last_at: int | None  # when the last payout was created; None: there was none

    def waits_for(self, now: int) -> Exclusion | None:
        """Return why a run excludes this merchant, None if it does not."""
        if self.payout_off is not None:
            return "payouts off"
        if self.currency != self.settlement_currency:
            return "other currency"
        if self.usable_from is None:
            return "no account"
        if self.held_since is not None:
            return "payout returned"
        if self.usable_from > now:
            return "account changed"
        return "below minimum" if self.available < self.minimum else None


class StoredAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a merchant's bank account as it is stored; ``number`` is encrypted."""

    merchant_id: str
    version: int
    holder: str
    number: bytes
    hint: str
    country: str
    bic: str
    bank_code: str
    usable_from: int
    who: str
    reason: str
    created_at: int
    address: bytes | None = None  # encrypted; None: the account has no address of its holder

    @property
    def shown(self) -> str:
        """The account as pages and the audit log show it."""
        return f"{self.country} •••• {self.hint}"


class AccountOfPayout(StoredAccount, frozen=True, kw_only=True):
    """The version of a merchant's bank account to which a payout goes."""

    payout_id: str


class PayoutTotal(msgspec.Struct, frozen=True):
    """The number and the sum of a merchant's payouts with one status, in one currency."""

    currency: str
    payouts: int
    amount_minor: int
    newest_at: int  # when the newest of them was created; Unix ms


class RunOfPayout(msgspec.Struct, frozen=True, kw_only=True):
    """The run by which a payout goes to the bank."""

    merchant_id: str
    payout_id: str
    run_id: str
    reference: str
    sent_at: int | None  # Unix ms; None while its file has not gone to the bank


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Payouts in one currency that go to the bank in one file; times in Unix ms."""

    id: str
    reference: str
    status: RunStatus
    currency: str
    fee_minor: int  # the fee for each payout
    pay_on: str  # the day on which the bank is to pay, YYYY-MM-DD
    from_holder: str
    from_number: str
    from_country: str
    from_bic: str
    from_bank_code: str
    reason: str
    created_by: str
    created_at: int
    ready_at: int | None
    sent_at: int | None
    sent_by: str | None
    form: Form | None
    sha256: str | None
    from_address: str | None = None  # JSON; None: the account has no address of its holder

    @property
    def pay_day(self) -> date:
        """The day on which the bank is to pay."""
        return date.fromisoformat(self.pay_on)

    @property
    def source(self) -> BankAccount:
        """The operator's account that pays."""
        return BankAccount(
            holder=self.from_holder,
            number=self.from_number,
            country=self.from_country,
            bic=self.from_bic,
            bank_code=self.from_bank_code,
            address=msgspec.json.decode(self.from_address, type=PostalAddress)
            if self.from_address
            else None,
        )


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested run. ``pay_on`` is YYYY-MM-DD, None for today."""

    currency: str
    reference: str
    actor: Actor
    source: BankAccount
    fee_minor: int = 0
    pay_on: str | None = None


class FileRequest(msgspec.Struct, frozen=True):
    """A request for a run's file. A payout over ``above``, unless None, needs a second operator."""

    form: Form
    actor: Actor
    above: Decimal | None


class RunSums(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of a run's payouts by status, and their sums in minor units."""

    run_id: str
    payouts: int
    pending: int
    paid: int
    failed: int
    in_file: int
    amount_minor: int  # the sum of all payouts
    file_minor: int  # the sum of the payouts in the file
    most_minor: int  # the largest payout plus its fee
    without_address: int  # how many payouts go to an account without an address of its holder


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run with the sums of its payouts.

    ``unreadable``: ids of merchants that the run excluded because their account is encrypted with
    another key and must be entered again.
    """

    run: Run
    sums: RunSums
    unreadable: tuple[str, ...] = ()

    @property
    def progress(self) -> RunProgress:
        """The status, or PAID or FAILED once none of the sent payouts is PENDING.

        A run of which the bank has paid at least one payout is PAID.
        """
        sums = self.sums
        if self.run.status == "READY" and not sums.payouts:
            return "EMPTY"
        if self.run.status != "SENT" or sums.pending:
            return self.run.status
        return "PAID" if sums.paid else "FAILED"


class CountedPayout(msgspec.Struct, frozen=True):
    """A payout of a run as approval limits count it; ``amount_minor`` includes the fee."""

    merchant_id: str
    id: str
    amount_minor: int


class InRun(msgspec.Struct, frozen=True, kw_only=True):
    """A payout of a run, for lists."""

    merchant_id: str
    merchant_name: str
    payout_id: str
    status: Status
    amount_minor: int
    fee_minor: int
    currency: str
    hint: str
    country: str
    bank_reference: str
    failure_reason: str
    in_file: bool
    has_address: bool


class Transfer(StoredAccount, frozen=True, kw_only=True):
    """A payout in the bank's file, with the account that it goes to."""

    payout_id: str
    amount_minor: int
    currency: str


class UnsentPayout(Transfer, frozen=True, kw_only=True):
    """A payout of a run that is in no file.

    ``is_changed``: the merchant has changed the account since the payout was created.
    ``held_since``: when the bank returned another payout to this account (Unix ms), or None.
    """

    is_changed: bool
    held_since: int | None


class PayoutRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A requested payout in minor units; ``amount_minor`` None for everything available."""

    amount_minor: int | None
    fee_minor: int = 0
    reference: str
    reason: str
    by: str
    approved_by: str | None = None


class WaitingPayout(msgspec.Struct, frozen=True, kw_only=True):
    """A requested payout above the limit, which a second person decides; amounts in minor units."""

    merchant_id: str
    id: str
    status: Literal["WAITING", "APPROVED", "REJECTED"]
    amount_minor: int
    fee_minor: int
    currency: str
    reference: str
    reason: str
    asked_by: str
    decided_by: str | None
    rejection: str | None
    payout_id: str | None
    created_at: int
    decided_at: int | None

    @property
    def described(self) -> str:
        """The request as the audit log shows it."""
        shown = f"{money.show(self.amount_minor, self.currency)} {self.currency}"
        return f"{self.id}: {shown}, asked for by {self.asked_by}"


def movements(payout: Payout, event: Event) -> list[Movement]:
    """Return the movements that an event of a payout posts."""
    amount, fee, cause = payout.amount_minor, payout.fee_minor, payout.id
    sent_text = f"Payout of {money.show(amount, payout.currency)} {payout.currency}"
    returned_text = "Payout returned by the bank" if event == "returned" else "Payout failed"
    match event:
        case "created":
            moves = [
                Movement("PAYOUT", "available", "bank", amount, "payout", cause, sent_text),
                Movement("FEE", "available", "platform", fee, "payout", cause, "Payout fee"),
            ]
        case "paid":
            moves = []
        case "failed" | "returned":
            fee_type: PostingType = "BALANCE_CORRECTION"
            moves = [
                Movement("PAYOUT", "bank", "available", amount, "payout", cause, returned_text),
                Movement(
                    fee_type, "platform", "available", fee, "payout", cause, "Payout fee returned"
                ),
            ]
    return [move for move in moves if move.amount_minor]


class PayoutOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A payout: money that is sent to the merchant's bank."""

    id: Annotated[str, Meta(description="The payout's id.")]
    status: Annotated[
        Status,
        Meta(
            description="`PENDING`: the bank has not confirmed it yet. `PAID`: the bank has "
            "confirmed it. `FAILED`: it came back, and the money is on your balance again; the "
            "bank may return a payout that was `PAID` before."
        ),
    ]
    amount: Annotated[DecimalText, Meta(description="What your bank account receives.")]
    fee: Annotated[
        DecimalText,
        Meta(description="What the payout cost. Your balance lost it beside the amount."),
    ]
    currency: Annotated[
        str, Meta(description="The currency of amount and fee: your settlement currency.")
    ]
    bank_reference: Annotated[
        str | None,
        Meta(
            description="The bank's own number of the transfer. Null until it is known; it stays "
            "when the bank returns the payout."
        ),
    ]
    failure_reason: Annotated[str | None, Meta(description="Why it failed. Null unless it did.")]
    created_at: CreatedAt
    updated_at: UpdatedAt
    paid_at: Annotated[
        int | None,
        Meta(
            description="When the bank confirmed it, Unix ms. Null until then; it stays when the "
            "bank returns the payout."
        ),
    ]
    failed_at: Annotated[
        int | None, Meta(description="When it came back, Unix ms. Null unless it did.")
    ]

    @classmethod
    def from_payout(cls, payout: Payout) -> Self:
        """Return the API's view of a payout."""
        return structs.convert(
            payout,
            cls,
            amount=money.show(payout.amount_minor, payout.currency),
            fee=money.show(payout.fee_minor, payout.currency),
            bank_reference=payout.bank_reference or None,
            failure_reason=payout.failure_reason or None,
        )
