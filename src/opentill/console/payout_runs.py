"""Payout runs: the merchants who are due, starting a run, its bank file, and bank reports."""

import io
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime
from typing import IO, Final
from urllib.parse import urlencode

from starlette.responses import Response

from opentill import approvals, payouts, people, reconciliation
from opentill.console.difference_texts import title_of
from opentill.console.payout_labels import RUN_ERROR, RUN_FILE_ERROR, RUN_PAYMENT_ERROR
from opentill.console.report_uploads import ReportRefused, read_report
from opentill.console.second_person import approver
from opentill.console.zone import ZONE
from opentill.core import bankaccounts
from opentill.core.errors import Invalid
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.http.responses import Download
from opentill.payouts import RunOfPayout, RunRequest
from opentill.portal import downloads, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.reconciliation import OpenDifference
from opentill.web.translations import N_

_MOST_DUE: Final = 500  # the list shows at most this many merchants to whom payouts are due
_MOST_FOUND: Final = 5  # differences of a bank report that its result names
_PAGE_SIZE: Final = 100  # a page of a run shows this many payouts
# One request creates at most this many payouts; the next request continues the run.
_MOST_PAYOUTS: Final = 300
_MOST_BYTES: Final = 2 * 1024 * 1024  # largest bank report, in bytes
_MOST_LINES: Final = 1_000  # longest bank report, in lines
_CHUNK: Final = 64 * 1024
# An example of a bank report as CSV; its columns are those that a report must have.
_REPORT_EXAMPLE: Final = (
    f"{','.join(reconciliation.BANK_COLUMNS)}\n"
    "po_01m7y0m0jzefzv5n8efcf1hqw5,paid,125.00,EUR,B20782,\n"
    "po_01m7y0m0jzefzv5n8efcf1hqw6,failed,80.00,EUR,B20783,AC04 account closed\n"
)
# In the query of a run's page: the browser downloads the bank file as soon as it shows the page.
_BEGINS_DOWNLOAD: Final = "download"
_FIELDS: Final = ("currency", "reference", "on", "reason", "file")


def _operator_accounts_by_currency(request: PageRequest) -> dict[str, bankaccounts.BankAccount]:
    settings = request.app.settings
    return bankaccounts.parse_operator_accounts(
        settings.payout_accounts, settings.operator_name, settings.payout_address
    )


def _minimum_of(row: payouts.DuePayout) -> Money:
    """Return the smallest payout of the row's merchant."""
    return Money(row.minimum, row.currency)


async def list_runs(request: PageRequest) -> Response:
    """List the merchants who are due a payout, and the newest runs."""
    return await _list_page(request)


async def _list_page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    values: dict[str, str] | None = None,
) -> Response:
    localizer = request.localizer
    async with request.app.db.connection() as tx:
        due = await payouts.list_due(tx, _MOST_DUE)
        runs = await payouts.list_runs(tx, 50)
        waiting = await approvals.waiting_of_reports(tx)
        reported = await _find_reported(tx, request)
    accounts = _operator_accounts_by_currency(request)
    payable: dict[str, list[int]] = {}
    for row in due:
        if row.waits_for(request.now) is None:
            payable.setdefault(row.currency, []).append(row.available)
    return render.page(
        request,
        "payout_runs.html",
        status,
        due=[
            (row, localizer.amount(Money(row.available, row.currency)), row.waits_for(request.now))
            for row in due
        ],
        sums=[
            (localizer.amount(Money(sum(minors), currency)), len(minors))
            for currency, minors in payable.items()
        ],
        minimum=_minimum_of,
        reported=reported,
        most=_MOST_DUE,
        waiting=[(row, localizer.amount(Money(row.amount_minor, row.currency))) for row in waiting],
        runs=[
            (view, localizer.amount(Money(view.sums.amount_minor, view.run.currency)))
            for view in runs
        ],
        # Currencies with due payouts come first, so that the form preselects one of them.
        currencies=[
            (currency, localizer.amount(Money(sum(payable.get(currency, ())), currency)))
            for currency in sorted(accounts, key=lambda name: (name not in payable, name))
        ],
        values={
            name: (values or {"reference": _propose_reference(request, runs)}).get(name, "")
            for name in _FIELDS
        },
        forms=payouts.FORMS,
        errors=errors or {},
        report_example=_REPORT_EXAMPLE,
        zone=ZONE,
    )


def _propose_reference(request: PageRequest, runs: Sequence[payouts.RunView]) -> str:
    """Return the present week, such as ``2026-W48``, with a number if it has a run already."""
    week = datetime.fromtimestamp(request.now / 1000, ZONE).strftime("%G-W%V")
    taken = {view.run.reference for view in runs}
    names = (week, *(f"{week}-{number}" for number in range(2, len(runs) + 2)))
    return next(name for name in names if name not in taken)


