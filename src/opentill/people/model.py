"""Persons, members, staff, logins and links. All times are Unix ms."""

import hashlib
import re
import secrets
from typing import Final, Literal, Self

import msgspec

from opentill.core.languages import Language
from opentill.people.lifetimes import OF_MEMBERS, OF_STAFF, PENDING_MS, PROOF_MS
from opentill.people.permissions import (
    RULES,
    MerchantRole,
    Permission,
    StaffRole,
    member_may,
    staff_may,
)

LinkKind = Literal["INVITATION", "RESET"]
# Who sees a new link besides its recipient: nobody, because it is mailed; an operator, who manages
# people or runs a command; or a member of a merchant, who may invite only to that merchant.
ShownTo = Literal["nobody", "operator", "member"]
ResetKind = Literal["LOST", "PASSWORD"]  # why a person's second factors are removed
TokenUse = Literal["browser", "command"]  # whether a browser or the command line has the token
LONGEST_NAME: Final = 200  # of a person


class Browser(msgspec.Struct, frozen=True):
    """The client that somebody logs in with: IP address and User-Agent.

    ``language`` is the language of its pages, None for a client without pages.
    """

    address: str
    device: str
    language: Language | None = None


class Person(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who logs in. ``password`` is the Argon2id hash in PHC format."""

    id: str
    email: str
    name: str
    password: str
    totp_secret: bytes | None  # the authenticator's secret, encrypted; None: no authenticator
    totp_pending: bytes | None  # a new secret that is not confirmed yet, encrypted; None: none
    totp_period: int  # the period (30 s since 1970) of the last code used; it cannot be used again
    created_at: int
    updated_at: int
    language: Language | None = None  # of mails to the person; None: not chosen
    # Whether only the person has seen the link that created or reset the account.
    confirmed: bool = False


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A person's role at a merchant."""

    merchant_id: str
    person_id: str
    role: MerchantRole
    email: str
    name: str
    created_at: int
    has_factor: bool  # whether the person has an authenticator or a passkey
    used_at: int | None  # when a login of the person that has not ended was last used


class Staff(msgspec.Struct, frozen=True, kw_only=True):
    """A person's role at the deployment."""

    person_id: str
    role: StaffRole
    email: str
    name: str
    created_at: int


class Colleague(Staff, frozen=True, kw_only=True):
    """A staff member as administrators see them, with the account's second factor and last use."""

    second_factor: bool  # whether the person has an authenticator or a passkey
    used_at: int | None  # when any of the person's logins was last used; None: no login


class Workplace(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant that a person is a member of."""

    merchant_id: str
    merchant_name: str
    role: MerchantRole
    time_zone: str
    is_suspended: bool = False
    suspension_reason: str = ""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A login and the person it belongs to."""

    id: str
    person_id: str
    email: str
    name: str
    staff_role: StaffRole | None
    is_member: bool  # whether the person is a member of any merchant
    created_at: int
    proved_at: int
    used_at: int
    strong: bool  # whether a second factor or a passkey was proved
    address: str
    device: str
    merchant_id: str | None  # the merchant of an API login; None for other logins
    refresh_sha256: bytes | None
    has_factor: bool  # whether the person has an authenticator or a passkey
    by_link: bool  # whether the login began with a link that lets staff set up their first factor

    @property
    def is_pending(self) -> bool:
        """Whether the person has a second factor that this login has not proved.

        A pending login may only prove the factor or log out.
        """
        return self.has_factor and not self.strong

    def has_ended(self, now: int) -> bool:
        """Whether the login was unused for too long or has reached its total lifetime.

        A pending login is not prolonged by its use: it ends ten minutes after the password was
        entered, or after the last use before the person set up a factor elsewhere.
        """
        if self.is_pending and now >= self.used_at + PENDING_MS:
            return True
        lifetime = OF_MEMBERS if self.staff_role is None else OF_STAFF
        return now >= self.used_at + lifetime.idle or now >= self.created_at + lifetime.total

    def is_proved(self, now: int) -> bool:
        """Whether the person has proved their identity within the last ten minutes."""
        return now < self.proved_at + PROOF_MS


class LoginWithWorkplaces(Login, frozen=True, kw_only=True):
    """A login, and the workplaces of the person as JSON, because one statement reads both."""

    workplaces_json: str

    def decode_workplaces(self) -> list[Workplace]:
        """Return the merchants that the person is a member of."""
        return _WORKPLACES.decode(self.workplaces_json)


_WORKPLACES: Final = msgspec.json.Decoder(list[Workplace])


class Passkey(msgspec.Struct, frozen=True, kw_only=True):
    """The public key of a passkey; the person's device holds the private key."""

    id: str
    person_id: str
    credential: bytes
    public_key: bytes
    sign_count: int
    name: str
    created_at: int
    used_at: int | None


class Challenge(msgspec.Struct, frozen=True):
    """The person to whom a challenge was issued; None for a login with only a passkey."""

    person_id: str | None


class AttemptCount(msgspec.Struct, frozen=True):
    """The number of failed logins under one subject (``limits``)."""

    subject: str
    failures: int


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """The security settings of a person's account, as they see them."""

    authenticator: bool
    has_factor: bool  # whether the person has an authenticator or a passkey
    recovery_codes: int  # the number of unused codes
    language: Language | None  # of mails to the person; None: not chosen
    passkeys: list[Passkey]
    logins: list[Login]


class Factors(msgspec.Struct, frozen=True):
    """The second factors that a person has."""

    authenticator: bool
    passkeys: int


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An invitation or a link to a new password."""

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
    withdrawn: bool  # whether it is void, because its creator has lost the permission to create it
    shown_to: ShownTo

    def can_be_followed(self, now: int) -> bool:
        """Whether the link is neither used nor expired nor withdrawn."""
        return self.used_at is None and now < self.expires_at and not self.withdrawn


class FactorReset(msgspec.Struct, frozen=True, kw_only=True):
    """A reset of a person's second factors, which end at ``due_at`` (None: not confirmed yet)."""

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
    """A login's permissions at one merchant, as a member or as staff."""

    login: Login
    merchant_id: str
    merchant_name: str
    role: MerchantRole | None  # None for staff, who may only read
    workplaces: list[Workplace]  # all merchants that the person is a member of
    time_zone: str  # of the merchant
    is_suspended: bool = False  # whether the operator has suspended the merchant
    suspension_reason: str = ""

    @classmethod
    def of_member(cls, login: Login, workplace: Workplace, workplaces: list[Workplace]) -> Self:
        """Return a member's access to one of their workplaces."""
        return cls(
            login,
            workplace.merchant_id,
            workplace.merchant_name,
            workplace.role,
            workplaces,
            workplace.time_zone,
            workplace.is_suspended,
            workplace.suspension_reason,
        )

    def may(self, permission: Permission) -> bool:
        """Whether the person's role gives them a permission at this merchant."""
        if self.role is not None:
            return member_may(self.role, permission)
        return self.login.staff_role is not None and staff_may(self.login.staff_role, permission)

    @property
    def permissions(self) -> list[Permission]:
        """All permissions of the person at this merchant."""
        return [rule.permission for rule in RULES if self.may(rule.permission)]


class NewLink(msgspec.Struct, frozen=True):
    """A new link; ``token`` is shown only once."""

    link: Link
    token: str

    @property
    def is_shown(self) -> bool:
        """Whether its creator sees the link: it is not mailed, or they asked to see it."""
        return self.link.shown_to != "nobody"

    @property
    def path(self) -> str:
        """The link's path below the public URL."""
        return f"/{'invite' if self.link.kind == 'INVITATION' else 'reset'}/{self.token}"


_ACTOR_ID: Final = re.compile(r"\((per_[0-9a-z]+)\)$", re.ASCII)


def person_named(who: str) -> str | None:
    """Return the id of the person whom an entry of the audit log names, None if it names none."""
    match = _ACTOR_ID.search(who)
    return match[1] if match else None


def named(email: str, person_id: str) -> str:
    """Return the name of a person in the audit log."""
    return f"{email} ({person_id})"


def new_token() -> str:
    """Return 256 random bits in URL-safe base64."""
    return secrets.token_urlsafe(32)


def digest(token: str, use: TokenUse = "browser") -> bytes:
    """Return the digest by which a token is stored. A plain SHA-256 suffices for a random token.

    A command's token is hashed with its use, so that it cannot serve as a cookie or vice versa.
    """
    prefix = "" if use == "browser" else f"{use} "
    return hashlib.sha256(prefix.encode() + token.encode()).digest()
