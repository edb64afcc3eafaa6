"""A merchant's API keys: the list, the page of each, and the forms that change them."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from typing import Final, Literal
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import merchants, people
from opentill.core.errors import Invalid, NotFound, or_not_found
from opentill.dashboard import developers, page_helpers
from opentill.db.database import Tx
from opentill.figures.model import day_bounds
from opentill.http import refused
from opentill.merchants import Key, KeyFields, NewKey
from opentill.people import MerchantRole, key_scopes
from opentill.portal import form_ids, lists, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

State = Literal["valid", "expired", "revoked"]
# A key that only reads: everything, or all that the viewing person's role may read.
ReadOnly = Literal["everything", "within role"]
_REASON: Final = "on the page of API keys"
_SCOPE: Final = "scope:"  # the name of a checkbox begins with this
_COLUMN: Final = "all:"  # the name of a checkbox for an action on all objects begins with this
_ACTIONS: Final = ("read", "write")
_STATES: Final[tuple[State, ...]] = ("valid", "expired", "revoked")
_DAY: Final = "2026-01-31"
# When a replaced key ends, by hours; as many as in ``merchants.OVERLAP_HOURS``.
_OVERLAPS: Final = (
    ("0", N_("Now")),
    ("1", N_("In 1 hour")),
    ("24", N_("In 24 hours")),
    ("72", N_("In 3 days")),
    ("168", N_("In 7 days")),
)
_NAME_ERROR: Final = N_("Enter a name of 1 to 100 characters")


def _read_state(key: Key, now: int) -> State:
    if key.revoked_at is not None:
        return "revoked"
    return "valid" if key.opens(now) else "expired"


async def show(request: PageRequest) -> Response:
    """List the keys: the active ones first, newest first."""
    return await _render_list(request)


async def _render_list(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    *,
    entries: dict[str, str] | None = None,
    new: NewKey | None = None,
) -> Response:
    """Show the list, with the entries of its form or with a new key."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        keys = await merchants.keys(tx, request.merchant_id)
        creators = await _creators(tx, request.merchant_id, keys)
    rows = [(key, _read_state(key, request.now)) for key in reversed(keys)]
    rows.sort(key=lambda row: row[1] != "valid")  # stable
    has_ended = bool(rows) and rows[-1][1] != "valid"
    chosen = lists.choice(request, "state", _STATES)
    rows = [row for row in rows if chosen in {None, row[1]}]
    role = request.access.role
    pager = lists.Pager(lists.page_number(request), len(rows))
    start = (pager.number - 1) * pager.size
    return render.page(
        request,
        "keys.html",
        status,
        scripts=new is not None,
        prefix=merchants.PREFIXES[request.app.settings.environment],
        zone=ZoneInfo(merchant.time_zone),
        format_end=partial(page_helpers.format_end, request, zone=ZoneInfo(merchant.time_zone)),
        keys=rows[start : start + pager.size],
        read_only={key.id for key, _ in rows if _read_only(key, role)},
        pager=pager,
        chosen=chosen,
        has_ended=has_ended,
        entries=entries or {},
        scope_field=_SCOPE,
        column_field=_COLUMN,
        columns=_ACTIONS,
        creators=creators,
        grants=_group_scopes(key_scopes.grantable_scopes(role)) if role else [],
        unrestricted=role is not None and key_scopes.may_give(role, None),
        new=new,
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


async def _creators(tx: Tx, merchant_id: str, keys: Sequence[Key]) -> dict[str, str]:
    """Return the names of the people who created keys, by person; of former members the email."""
    names = {member.person_id: member.name for member in await people.members(tx, merchant_id)}
    for person_id in {key.made_by for key in keys if key.made_by} - names.keys():
        names[person_id] = await people.email_of(tx, person_id)
    return names


def _group_scopes(scopes: Sequence[str]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return scopes by object: each with what it allows."""
    grants: dict[str, list[tuple[str, str]]] = {}
    for scope in scopes:
        name, _, action = scope.partition(":")
        grants.setdefault(name, []).append((scope, action))
    return list(grants.items())


def _read_scopes(form: Mapping[str, str], role: MerchantRole | None) -> list[str] | None:
    """Return the selected scopes, or all that only read; None for a key with full access."""
    if form["access"] == "all":
        return None
    if form["access"] == "read":
        return key_scopes.read_scopes(role) if role else []
    whole_columns = {action for action in _ACTIONS if f"{_COLUMN}{action}" in form}
    grantable = key_scopes.grantable_scopes(role) if role else []
    return [
        scope
        for scope in people.SCOPES
        if f"{_SCOPE}{scope}" in form
        or (scope in grantable and scope.partition(":")[2] in whole_columns)
    ]


def _read_end(request: PageRequest, form: Mapping[str, str]) -> int | None:
    """Return the end of the last day in the form, Unix ms; None for no day."""
    return _end_of_day(form.get("expires", "").strip(), page_helpers.zone_of(request))


async def check_new(request: PageRequest) -> Response | None:
    """Check the entries of a new key, and that the person may give its permissions."""
    form = await request.form()
    errors: dict[str, str] = {}
    if not _is_name(form.get("name", "")):
        errors["name"] = _NAME_ERROR
    expires_at = _read_end(request, form)
    if form.get("expires", "").strip() and expires_at is None:
        errors["expires"] = N_("Enter a day as 2026-01-31")
    elif expires_at is not None and expires_at <= request.now:
        errors["expires"] = N_("Enter today or a later day")
    scopes = _read_scopes(form, request.access.role)
    if scopes == []:
        errors["scopes"] = N_("Select at least one permission")
    if errors:
        return await _render_list(request, 400, errors, entries=form)
    key_scopes.check(request.access.role, scopes)
    return None


async def create(request: PageRequest) -> Response:
    """Create a key that may do no more than the person, and show it once."""
    form = await request.form()
    name, expires_at = form.get("name", "").strip(), _read_end(request, form)
    scopes = _read_scopes(form, request.access.role)

    async def work(tx: Tx) -> NewKey:
        return await key_scopes.create_key(
            tx,
            request.merchant_id,
            request.app.settings.environment,
            request.now,
            KeyFields(name=name, expires_at=expires_at, scopes=scopes),
            actor=people.actor_of(request.login, _REASON),
        )

    new = await form_ids.create_secret(request, work, NewKey)
    return await _render_list(request, new=new)


def _is_name(text: str) -> bool:
    """Whether a text may be the name of a key."""
    try:
        merchants.check_text("name", text, merchants.LONGEST_NAME)
    except Invalid:
        return False
    return True


def _end_of_day(text: str, zone: ZoneInfo) -> int | None:
    """Return the end of an entered day, Unix ms; None for a text that is no day."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    # Midnight in the years 1970 and 9999 is out of range in some time zones.
    fits = len(text) == len(_DAY) and 1970 < day.year < 9999  # noqa: PLR2004 - years
    return day_bounds(day, zone).until if fits else None


async def show_one(request: PageRequest) -> Response:
    """Show a key with the forms that rename, replace and revoke it."""
    return await _render_key(request, await _find_key(request))


async def _find_key(request: PageRequest, key_id: str | None = None) -> Key:
    """Return a key, by default the one in the path. Raises NotFound if it is not the merchant's."""
    key_id = key_id or request.ids["key"]
    async with request.app.db.connection() as tx:
        keys = await merchants.keys(tx, request.merchant_id)
    return or_not_found(next((key for key in keys if key.id == key_id), None))


async def _render_key(
    request: PageRequest,
    key: Key,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: dict[str, str] | None = None,
    *,
    new: NewKey | None = None,
    replaced: Key | None = None,
) -> Response:
    """Show a key; ``new`` is its secret if it was just created in place of the key ``replaced``."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        creator = (await _creators(tx, merchant.id, [key])).get(key.made_by or "", "")
        creator_email = await people.email_of(tx, key.made_by)
        errors_of_key = 0
        if request.access.may("requests.read"):
            refusals = await refused.newest(tx, merchant.id, request.now)
            errors_of_key = sum(row.key_id == key.id for row in refusals)
    role = request.access.role
    return render.page(
        request,
        "key.html",
        status,
        samples=developers.session_samples(f"{request.app.settings.public_url}/v1"),
        scripts=True,
        new=new,
        replaced=replaced,
        zone=ZoneInfo(merchant.time_zone),
        format_end=partial(page_helpers.format_end, request, zone=ZoneInfo(merchant.time_zone)),
        key=key,
        state=_read_state(key, request.now),
        overlaps=_OVERLAPS,
        successor=await _find_successor(request, key),
        word=_confirmation(key),
        creator=creator,
        creator_email=creator_email,
        errors_of_key=errors_of_key,
        grants=_group_scopes(key.scopes or ()),
        read_only=_read_only(key, role),
        may_change=role is not None and key_scopes.may_give(role, key.scopes),
        entries=entries or {},
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


async def _find_successor(request: PageRequest, key: Key) -> Key | None:
    """Return the key that replaced a key, None if it was not replaced."""
    return await _find_key(request, key.replaced_by) if key.replaced_by else None


def _read_only(key: Key, role: MerchantRole | None) -> ReadOnly | None:
    """Return what a read-only key reads; None for a key with other scopes."""
    if key_scopes.reads_all(key.scopes):
        return "everything"
    if role is not None and key.scopes and set(key.scopes) == set(key_scopes.read_scopes(role)):
        return "within role"
    return None


def _confirmation(key: Key) -> str:
    """Return the last four characters of the key, which are entered to confirm an action."""
    return key.hint[-4:]


async def _check_confirmation(request: PageRequest, field: str) -> Response | None:
    """Check that a form's ``field`` confirms the key; return the page with its error."""
    form, key = await request.form(), await _find_key(request)
    if form.get(field, "").strip() == _confirmation(key):
        return None
    error = N_("Enter the last four characters of this key, with the same capitals")
    return await _render_key(request, key, 400, {field: error}, form)


def _read_overlap(form: Mapping[str, str]) -> int | None:
    """Return for how many hours the old key remains valid; None for an unknown choice."""
    entry = form.get("overlap") or "0"
    return next((hours for hours in merchants.OVERLAP_HOURS if str(hours) == entry), None)


async def check_replacement(request: PageRequest) -> Response | None:
    """Check that the person may replace the key, and has confirmed it."""
    form, key = await request.form(), await _find_key(request)
    key_scopes.check(request.access.role, key.scopes)
    if _read_overlap(form) is None:
        error = N_("Choose when the old key ends")
        return await _render_key(request, key, 400, {"overlap": error}, form)
    return await _check_confirmation(request, "replace")


async def check_revocation(request: PageRequest) -> Response | None:
    """Check that the person has confirmed that the key is revoked."""
    return await _check_confirmation(request, "revoke")


async def check_renaming(request: PageRequest) -> Response | None:
    """Check the new name of the key, and that the person may change the key."""
    form, key = await request.form(), await _find_key(request)
    key_scopes.check(request.access.role, key.scopes)
    if _is_name(form.get("name", "")):
        return None
    return await _render_key(request, key, 400, {"name": _NAME_ERROR}, form)


async def rename(request: PageRequest) -> Response:
    """Rename a key."""
    key = await _find_key(request)
    name = (await request.form()).get("name", "").strip()

    async def work(tx: Tx) -> None:
        actor, ids = people.actor_of(request.login, _REASON), (request.merchant_id, key.id)
        await merchants.rename_key(tx, *ids, name, request.now, actor=actor)

    await request.app.db.run(work)
    return page_helpers.redirect(request, "developers", "keys", key.id, done="renamed")


async def regenerate(request: PageRequest) -> Response:
    """Replace a key, and show the new one once."""
    key = await _find_key(request)
    overlap = _read_overlap(await request.form()) or 0

    async def work(tx: Tx) -> NewKey:
        actor = people.actor_of(request.login, _REASON)
        ids = (request.merchant_id, key.id)
        return await key_scopes.regenerate_key(
            tx, *ids, request.now, overlap_hours=overlap, actor=actor
        )

    try:
        new = await form_ids.create_secret(request, work, NewKey)
    except (Invalid, NotFound):
        return await _render_key(
            request,
            await _find_key(request),
            409,
            {"key": N_("This key is not valid any more or was replaced before: nothing changed")},
        )
    new_row = await _find_key(request, new.id)
    return await _render_key(request, new_row, new=new, replaced=await _find_key(request))


async def revoke(request: PageRequest) -> Response:
    """Revoke a key at once. Idempotent."""
    key = await _find_key(request)

    async def work(tx: Tx) -> None:
        actor = people.actor_of(request.login, _REASON)
        await merchants.revoke_key(tx, key.id, request.now, actor=actor)

    with contextlib.suppress(NotFound):  # the key is revoked already
        await request.app.db.run(work)
    return page_helpers.redirect(request, "developers", "keys", key.id, done="revoked")


_PLACE: Final = f"{developers.PLACE}/keys"
_ONE: Final = f"{_PLACE}/{{key:id}}"
pages: Final = (
    Page("GET", _PLACE, "keys.read", show, menu=N_("API keys"), group="developers"),
    Page(
        "POST",
        _PLACE,
        "keys.manage",
        create,
        fields=("name", "expires", "access"),
        check=check_new,
        proves=N_("Create an API key"),
    ),
    Page("GET", _ONE, "keys.read", show_one),
    Page(
        "POST",
        f"{_ONE}/rename",
        "keys.manage",
        rename,
        fields=("name",),
        check=check_renaming,
        proves=N_("Rename an API key"),
    ),
    Page(
        "POST",
        f"{_ONE}/regenerate",
        "keys.manage",
        regenerate,
        fields=("replace", "overlap"),
        check=check_replacement,
        proves=N_("Replace an API key"),
    ),
    Page(
        "POST",
        f"{_ONE}/revoke",
        "keys.manage",
        revoke,
        fields=("revoke",),
        check=check_revocation,
        proves=N_("Revoke an API key"),
    ),
)
