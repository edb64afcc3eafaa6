"""Creating a merchant: its name, its settlement currency and its first terms."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

from opentill import mail, merchants, people, rates
from opentill.console import fee_rows, terms
from opentill.console.merchants import PLACE
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused
from opentill.db.database import Tx
from opentill.merchants import Actor, Merchant
from opentill.people import command_permission
from opentill.portal import form_ids, invitations, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_CURRENCY: Final = "USD"  # the currency that the form suggests
_LONGEST_NAME: Final = 200
_LONGEST_REASON: Final = 500
# Terms that the form shows at once; the others are folded.
_FIRST: Final = ("platform_fee_rate", "settlement_delay_days")


class _Created(msgspec.Struct, frozen=True):
    """A new merchant, its owner's address, and the link that no mail can carry."""

    merchant_id: str
    owner: str = ""
    link: str = ""
    name: str = ""


def _suggested_terms(now: int) -> dict[str, str]:
    """Return the default terms, each in the notation of its field."""
    draft = merchants.draft("merchant", _CURRENCY, now)
    return {field.name: terms.field_text(field, draft) for field in terms.FIELDS}


async def show_form(request: PageRequest) -> Response:
    """Show the form with the default terms, or with ``preview`` the entries and their costs."""
    if not request.query.get(terms.PREVIEW):
        return _page(request)
    form = request.query
    _, errors = _read_terms(form, form.get("currency", "").upper(), request.now)
    return _page(request, errors=errors, form=form)


def _page(
    request: PageRequest,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    created: _Created | None = None,
) -> Response:
    suggested = {
        "name": "",
        "owner": "",
        "currency": _CURRENCY,
        "reason": "",
        **_suggested_terms(request.now),
    }
    values = {name: (form or {}).get(name, text) for name, text in suggested.items()}
    folded = [field for field in terms.FIELDS if field.name not in _FIRST]
    rows = fee_rows.read(form) if form else []
    is_open = bool(form and form.get(terms.PREVIEW)) or any(
        name.startswith("fee") or name in {field.name for field in folded} for name in errors or {}
    )
    currency = values["currency"] if values["currency"] in money.EXPONENTS else _CURRENCY
    return render.page(
        request,
        "new_merchant.html",
        status,
        first=[field for field in terms.FIELDS if field.name in _FIRST],
        folded=folded,
        created=created,
        invited=created.owner if created else "",
        link=created.link if created else "",
        currencies=sorted(money.EXPONENTS),
        is_open=is_open,
        fee_rows=fee_rows.with_blank(rows),
        costs=terms.list_costs(rows, values, currency),
        values=values,
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


def _read_terms(
    form: Mapping[str, str], currency: str, now: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the terms that differ from the default ones, and error texts by field."""
    suggested, entered, errors = _suggested_terms(now), dict[str, Any](), dict[str, str]()
    for field in terms.TEXT_FIELDS:
        text = form.get(field.name, "").replace("\r\n", "\n").strip()
        if text == suggested[field.name]:
            continue
        try:
            entered[field.name] = terms.parse_field(field, text, currency)
        except ValueError as error:
            errors[field.name] = terms.field_error(field, error)
    rows, row_errors = fee_rows.parse(fee_rows.read(form), currency)
    if rows:
        entered["fee_changes"] = tuple(rows.values())
    return entered, errors | row_errors


async def create_merchant(request: PageRequest) -> Response:
    """Create a merchant, and invite its owner if the form has an address.

    Sending the same form again has no effect.
    """
    form = await request.form()
    name, currency = form.get("name", "").strip(), form.get("currency", "").strip().upper()
    reason = form.get("reason", "").strip()
    entered, errors = _read_terms(form, currency, request.now)
    if not 0 < len(name) <= _LONGEST_NAME:
        errors["name"] = N_("Enter a name of 1 to 200 characters")
    if not 0 < len(reason) <= _LONGEST_REASON:
        errors["reason"] = N_("Say why, in a few words")
    if errors:
        return _page(request, 400, errors, form)
    actor = people.actor_of(request.login, reason)

    async def create(tx: Tx) -> str:
        merchant: Merchant = await merchants.create(
            tx,
            name=name,
            now=request.now,
            settlement_currency=currency,
            who=actor.who,
            reason=actor.reason,
            **entered,
        )
        return merchant.id

    owner = form.get("owner", "").strip() if request.may("people.manage") else ""
    try:
        created = await _create(request, create, (name, owner), actor)
    except KeyReused:
        return _page(request, 409, {"name": form_ids.FORM_REUSED}, form)
    except invitations.Refused as refusal:
        return _page(request, refusal.status, {"owner": refusal.errors["email"]}, form)
    except Invalid as problem:
        return _page(request, 400, _error_texts(problem), form)
    return await _show_created(request, created, currency)


async def _create(
    request: PageRequest,
    create: Callable[[Tx], Awaitable[str]],
    names: tuple[str, str],
    actor: Actor,
) -> _Created:
    """Create the merchant and invite its owner in the same transaction, if there is one.

    ``names``: the merchant's name, and the owner's address, "" for none.
    """
    name, owner = names
    if not owner:
        return _Created(await form_ids.run_once(request, create))

    async def create_and_invite(tx: Tx) -> _Created:
        merchant_id, settings = await create(tx), request.app.settings
        invitation = mail.NewInvitation(
            email=owner,
            by=request.login.name,
            language=request.localizer.language,
            merchant_id=merchant_id,
            role="owner",
        )
        new = await invitations.create(tx, settings, invitation, actor, request.now)
        return _Created(merchant_id, new.link.email, invitations.shown_link(settings, new), name)

    return await form_ids.create_secret(request, create_and_invite, _Created)


async def _show_created(request: PageRequest, created: _Created, currency: str) -> Response:
    """Show the owner's link if no mail can carry it, else the merchant."""
    if created.link:
        return _page(request, created=created)
    async with request.app.db.connection() as tx:
        is_rated = currency == "USD" or await rates.find_newest(tx, currency, "USD", request.now)
    done = "invited" if created.owner else "created"
    return render.see_other(
        request, f"{PLACE}/{created.merchant_id}?done={done if is_rated else 'unrated'}"
    )


def _error_texts(problem: Invalid) -> dict[str, str]:
    """Return the error text by the field of the form that the service has refused."""
    if problem.field in {"currency", "settlementCurrency", "settlement_currency"}:
        return {"currency": N_("Choose a currency")}
    if problem.field == "name":
        return {"name": N_("Enter a name of 1 to 200 characters")}
    return terms.error_texts(problem)


# Who may not invite people has no field for the owner's address.
_FIELDS: Final = (
    "name", "currency", "reason", *(field.name for field in terms.TEXT_FIELDS), fee_rows.COUNT,
)  # fmt: skip
_PLACE: Final = f"{PLACE}/new"
pages: Final = (
    Page("GET", _PLACE, "merchants.read", show_form),
    Page(
        "POST",
        _PLACE,
        command_permission("merchants create"),
        create_merchant,
        fields=_FIELDS,
        proves=N_("Create a merchant"),
        rehearsed=True,
    ),
)
