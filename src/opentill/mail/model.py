"""The structs of mail: rows of its tables, the content of each topic, and the rendered message.

Times are Unix ms, amounts minor units with their currency.
"""

from typing import Final, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.errors import TooManyRequests
from opentill.core.languages import Language
from opentill.core.money import Money
from opentill.web import translations
from opentill.web.language import Localizer

Status = Literal["WAITING", "SENDING", "SENT", "FAILED", "UNKNOWN"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
# The merchant_id of mails to staff and to persons, and of the row that stores how far the audit log
# has been read.
NO_MERCHANT: Final = ""
MAX_RESULT_LENGTH: Final = 300
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
# After the n-th temporary failure, a mail is sent again after the n-th of these delays.
RETRY_DELAYS_MS: Final = tuple(n * MINUTE_MS for n in (1, 5, 30, 120, 360, 720, 1440))
GIVE_UP_MS: Final = 3 * DAY_MS  # a mail that could not be sent for this long becomes FAILED
# How many mails a merchant, or the staff, may request for one address: resent mails, receipts and
# links to a new password.
REQUESTED_PER_HOUR: Final = 10
INVITATIONS_PER_DAY: Final = 50  # how many one person may send
# Higher than the limit of a person, so that one member cannot use it up for all others.
INVITATIONS_OF_MERCHANT_PER_DAY: Final = 200
RETENTION_MS: Final = 90 * DAY_MS
Fact = tuple[str, str]  # a label and a value
Amount = tuple[int, str]  # minor units and currency


class TooManyMails(TooManyRequests):
    """A merchant, or the staff, used up the limit of requested mails to one address."""

    def __init__(self, retry_after_s: int) -> None:
        """``retry_after_s``: seconds until another mail may be requested."""
        super().__init__(REQUESTED_PER_HOUR, retry_after_s, HOUR_MS // 1000)
        self.reason = (
            f"at most {REQUESTED_PER_HOUR} messages per hour can be requested for an address;"
            f" try again in {-(-retry_after_s // 60)} min"
        )


class TooManyInvitations(TooManyRequests):
    """A person or a merchant used up the daily limit of invitations."""

    def __init__(self, limit: int, retry_after_s: int) -> None:
        """``retry_after_s``: seconds until another invitation is possible."""
        super().__init__(limit, retry_after_s, DAY_MS // 1000)
        self.reason = (
            f"a person may invite {INVITATIONS_PER_DAY} times in 24 hours, and a merchant"
            f" {INVITATIONS_OF_MERCHANT_PER_DAY} times; another invitation is possible in"
            f" {-(-retry_after_s // 60)} min"
        )


# ── rows ───────────────────────────────────────────────────────────────────────────────────────


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the outbox; ``data`` is the JSON of the topic's content."""

    merchant_id: str
    id: str
    topic: str
    cause: str
    recipient: str
    order_id: str | None
    language: Language
    data: str
    secret: bytes | None
    message_id: str
    status: Status
    attempts: int
    due_at: int | None
    result: str
    created_at: int
    updated_at: int


EXAMPLE: Final = "example"  # begins the cause of a mail with example data


class NewMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail to be queued; merchant, cause and recipient identify it."""

    merchant_id: str
    topic: str
    cause: str
    recipient: str
    language: Language
    data: msgspec.Struct
    order_id: str | None = None


class NewRow(msgspec.Struct, frozen=True, kw_only=True):
    """The columns with which a row of the outbox is inserted."""

    merchant_id: str
    id: str
    topic: str
    cause: str
    recipient: str
    order_id: str | None
    language: Language
    data: str
    secret: bytes | None
    message_id: str


class Preferences(msgspec.Struct, frozen=True, kw_only=True):
    """Which mails a merchant's customers and members get, and the language of mail to members."""

    merchant_id: str
    receipts: bool = True
    refunds: bool = True
    digest: bool = False
    language: Language = "en"
    updated_at: int = 0


class Head(msgspec.Struct, frozen=True):
    """The number of the last event that was read. Events before ``since`` cause no mail."""

    number: int
    since: int


class UnreadMerchant(msgspec.Struct, frozen=True):
    """A merchant with unread events, and the number of its last event that was read."""

    merchant_id: str
    number: int


class DeadLetter(msgspec.Struct, frozen=True):
    """An event or audit entry that could not be turned into mail, with the reason and the time."""

    merchant_id: str
    number: int
    event_id: str
    reason: str
    created_at: int


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit log."""

    number: int
    at: int
    who: str
    action: str
    merchant_id: str
    subject: str
    reason: str


class NewLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login and the person who logged in."""

    id: str
    person_id: str
    email: str
    address: str
    device: str
    created_at: int
    language: Language
    pending: bool  # whether it has not proved the person's second factor


class StaffRecipient(msgspec.Struct, frozen=True):
    """A staff member's address and language."""

    person_id: str
    email: str
    language: Language


class GatewayOutage(msgspec.Struct, frozen=True):
    """A gateway that leaves payments unanswered, their number, and when the oldest was created."""

    gateway: str
    payments: int
    since: int


class NearDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """An open dispute near its deadline; ``handled``: staff added a note after the response."""

    merchant_id: str
    id: str
    order_id: str
    amount_minor: int
    currency: str
    reason: str
    respond_by: int
    merchant_name: str
    responded: bool
    handled: bool


class QueueState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the queue; ``unknown``, ``failed`` and ``dead_letters`` are of the last day."""

    waiting: int
    oldest: int | None  # when the oldest waiting mail is due, Unix ms; None if none waits
    unknown: int
    failed: int
    dead_letters: int


# ── content of each topic, as the outbox stores it ─────────────────────────────────────────────


class ReceiptContent(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid; ``shop`` is the merchant's name at that time."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    method: str
    paid_at: int
    reference: str = ""  # the shop's own number of the order, "" if it has none
    number: str = ""  # of the receipt; "" in mails that an earlier version queued
    card: str = ""  # brand and last four digits; "" if unknown
    tax: Amount | None = None  # included in the amount; None if the merchant states no rate
    tax_rate: str = ""  # as a share such as "0.19"; "" if ``tax`` is None


class RefundContent(msgspec.Struct, frozen=True, kw_only=True):
    """A payment was refunded, or a refund was reversed; for the customer."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    refunded: Amount
    at: int
    reference: str = ""  # the shop's own number of the order, "" if it has none
    refund_id: str = ""  # "" in mails that an earlier version of OpenTill queued
    method: str = ""  # the payment method to which the money returns; "" in such earlier mails
    card: str = ""  # its brand and last four digits; "" if unknown


class RefundReportContent(msgspec.Struct, frozen=True, kw_only=True):
    """A refund failed, was reversed, or was made at the provider; for the merchant."""

    merchant_id: str
    order_id: str
    refund_id: str
    amount: Amount
    reason: str
    at: int


class DisputeContent(msgspec.Struct, frozen=True, kw_only=True):
    """A customer disputes a payment."""

    merchant_id: str
    dispute_id: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int | None


class PayoutContent(msgspec.Struct, frozen=True, kw_only=True):
    """A payout was paid or failed; ``returned``: the bank sent it back after it had been paid."""

    merchant_id: str
    payout_id: str
    amount: Amount
    reference: str = ""
    reason: str = ""
    returned: bool = False
    at: int | None = None  # None in mails that an earlier version queued


class AuditContent(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a merchant was changed, as the audit log recorded it."""

    merchant_id: str
    action: str
    who: str
    subject: str
    at: int


class AccountChangeContent(msgspec.Struct, frozen=True, kw_only=True):
    """A person's account was changed; ``change`` is a key of ``ACCOUNT_CHANGE``."""

    change: str
    email: str
    who: str
    subject: str
    reason: str
    at: int


class FactorResetContent(msgspec.Struct, frozen=True, kw_only=True):
    """A person's second factors will be removed at ``until``."""

    at: int
    until: int


class LoginContent(msgspec.Struct, frozen=True, kw_only=True):
    """A person logged in from a new device or address."""

    address: str
    device: str
    at: int
    pending: bool = False  # whether only the password was entered, without the second factor


class InvitationContent(msgspec.Struct, frozen=True, kw_only=True):
    """A person is invited; ``by`` names the inviter."""

    by: str
    expires_at: int
    role: str = ""  # of a member, or of staff; "" in mails that an earlier version queued
    has_applied: bool = False  # whether the person's application was approved


class PasswordResetContent(msgspec.Struct, frozen=True, kw_only=True):
    """A new password was requested."""

    at: int


class TestContent(msgspec.Struct, frozen=True, kw_only=True):
    """A test of the mail server."""

    at: int


class ViolationsContent(msgspec.Struct, frozen=True, kw_only=True):
    """The incremental check found violations of integrity rules."""

    violations: int = msgspec.field(name="found")


class OutageContent(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway has left payments unanswered for a long time."""

    gateway: str
    payments: int
    since: int


class ApprovalContent(msgspec.Struct, frozen=True, kw_only=True):
    """A request, or a payout run, waits for a second person; ``shop`` is "" for a run."""

    shop: str
    kind: str
    amount: Amount
    reason: str
    who: str
    at: int
    run_id: str = ""
    reference: str = ""


class DeadlineContent(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute must be responded to within ``days``; ``path`` is its page."""

    shop: str
    path: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int
    days: int
    responded: bool = False  # whether the merchant's response waits for the operator to forward it


class DisputeResponseContent(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant contested or accepted a dispute, which the operator forwards to the provider."""

    shop: str
    dispute_id: str
    order_id: str
    response: Literal["ACCEPTED", "CONTESTED"]
    amount: Amount
    reason: str
    respond_by: int | None
    files: int  # how many files of evidence the dispute had when the mail was queued
    who: str
    at: int


# ── messages ───────────────────────────────────────────────────────────────────────────────────


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a message, before the layout."""

    subject: str
    paragraphs: list[str]
    figure: str = ""  # the amount that the mail is about, shown above the facts
    facts: list[Fact] = []
    action: Fact | None = None  # a button's label and address
    note: str = ""
    is_branded: bool = True  # whether the layout shows the merchant's name, if there is a merchant


class MessageContext(msgspec.Struct, frozen=True, kw_only=True):
    """Values and formats that all templates need: language, time zone, names and addresses.

    ``shop`` is the merchant's public name, "" without a merchant. ``secret`` is the path of a
    link that only the recipient may know.
    """

    localizer: Localizer
    zone: ZoneInfo
    public_url: str
    shop: str
    secret: str = ""

    def gettext(self, message: str, /, **values: object) -> str:
        """Translate a plain text, and insert the values without escaping them for HTML."""
        localizer = self.localizer
        return translations.translate(localizer.area, localizer.language, message).format(**values)

    def amount(self, amount: Amount) -> str:
        """Write an amount so that its currency is clear: ``$9.99 USD``, but ``€9.99``."""
        minor, currency = amount
        return self.localizer.amount_with_code(Money(minor, currency))

    def when(self, at: int) -> str:
        """Write a time with its time zone."""
        return f"{self.localizer.moment_in(at, self.zone)} ({self.zone.key})"

    def url(self, path: str) -> str:
        """Return the URL of the page with a path."""
        return self.public_url.rstrip("/") + path
