"""The inbox of differences, each resolved once; and the comparison of settlement reports."""

import io
from collections.abc import Sequence
from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import merchants, people, reconciliation
from opentill.adjustments import KINDS, AdjustmentRequest, Kind
from opentill.console.difference_subject import Subject, find_subject
from opentill.console.difference_texts import (
    KIND_NAMES,
    advice_for,
    amount_text,
    difference_of,
    title_of,
    what_differs,
)
from opentill.console.labels import DIFFERENCE_ERROR, GIVE_A_REASON
from opentill.console.report_fetching import FetchRefused, fetch, reporting_accounts
from opentill.console.report_uploads import ReportRefused, read_report
from opentill.console.zone import ZONE
from opentill.core import amounts
from opentill.core.amounts import UnreadableAmount
from opentill.core.errors import Invalid, NotFound
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import Gateways
from opentill.gateways.model import Bills
from opentill.portal import lists, render
from opentill.portal.labels import AMOUNT_ERROR
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.reconciliation import Report, ReportOfAnotherAccount, ReportWithoutPeriod, Result
from opentill.web.templates import isolated
from opentill.web.translations import N_, NC_

_MOST_ROWS: Final = 200  # a list shows at most this many differences or bookings
_MOST_BYTES: Final = 2 * 1024 * 1024
_REPORT_EXAMPLE: Final = (
    "kind,reference,amount,currency,settled_at\n"
    "payment,att_01m8epskanffzbqntfper522n6,12.50,USD,2026-11-26T10:00:00Z\n"
    "refund,re_01m8epskcxe6ksj8fqzn6pz0k1,4.00,USD,2026-11-26T11:30:00Z\n"
)
_REPORT_FORMATS: Final = (
    (
        NC_("gateway", "Stripe"),
        N_("Balance transactions, or an itemized report, as CSV; or fetch the report of a day"),
    ),
    (
        N_("Alipay"),
        N_(
            "The bill of trades (业务明细), as CSV or as the archive that has it; or fetch the bill"
            " of a day"
        ),
    ),
    (N_("WeChat Pay"), N_("The trade bill (交易账单), as CSV; or fetch the bill of a day")),
    (
        NC_("gateway", "PayPal"),
        N_("Fetch the report of a day; no file has to be uploaded"),
    ),
    (N_("All others"), N_("CSV with the columns of the example")),
)
_ALWAYS_IN_FORM: Final = ("reason", "adjust", "amount", "order")
# Only a difference without a merchant asks for one, and only some have a proposed correction.
_FIELDS: Final = (*_ALWAYS_IN_FORM, "merchant", "correction")


async def list_differences(request: PageRequest) -> Response:
    """List open or resolved differences."""
    return await _list_page(request)


async def _list_page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    gateway: str = "",
    day: str = "",
) -> Response:
    state = lists.choice(request, "which", ("open", "resolved")) or "open"
    source = lists.text(request, "source", 32)
    async with request.app.db.connection() as tx:
        differences = await reconciliation.list_differences(
            tx, source or None, _MOST_ROWS, resolved=state == "resolved"
        )
        open_count = await reconciliation.count_open(tx)
        files = await reconciliation.list_files(tx, 20)
        bookings = await reconciliation.list_bookings(tx, _MOST_ROWS)
    return render.page(
        request,
        "inbox.html",
        status,
        state=state,
        source=source,
        sources=[
            (name, request.account_name(name))
            for name in (*request.app.gateways, reconciliation.BANK)
        ],
        gateways=_choices(request, tuple(request.app.gateways)),
        chosen_gateway=gateway,
        reporting_accounts=_choices(request, reporting_accounts(request)),
        has_bills=any(isinstance(gateway, Bills) for gateway in request.app.gateways.values()),
        day=day,
        differences=[
            (difference, title_of(request.localizer, difference)) for difference in differences
        ],
        open_count=open_count,
        most=_MOST_ROWS,
        files=files,
        report_example=_REPORT_EXAMPLE,
        report_formats=_REPORT_FORMATS,
        bookings=bookings,
        amount_text=partial(amount_text, request.localizer),
        errors=errors or {},
        zone=ZONE,
    )


