"""Exchange rates: the list of current and missing rates, setting one, and importing an ECB file."""

import asyncio
from decimal import Decimal, InvalidOperation
from typing import Final

from starlette.responses import Response

from opentill import merchants, people, rates
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused, PayloadTooLarge
from opentill.core.ids import new_id
from opentill.db.database import Tx
from opentill.http.csvfile import format_utc
from opentill.portal import form_ids, lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.rates.model import DAY_MS
from opentill.web.translations import N_

_FIELDS: Final = ("base", "quote", "rate", "reason")
_LONGEST_REASON: Final = 300
_MOST_BYTES: Final = 8 * 1024 * 1024  # largest file; the file of all days since 1999 has about 3 MB
_IMPORT_MS: Final = 90 * DAY_MS  # older days are skipped; `opentill rates import` imports all
_RATE_ERROR: Final = N_("Enter a positive decimal number of at most 18 digits, such as 1.08")
_CURRENCY_ERROR: Final = N_("Enter an ISO 4217 code such as USD")


async def show_rates(request: PageRequest) -> Response:
    """List the current rate of each pair of currencies, or of the pairs of one currency."""
    return await _page(request)


async def _page(
    request: PageRequest,
    form: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    settings, now = request.app.settings, request.now
    code = lists.text(request, "currency", 3).upper()
    all_errors = dict(errors or {})
    currency = code if code in money.EXPONENTS else None
    if code and currency is None:
        all_errors["currency"] = _CURRENCY_ERROR
    oldest = rates.oldest_valid_from(now, settings.rates_max_age_days)
    async with request.app.db.connection() as tx:
        current = await rates.list_current(tx, now, currency)
        missing = await rates.list_missing(tx, now, oldest)
        expiring = await rates.list_expiring(tx, now, settings.rates_max_age_days)
    pager = Pager(lists.page_number(request), len(current))
    return render.page(
        request,
        "rates.html",
        400 if errors else 200,
        rates=[
            (rate, money.rate_text(rate.rate), _state(rate, oldest))
            for rate in current[(pager.number - 1) * pager.size : pager.number * pager.size]
        ],
        missing=missing,
        expiring=expiring,
        pager=pager,
        currency=code,
        form={name: (form or {}).get(name, "") for name in _FIELDS},
        currencies=sorted(money.EXPONENTS),
        errors=all_errors,
        form_id=form_ids.new_form_id(),
        zone=ZONE,
    )


def _state(rate: rates.ListedRate, oldest: int) -> str:
    """Return the key of ``RATE_STATE`` that says whether a rate is used or why it is not."""
    if rate.counts(oldest):
        return "counts"
    return "dropped" if rate.is_dropped else "too_old"


async def set_rate(request: PageRequest) -> Response:
    """Set a rate that is valid from now on."""
    form = await request.form()
    base, quote = (form.get(name, "").strip().upper() for name in ("base", "quote"))
    try:
        rate = Decimal(form.get("rate", "").strip())
    except InvalidOperation:
        return await _page(request, form, {"rate": _RATE_ERROR})
    reason = form.get("reason", "").strip()[:_LONGEST_REASON] or "on the page of exchange rates"
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        stored = await rates.put(tx, base, quote, rate, request.now)
        subject = (
            f"{base} {quote} {money.rate_text(stored.rate)} from {format_utc(stored.valid_from)}"
        )
        await merchants.record_audit(tx, actor, "rates set", "", subject, request.now)
        return new_id("mov")  # a rate has no id, but ``run_once`` stores one

    try:
        await form_ids.run_once(request, work)
    except Invalid as problem:
        field = problem.field or "rate"
        error = _RATE_ERROR if field == "rate" else _CURRENCY_ERROR
        if field == "quote" and base == quote:
            error = N_("Enter another currency than the first one")
        return await _page(request, form, {field: error})
    except KeyReused:
        error = N_("This form has set a rate already. Look at the list, then send it again")
        return await _page(request, form, {"rate": error})
    return render.see_other(request, f"{PLACE}?currency={base}&done=1")


async def import_rates(request: PageRequest) -> Response:
    """Import the newest days of a file of the ECB's reference rates. Idempotent."""
    try:
        files = await request.files()
    except PayloadTooLarge:
        return await _page(request, errors={"file": N_("Choose a file of at most 8 MB")})
    file = files.get("file")
    if file is None or not file.content:
        return await _page(request, errors={"file": N_("Choose the file")})
    actor = people.actor_of(request.login, f"import of {file.name[:100]}")

    async def work(tx: Tx) -> None:
        result = await rates.import_sheet(tx, sheet, request.now, request.now - _IMPORT_MS)
        subject = f"{result.rates} rates of {len(result.currencies)} currencies, {result.days} days"
        await merchants.record_audit(tx, actor, "rates import", "", subject, request.now)

    try:
        sheet = await asyncio.to_thread(rates.read_file, file.content)
        await request.app.db.run(work)
    except Invalid:
        error = N_(
            "Choose a file of reference rates of the European Central "
            "Bank, with days of the last three months and none to come"
        )
        return await _page(request, errors={"file": error})
    return render.see_other(request, f"{PLACE}?done=1")


PLACE: Final = f"{CONSOLE_PATH}/rates"
pages: Final = (
    Page("GET", PLACE, "rates.read", show_rates, menu=N_("Exchange rates"), group="system"),
    Page(
        "POST",
        f"{PLACE}/set",
        "rates.manage",
        set_rate,
        fields=("base", "quote", "rate", "reason"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{PLACE}/import",
        "rates.manage",
        import_rates,
        files=_MOST_BYTES,
        proves=N_("Import exchange rates"),
    ),
)
