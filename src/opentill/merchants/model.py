"""Merchants, their terms and API keys, and the rows of the audit log."""

import hashlib
import re
import secrets
import zlib
from decimal import Decimal
from typing import Final, Literal, NamedTuple

import msgspec

from opentill.core.errors import NotPermitted
from opentill.core.settings import Environment

FeePolicy = Literal["KEPT", "RETURNED"]
Calendar = Literal["EVERY_DAY", "WEEKDAYS"]
Status = Literal["APPLIED", "ACTIVE", "SUSPENDED", "CLOSED"]
Capability = Literal["charge", "refund", "payout"]
StatusEvent = Literal[
    "created", "applied", "approved", "declined", "suspended", "resumed", "closed"
]
Event = Literal[StatusEvent, "capability_on", "capability_off", "noted"]

STATUSES: Final[tuple[Status, ...]] = ("APPLIED", "ACTIVE", "SUSPENDED", "CLOSED")
CAPABILITIES: Final[tuple[Capability, ...]] = ("charge", "refund", "payout")
# The capabilities that each status disables. A suspended merchant can still refund.
DISABLED_CAPABILITIES: Final[dict[Status, tuple[Capability, ...]]] = {
    "APPLIED": ("charge", "refund", "payout"),
    "ACTIVE": (),
    "SUSPENDED": ("charge", "payout"),
    "CLOSED": ("charge", "refund", "payout"),
}


class Transition(NamedTuple):
    """An allowed change of a merchant's status (contract.md#merchant-transitions)."""

    source: Status | None
    event: StatusEvent
    target: Status


TRANSITIONS: Final = (
    #          source       event        target
    Transition(None,        "created",   "ACTIVE"),
    Transition(None,        "applied",   "APPLIED"),
    Transition("APPLIED",   "approved",  "ACTIVE"),
    Transition("APPLIED",   "declined",  "CLOSED"),
    Transition("ACTIVE",    "suspended", "SUSPENDED"),
    Transition("SUSPENDED", "resumed",   "ACTIVE"),
    Transition("SUSPENDED", "closed",    "CLOSED"),
)  # fmt: skip
BY_EVENT: Final = {transition.event: transition for transition in TRANSITIONS}

PREFIXES: Final[dict[Environment, str]] = {"production": "svc_live_", "staging": "svc_stg_"}
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY: Final = re.compile(r"(svc_(?:live|stg)_)([0-9A-Za-z]{40})([0-9A-Za-z]{6})", re.ASCII)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Fees, settlement and limits of a merchant; amounts in the settlement currency."""

    platform_fee_rate: Decimal  # applies to payments that no row of the schedule matches
    fees: str  # the schedule of fees by method and currency, as JSON (``fee_schedule``)
    refund_fee_policy: FeePolicy
    overdraft_minor: int  # how far refunds may overdraw the balance
    settlement_delay_days: int
    settlement_calendar: Calendar
    reserve_rate: Decimal
    reserve_days: int
    dispute_fee_minor: int
    payout_minimum_minor: int
    ip_allowlist: list[str]  # networks that may call the API; empty: any address may


class Seller(msgspec.Struct, frozen=True, kw_only=True):
    """The seller as receipts name it; None: not set."""

    legal_name: str | None = None
    legal_address: str | None = None  # lines, separated by "\n"
    tax_number: str | None = None
    tax_rate: str | None = None  # of the tax that prices include, as a share such as "0.19"

    @property
    def rate(self) -> Decimal | None:
        """The rate of the tax as a number; None: no rate is stated."""
        return None if self.tax_rate is None else Decimal(self.tax_rate)


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What customers see of a merchant, and the time zone of its pages. None: not set."""

    display_name: str | None  # None: the merchant's name
    accent_color: str | None  # color of buttons, as #rrggbb; None: the default color
    support_email: str | None
    support_url: str | None
    terms_url: str | None
    time_zone: str  # IANA time zone of the merchant's pages
    legal_name: str | None  # this and the next three fields: as in ``Seller``
    legal_address: str | None
    tax_number: str | None
    tax_rate: str | None


class Merchant(Terms, frozen=True, kw_only=True):
    """An account with keys, products, orders and one balance per settlement currency."""

    id: str
    name: str
    settlement_currency: str
    terms_version: int
    created_at: int
    updated_at: int
    time_zone: str  # this and the next nine fields are the profile (``Profile``)
    display_name: str | None
    accent_color: str | None
    support_email: str | None
    support_url: str | None
    terms_url: str | None
    legal_name: str | None
    legal_address: str | None
    tax_number: str | None
    tax_rate: str | None
    logo_sha256: str | None
    status: Status
    charge_off: str | None  # why no sessions can be opened; None while they can
    refund_off: str | None
    payout_off: str | None

    def off(self, capability: Capability) -> str | None:
        """Return the reason why a capability is off, None while it is on."""
        reason: str | None = getattr(self, f"{capability}_off")
        return reason

    def require(self, capability: Capability) -> None:
        """Raise CapabilityOff unless a capability is on."""
        reason = self.off(capability)
        if reason is not None:
            raise CapabilityOff(capability, reason)

    @property
    def logo_path(self) -> str | None:
        """The path of the logo, which contains its digest; None without a logo."""
        return logo_path(self.id, self.logo_sha256)


