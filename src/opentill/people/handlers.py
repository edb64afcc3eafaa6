"""Handlers of ``/v1/merchant/…``. Each request is authenticated by a person's token."""

import base64
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from opentill import agreement, merchants
from opentill.context import App
from opentill.core.errors import Invalid, NotFound, NotPermitted
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.http.operations import Admit, Admitted, ApiRequest, Nothing
from opentill.http.paging import Listing, PageQuery, listing
from opentill.merchants import Actor, KeyFields, Merchant
from opentill.people import key_scopes, logins, queries, service, tokens
from opentill.people.logins import Credentials
from opentill.people.model import Access, Browser, Member
from opentill.people.permissions import NEED_PROOF, Permission
from opentill.people.profile_update import ProfileUpdate
from opentill.people.second_factor import actor_of
from opentill.people.tokens import Tokens
from opentill.people.wire import (
    AcceptanceBody,
    AcceptanceOut,
    InvitationOut,
    KeyBody,
    KeyOut,
    KeysQuery,
    KeyUpdate,
    KeyWithSecret,
    LoginBody,
    LogoBody,
    MemberOut,
    MemberUpdate,
    Profile,
    RefreshBody,
    RemovalQuery,
    Replacement,
)

S = TypeVar("S")
T = TypeVar("T")


def admit_with(permission: Permission) -> Admit:
    """Return the check that admits persons with a permission, by their token.

    It raises NotLoggedIn, and NotPermitted for a role without the permission, for staff without a
    second factor in live mode and, if the permission needs a step-up, for a login more than ten
    minutes ago.
    """

    async def admit(app: App, token: str, address: str, now: int) -> Admitted:
        access = await tokens.find(app.db, token, app.settings.secret_key, address, now)
        if not access.may(permission) or _lacks_second_factor(access, app.settings):
            raise NotPermitted
        if permission in NEED_PROOF:
            tokens.check_proved(access, now)
        who = actor_of(access.login, "").who
        return Admitted(merchant_id=access.merchant_id, access=access, who=who)

    return admit


def _lacks_second_factor(access: Access, settings: Settings) -> bool:
    login = access.login
    return login.staff_role is not None and not login.strong and settings.livemode


def actor(request: ApiRequest[Any, Any]) -> Actor:
    """Return the request's person as an actor of the audit log."""
    return Actor(request.who, "by the API for people")


def _slice(query: PageQuery, rows: list[S], convert: Callable[[S], T]) -> Listing[T]:
    """Return a page of a list that is short enough to be read completely."""
    start = (query.page - 1) * query.size
    items = [convert(row) for row in rows[start : start + query.size]]
    return listing(items, query.page, query.size, len(rows))


# ── logging in and out ──


async def log_in(request: ApiRequest[Nothing, LoginBody]) -> Tokens:
    """Log a person in at a merchant."""
    credentials = Credentials(
        email=request.body.email,
        password=request.body.password,
        code=request.body.code,
        browser=Browser(*request.browser),
    )
    key = request.app.settings.secret_key
    return await tokens.begin(
        request.app.db, credentials, request.body.merchant_id, key, request.now
    )


async def refresh(request: ApiRequest[Nothing, RefreshBody]) -> Tokens:
    """Exchange a refresh token for new tokens."""
    key, browser = request.app.settings.secret_key, Browser(*request.browser)
    return await tokens.refresh(
        request.app.db, request.body.refresh_token, browser, key, request.now
    )


