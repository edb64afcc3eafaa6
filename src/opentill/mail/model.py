"""What a mail is: one message for one recipient, from the outbox to how it ended."""

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
OF_NOBODY: Final = ""  # merchant_id of what is no merchant's
LONGEST_RESULT: Final = 300
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
# The first attempt is made at once; these are the waits after those that failed for the moment.
WAITS_MS: Final = (
    1 * MINUTE_MS,
    5 * MINUTE_MS,
    30 * MINUTE_MS,
    2 * HOUR_MS,
    6 * HOUR_MS,
    12 * HOUR_MS,
    24 * HOUR_MS,
)
GIVE_UP_MS: Final = 3 * 24 * HOUR_MS  # a message that nobody has taken by then is out of date
# To one address, by the persons of one merchant or by the staff: again, receipts, links.
ASKED_PER_HOUR: Final = 10
INVITED_PER_DAY: Final = 50  # invitations of one person
# Of the persons of one merchant: one of them alone keeps no other from inviting.
INVITED_BY_MERCHANT_PER_DAY: Final = 200
Fact = tuple[str, str]  # a name and a value
Amount = tuple[int, str]  # minor units and currency
KEEP_MS: Final = 90 * 24 * HOUR_MS


class TooManyMails(TooManyRequests):
    """The persons of a merchant, or the staff, have sent an address all that they may."""

    def __init__(self, retry_after_s: int) -> None:
        """``retry_after_s``: after how many seconds there may be another one."""
        super().__init__(ASKED_PER_HOUR, retry_after_s)
        self.reason = (
            f"an address gets at most {ASKED_PER_HOUR} messages in an hour that persons ask for;"
            f" another one may be sent in {-(-retry_after_s // 60)} min"
        )


class TooManyInvitations(TooManyRequests):
    """A person, or the persons of a merchant, have invited as many within a day as they may."""

    def __init__(self, limit: int, retry_after_s: int) -> None:
        """``limit`` is used up; after ``retry_after_s`` seconds there may be another one."""
        super().__init__(limit, retry_after_s)
        self.reason = (
            f"a person may invite {INVITED_PER_DAY} times in 24 hours, and a merchant"
            f" {INVITED_BY_MERCHANT_PER_DAY} times; another invitation is possible in"
            f" {-(-retry_after_s // 60)} min"
        )


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the outbox; times are Unix ms. ``data`` is the JSON of what the message says."""

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


class NewMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail to be written; ``cause`` and recipient are what makes it this one."""

    merchant_id: str
    topic: str
    cause: str
    recipient: str
    language: Language
    data: msgspec.Struct
    order_id: str | None = None


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A mail as it is written first."""

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
    """What a merchant wants to have mailed, and in which language its members read."""

    merchant_id: str
    receipts: bool = True
    refunds: bool = True
    digest: bool = False
    language: Language = "en"
    updated_at: int = 0


class Head(msgspec.Struct, frozen=True):
    """Up to which number something is read; what happened before ``since`` is not mailed."""

    number: int
    since: int


class Behind(msgspec.Struct, frozen=True):
    """A merchant with events that are not read, and the number of the last that is."""

    merchant_id: str
    number: int


class DeadLetter(msgspec.Struct, frozen=True):
    """An event that no mail could be made of, why, and when it was read (Unix ms)."""

    merchant_id: str
    number: int
    event_id: str
    reason: str
    created_at: int


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the audit log that may be worth a mail."""

    number: int
    at: int
    who: str
    action: str
    merchant_id: str
    subject: str
    reason: str


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    """A login, and whose."""

    id: str
    person_id: str
    email: str
    name: str
    address: str
    device: str
    created_at: int
    language: Language


class StaffReader(msgspec.Struct, frozen=True):
    """Somebody of the staff: where they read mail, and in which language."""

    person_id: str
    email: str
    language: Language


class StuckGateway(msgspec.Struct, frozen=True):
    """A gateway that says nothing about some payments, and since when."""

    gateway: str
    payments: int
    since: int


class NearDeadline(msgspec.Struct, frozen=True, kw_only=True):
    """An open dispute that is to be responded to soon, and what was done about it."""

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