def logo_path(merchant_id: str, digest: str | None) -> str | None:
    """Return the path of a merchant's logo, None without a digest."""
    return digest and f"/logos/{merchant_id}/{digest}"


class CapabilityOff(NotPermitted):
    """The operator switched off a capability that the request needs."""

    def __init__(self, capability: Capability, why: str) -> None:
        """``why`` is the operator's reason."""
        reason = f"{capability} must be on for this merchant, and the operator switched it off"
        super().__init__(capability, f"{reason}: {why}")
        self.capability: Capability = capability
        self.why = why


class MerchantChange(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a merchant's history: a change of status or capability, or a note of staff."""

    merchant_id: str
    number: int
    at: int
    event: Event
    from_status: Status | None
    to_status: Status
    capability: Capability | None
    who: str
    reason: str  # shown to the merchant while a capability is off
    notes: str  # for staff only, "" if none


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """An application to become a merchant."""

    merchant_id: str
    name: str  # of the applicant
    email: str
    website: str  # "" if there is none
    business: str  # what the merchant sells
    address: str  # the applicant's IP address; "" if an operator entered the application
    applied_at: int
    # The visitor (an IPv4 address or IPv6 network) whose applications are counted; None if an
    # operator entered the application.
    visitor: str | None


class PendingApplication(Application, frozen=True, kw_only=True):
    """An application that waits for a decision, with its merchant."""

    merchant_name: str
    settlement_currency: str


class MerchantName(msgspec.Struct, frozen=True):
    """A merchant's id and name."""

    id: str
    name: str


class SettlementCurrency(msgspec.Struct, frozen=True):
    """A settlement currency of any merchant."""

    currency: str


class Logo(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's logo: the file, its type, and its size in pixels."""

    merchant_id: str
    sha256: str
    media_type: str
    width: int
    height: int
    content: bytes
    created_at: int


class TermsVersion(Terms, frozen=True, kw_only=True):
    """A version of a merchant's terms: who set it, why and when."""

    merchant_id: str
    version: int
    who: str
    reason: str
    created_at: int


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A stored API key, without the key itself."""

    id: str
    merchant_id: str
    name: str  # "" if none
    hint: str
    environment: Environment
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    # Unix ms, rounded to the minute and written within two minutes of the use; None: never used.
    last_used_at: int | None
    scopes: list[str] | None = None  # None: the key may do everything
    made_by: str | None = None  # id of the person who created it; None: created by a command
    replaced_by: str | None = None  # id of the key that replaced it

    def opens(self, now: int) -> bool:
        """Whether the key is valid."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


# A replaced key remains valid for one of these numbers of hours.
OVERLAP_HOURS: Final = (0, 1, 24, 72, 168)


class KeyFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a new key; ``name`` is for people and may be empty."""

    name: str = ""
    expires_at: int | None = None
    scopes: list[str] | None = None  # None: the key may do everything


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key; ``key`` is shown only once."""

    id: str
    merchant_id: str
    name: str
    key: str
    expires_at: int | None
    scopes: list[str] | None = None  # None: the key may do everything


class Authentication(msgspec.Struct, frozen=True):
    """The result of authentication.

    ``allowed``: the request is within its address's rate limit. The other fields are None without a
    valid key.
    """

    allowed: bool
    key_id: str | None
    merchant_id: str | None
    environment: str | None
    ip_allowlist: list[str] | None
    scopes: list[str] | None


class SoloMovement(msgspec.Struct, frozen=True, kw_only=True):
    """An amount that one person moves alone; ``id`` names the refund, adjustment or payout."""

    merchant_id: str
    id: str
    kind: str
    who: str
    amount_minor: int
    currency: str


class MovedSum(msgspec.Struct, frozen=True):
    """The sum of a person's movements in a currency, in minor units."""

    currency: str
    amount_minor: int


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """An action of an operator; ``hash`` is in hexadecimal."""

    number: int | None  # None: somebody inserted the row without adding it to the chain
    id: str
    at: int
    who: str
    action: str
    merchant_id: str
    subject: str
    reason: str
    hash: str | None


class AuditHead(msgspec.Struct, frozen=True):
    """The end of the chain: the number and hash of its last row."""

    number: int
    hash: str


def _base62(number: int, length: int) -> str:
    digits = ""
    for _ in range(length):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits


def _checksum(prefix: str, secret: str) -> str:
    return _base62(zlib.crc32((prefix + secret).encode()), 6)


def generate_key(environment: Environment) -> str:
    """Return a new key: prefix, 40 random base62 characters (238 bits), 6 of CRC-32."""
    prefix = PREFIXES[environment]
    secret = "".join(secrets.choice(_BASE62) for _ in range(40))
    return prefix + secret + _checksum(prefix, secret)


def is_key(text: str, environment: Environment) -> bool:
    """Whether a text has the form of a key of this environment, with a valid checksum."""
    match = _KEY.fullmatch(text)
    return (
        match is not None
        and match[1] == PREFIXES[environment]
        and _checksum(match[1], match[2]) == match[3]
    )


def digest(key: str) -> bytes:
    """Return the digest by which a key is stored; SHA-256 suffices, since keys are random."""
    return hashlib.sha256(key.encode()).digest()


def hint(key: str) -> str:
    """Return the prefix and the last four characters, which distinguish a merchant's keys."""
    return f"{key[: key.rindex('_') + 1]}…{key[-4:]}"