async def log_out(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """End the login of the token."""
    await logins.end(tx, request.access.login)


async def profile(request: ApiRequest[Nothing, Nothing]) -> Profile:
    """Return the logged-in person and the merchant."""
    async with request.app.db.connection() as tx:
        return await _profile(request, tx, await merchants.find(tx, request.merchant_id))


async def change_profile(request: ApiRequest[Nothing, ProfileUpdate], tx: Tx) -> Profile:
    """Change the merchant's profile."""
    changes = {
        field: value
        for field, value in msgspec.structs.asdict(request.body).items()
        if value is not UNSET
    }
    version = changes.pop("version", None)
    changed = await merchants.change_profile(
        tx, request.merchant_id, changes, request.now, actor=actor(request), version=version
    )
    return await _profile(request, tx, changed)


async def set_logo(request: ApiRequest[Nothing, LogoBody], tx: Tx) -> Profile:
    """Replace the merchant's logo."""
    try:
        content = base64.b64decode(request.body.content, validate=True)
    except ValueError:
        raise Invalid("content", "content must be base64 (RFC 4648, section 4)") from None
    ids = (request.merchant_id, content, request.now)
    try:
        await merchants.set_logo(tx, *ids, actor=actor(request), seen=None)
    except merchants.LogoRefused as refused:
        _, _, must = str(refused.reason).partition(" ")
        raise Invalid("content", f"content {must}") from None
    return await _profile(request, tx, await merchants.find(tx, request.merchant_id))


async def remove_logo(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Remove the merchant's logo."""
    ids = (request.merchant_id, request.now)
    await merchants.remove_logo(tx, *ids, actor=actor(request), seen=None)


async def _profile(request: ApiRequest[Any, Any], tx: Tx, merchant: Merchant) -> Profile:
    settings = request.app.settings
    accepted = await agreement.acceptances(tx, merchant.id)
    status = agreement.status(agreement.current(settings), accepted)
    return Profile.from_access(request.access, merchant, status, settings.public_url)


# ── API keys ──


async def list_keys(request: ApiRequest[KeysQuery, Nothing]) -> Listing[KeyOut]:
    """List keys, newest first."""
    maker = request.query.made_by
    async with request.app.db.connection() as tx:
        keys = await merchants.keys(tx, request.merchant_id)
    return _slice(
        request.query, [key for key in keys[::-1] if maker in {None, key.made_by}], KeyOut.from_key
    )


async def create_key(request: ApiRequest[Nothing, KeyBody], tx: Tx) -> KeyWithSecret:
    """Create a key whose scopes are within the person's role."""
    scopes = request.body.scopes
    if scopes is not None:
        scopes = key_scopes.read(scopes)
    new = await key_scopes.create_key(
        tx,
        request.merchant_id,
        request.app.settings.environment,
        request.now,
        KeyFields(name=request.body.name, expires_at=request.body.expires_at, scopes=scopes),
        actor=actor(request),
    )
    return KeyWithSecret.from_key(new)


async def change_key(request: ApiRequest[Nothing, KeyUpdate], tx: Tx) -> KeyOut:
    """Rename a key."""
    ids = (request.merchant_id, request.path["id"])
    await key_scopes.find_changeable(tx, *ids, request.access.role)
    key = await merchants.rename_key(tx, *ids, request.body.name, request.now, actor=actor(request))
    return KeyOut.from_key(key)


async def _find_key_id(request: ApiRequest[Nothing, Nothing], tx: Tx) -> str:
    """Return the id of the path's key. Raises NotFound if it belongs to another merchant."""
    key_id = request.path["id"]
    if all(key.id != key_id for key in await merchants.keys(tx, request.merchant_id)):
        raise NotFound
    return key_id


async def regenerate_key(request: ApiRequest[Replacement, Nothing], tx: Tx) -> KeyWithSecret:
    """Replace a key; the old one ends immediately or after ``overlapHours``."""
    ids, hours = (request.merchant_id, request.path["id"]), request.query.overlap_hours
    new = await key_scopes.regenerate_key(
        tx, *ids, request.now, overlap_hours=hours, actor=actor(request)
    )
    return KeyWithSecret.from_key(new)


async def revoke_key(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Revoke a key immediately."""
    await merchants.revoke_key(
        tx, await _find_key_id(request, tx), request.now, actor=actor(request)
    )


# ── the team ──


async def list_members(request: ApiRequest[PageQuery, Nothing]) -> Listing[MemberOut]:
    """List members, the longest-standing first."""
    async with request.app.db.connection() as tx:
        members = await service.members(tx, request.merchant_id)
    return _slice(request.query, members, MemberOut.from_member)


async def change_member(request: ApiRequest[Nothing, MemberUpdate], tx: Tx) -> MemberOut:
    """Change a member's role and, with ``revokeKeys``, revoke their keys beyond it."""
    merchant_id, person_id = request.merchant_id, request.path["id"]
    await service.change_role(
        tx,
        merchant_id,
        person_id,
        request.body.role,
        request.now,
        actor=actor(request),
        revoke_keys=request.body.revoke_keys,
    )
    changed: Member = await queries.MEMBER.one(tx, merchant_id=merchant_id, person_id=person_id)
    return MemberOut.from_member(changed)


async def remove_member(request: ApiRequest[RemovalQuery, Nothing], tx: Tx) -> None:
    """Remove a member and, with ``revokeKeys``, revoke the keys they created."""
    await service.remove(
        tx,
        request.merchant_id,
        request.path["id"],
        request.now,
        actor=actor(request),
        revoke_keys=request.query.revoke_keys,
    )


async def list_invitations(request: ApiRequest[PageQuery, Nothing]) -> Listing[InvitationOut]:
    """List invitations that can still be accepted."""
    async with request.app.db.connection() as tx:
        invitations = await service.invitations(tx, request.merchant_id, request.now)
    return _slice(
        request.query, [link for link in invitations if not link.withdrawn], InvitationOut.from_link
    )


async def withdraw(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Withdraw an invitation."""
    await service.withdraw(
        tx, request.merchant_id, request.path["id"], request.now, actor=actor(request)
    )


# ── the agreement ──


async def list_acceptances(request: ApiRequest[PageQuery, Nothing]) -> Listing[AcceptanceOut]:
    """List acceptances of the agreement, newest first."""
    async with request.app.db.connection() as tx:
        acceptances = await agreement.acceptances(tx, request.merchant_id)
    return _slice(request.query, acceptances, AcceptanceOut.from_acceptance)


async def accept_agreement(request: ApiRequest[Nothing, AcceptanceBody], tx: Tx) -> AcceptanceOut:
    """Accept the agreement in force."""
    login = request.access.login
    address, device = request.browser
    by = agreement.AcceptedBy(
        person_id=login.person_id,
        name=login.name,
        email=login.email,
        address=address,
        device=device,
    )
    accepted = await agreement.accept(
        tx,
        request.merchant_id,
        agreement.current(request.app.settings),
        request.body.rendered_document_sha256,
        by,
        request.now,
    )
    return AcceptanceOut.from_acceptance(accepted)