def _choices(request: PageRequest, accounts: Sequence[str]) -> list[tuple[str, str]]:
    """Return accounts with their names. Retired ones, whose reports may still come, are last."""
    gateways, gettext = request.app.gateways, request.localizer.gettext
    stored = gateways.accounts if isinstance(gateways, Gateways) else {}
    retired = [name for name in accounts if name in stored and stored[name].status == "RETIRED"]
    return [
        *((name, request.account_name(name)) for name in accounts if name not in retired),
        *(
            (name, gettext(N_("{account} (retired)"), account=isolated(request.account_name(name))))
            for name in retired
        ),
    ]


async def compare_report(request: PageRequest) -> Response:
    """Compare a gateway's settlement report with the ledger."""
    gateway = (await request.form()).get("gateway", "")
    try:
        file = await read_report(request, "file")
    except ReportRefused as refusal:
        return await _list_page(request, refusal.status, {"file": refusal.error}, gateway)
    if gateway not in request.app.gateways:
        return await _list_page(request, 400, {"gateway": N_("Choose a gateway.")})
    actor = people.actor_of(request.login, "uploaded in the console")
    report = Report(
        gateway=gateway,
        file=io.BytesIO(file.content),
        name=file.name,
        account=reconciliation.account_number(request.app.gateways[gateway]),
    )
    try:
        result = await reconciliation.reconcile_file(request.app.db, report, actor, request.now)
    except ReportWithoutPeriod:
        error = N_("This report has no rows and does not state its days, so nothing was compared.")
        return await _list_page(request, 400, {"file": error}, gateway)
    except ReportOfAnotherAccount as other:
        error = request.localizer.gettext(
            N_(
                "This report is of the account {stated} at the provider, but {name} is the account"
                " {configured}. Nothing was recorded."
            ),
            stated=other.stated,
            name=request.account_name(gateway),
            configured=other.configured,
        )
        return await _list_page(request, 400, {"file": error}, gateway)
    except Invalid:
        error = N_("This is not a report with the required columns. Nothing was recorded.")
        return await _list_page(request, 400, {"file": error}, gateway)
    return _show_result(request, result)


async def compare_fetched_report(request: PageRequest) -> Response:
    """Fetch a provider's report of a day and compare it with the ledger."""
    form = await request.form()
    account, day = form["account"], form["day"].strip()
    try:
        result = await fetch(request, account, day)
    except FetchRefused as refusal:
        return await _list_page(request, 400, {refusal.field: refusal.error}, account, day)
    return _show_result(request, result)


def _show_result(request: PageRequest, result: Result) -> Response:
    return render.see_other(
        request,
        f"{PLACE}?rows={result.rows}&matched={result.matched}&found={result.difference_count}",
    )


