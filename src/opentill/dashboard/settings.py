"""A merchant's settings: its profile for customers, its logo, and the time zone of its pages.

They are on three pages: the business, its branding, and the fees and terms of the operator.

A form has the version that it changes. If somebody else has changed the settings since, nothing is
saved: the form is shown again with its entries beside the current values.
"""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Final, Literal
from zoneinfo import ZoneInfo, available_timezones

from starlette.responses import Response

from opentill import merchants, people
from opentill.core import money
from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.core.money import Money
from opentill.dashboard import page_helpers, payout_facts, terms_texts
from opentill.dashboard.labels import ACCENT_NOTE, LOGO_ERROR, PROFILE_ERROR
from opentill.merchants import (
    CUSTOMER_FIELDS,
    MAX_LOGO_BYTES,
    PROFILE_FIELDS,
    SELLER_FIELDS,
)
from opentill.portal import render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import accent
from opentill.web.translations import N_

Part = Literal["business", "branding", "fees"]
_PATHS: Final[Mapping[Part, str]] = {"business": "", "branding": "/branding", "fees": "/fees"}
# Fields of the profile that customers of a real shop, or its tax office, need.
_NEEDED: Final = ("support_email", "legal_name", "legal_address")
_DEFAULT_COLOR: Final = "#0d5c49"  # of pages without an accent color
_REASON: Final = "on the page of the settings"
# These names of the tz database are not time zones.
_NO_ZONES: Final = ("Factory", "localtime", "posixrules")
_STALE: Final = N_(
    "Somebody else has changed the settings since you opened this "
    "page. Nothing was saved: compare, and save again"
)


# A percentage as people write it; its rate has at most five decimals.
_PERCENT: Final = re.compile(r"([0-9]{1,2}(?:[.,][0-9]{1,3})?)\s*%?", re.ASCII)


@cache
def _zone_names() -> list[str]:
    """Return the zones to choose from: UTC and those that are named after places."""
    return sorted(
        zone
        for zone in available_timezones()
        if zone not in _NO_ZONES and ("/" in zone or zone == "UTC")
    )


async def show(request: PageRequest, part: Part) -> Response:
    """Show a page of the settings, with forms for people who may change them."""
    return await _render_settings(request, part)


async def _render_settings(
    request: PageRequest,
    part: Part,
    status: int = 200,
    errors: dict[str, str] | None = None,
    entries: dict[str, str] | None = None,
) -> Response:
    merchant = await page_helpers.find_merchant(request)
    zone = ZoneInfo(merchant.time_zone)
    stored = {field: str(getattr(merchant, field) or "") for field in PROFILE_FIELDS}
    stored["tax_rate"] = _percent(merchant.tax_rate)
    is_stale = errors is not None and errors.get("profile") == _STALE
    chosen_color = _valid_color(entries) or merchant.accent_color
    color = chosen_color or _DEFAULT_COLOR
    return render.page(
        request,
        "settings.html",
        status,
        part=part,
        missing=[name for name in _NEEDED if not getattr(merchant, name)],
        merchant=merchant,
        values=stored if entries is None else {**stored, **entries},
        stored=stored if is_stale else {},
        version=merchants.version_of(merchant),
        adjusted=_adjusted_colors(chosen_color) if chosen_color else [],
        preview_path=request.link("settings", "branding", "preview.svg") + "?color=",
        preview_color=color,
        logo=merchant.logo_path and request.base + merchant.logo_path,
        fees=terms_texts.describe_fees(request.localizer, merchant),
        terms=list(terms_texts.describe_terms(request.localizer, merchant)),
        minimum=request.localizer.amount(
            Money(merchant.payout_minimum_minor, merchant.settlement_currency)
        )
        if merchant.payout_minimum_minor
        else "",
        payouts=await payout_facts.read(request, page_helpers.zone_of(request))
        if part == "fees" and request.access.may("payouts.read")
        else None,
        zone=zone,
        zones=_zone_names(),
        zone_time=request.localizer.moment_in(request.now, zone),
        saved="" if errors else request.query.get("saved", ""),
        errors=errors or {},
        scripts=request.access.may("settings.manage"),
    )


def _valid_color(entries: dict[str, str] | None) -> str | None:
    """Return the color that was entered, None if there is none or it is invalid."""
    try:
        return merchants.check_profile("accent_color", (entries or {}).get("accent_color"))
    except Invalid:
        return None


def _adjusted_colors(color: str) -> list[tuple[str, str]]:
    """Return a note and the adjusted color for each color scheme that adjusts ``color``."""
    schemes: tuple[accent.Scheme, ...] = ("light", "dark")
    grounds = [(scheme, accent.shade(color, scheme).ground) for scheme in schemes]
    return [(ACCENT_NOTE[scheme], ground) for scheme, ground in grounds if ground != color]


def _percent(rate: str | None) -> str:
    """Return a rate such as ``0.19`` as a percentage for the form: ``19``; "" for no rate."""
    return "" if rate is None else money.rate_text(Decimal(rate) * 100)


def _rate(percent: str) -> str:
    """Return a percentage of the form as a rate, "" if it is empty.

    Returns "%", which is no valid rate, if the text is no percentage.
    """
    if not percent.strip():
        return ""
    match = _PERCENT.fullmatch(percent.strip())
    if match is None:
        return "%"
    return money.rate_text(Decimal(match[1].replace(",", ".")) / 100)


