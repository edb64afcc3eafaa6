"""What serves ``/v1/merchant/…``. Each request is of a person whose token was checked."""

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
    ProfileUpdate,
    RefreshBody,
    RemovalQuery,
)

S = TypeVar("S")
T = TypeVar("T")


def admitting(permission: Permission) -> Admit:
    """Return what lets in persons with a permission, by their token.

    It raises NotLoggedIn, and NotPermitted: for a role without the permission, for staff without a
    second factor where money is real, and, where the permission takes a step-up, for a login of
    more than ten minutes ago.
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
    """Return whom the audit log names for a person who came by a token."""
    return Actor(request.who, "by the API for people")


def _part(query: PageQuery, found: list[S], shown: Callable[[S], T]) -> Listing[T]:
    """Return a page of a list that is short enough to be read whole."""
    start = (query.page - 1) * query.size
    items = [shown(one) for one in found[start : start + query.size]]
    return listing(items, query.page, query.size, len(found))


# ── logging in and out ──


async def log_in(request: ApiRequest[Nothing, LoginBody]) -> Tokens:
    """Log a person in at a merchant."""
    given = Credentials(
        email=request.body.email,
        password=request.body.password,
        code=request.body.code,
        browser=Browser(*request.browser),
    )
    key = request.app.settings.secret_key
    return await tokens.begin(request.app.db, given, request.body.merchant_id, key, request.now)


async def refresh(request: ApiRequest[Nothing, RefreshBody]) -> Tokens:
    """Give new tokens for a refresh token."""
    key, browser = request.app.settings.secret_key, Browser(*request.browser)
    return await tokens.refresh(
        request.app.db, request.body.refresh_token, browser, key, request.now
    )


async def log_out(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """End the login that the token is of."""
    await logins.end(tx, request.access.login)


async def profile(request: ApiRequest[Nothing, Nothing]) -> Profile:
    """Return who is logged in, and where."""
    async with request.app.db.connection() as tx:
        return await _profile(request, tx, await merchants.find(tx, request.merchant_id))


async def change_profile(request: ApiRequest[Nothing, ProfileUpdate], tx: Tx) -> Profile:
    """Change what customers see of the merchant, and the zone of its pages."""
    sent = {
        field: value
        for field, value in msgspec.structs.asdict(request.body).items()
        if value is not UNSET
    }
    version = sent.pop("version", None)
    changed = await merchants.change_profile(
        tx, request.merchant_id, sent, request.now, actor=actor(request), version=version
    )
    return await _profile(request, tx, changed)


async def set_logo(request: ApiRequest[Nothing, LogoBody], tx: Tx) -> Profile:
    """Show this picture."""
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
    """Show no picture any more."""
    ids = (request.merchant_id, request.now)
    await merchants.remove_logo(tx, *ids, actor=actor(request), seen=None)


async def _profile(request: ApiRequest[Any, Any], tx: Tx, merchant: Merchant) -> Profile:
    settings = request.app.settings
    accepted = await agreement.acceptances(tx, merchant.id)
    status = agreement.status(agreement.current(settings), accepted)
    return Profile.of(request.access, merchant, status, settings.public_url)


# ── API keys ──


async def list_keys(request: ApiRequest[KeysQuery, Nothing]) -> Listing[KeyOut]:
    """List keys, newest first."""
    maker = request.query.made_by
    async with request.app.db.connection() as tx:
        keys = await merchants.keys(tx, request.merchant_id)
    return _part(
        request.query, [key for key in keys[::-1] if maker in {"", key.made_by}], KeyOut.of
    )


async def create_key(request: ApiRequest[Nothing, KeyBody], tx: Tx) -> KeyWithSecret:
    """Make a key that may do no more than the person."""
    scopes = request.body.scopes
    if scopes is not None:
        scopes = key_scopes.read(scopes)
    key_scopes.check(request.access.role, scopes)
    new = await merchants.create_key(
        tx,
        request.merchant_id,
        request.app.settings.environment,
        request.now,
        KeyFields(name=request.body.name, expires_at=request.body.expires_at, scopes=scopes),
        actor=actor(request),
    )
    return KeyWithSecret.of(new)


async def change_key(request: ApiRequest[Nothing, KeyUpdate], tx: Tx) -> KeyOut:
    """Give a key another name."""
    ids = (request.merchant_id, request.path["id"])
    await key_scopes.find_changeable(tx, *ids, request.access.role)
    key = await merchants.rename_key(tx, *ids, request.body.name, request.now, actor=actor(request))
    return KeyOut.of(key)


async def _own_key(request: ApiRequest[Nothing, Nothing], tx: Tx) -> str:
    """Return the key in the path. Raises NotFound if it is not the merchant's."""
    key_id = request.path["id"]
    if all(key.id != key_id for key in await merchants.keys(tx, request.merchant_id)):
        raise NotFound
    return key_id


async def regenerate_key(request: ApiRequest[Nothing, Nothing], tx: Tx) -> KeyWithSecret:
    """Replace a key at once."""
    ids = (request.merchant_id, request.path["id"])
    key = await key_scopes.find_changeable(tx, *ids, request.access.role)
    new = await merchants.regenerate_key(tx, key.id, request.now, actor=actor(request))
    return KeyWithSecret.of(new)


async def revoke_key(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Revoke a key at once."""
    await merchants.revoke_key(tx, await _own_key(request, tx), request.now, actor=actor(request))


# ── the team ──


async def list_members(request: ApiRequest[PageQuery, Nothing]) -> Listing[MemberOut]:
    """List members, the longest first."""
    async with request.app.db.connection() as tx:
        found = await service.members(tx, request.merchant_id)
    return _part(request.query, found, MemberOut.of)


async def change_member(request: ApiRequest[Nothing, MemberUpdate], tx: Tx) -> MemberOut:
    """Give a member another role."""
    merchant_id, person_id = request.merchant_id, request.path["id"]
    await service.change_role(
        tx, merchant_id, person_id, request.body.role, request.now, actor=actor(request)
    )
    changed: Member = await queries.MEMBER.one(tx, merchant_id=merchant_id, person_id=person_id)
    return MemberOut.of(changed)


async def remove_member(request: ApiRequest[RemovalQuery, Nothing], tx: Tx) -> None:
    """Take a member's role away, and revoke their keys if that is asked for."""
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
        found = await service.invitations(tx, request.merchant_id, request.now)
    return _part(request.query, [one for one in found if not one.withdrawn], InvitationOut.of)


async def withdraw(request: ApiRequest[Nothing, Nothing], tx: Tx) -> None:
    """Make an invitation void."""
    await service.withdraw(
        tx, request.merchant_id, request.path["id"], request.now, actor=actor(request)
    )


# ── the agreement ──


async def list_acceptances(request: ApiRequest[PageQuery, Nothing]) -> Listing[AcceptanceOut]:
    """List what was accepted, newest first."""
    async with request.app.db.connection() as tx:
        found = await agreement.acceptances(tx, request.merchant_id)
    return _part(request.query, found, AcceptanceOut.of)


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
    return AcceptanceOut.of(accepted)
