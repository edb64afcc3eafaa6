"""What merchants, their terms and keys are, and the rows of the audit log."""

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
# What a status takes away, whatever is switched on; a suspended merchant still gives money back.
TAKEN: Final[dict[Status, tuple[Capability, ...]]] = {
    "APPLIED": ("charge", "refund", "payout"),
    "ACTIVE": (),
    "SUSPENDED": ("charge", "payout"),
    "CLOSED": ("charge", "refund", "payout"),
}


class Transition(NamedTuple):
    """One allowed change of a merchant's status (contract.md#merchant-transitions)."""

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
BY_EVENT: Final = {one.event: one for one in TRANSITIONS}

PREFIXES: Final[dict[Environment, str]] = {"production": "svc_live_", "staging": "svc_stg_"}
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY: Final = re.compile(r"(svc_(?:live|stg)_)([0-9A-Za-z]{40})([0-9A-Za-z]{6})", re.ASCII)


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What a merchant pays and when it gets its money; amounts in the settlement currency."""

    platform_fee_rate: Decimal  # for payments that no row of the schedule is about
    fees: str  # JSON: the schedule by method and currency, see ``fees``
    refund_fee_policy: FeePolicy
    overdraft_minor: int  # how far refunds may take the balance below zero
    settlement_delay_days: int
    settlement_calendar: Calendar
    reserve_rate: Decimal
    reserve_days: int
    dispute_fee_minor: int
    payout_minimum_minor: int
    ip_allowlist: list[str]  # networks; empty: from everywhere


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What customers see of a merchant, each None if it is not set, and its own zone."""

    display_name: str | None  # None: the merchant's name
    accent_color: str | None  # of buttons: #rrggbb
    support_email: str | None
    support_url: str | None
    terms_url: str | None
    time_zone: str  # of the days and times on the merchant's pages, as IANA names it


class Merchant(Terms, frozen=True, kw_only=True):
    """An account with keys, products, orders and one balance per settlement currency."""

    id: str
    name: str
    settlement_currency: str
    terms_version: int
    created_at: int
    updated_at: int
    time_zone: str  # with those below: the profile
    display_name: str | None
    accent_color: str | None
    support_email: str | None
    support_url: str | None
    terms_url: str | None
    logo_sha256: str | None
    status: Status
    charge_off: str | None  # why opening sessions is off, None while it is on
    refund_off: str | None
    payout_off: str | None

    def off(self, capability: Capability) -> str | None:
        """Return why a capability is off, None while it is on."""
        off: str | None = getattr(self, f"{capability}_off")
        return off

    def require(self, capability: Capability) -> None:
        """Raise CapabilityOff unless a capability is on."""
        why = self.off(capability)
        if why is not None:
            raise CapabilityOff(capability, why)

    @property
    def logo_path(self) -> str | None:
        """The path of the logo, which changes with it; None without one."""
        return logo_path(self.id, self.logo_sha256)


def logo_path(merchant_id: str, digest: str | None) -> str | None:
    """Return the path of a merchant's logo with this digest, None without one."""
    return digest and f"/logos/{merchant_id}/{digest}"


class CapabilityOff(NotPermitted):
    """The merchant may not do this now; the operator has said why."""

    def __init__(self, capability: Capability, why: str) -> None:
        """``why`` is the operator's reason."""
        reason = f"{capability} must be on for this merchant, and the operator switched it off"
        super().__init__(capability, f"{reason}: {why}")
        self.capability: Capability = capability
        self.why = why