async def show_difference(request: PageRequest) -> Response:
    """Show a difference, with a form that resolves it. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    values: dict[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        difference = await reconciliation.find_difference(tx, request.ids["difference"])
        merchant_ids = [difference.merchant_id] if difference.merchant_id else []
        names = await merchants.names(tx, merchant_ids)
        subject = await find_subject(tx, request, difference)
    return render.page(
        request,
        "difference.html",
        status,
        difference=difference,
        names=names,
        title=title_of(request.localizer, difference),
        what_differs=what_differs(request.localizer, difference),
        advice=advice_for(difference),
        differs_by=difference_of(request.localizer, difference),
        subject=subject,
        correction=_correction_text(request, subject),
        kinds=KINDS,
        kind_names=KIND_NAMES,
        amount_text=partial(amount_text, request.localizer),
        values={name: (values or {}).get(name, "") for name in _FIELDS},
        errors=errors or {},
        zone=ZONE,
    )


def _correction_text(request: PageRequest, subject: Subject) -> str:
    """Return the proposed correction with its sign, "" if there is none."""
    if subject.correction_minor is None:
        return ""
    amount = request.localizer.amount(Money(subject.correction_minor, subject.currency))
    return amount if subject.correction_minor < 0 else f"+{amount}"


async def resolve_difference(request: PageRequest) -> Response:
    """Resolve a difference, with or without an adjustment."""
    form = await request.form()
    values = {name: form.get(name, "").strip() for name in _FIELDS}
    difference_id = request.ids["difference"]
    if not values["reason"]:
        return await _page(request, 400, {"reason": GIVE_A_REASON}, values)
    actor = people.actor_of(request.login, values["reason"])
    above = request.app.settings.approval_above

    async def work(tx: Tx) -> None:
        difference = await reconciliation.find_difference(tx, difference_id)
        merchant_id = difference.merchant_id or values["merchant"]
        if values["correction"]:
            _check_single(values)
            subject = await find_subject(tx, request, difference)
            adjustment: AdjustmentRequest | None = subject.correction(actor, difference_id)
        else:
            adjustment = await _read_adjustment(tx, values, merchant_id, difference_id, actor)
        await reconciliation.resolve(
            tx, difference_id, actor, request.now, adjustment, merchant_id, above
        )

    try:
        await request.transact(work)
    except Invalid as problem:
        field = str(problem.field)
        if field == "amount" and values["correction"]:
            field = "correction"
        error = DIFFERENCE_ERROR[field]
        if isinstance(problem, UnreadableAmount):
            error = AMOUNT_ERROR.get(problem.problem, error)
        return await _page(request, 400, {field: error}, values)
    return render.see_other(request, f"{PLACE}?done=1")


def _check_single(values: dict[str, str]) -> None:
    """Raise Invalid if the form has an adjustment beside the proposed correction."""
    if values["adjust"] or values["amount"] or values["order"]:
        raise Invalid("adjust", "adjust must not be given with the proposed correction")


async def _read_adjustment(
    tx: Tx, values: dict[str, str], merchant_id: str, reference: str, actor: merchants.Actor
) -> AdjustmentRequest | None:
    """Read the adjustment from the form, None if it has none. Raises Invalid."""
    kind: Kind | None = next((name for name in KINDS if name == values["adjust"]), None)
    if kind is None:
        if values["adjust"] or values["amount"] or values["order"]:
            raise Invalid("adjust", "adjust must be given together with amount")
        return None
    try:
        currency = (await merchants.find(tx, merchant_id)).settlement_currency
    except NotFound:
        raise Invalid("merchant", "merchant must be the id of one") from None
    minor = amounts.parse_minor("amount", values["amount"], currency, signed=True)
    return AdjustmentRequest(
        kind=kind,
        amount_minor=minor,
        reason=actor.reason,
        by=actor.who,
        reference=reference,
        order_id=values["order"] or None,
    )


PLACE: Final = f"{CONSOLE_PATH}/reconciliation"
pages: Final = (
    Page("GET", PLACE, "balance.read", list_differences, menu=N_("Reconciliation"), group="money"),
    Page(
        "POST",
        f"{PLACE}/compare",
        "balance.adjust",
        compare_report,
        files=_MOST_BYTES,
        fields=("gateway",),
        proves=N_("Compare a report of a provider with the books"),
    ),
    Page(
        "POST",
        f"{PLACE}/fetch",
        "balance.adjust",
        compare_fetched_report,
        fields=("account", "day"),
        proves=N_("Fetch the report of a provider"),
    ),
    Page("GET", f"{PLACE}/{{difference:id}}", "balance.read", show_difference),
    Page(
        "POST",
        f"{PLACE}/{{difference:id}}/resolve",
        "balance.adjust",
        resolve_difference,
        fields=_ALWAYS_IN_FORM,
        proves=N_("Resolve a difference"),
        rehearsed=True,
    ),
)
