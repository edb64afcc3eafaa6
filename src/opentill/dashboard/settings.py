"""A merchant's settings: what customers see of it, its logo, and the time zone of its pages.

A form says which version it changes. If somebody else has changed it meanwhile, nothing is done:
the form comes back with what was typed, beside what is true now.
"""

from functools import cache
from typing import Final
from zoneinfo import available_timezones

from starlette.responses import Response

from opentill import merchants, people
from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.dashboard.labels import ACCENT_NOTE, LOGO_ERROR, PROFILE_ERROR
from opentill.merchants import MAX_LOGO_BYTES, PROFILE_FIELDS, Merchant
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import accent
from opentill.web.translations import N_

_REASON: Final = "on the page of the settings"
_NO_PLACES: Final = ("Factory", "localtime", "posixrules")  # in the database, and no zones


@cache
def _zones() -> list[str]:
    """Return the zones to choose from: those of places, and UTC."""
    return sorted(
        zone
        for zone in available_timezones()
        if zone not in _NO_PLACES and ("/" in zone or zone == "UTC")
    )


async def show(request: PageRequest) -> Response:
    """Show the settings, with forms for whoever may change them."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    saved = {field: str(getattr(merchant, field) or "") for field in PROFILE_FIELDS}
    changed_by_others = errors is not None and errors.get("profile") == N_(
        "Somebody else has changed the settings since you opened this "
        "page. Nothing was saved: compare, and save again"
    )
    return render.page(
        request,
        "settings.html",
        status,
        merchant=merchant,
        values=saved if typed is None else {**saved, **typed},
        saved=saved if changed_by_others else {},
        version=merchants.version_of(merchant),
        adjusted=_adjusted(merchant),
        preview=merchant.accent_color
        and request.base + accent.address(merchant.accent_color, "svg"),
        logo=merchant.logo_path and request.base + merchant.logo_path,
        zones=_zones(),
        errors=errors or {},
    )


def _adjusted(merchant: Merchant) -> list[tuple[str, str]]:
    """Return the schemes in which a colour is shown as another one, with that one."""
    color = merchant.accent_color
    if color is None:
        return []
    schemes: tuple[accent.Scheme, ...] = ("light", "dark")
    shown = [(scheme, accent.shade(color, scheme).ground) for scheme in schemes]
    return [(ACCENT_NOTE[scheme], ground) for scheme, ground in shown if ground != color]


async def save(request: PageRequest) -> Response:
    """Change the profile."""
    form = await request.form()
    typed = {field: form.get(field, "") for field in PROFILE_FIELDS}
    errors: dict[str, str] = {}
    for field, text in typed.items():
        try:
            merchants.check_profile(field, text)
        except Invalid:
            errors[field] = PROFILE_ERROR[field]
    if errors:
        return await _page(request, 400, errors, typed)
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: merchants.change_profile(
                tx,
                request.merchant_id,
                typed,
                request.now,
                actor=actor,
                version=form.get("version", ""),
            )
        )
    except merchants.Stale:
        return await _page(
            request,
            409,
            {
                "profile": N_(
                    "Somebody else has changed the settings since you opened this "
                    "page. Nothing was saved: compare, and save again"
                )
            },
            typed,
        )
    return _saved(request)


async def save_logo(request: PageRequest) -> Response:
    """Take another logo."""
    try:
        form, files = await request.form(), await request.files()
    except PayloadTooLarge:
        return await _page(request, 413, {"logo": N_("The picture is too large: 256 kB at most")})
    file = files.get("logo")
    if file is None or not file.content:
        return await _page(request, 400, {"logo": N_("Choose a picture first")})
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: merchants.set_logo(
                tx,
                request.merchant_id,
                file.content,
                request.now,
                actor=actor,
                seen=form.get("seen", ""),
            )
        )
    except merchants.LogoRefused as problem:
        return await _page(request, 400, {"logo": LOGO_ERROR[problem.why]})
    except merchants.Stale:
        return await _page(
            request,
            409,
            {
                "logo": N_(
                    "Somebody else has changed the logo since you opened this "
                    "page. This is the one that is shown now. Choose your picture "
                    "again to replace it"
                )
            },
        )
    return _saved(request)


async def remove_logo(request: PageRequest) -> Response:
    """Show no logo any more."""
    form, actor = await request.form(), people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: merchants.remove_logo(
                tx, request.merchant_id, request.now, actor=actor, seen=form.get("seen", "")
            )
        )
    except merchants.Stale:
        return await _page(
            request,
            409,
            {
                "logo": N_(
                    "Somebody else has changed the logo since you opened this "
                    "page. This is the one that is shown now. Choose your picture "
                    "again to replace it"
                )
            },
        )
    return _saved(request)


def _saved(request: PageRequest) -> Response:
    return render.see_other(request, f"/dashboard/{request.merchant_id}/settings?saved=1")


_PLACE: Final = f"{DASHBOARD_PATH}/settings"
pages: Final = (
    Page("GET", _PLACE, "settings.read", show, menu=N_("Settings")),
    Page("POST", f"{_PLACE}/profile", "settings.manage", save),
    Page("POST", f"{_PLACE}/logo", "settings.manage", save_logo, files=MAX_LOGO_BYTES),
    Page("POST", f"{_PLACE}/logo/remove", "settings.manage", remove_logo),
)
