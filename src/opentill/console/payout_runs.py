"""Runs of payouts: who is due, beginning a run, its file for the bank, and the bank's report."""

import io
import itertools
from collections.abc import AsyncGenerator
from typing import IO, Final

from starlette.responses import Response

from opentill import approvals, payouts, people, reconciliation
from opentill.console.approvals import approver
from opentill.console.payout_labels import RUN_ERROR, RUN_FILE_ERROR, RUN_PAYMENT_ERROR
from opentill.console.zone import ZONE
from opentill.core import bankaccounts
from opentill.core.errors import Invalid, PayloadTooLarge
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.http.responses import Download
from opentill.payouts import RunRequest
from opentill.portal import downloads, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_MOST_DUE: Final = 500
_PAYOUTS: Final = 100
_AT_ONCE: Final = 300  # payouts that one request makes; the rest goes on with the next
_REPORT: Final = 2 * 1024 * 1024
_LINES: Final = 1_000  # of a report that one request applies
_CHUNK: Final = 64 * 1024
_FIELDS: Final = ("currency", "reference", "on", "reason")


def _own(request: PageRequest) -> dict[str, bankaccounts.BankAccount]:
    settings = request.app.settings
    return bankaccounts.parse_own_accounts(
        settings.payout_accounts, settings.operator_name, settings.payout_address
    )


async def show(request: PageRequest) -> Response:
    """Show who is due a payout, and the runs."""
    return await _all(request)


