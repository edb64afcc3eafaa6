"""A merchant's payouts, and the money that becomes available next."""

from typing import Final
from zoneinfo import ZoneInfo

from starlette.responses import Response

from opentill import figures, ledger, merchants, payouts
from opentill.core.money import Money
from opentill.dashboard import awaited, movements
from opentill.dashboard.labels import PAYOUT_STATUS
from opentill.portal import lists, render
from opentill.portal.lists import Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_


async def show(request: PageRequest) -> Response:
    """List payouts, newest first."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        account = await payouts.find_account(tx, merchant_id)
        held_since = await payouts.account_held_since(tx, merchant_id)
    zone = ZoneInfo(merchant.time_zone)
    days = lists.days(request, zone)
    status = lists.choice(request, "status", payouts.STATUSES)
    number = lists.page_number(request)
    db = request.app.replica.reading()
    if text := lists.text(request, "query"):
        matches = await db.read(lambda tx: payouts.list_matching(tx, merchant_id, text))
        since, until = days.range
        rows = [
            match
            for match in matches
            if status in {None, match.status} and since <= match.created_at <= until
        ]
        total = len(rows)
        rows = rows[(number - 1) * lists.SIZE :][: lists.SIZE]
    else:
        rows, total = await payouts.page(db, merchant_id, status, number, lists.SIZE, days.range)
    await figures.catch_up(request.app.db, merchant_id)
    coming = await figures.find_coming(request.app.db, merchant_id, zone, request.now)
    return render.page(
        request,
        "payouts.html",
        errors=days.errors,
        account=account,
        held_since=held_since,
        zone=zone,
        days=days,
        chosen=status,
        statuses=[(name, localizer.gettext(PAYOUT_STATUS[name])) for name in payouts.STATUSES],
        pager=Pager(number, total),
        behind=coming.as_of if coming.as_of < request.now else None,
        next_amounts=awaited.next_amounts(localizer, coming),
        payouts=[
            (
                row,
                localizer.amount(Money(row.amount_minor, row.currency)),
                localizer.amount(Money(row.fee_minor, row.currency)) if row.fee_minor else "–",
            )
            for row in rows
        ],
    )


async def show_one(request: PageRequest) -> Response:
    """Show a payout with its ledger entries. Raises NotFound."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        payout = await payouts.find(tx, merchant_id, request.ids["payout"])
        entries = await ledger.list_entries_of(tx, merchant_id, "payout", payout.id)
        rows = await movements.rows(tx, localizer, merchant_id, entries)
    return render.page(
        request,
        "payout.html",
        zone=ZoneInfo(merchant.time_zone),
        payout=payout,
        amount=localizer.amount(Money(payout.amount_minor, payout.currency)),
        fee=localizer.amount(Money(payout.fee_minor, payout.currency)),
        debit=localizer.amount(Money(payout.amount_minor + payout.fee_minor, payout.currency)),
        rows=rows if request.access.may("balance.read") else [],
    )


pages: Final = (
    Page(
        "GET", f"{DASHBOARD_PATH}/payouts", "payouts.read", show, menu=N_("Payouts"), group="money"
    ),
    Page("GET", f"{DASHBOARD_PATH}/payouts/{{payout:id}}", "payouts.read", show_one),
)
