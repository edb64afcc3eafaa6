"""Creating a merchant: its name, its settlement currency and its first terms."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from opentill import merchants, people, rates
from opentill.console import terms
from opentill.console.merchants import PLACE
from opentill.core.errors import Invalid, KeyReused
from opentill.db.database import Tx
from opentill.merchants import Merchant
from opentill.people import command_permission
from opentill.portal import form_ids, render
from opentill.portal.model import Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_CURRENCY: Final = "USD"  # the currency that the form suggests
_LONGEST_NAME: Final = 200
_LONGEST_REASON: Final = 500
# Terms that the form shows at once; the others are folded.
_FIRST: Final = ("platform_fee_rate", "settlement_delay_days")


def _suggested_terms(now: int) -> dict[str, str]:
    """Return the default terms, each in the notation of its field."""
    draft = merchants.draft("merchant", _CURRENCY, now)
    return {field.name: terms.field_text(field, draft) for field in terms.FIELDS}


async def show_form(request: PageRequest) -> Response:
    """Show the form, with the default terms."""
    return _page(request)


def _page(
    request: PageRequest,
    status: int = 200,
    errors: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
) -> Response:
    suggested = {"name": "", "currency": _CURRENCY, "reason": "", **_suggested_terms(request.now)}
    values = {name: (form or {}).get(name, text) for name, text in suggested.items()}
    folded = [field for field in terms.FIELDS if field.name not in _FIRST]
    return render.page(
        request,
        "new_merchant.html",
        status,
        first=[field for field in terms.FIELDS if field.name in _FIRST],
        folded=folded,
        is_open=any(field.name in (errors or {}) for field in folded),
        values=values,
        form_id=form_ids.new_form_id(),
        errors=errors or {},
    )


def _read_terms(
    form: Mapping[str, str], currency: str, now: int
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the terms that differ from the default ones, and error texts by field."""
    suggested, entered, errors = _suggested_terms(now), dict[str, Any](), dict[str, str]()
    for field in terms.FIELDS:
        text = form.get(field.name, "").replace("\r\n", "\n").strip()
        if text == suggested[field.name]:
            continue
        try:
            value = terms.parse_field(field, text, currency)
        except ValueError as error:
            errors[field.name] = terms.field_error(field, error)
        else:
            name = "fee_changes" if field.kind == "rows" else field.name
            entered[name] = tuple(value) if field.kind == "rows" else value
    return entered, errors


async def create_merchant(request: PageRequest) -> Response:
    """Create a merchant.

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

    async def work(tx: Tx) -> str:
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

    try:
        merchant_id = await form_ids.run_once(request, work)
    except KeyReused:
        return _page(request, 409, {"name": form_ids.FORM_REUSED}, form)
    except Invalid as problem:
        return _page(request, 400, _error_texts(problem), form)
    async with request.app.db.connection() as tx:
        is_rated = currency == "USD" or await rates.find_newest(tx, currency, "USD", request.now)
    return render.see_other(
        request, f"{PLACE}/{merchant_id}?done={'created' if is_rated else 'unrated'}"
    )


def _error_texts(problem: Invalid) -> dict[str, str]:
    """Return the error text by the field of the form that the service has refused."""
    if problem.field in {"currency", "settlementCurrency", "settlement_currency"}:
        return {"currency": N_("Enter the code of a currency, such as EUR")}
    if problem.field == "name":
        return {"name": N_("Enter a name of 1 to 200 characters")}
    return terms.error_texts(problem)


_PLACE: Final = f"{PLACE}/new"
pages: Final = (
    Page("GET", _PLACE, "merchants.read", show_form),
    Page("POST", _PLACE, command_permission("merchants create"), create_merchant),
)
