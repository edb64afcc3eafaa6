"""The inbox of differences, each resolved once; and settlement reports that are compared."""

import io
from typing import Final

from starlette.responses import Response

from opentill import merchants, people, reconciliation
from opentill.adjustments import KINDS, AdjustmentRequest, Kind
from opentill.console.labels import DIFFERENCE_ERROR
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, NotFound, PayloadTooLarge
from opentill.db.database import Tx
from opentill.portal import lists, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.reconciliation import Report
from opentill.web.translations import N_

_MOST: Final = 200
_FILE: Final = 2 * 1024 * 1024
_FIELDS: Final = ("reason", "adjust", "amount", "merchant", "order")


async def show(request: PageRequest) -> Response:
    """List the differences that wait, or those that are resolved."""
    return await _all(request)


async def _all(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None
) -> Response:
    which = lists.choice(request, "which", ("open", "resolved")) or "open"
    source = lists.text(request, "source", 32)
    async with request.app.db.connection() as tx:
        found = await reconciliation.opened(tx, source or None, _MOST, resolved=which == "resolved")
        number = await reconciliation.count_open(tx)
        files = await reconciliation.files(tx, 20)
        bookings = await reconciliation.bookings(tx, _MOST)
    return render.page(
        request,
        "inbox.html",
        status,
        which=which,
        source=source,
        sources=[(one, one) for one in (*request.app.settings.gateways, reconciliation.BANK)],
        gateways=request.app.settings.gateways,
        found=found,
        number=number,
        most=_MOST,
        files=files,
        bookings=bookings,
        errors=errors or {},
        zone=ZONE,
    )


async def compare(request: PageRequest) -> Response:
    """Compare a gateway's settlement report with the ledger."""
    try:
        form, files = await request.form(), await request.files()
    except PayloadTooLarge:
        return await _all(
            request, 413, {"file": N_("Choose a file of at most 2 MB, or use the command line.")}
        )
    gateway, given = form.get("gateway", ""), files.get("file")
    if gateway not in request.app.settings.gateways:
        return await _all(request, 400, {"gateway": N_("Choose a gateway.")})
    if given is None or not given.content:
        return await _all(request, 400, {"file": N_("Choose a file.")})
    actor = people.actor_of(request.login, "uploaded in the console")
    report = Report(gateway=gateway, file=io.BytesIO(given.content), name=given.name)
    try:
        done = await reconciliation.reconcile_file(request.app.db, report, actor, request.now)
    except Invalid:
        return await _all(
            request,
            400,
            {
                "file": N_(
                    "The file is no report with the columns that are needed. Nothing was recorded."
                )
            },
        )
    return render.see_other(
        request, f"{PLACE}?rows={done.rows}&matched={done.matched}&found={done.found}"
    )


async def show_one(request: PageRequest) -> Response:
    """Show a difference, with a form that resolves it. Raises NotFound."""
    return await _one(request)


async def _one(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: dict[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        one = await reconciliation.find_difference(tx, request.ids["difference"])
        names = await merchants.names(tx, [one.merchant_id] if one.merchant_id else [])
    return render.page(
        request,
        "difference.html",
        status,
        one=one,
        names=names,
        kinds=KINDS,
        values={name: (typed or {}).get(name, "") for name in _FIELDS},
        errors=errors or {},
        zone=ZONE,
    )


async def resolve(request: PageRequest) -> Response:
    """Resolve a difference, perhaps by an adjustment."""
    form = await request.form()
    typed = {name: form.get(name, "").strip() for name in _FIELDS}
    difference_id = request.ids["difference"]
    if not typed["reason"]:
        return await _one(request, 400, {"reason": N_("Say why, in a few words.")}, typed)
    actor = people.actor_of(request.login, typed["reason"])
    above = request.app.settings.approval_above

    async def work(tx: Tx) -> None:
        seen = await reconciliation.find_difference(tx, difference_id)
        whose = seen.merchant_id or typed["merchant"]
        adjust = await _adjustment(tx, typed, whose, difference_id, actor)
        await reconciliation.resolve(tx, difference_id, actor, request.now, adjust, whose, above)

    try:
        await request.app.db.run(work)
    except Invalid as problem:
        field = str(problem.field)
        return await _one(request, 400, {field: DIFFERENCE_ERROR[field]}, typed)
    return render.see_other(request, f"{PLACE}?done=1")


async def _adjustment(
    tx: Tx, typed: dict[str, str], whose: str, reference: str, actor: merchants.Actor
) -> AdjustmentRequest | None:
    """Read what is to be moved, None for nothing. Raises Invalid."""
    kind: Kind | None = next((one for one in KINDS if one == typed["adjust"]), None)
    if kind is None:
        if typed["adjust"] or typed["amount"] or typed["order"]:
            raise Invalid("adjust", "adjust must be given together with amount")
        return None
    try:
        currency = (await merchants.find(tx, whose)).settlement_currency
    except NotFound:
        raise Invalid("merchant", "merchant must be the id of one") from None
    text = typed["amount"]
    try:
        minor = money.parse(text.removeprefix("-"), currency)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None
    return AdjustmentRequest(
        kind=kind,
        amount_minor=-minor if text.startswith("-") else minor,
        reason=actor.reason,
        by=actor.who,
        reference=reference,
        order_id=typed["order"] or None,
    )


PLACE: Final = f"{CONSOLE_PATH}/reconciliation"
pages: Final = (
    Page("GET", PLACE, "balance.read", show, menu=N_("Reconciliation")),
    Page("POST", f"{PLACE}/compare", "balance.adjust", compare, files=_FILE),
    Page("GET", f"{PLACE}/{{difference:id}}", "balance.read", show_one),
    Page("POST", f"{PLACE}/{{difference:id}}/resolve", "balance.adjust", resolve),
)
