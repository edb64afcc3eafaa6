"""What persons, members, staff, logins and links are."""

import hashlib
import re
import secrets
from typing import Final, Literal

import msgspec

from opentill.people.permissions import (
    RULES,
    MerchantRole,
    Permission,
    StaffRole,
    member_may,
    staff_may,
)

LinkKind = Literal["INVITATION", "RESET"]
# Who sees a link when it is made: nobody but the mailbox that it is for; whoever may manage people
# or runs a command; a member of a merchant, who may invite to that merchant alone.
ShownTo = Literal["nobody", "operator", "member"]
ResetKind = Literal["LOST", "PASSWORD"]  # why somebody's factors end
Language = Literal["en", "zh-Hans", "zh-Hant"]
TokenUse = Literal["browser", "command"]  # what the token of a login is for

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
LINK_MS: Final = 24 * HOUR_MS  # for how long a link can be followed
PROOF_MS: Final = 10 * MINUTE_MS  # for how long proof of who somebody is counts
SEEN_MS: Final = MINUTE_MS  # the use of a login is noted this often


class Browser(msgspec.Struct, frozen=True):
    """Where somebody logs in from: address, and what the browser or program calls itself.

    ``language`` is that of the pages that it shows, None where there are none.
    """

    address: str
    device: str
    language: Language | None = None


class Lifetime(msgspec.Struct, frozen=True):
    """How long a login lasts, in ms: unused, and in all."""

    idle: int
    whole: int


OF_MEMBERS: Final = Lifetime(idle=12 * HOUR_MS, whole=14 * 24 * HOUR_MS)
OF_STAFF: Final = Lifetime(idle=HOUR_MS, whole=12 * HOUR_MS)


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who logs in. ``password`` is its Argon2id hash in PHC form."""

    id: str
    email: str
    name: str
    password: str
    totp_secret: bytes | None  # encrypted
    totp_pending: bytes | None  # encrypted
    totp_period: int
    created_at: int
    updated_at: int
    language: Language | None = None  # of mails to them alone; None: nobody has said
    confirmed: bool = False  # the account was made, or set anew, by a link that only they have seen


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A person with their role at a merchant."""

    merchant_id: str
    person_id: str
    role: MerchantRole
    email: str
    name: str
    created_at: int


class Staff(msgspec.Struct, frozen=True, kw_only=True):
    """A person with their role at the deployment."""

    person_id: str
    role: StaffRole
    email: str
    name: str
    created_at: int


class Colleague(Staff, frozen=True, kw_only=True):
    """Somebody of the staff as an administrator sees them: is their account safe, is it used."""

    second_factor: bool  # an authenticator or a passkey
    used_at: int | None  # when one of their logins was last used; None without any


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant that a person is a member of."""

    merchant_id: str
    merchant_name: str
    role: MerchantRole


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """Where a person is logged in, and who that is."""

    id: str
    person_id: str
    email: str
    name: str
    staff_role: StaffRole | None
    is_member: bool  # of a merchant or several
    created_at: int
    proved_at: int
    used_at: int
    strong: bool  # with a second factor, or a passkey
    address: str
    device: str
    merchant_id: str | None  # of the API: at which merchant
    refresh_sha256: bytes | None
    has_factor: bool  # the person has an authenticator or a passkey
    by_link: bool  # begun by a link that the person has followed

    @property
    def is_pending(self) -> bool:
        """Whether the person has a second factor that this login has not proved.

        Such a login may prove it, and log out, and nothing else.
        """
        return self.has_factor and not self.strong

    def has_ended(self, now: int) -> bool:
        """Return whether it was left unused for too long, or is over."""
        lifetime = OF_MEMBERS if self.staff_role is None else OF_STAFF
        return now >= self.used_at + lifetime.idle or now >= self.created_at + lifetime.whole

    def is_proved(self, now: int) -> bool:
        """Return whether the person has proved who they are within the last ten minutes."""
        return now < self.proved_at + PROOF_MS


class Passkey(msgspec.Struct, frozen=True, kw_only=True):
    """A public key whose private part a person's device has."""

    id: str
    person_id: str
    credential: bytes
    public_key: bytes
    sign_count: int
    name: str
    created_at: int
    used_at: int | None


