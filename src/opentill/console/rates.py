"""Exchange rates: what holds now, what is missing, setting one, and the ECB's file."""

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
from opentill.portal import form_ids, lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.rates.model import DAY_MS
from opentill.web.translations import N_

_FIELDS: Final = ("base", "quote", "rate")
_MOST_BYTES: Final = 8 * 1024 * 1024  # all days since 1999 are some 3 MB
_NEWEST_MS: Final = 90 * DAY_MS  # what is imported here; the command takes all of a file


async def show(request: PageRequest) -> Response:
    """List the rate of each pair that holds now, perhaps of one currency only."""
    return await _rates(request)


async def _rates(
    request: PageRequest,
    form: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    settings, now = request.app.settings, request.now
    code = lists.text(request, "currency", 3).upper()
    problems = dict(errors or {})
    known = code in money.EXPONENTS
    if code and not known:
        problems["currency"] = N_("Enter an ISO 4217 code such as USD")
    oldest = rates.oldest_valid_from(now, settings.rates_max_age_days)
    async with request.app.db.connection() as tx:
        found = await rates.list_current(tx, now, code if known else None)
        lacking = await rates.list_missing(tx, now, oldest)
        expiring = await rates.list_expiring(tx, now, settings.rates_max_age_days)
    pager = Pager(lists.page_number(request), len(found))
    return render.page(
        request,
        "rates.html",
        400 if errors else 200,
        rates=[
            (one, money.rate_text(one.rate), _state(one, oldest))
            for one in found[(pager.number - 1) * pager.size : pager.number * pager.size]
        ],
        lacking=lacking,
        expiring=expiring,
        pager=pager,
        currency=code,
        form={name: (form or {}).get(name, "") for name in _FIELDS},
        errors=problems,
        form_id=form_ids.new_form_id(),
        zone=ZONE,
    )


def _state(rate: rates.ListedRate, oldest: int) -> str:
    """Return whether a rate is used, and if not why: a key of ``RATE_STATE``."""
    if rate.counts(oldest):
        return "counts"
    return "dropped" if rate.is_dropped else "too_old"


async def put(request: PageRequest) -> Response:
    """Set a rate from now on."""
    form = await request.form()
    base, quote = (form.get(name, "").strip().upper() for name in ("base", "quote"))
    try:
        rate = Decimal(form.get("rate", "").strip())
    except InvalidOperation:
        return await _rates(
            request,
            form,
            {"rate": N_("Enter a positive decimal number of at most 18 digits, such as 1.08")},
        )
    actor = people.actor_of(request.login, "on the page of exchange rates")

    async def work(tx: Tx) -> str:
        made = await rates.put(tx, base, quote, rate, request.now)
        subject = f"{base} {quote} {money.rate_text(made.rate)} from {made.valid_from}"
        await merchants.record_audit(tx, actor, "rates set", "", subject, request.now)
        return new_id("mov")  # of what was done, though nobody asks for it again

    try:
        await form_ids.run_once(request, work)
    except Invalid as problem:
        same = problem.field == "quote" and base == quote
        error = (
            N_("Enter a positive decimal number of at most 18 digits, such as 1.08")
            if problem.field == "rate"
            else N_("Enter an ISO 4217 code such as USD")
        )
        return await _rates(
            request,
            form,
            {
                problem.field or "rate": N_("Enter another currency than the first one")
                if same
                else error
            },
        )
    except KeyReused:
        return await _rates(
            request,
            form,
            {"rate": N_("This form has set a rate already. Look at the list, then send it again")},
        )
    return render.see_other(request, f"{PLACE}?currency={base}&done=1")


async def bring_in(request: PageRequest) -> Response:
    """Import the newest days of a file of the ECB's reference rates; twice is as once."""
    try:
        files = await request.files()
    except PayloadTooLarge:
        return await _rates(request, errors={"file": N_("Choose a file of at most 8 MB")})
    file = files.get("file")
    if file is None or not file.content:
        return await _rates(request, errors={"file": N_("Choose the file")})
    actor = people.actor_of(request.login, f"import of {file.name[:100]}")

    async def work(tx: Tx) -> None:
        made = await rates.import_sheet(tx, sheet, request.now, request.now - _NEWEST_MS)
        subject = f"{made.rates} rates of {len(made.currencies)} currencies, {made.days} days"
        await merchants.record_audit(tx, actor, "rates import", "", subject, request.now)

    try:
        sheet = await asyncio.to_thread(rates.read_file, file.content)
        await request.app.db.run(work)
    except Invalid:
        return await _rates(
            request,
            errors={
                "file": N_(
                    "Choose a file of reference rates of the European Central "
                    "Bank, with days of the last three months and none to come"
                )
            },
        )
    return render.see_other(request, f"{PLACE}?done=1")


PLACE: Final = f"{CONSOLE_PATH}/rates"
pages: Final = (
    Page("GET", PLACE, "rates.read", show, menu=N_("Exchange rates")),
    Page("POST", f"{PLACE}/set", "rates.manage", put),
    Page("POST", f"{PLACE}/import", "rates.manage", bring_in, files=_MOST_BYTES),
)