class MerchantChange(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a merchant's history: its status, a capability, or a note of the operator's."""

    merchant_id: str
    number: int
    at: int
    event: Event
    from_status: Status | None
    to_status: Status
    capability: Capability | None
    who: str
    reason: str  # the merchant reads it where a capability is off
    notes: str  # for staff alone, "" without any


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody has entered who wants to become a merchant."""

    merchant_id: str
    name: str  # of the person
    email: str
    website: str  # "" without one
    business: str  # what is sold
    address: str  # where it was sent from, "" by command
    applied_at: int
    visitor: str | None  # what limits count that address under; None by command


class Waiting(Application, frozen=True, kw_only=True):
    """An application that waits to be decided, with the merchant that it would be."""

    merchant_name: str
    settlement_currency: str


class MerchantName(msgspec.Struct, frozen=True):
    """What a merchant is called."""

    id: str
    name: str


class SettlementCurrency(msgspec.Struct, frozen=True):
    """A currency in which merchants are paid."""

    currency: str


class Logo(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant's logo: the file, and what was recognised in it; sides in pixels."""

    merchant_id: str
    sha256: str
    media_type: str
    width: int
    height: int
    content: bytes
    created_at: int


class TermsVersion(Terms, frozen=True, kw_only=True):
    """The terms as they were set once: by whom, why and when."""

    merchant_id: str
    version: int
    who: str
    reason: str
    created_at: int


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key as it is stored: never the key itself."""

    id: str
    merchant_id: str
    name: str  # given by whoever made it, "" without one
    hint: str
    environment: Environment
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None  # last, to the minute; what came after is written within two
    scopes: list[str] | None = None  # None: everything that the merchant may do
    made_by: str | None = None  # the id of the person; None: a command

    def opens(self, now: int) -> bool:
        """Return whether requests with it are let in."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > now)


class KeyFields(msgspec.Struct, frozen=True, kw_only=True):
    """What whoever makes a key says about it; ``name`` is for people, and may be empty."""

    name: str = ""
    expires_at: int | None = None
    scopes: list[str] | None = None  # None: everything that the merchant may do


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key just made; ``key`` is shown this once."""

    id: str
    merchant_id: str
    name: str
    key: str
    expires_at: int | None
    scopes: list[str] | None = None  # None: everything that the merchant may do


class Authentication(msgspec.Struct, frozen=True):
    """What the statement of authentication found; without a valid key only ``allowed``."""

    allowed: bool
    key_id: str | None
    merchant_id: str | None
    environment: str | None
    ip_allowlist: list[str] | None
    scopes: list[str] | None


class SoloMovement(msgspec.Struct, frozen=True, kw_only=True):
    """What one person moves at a merchant: ``id`` is of what is moved, and ``who`` moves it."""

    merchant_id: str
    id: str
    kind: str
    who: str
    amount_minor: int
    currency: str


class MovedSum(msgspec.Struct, frozen=True):
    """What somebody moved in a currency, in minor units."""

    currency: str
    amount_minor: int


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator did; ``hash`` in hexadecimal."""

    number: int | None  # None: written past the chain
    id: str
    at: int
    who: str
    action: str
    merchant_id: str
    subject: str
    reason: str
    hash: str | None


class AuditHead(msgspec.Struct, frozen=True):
    """Where the chain ends."""

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


def make_key(environment: Environment) -> str:
    """Make a key: prefix, 40 random base62 characters (238 bits), 6 of checksum (CRC-32)."""
    prefix = PREFIXES[environment]
    secret = "".join(secrets.choice(_BASE62) for _ in range(40))
    return prefix + secret + _checksum(prefix, secret)


def is_key(text: str, environment: Environment) -> bool:
    """Return whether a text has the form of a key of this environment, checksum included."""
    found = _KEY.fullmatch(text)
    return (
        found is not None
        and found[1] == PREFIXES[environment]
        and _checksum(found[1], found[2]) == found[3]
    )


def digest(key: str) -> bytes:
    """Return what is stored of a key. A key is random, so a plain SHA-256 cannot be reversed."""
    return hashlib.sha256(key.encode()).digest()


def hint(key: str) -> str:
    """Return the prefix and the last four characters, enough to distinguish a merchant's keys."""
    return f"{key[: key.rindex('_') + 1]}…{key[-4:]}"