class Challenge(msgspec.Struct, frozen=True):
    """Whose passkey is to be made or used; None: somebody wants to log in with one."""

    person_id: str | None


class AttemptCount(msgspec.Struct, frozen=True):
    """How many attempts to log in have failed under one subject (``limits``)."""

    subject: str
    failures: int


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """How a person's account is kept safe, as they see it."""

    authenticator: bool
    has_factor: bool  # an authenticator or a passkey
    recovery_codes: int  # that are left
    language: Language | None  # of mails to them
    passkeys: list[Passkey]
    logins: list[Login]


class Factors(msgspec.Struct, frozen=True):
    """Which second factors somebody has."""

    authenticator: bool
    passkeys: int


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation, or the way to a new password."""

    id: str
    kind: LinkKind
    email: str
    merchant_id: str | None
    role: MerchantRole | None
    staff_role: StaffRole | None
    created_by: str
    created_at: int
    expires_at: int
    used_at: int | None
    withdrawn: bool  # who made it may not make such any more
    shown_to: ShownTo

    def can_be_followed(self, now: int) -> bool:
        """Return whether it is neither used nor over nor withdrawn."""
        return self.used_at is None and now < self.expires_at and not self.withdrawn


class FactorReset(msgspec.Struct, frozen=True, kw_only=True):
    """The end of somebody's second factors, once it is confirmed and its time is over."""

    id: str
    person_id: str
    email: str
    name: str
    kind: ResetKind
    status: Literal["ASKED", "WAITING", "DONE", "STOPPED"]
    asked_by: str
    reason: str
    confirmed_by: str | None
    due_at: int | None
    created_at: int


class Access(msgspec.Struct, frozen=True):
    """What somebody who is logged in may do at one merchant: as its member, or as staff."""

    login: Login
    merchant_id: str
    merchant_name: str
    role: MerchantRole | None  # None: staff, who only look
    workplaces: list[Workplace]  # all that the person is a member of

    def may(self, permission: Permission) -> bool:
        """Return whether the table of permissions gives it to them here."""
        if self.role is not None:
            return member_may(self.role, permission)
        return self.login.staff_role is not None and staff_may(self.login.staff_role, permission)

    @property
    def permissions(self) -> list[Permission]:
        """All that they may do here."""
        return [rule.permission for rule in RULES if self.may(rule.permission)]


class NewLink(msgspec.Struct, frozen=True):
    """A link just made; ``token`` is shown this once."""

    link: Link
    token: str

    @property
    def is_shown(self) -> bool:
        """Whether whoever has made it sees it: it is not mailed, or they asked to see it."""
        return self.link.shown_to != "nobody"

    @property
    def path(self) -> str:
        """Where it leads, below the public address."""
        return f"/{'invite' if self.link.kind == 'INVITATION' else 'reset'}/{self.token}"


_NAMED: Final = re.compile(r"\((per_[0-9a-z]+)\)$", re.ASCII)


def person_named(who: str) -> str | None:
    """Return the person whom the audit log calls so; None for the machine's owner and the like."""
    found = _NAMED.search(who)
    return found[1] if found else None


def named(email: str, person_id: str) -> str:
    """Return what the audit log calls a person."""
    return f"{email} ({person_id})"


def new_token() -> str:
    """Make 256 random bits, as they stand in a cookie or an address."""
    return secrets.token_urlsafe(32)


def digest(token: str, use: TokenUse = "browser") -> bytes:
    """Return what is stored of a token. It is random, so a plain SHA-256 cannot be reversed.

    The token of a command is hashed with its use, so that it is no cookie, and a cookie none of it.
    """
    prefix = "" if use == "browser" else f"{use} "
    return hashlib.sha256(prefix.encode() + token.encode()).digest()