class DigestDue(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant that wants a digest each day."""

    merchant_id: str
    language: Language
    time_zone: str


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """How much waits, since when (Unix ms), and how many of the last day are unknown or failed.

    ``put_aside``: how many events of the last day no mail could be made of.
    """

    waiting: int
    oldest: int | None
    unknown: int
    failed: int
    put_aside: int


class ReceiptContent(msgspec.Struct, frozen=True, kw_only=True):
    """An order was paid; ``shop`` is what its customer knew the merchant as."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    method: str
    paid_at: int
    reference: str = ""  # the shop's own number


class RefundContent(msgspec.Struct, frozen=True, kw_only=True):
    """Money was given back, or came back to the shop; for the customer, who knew it as ``shop``."""

    shop: str
    livemode: bool
    session_id: str
    order_id: str
    item: str
    amount: Amount
    refunded: Amount
    at: int
    reference: str = ""  # the shop's own number
    refund_id: str = ""  # not in mails of earlier versions


class RefundReportContent(msgspec.Struct, frozen=True, kw_only=True):
    """A refund was reversed, or made at the provider; for its merchant."""

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
    """A payout was paid, or failed; ``returned``: the bank had sent it before."""

    merchant_id: str
    payout_id: str
    amount: Amount
    reference: str = ""
    reason: str = ""
    returned: bool = False


class AuditContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody changed something, as the audit log has it."""

    merchant_id: str
    action: str
    who: str
    subject: str
    at: int


class AccountChangeContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's account was changed; ``change`` names what (``of_accounts.py``)."""

    change: str
    email: str
    who: str
    subject: str
    reason: str
    at: int


class FactorResetContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's second factors end at ``until``."""

    at: int
    until: int


class LoginContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody logged in where this account was not seen before."""

    address: str
    device: str
    at: int


class InvitationContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody is invited."""

    by: str
    expires_at: int


class PasswordResetContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody wants to choose a new password."""

    at: int


class DigestDay(msgspec.Struct, frozen=True, kw_only=True):
    """What a day brought in one currency."""

    payments: int
    paid: Amount
    refunded: Amount
    disputed: Amount
    net: Amount


class DigestContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a day brought."""

    merchant_id: str
    at: int  # a moment of that day
    days: list[DigestDay]


class TestContent(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody tries whether mail arrives."""

    at: int


class ViolationsContent(msgspec.Struct, frozen=True, kw_only=True):
    """The incremental check found what must not be."""

    found: int


class OutageContent(msgspec.Struct, frozen=True, kw_only=True):
    """A gateway says nothing about payments that it was asked about long ago."""

    gateway: str
    payments: int
    since: int


class ApprovalContent(msgspec.Struct, frozen=True, kw_only=True):
    """Something waits for a second person; ``kind`` is that of ``approvals.Waiting``."""

    shop: str
    kind: str
    amount: Amount
    reason: str
    who: str
    at: int


class DeadlineContent(msgspec.Struct, frozen=True, kw_only=True):
    """A dispute is to be responded to within some days; ``path`` is its page."""

    shop: str
    path: str
    order_id: str
    amount: Amount
    reason: str
    respond_by: int
    days: int
    responded: bool = False  # the merchant has, and the operator is to send it on


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message in words, before it is laid out."""

    subject: str
    paragraphs: list[str]
    facts: list[Fact] = []
    action: Fact | None = None  # what a button says, and where it leads
    note: str = ""
    is_branded: bool = True  # begins with the merchant's name, where there is one


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """What a message is put into words with; ``secret`` is the path that only its reader knows."""

    localizer: Localizer
    zone: ZoneInfo
    public_url: str
    shop: str  # the merchant, as its customers know it; "" where there is none
    secret: str = ""

    def gettext(self, message: str, /, **values: object) -> str:
        """Translate a text as plain text: what is filled in stays as it is."""
        localizer = self.localizer
        return translations.translate(localizer.area, localizer.language, message).format(**values)

    def amount(self, amount: Amount) -> str:
        """Write an amount with its currency: ``$9.99 USD``."""
        minor, currency = amount
        return f"{self.localizer.amount(Money(minor, currency))} {currency}"

    def when(self, at: int) -> str:
        """Write a time in the zone of the message, which it names."""
        return f"{self.localizer.moment_in(at, self.zone)} ({self.zone.key})"

    def url(self, path: str) -> str:
        """Return the address of one of our pages."""
        return self.public_url.rstrip("/") + path