async def _all(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    localizer = request.localizer
    async with request.app.db.connection() as tx:
        due = await payouts.due(tx, _MOST_DUE)
        runs = await payouts.newest_runs(tx, 50)
        waiting = await approvals.waiting_of_reports(tx)
    sums = [
        (
            currency,
            localizer.amount(Money(sum(one.available for one in ready), currency)),
            len(ready),
        )
        for currency, found in itertools.groupby(due, lambda one: one.currency)
        for ready in [[one for one in found if one.waits_for(request.now) is None]]
        if ready
    ]
    return render.page(
        request,
        "payout_runs.html",
        status,
        due=[
            (one, localizer.amount(Money(one.available, one.currency)), one.waits_for(request.now))
            for one in due
        ],
        sums=sums,
        most=_MOST_DUE,
        waiting=[(one, localizer.amount(Money(one.amount_minor, one.currency))) for one in waiting],
        runs=runs,
        own=sorted(_own(request)),
        values={name: (typed or {}).get(name, "") for name in _FIELDS},
        errors=errors or {},
        zone=ZONE,
    )


async def begin(request: PageRequest) -> Response:
    """Begin a run, or go on with the one of this reference."""
    form = await request.form()
    typed = {name: form.get(name, "").strip() for name in _FIELDS}
    actor = people.actor_of(request.login, typed["reason"])
    try:
        wanted = RunRequest(
            currency=typed["currency"],
            reference=typed["reference"],
            actor=actor,
            source=payouts.check_from(_own(request), typed["currency"]),
            pay_on=typed["on"] or None,
        )
        run = await request.app.db.run(lambda tx: payouts.start_run(tx, wanted, request.now))
    except Invalid as problem:
        return await _all(request, 400, {str(problem.field): RUN_ERROR[str(problem.field)]}, typed)
    return await _perform(request, run)


async def go_on(request: PageRequest) -> Response:
    """Go on with a run that is OPEN."""
    async with request.app.db.connection() as tx:
        view = await payouts.view_run(tx, request.ids["run"])
    return await _perform(request, view.run)


async def _perform(request: PageRequest, run: payouts.Run) -> Response:
    key = request.app.settings.secret_key
    done = await payouts.perform_run(request.app.db, run, key, request.now, _AT_ONCE)
    unreadable = f"?unreadable={len(done.unreadable)}" if done.unreadable else ""
    return render.see_other(request, f"{PLACE}/{run.id}{unreadable}")


async def show_one(request: PageRequest) -> Response:
    """Show a run with its payouts. Raises NotFound."""
    return await _one(request)


async def _one(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    localizer, after = request.localizer, request.query.get("after", "")
    async with request.app.db.connection() as tx:
        view = await payouts.view_run(tx, request.ids["run"])
        found = await payouts.payouts_of(tx, view.run.id, after if is_id(after) else "", _PAYOUTS)
    return render.page(
        request,
        "payout_run.html",
        status,
        run=view.run,
        sums=view.sums,
        amount=localizer.amount(Money(view.sums.amount_minor, view.run.currency)),
        file_amount=localizer.amount(Money(view.sums.file_minor, view.run.currency)),
        payouts=[(one, localizer.amount(Money(one.amount_minor, one.currency))) for one in found],
        next=found[-1].merchant_id if len(found) == _PAYOUTS else "",
        forms=payouts.FORMS,
        errors=errors or {},
        values={name: (typed or {}).get(name, "") for name in ("reference", "reason")},
        zone=ZONE,
    )


async def take(request: PageRequest) -> Response:
    """Take the bank's file of a run, which marks it as sent. Raises NotFound."""
    form = await request.form()
    app, run_id = request.app, request.ids["run"]
    chosen: payouts.Form = "csv" if form.get("form") == "csv" else "xml"
    actor = people.actor_of(request.login, "taken in the console, for the bank")
    try:
        wanted = payouts.FileRequest(chosen, actor, app.settings.approval_above)
        await app.db.read(
            lambda tx: approvals.check_run_taker(tx, run_id, wanted, approver(request), request.now)
        )
        run = await payouts.send_run(app.db, run_id, wanted, app.settings.secret_key, request.now)
    except Invalid as problem:
        return await _one(request, 400, {"form": RUN_FILE_ERROR[str(problem.field)]})
    file = await payouts.make_file(app.db, run_id, app.settings.secret_key)
    return await downloads.file(
        Download(
            chunks=_chunks(file),
            filename=payouts.file_name(run),
            content_type=payouts.MEDIA_TYPES[chosen],
        )
    )


async def _chunks(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    with file:
        while piece := file.read(_CHUNK):
            yield piece


async def pay(request: PageRequest) -> Response:
    """Record that the bank has sent the whole file of a run. Raises NotFound."""
    form = await request.form()
    reference, reason = form.get("reference", "").strip(), form.get("reason", "").strip()
    actor = people.actor_of(request.login, reason)
    run_id, now = request.ids["run"], request.now
    try:
        paid = await payouts.pay_run(request.app.db, run_id, reference, actor, now)
    except Invalid as problem:
        field = "reference" if problem.field == "bank-reference" else str(problem.field)
        errors = {field: RUN_PAYMENT_ERROR[field]}
        return await _one(request, 400, errors, {"reference": reference, "reason": reason})
    return render.see_other(request, f"{PLACE}/{run_id}?paid={paid}")


async def report(request: PageRequest) -> Response:
    """Read the bank's report."""
    try:
        files = await request.files()
    except PayloadTooLarge:
        return await _all(
            request, 413, {"report": N_("Choose a file of at most 2 MB, or use the command line.")}
        )
    given = files.get("report")
    if given is None or not given.content:
        return await _all(request, 400, {"report": N_("Choose a file.")})
    actor = people.actor_of(request.login, "uploaded in the console")
    try:
        done = await reconciliation.apply_bank_report(
            request.app.db, io.BytesIO(given.content), given.name, actor, request.now, _LINES,
            rules=approvals.Rules.from_settings(request.app.settings),
        )  # fmt: skip
    except Invalid:
        return await _all(
            request,
            400,
            {
                "report": N_(
                    "The file is no camt report and no CSV with the columns that "
                    "are needed. Nothing was changed."
                )
            },
        )
    counts = f"sent={done.sent}&returned={done.returned}&known={done.known}&found={done.found}"
    counts = f"{counts}&waiting={len(done.waiting)}"
    return render.see_other(request, f"{PLACE}?read={'new' if done.is_new else 'before'}&{counts}")


PLACE: Final = f"{CONSOLE_PATH}/payouts"
pages: Final = (
    Page("GET", PLACE, "payouts.read", show, menu=N_("Payout runs")),
    Page("POST", f"{PLACE}/run", "payouts.manage", begin),
    Page("POST", f"{PLACE}/report", "payouts.manage", report, files=_REPORT),
    Page("GET", f"{PLACE}/{{run:id}}", "payouts.read", show_one),
    Page("POST", f"{PLACE}/{{run:id}}/continue", "payouts.manage", go_on),
    Page("POST", f"{PLACE}/{{run:id}}/file", "payouts.manage", take),
    Page("POST", f"{PLACE}/{{run:id}}/paid", "payouts.manage", pay),
)