async def _find_reported(
    tx: Tx, request: PageRequest
) -> list[tuple[OpenDifference, str, RunOfPayout | None]]:
    """Return the bank's newest differences with titles and runs, after a report that had any."""
    number = request.query.get("found", "")
    if not number.isascii() or not number.strip("0").isdigit():
        return []
    listed = await reconciliation.list_differences(tx, reconciliation.BANK, _MOST_DUE)
    newest = sorted(listed, key=lambda one: -one.created_at)[: min(int(number), _MOST_FOUND)]
    ids = [reconciliation.payout_id_of(one.reference) for one in newest]
    paid_out = await payouts.find_many(tx, [payout_id for payout_id in ids if payout_id])
    runs = await payouts.find_runs_of_payouts(tx, paid_out)
    by_payout = {run.payout_id: run for run in runs.values()}
    return [
        (one, title_of(request.localizer, one), by_payout.get(payout_id or ""))
        for one, payout_id in zip(newest, ids, strict=True)
    ]


async def start_run(request: PageRequest) -> Response:
    """Start a run, or continue the run that has the same reference.

    If the form asks for the bank file too, and the person may take it, its download begins.
    """
    form = await request.form()
    values = {name: form.get(name, "").strip() for name in _FIELDS}
    actor = people.actor_of(request.login, values["reason"])
    try:
        run_request = RunRequest(
            currency=values["currency"],
            reference=values["reference"],
            actor=actor,
            source=payouts.require_source_account(
                _operator_accounts_by_currency(request), values["currency"]
            ),
            pay_on=values["on"] or None,
        )
        run = await request.transact(lambda tx: payouts.start_run(tx, run_request, request.now))
    except Invalid as problem:
        field = str(problem.field)
        shown_at = "currency" if field == "due" else field
        return await _list_page(request, 400, {shown_at: RUN_ERROR[field]}, values)
    response = await _create_payouts(request, run)
    file_format: payouts.Form | None = next(
        (each for each in payouts.FORMS if each == values["file"]), None
    )
    if file_format is None:
        return response
    try:
        return await _send(request, run.id, file_format)
    except Invalid:  # its payouts are not complete, or somebody else takes the file: the page says
        return response


async def continue_run(request: PageRequest) -> Response:
    """Create more payouts of a run that is OPEN."""
    async with request.app.db.connection() as tx:
        view = await payouts.view_run(tx, request.ids["run"])
    return await _create_payouts(request, view.run)


async def _create_payouts(request: PageRequest, run: payouts.Run) -> Response:
    key = request.app.settings.secret_key
    result = await payouts.perform_run(request.app.db, run, key, request.now, _MOST_PAYOUTS)
    unreadable = f"?unreadable={len(result.unreadable)}" if result.unreadable else ""
    return render.see_other(request, f"{PLACE}/{run.id}{unreadable}")


async def show_run(request: PageRequest) -> Response:
    """Show a run with its payouts. Raises NotFound.

    After the form that takes the file, the browser downloads it while this page stays: it shows
    what comes next.
    """
    response = await _run_page(request)
    if request.query.get(_BEGINS_DOWNLOAD) and request.may("payouts.manage"):
        path = f"{request.base}{PLACE}/{request.ids['run']}/file"
        response.headers["Refresh"] = f"0; url={path}"
    return response


async def _run_page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    values: dict[str, str] | None = None,
) -> Response:
    localizer, after = request.localizer, request.query.get("after", "")
    async with request.app.db.connection() as tx:
        view = await payouts.view_run(tx, request.ids["run"])
        rows = await payouts.list_payouts_of_run(
            tx, view.run.id, after if is_id(after) else "", _PAGE_SIZE
        )
        file_error = await _file_error(tx, request, view.run.id)
    return render.page(
        request,
        "payout_run.html",
        status,
        run=view.run,
        progress=view.progress,
        file_error=file_error,
        sums=view.sums,
        amount=localizer.amount(Money(view.sums.amount_minor, view.run.currency)),
        file_amount=localizer.amount(Money(view.sums.file_minor, view.run.currency)),
        payouts=[(row, localizer.amount(Money(row.amount_minor, row.currency))) for row in rows],
        next=rows[-1].merchant_id if len(rows) == _PAGE_SIZE else "",
        forms=payouts.FORMS,
        errors=errors or {},
        values={name: (values or {}).get(name, "") for name in ("reference", "reason")},
        zone=ZONE,
    )


async def _file_error(tx: Tx, request: PageRequest, run_id: str) -> str:
    """Return the reason why this person may not take the file of a run, "" if they may."""
    actor = people.actor_of(request.login, "")
    file_request = payouts.FileRequest("xml", actor, request.app.settings.approval_above)
    try:
        await approvals.check_run_taker(tx, run_id, file_request, approver(request), request.now)
    except Invalid as problem:
        return RUN_FILE_ERROR[str(problem.field)]
    return ""


async def send_run(request: PageRequest) -> Response:
    """Mark a run as sent, and show its page, which begins the download. Raises NotFound."""
    form = await request.form()
    file_format: payouts.Form = "csv" if form.get("form") == "csv" else "xml"
    try:
        return await _send(request, request.ids["run"], file_format)
    except Invalid as problem:
        return await _run_page(request, 400, {"form": RUN_FILE_ERROR[str(problem.field)]})