async def preview(request: PageRequest) -> Response:
    """Show the form again with the preview of the color that was entered, and save nothing."""
    form = await request.form()
    entries = {field: form[field] for field in CUSTOMER_FIELDS if field in form}
    errors: dict[str, str] = {}
    if entries.get("accent_color", "").strip() and _valid_color(entries) is None:
        errors["accent_color"] = PROFILE_ERROR["accent_color"]
    return await _render_settings(request, "branding", 400 if errors else 200, errors, entries)


async def save(request: PageRequest, fields: Sequence[str]) -> Response:
    """Change the fields of one of the page's forms."""
    part: Part = "branding" if "accent_color" in fields else "business"
    form = await request.form()
    entries = {field: form[field] for field in fields}
    values = dict(entries)
    if "accent_color" in entries and await _is_untouched(request, entries["accent_color"]):
        values["accent_color"] = ""
    if "tax_rate" in entries:
        values["tax_rate"] = _rate(entries["tax_rate"])
    errors: dict[str, str] = {}
    for field, text in values.items():
        try:
            merchants.check_profile(field, text)
        except Invalid:
            errors[field] = PROFILE_ERROR[field]
    if errors:
        return await _render_settings(request, part, 400, errors, entries)
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: merchants.change_profile(
                tx,
                request.merchant_id,
                values,
                request.now,
                actor=actor,
                version=form["version"],
            )
        )
    except merchants.Stale:
        return await _render_settings(request, part, 409, {"profile": _STALE}, entries)
    return _redirect(request, part, _SECTION_OF_FIELD[fields[0]])


async def _is_untouched(request: PageRequest, color: str) -> bool:
    """Whether a color is the default, which the form shows to a merchant that has chosen none."""
    merchant = await page_helpers.find_merchant(request)
    shown = _valid_color({"accent_color": color})
    return merchant.accent_color is None and shown == _DEFAULT_COLOR


async def save_logo(request: PageRequest) -> Response:
    """Replace the logo."""
    try:
        form, files = await request.form(), await request.files()
    except PayloadTooLarge:
        return await _render_settings(request, "branding", 413, {"logo": LOGO_ERROR["size"]})
    file = files.get("logo")
    if file is None or not file.content:
        return await _render_settings(request, "branding", 400, {"logo": LOGO_ERROR["none"]})
    actor = people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: merchants.set_logo(
                tx,
                request.merchant_id,
                file.content,
                request.now,
                actor=actor,
                seen=form["seen"],
            )
        )
    except merchants.LogoRefused as problem:
        return await _render_settings(request, "branding", 400, {"logo": LOGO_ERROR[problem.why]})
    except merchants.Stale:
        return await _render_settings(request, "branding", 409, {"logo": LOGO_ERROR["stale"]})
    return _redirect(request, "branding", "brand-title")


async def remove_logo(request: PageRequest) -> Response:
    """Remove the logo."""
    form, actor = await request.form(), people.actor_of(request.login, _REASON)
    try:
        await request.app.db.run(
            lambda tx: merchants.remove_logo(
                tx, request.merchant_id, request.now, actor=actor, seen=form["seen"]
            )
        )
    except merchants.Stale:
        return await _render_settings(request, "branding", 409, {"logo": LOGO_ERROR["stale"]})
    return _redirect(request, "branding", "brand-title")


def _redirect(request: PageRequest, part: Part, section: str) -> Response:
    """Return to the section that was saved, which says so."""
    path = f"/dashboard/{request.merchant_id}/settings{_PATHS[part]}"
    return render.see_other(request, f"{path}?saved={section}#{section}")


# The ids of the sections that have forms, by the first field of each form.
_SECTION_OF_FIELD: Final = {
    "display_name": "profile",
    "accent_color": "brand-title",
    "time_zone": "zone-title",
    "legal_name": "seller-title",
}
# The forms of the page by the end of their path, with the fields of the profile that they change.
_FORMS: Final[Mapping[str, Sequence[str]]] = {
    "profile": ("display_name", "support_email", "support_url", "terms_url"),
    "branding/color": ("accent_color",),
    "time-zone": ("time_zone",),
    "seller": SELLER_FIELDS,
}
_PLACE: Final = f"{DASHBOARD_PATH}/settings"
pages: Final = (
    Page("GET", _PLACE, "settings.read", partial(show, part="business"), menu=N_("Settings"),
         group="settings"),
    Page("GET", f"{_PLACE}/branding", "settings.read", partial(show, part="branding")),
    Page("GET", f"{_PLACE}/fees", "settings.read", partial(show, part="fees")),
    *(
        Page("POST", f"{_PLACE}/{name}", "settings.manage", partial(save, fields=fields),
             fields=(*fields, "version"))
        for name, fields in _FORMS.items()
    ),
    Page("POST", f"{_PLACE}/branding/preview", "settings.manage", preview,
         fields=("accent_color",)),
    Page("POST", f"{_PLACE}/branding/logo", "settings.manage", save_logo, files=MAX_LOGO_BYTES,
         fields=("seen",)),
    Page("POST", f"{_PLACE}/branding/logo/remove", "settings.manage", remove_logo,
         fields=("seen",)),
)  # fmt: skip