async def _send(request: PageRequest, run_id: str, file_format: payouts.Form) -> Response:
    """Mark a run as sent, and show its page. Raises Invalid if this person may not."""
    app = request.app
    actor = people.actor_of(request.login, "taken in the console, for the bank")
    file_request = payouts.FileRequest(file_format, actor, app.settings.approval_above)
    await app.db.read(
        lambda tx: approvals.check_run_taker(
            tx, run_id, file_request, approver(request), request.now
        )
    )
    await payouts.send_run(app.db, run_id, file_request, app.settings.secret_key, request.now)
    return render.see_other(request, f"{PLACE}/{run_id}?{_BEGINS_DOWNLOAD}=1")


async def download_bank_file(request: PageRequest) -> Response:
    """Stream the bank file of a run that is SENT. Raises NotFound.

    Whoever has not proved their identity lately, or may not take the file, gets the run's page,
    whose button asks for the proof.
    """
    app, run_id = request.app, request.ids["run"]
    async with app.db.connection() as tx:
        run = await payouts.find_run(tx, run_id)
        file_error = await _file_error(tx, request, run_id)
    if run.form is None or file_error or not request.login.is_proved(request.now):
        return render.see_other(request, f"{PLACE}/{run_id}")
    file = await payouts.make_file(app.db, run_id, app.settings.secret_key)
    return await downloads.file(
        Download(
            chunks=_read_chunks(file),
            filename=payouts.file_name(run),
            content_type=payouts.MEDIA_TYPES[run.form],
        )
    )


async def _read_chunks(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


async def mark_run_paid(request: PageRequest) -> Response:
    """Record that the bank has booked the whole file of a run. Raises NotFound."""
    form = await request.form()
    reference, reason = form.get("reference", "").strip(), form.get("reason", "").strip()
    actor = people.actor_of(request.login, reason)
    run_id, now = request.ids["run"], request.now
    try:
        paid_count = await payouts.pay_run(request.app.db, run_id, reference, actor, now)
    except Invalid as problem:
        field = "reference" if problem.field == "bank-reference" else str(problem.field)
        errors = {field: RUN_PAYMENT_ERROR[field]}
        return await _run_page(request, 400, errors, {"reference": reference, "reason": reason})
    return render.see_other(request, f"{PLACE}/{run_id}?paid={paid_count}")


async def apply_bank_report(request: PageRequest) -> Response:
    """Apply an uploaded bank report to the payouts that it names."""
    try:
        file = await read_report(request, "report")
    except ReportRefused as refusal:
        return await _list_page(request, refusal.status, {"report": refusal.error})
    actor = people.actor_of(request.login, "uploaded in the console")
    try:
        result = await reconciliation.apply_bank_report(
            request.app.db, io.BytesIO(file.content), file.name, actor, request.now, _MOST_LINES,
            rules=approvals.Rules.from_settings(request.app.settings),
        )  # fmt: skip
    except Invalid:
        error = N_(
            "This is not a camt report or a CSV file with the required columns. Nothing "
            "was changed."
        )
        return await _list_page(request, 400, {"report": error})
    counts = {
        "read": "new" if result.is_new else "before",
        "sent": result.sent,
        "returned": result.returned,
        "known": result.repeated,
        "found": result.in_inbox,
        "waiting": len(result.waiting),
    }
    return render.see_other(request, f"{PLACE}?{urlencode(counts)}")


PLACE: Final = f"{CONSOLE_PATH}/payout-runs"
pages: Final = (
    Page("GET", PLACE, "payouts.read", list_runs, menu=N_("Payout runs"), group="money"),
    Page(
        "POST",
        f"{PLACE}/run",
        "payouts.manage",
        start_run,
        fields=_FIELDS,
        proves=N_("Start a payout run"),
        rehearsed=True,
    ),
    Page(
        "POST",
        f"{PLACE}/report",
        "payouts.manage",
        apply_bank_report,
        files=_MOST_BYTES,
        proves=N_("Upload a bank report"),
    ),
    Page("GET", f"{PLACE}/{{run:id}}", "payouts.read", show_run),
    Page(
        "POST",
        f"{PLACE}/{{run:id}}/continue",
        "payouts.manage",
        continue_run,
        proves=N_("Continue a payout run"),
    ),
    Page(
        "POST",
        f"{PLACE}/{{run:id}}/file",
        "payouts.manage",
        send_run,
        fields=("form",),
        proves=N_("Download the bank file of a payout run"),
    ),
    Page("GET", f"{PLACE}/{{run:id}}/file", "payouts.manage", download_bank_file),
    Page(
        "POST",
        f"{PLACE}/{{run:id}}/paid",
        "payouts.manage",
        mark_run_paid,
        fields=("reference", "reason"),
        proves=N_("Mark a payout run as paid"),
    ),
)
