"""A merchant's payouts, their contents, and the money that becomes available next."""

from collections.abc import AsyncIterator
from typing import Final, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import figures, merchants, payouts
from opentill.core import money
from opentill.core.errors import or_not_found
from opentill.core.money import Money
from opentill.dashboard import awaited, page_helpers, payout_wait, payouts_on_way
from opentill.dashboard.labels import PAYOUT_STATUS
from opentill.dashboard.payout_facts import COMPARED, find_schedule
from opentill.http import csvfile
from opentill.payouts import Payout, RunOfPayout
from opentill.portal import downloads, lists, payout_items, render
from opentill.portal.lists import Days, Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.payout_items import Reader, Row
from opentill.portal.request import PageRequest
from opentill.web.translations import N_


class TimelineItem(msgspec.Struct, frozen=True):
    """An item of a payout's timeline; ``at`` is Unix ms, None if it has not happened.

    ``day`` is that on which an arrival is expected, "" if it is unknown.
    """

    name: Literal["created", "sent", "expected", "arrived", "came back"]
    at: int | None
    day: str = ""


async def show(request: PageRequest) -> Response:
    """List payouts, newest first."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    zone = page_helpers.zone_of(request)
    days = lists.days(request, zone)
    status = lists.choice(request, "status", payouts.STATUSES)
    number = lists.page_number(request)
    rows, total, accounts = await _read_page(request, days, number)
    has_newest = number == 1 and not request.is_filtered
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, merchant_id)
        account = await payouts.find_account(tx, merchant_id)
        wait = await payout_wait.find_for(tx, merchant_id, account, request.now)
        last = rows if has_newest else await payouts.list_newest(tx, merchant_id, COMPARED, 0)
        paid: dict[str, payouts.PayoutTotal] = {}
        on_way: dict[str, payouts_on_way.OnTheWay] = {}
        arrival = payouts_on_way.UsualArrival(None)
        if last:
            paid = await payouts.sum_paid(tx, merchant_id)
            arrival = await payouts_on_way.find_usual_arrival(tx, merchant_id)
            on_way = await payouts_on_way.find(tx, request, zone, arrival)
    await figures.catch_up(request.app.db, merchant_id)
    coming = await figures.find_coming(request.app.db, merchant_id, zone, request.now)
    return render.page(
        request,
        "payouts.html",
        merchant=merchant,
        errors=days.errors,
        account=account,
        wait=wait,
        last=next(iter(last), None),
        schedule=find_schedule(last, localizer, zone, request.now),
        arrival=arrival.shown(localizer),
        on_way=on_way,
        paid={
            currency: (total.payouts, localizer.amount(Money(total.amount_minor, currency)))
            for currency, total in paid.items()
        },
        minimum=localizer.amount(Money(merchant.payout_minimum_minor, merchant.settlement_currency))
        if merchant.payout_minimum_minor
        else "",
        zone=zone,
        days=days,
        chosen=status,
        statuses=[(name, localizer.gettext(PAYOUT_STATUS[name])) for name in payouts.STATUSES],
        pager=Pager(number, total),
        behind=coming.as_of if coming.as_of < request.now else None,
        has_fees=any(row.fee_minor for row in rows),
        filters=f"?{urlencode(request.query)}" if request.query else "",
        next_amounts=awaited.next_amounts(localizer, coming),
        payouts=[
            (
                row,
                localizer.amount(Money(row.amount_minor, row.currency)),
                localizer.amount(Money(row.fee_minor, row.currency)) if row.fee_minor else "–",
                accounts[row.id].shown if row.id in accounts else "–",
                payouts_on_way.expected_day(request, arrival, row, zone),
            )
            for row in rows
        ],
    )


async def _read_page(
    request: PageRequest, days: Days, number: int
) -> tuple[list[payouts.Payout], int, dict[str, payouts.StoredAccount]]:
    """Return a page (from 1) of the payouts that the filters match, their total, their accounts."""
    merchant_id, db = request.access.merchant_id, request.app.replica.reading()
    status = lists.choice(request, "status", payouts.STATUSES)
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
    ids = [row.id for row in rows]
    if not ids:
        return [], total, {}
    accounts = await db.read(lambda tx: payouts.find_accounts_of(tx, merchant_id, ids))
    return rows, total, accounts


# Columns of the file of the list.
_LIST_COLUMNS: Final = (
    "timeUtc", "id", "status", "amount", "fee", "currency", "bankAccount", "bankReference",
    "arrivedUtc", "cameBackUtc", "failureReason", "statusName",
)  # fmt: skip


async def show_list_file(request: PageRequest) -> Response:
    """Send all pages of the list as CSV, newest first."""
    zone = page_helpers.zone_of(request)
    days = lists.days(request, zone)
    if days.errors:  # redirect to the page, which shows the errors
        return page_helpers.redirect(request, "payouts", **request.query)

    def moment(at: int | None) -> str:
        return "" if at is None else csvfile.format_utc(at)

    async def lines() -> AsyncIterator[list[str]]:
        number, left = 1, 1
        while left > 0:
            rows, total, accounts = await _read_page(request, days, number)
            for row in rows:
                account = accounts.get(row.id)
                yield [
                    csvfile.format_local(row.created_at, zone),
                    csvfile.format_utc(row.created_at),
                    row.id,
                    row.status,
                    money.show(row.amount_minor, row.currency),
                    money.show(row.fee_minor, row.currency),
                    row.currency,
                    account.shown if account else "",
                    csvfile.format_cell(row.bank_reference),
                    moment(row.paid_at),
                    moment(row.failed_at),
                    csvfile.format_cell(row.failure_reason),
                    request.localizer.gettext(PAYOUT_STATUS[row.status]),
                ]
            left = total - number * lists.SIZE
            number += 1

    chunks = csvfile.encode_rows((f"time {zone}", *_LIST_COLUMNS), lines())
    return await downloads.table(days.filename("payouts"), chunks)


async def show_one(request: PageRequest) -> Response:
    """Show a payout and its contents. Raises NotFound."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    with_contents = request.access.may("balance.read")
    number = lists.page_number(request)
    async with request.app.db.snapshot() as tx:
        merchant = await merchants.find(tx, merchant_id)
        payout = await payouts.find(tx, merchant_id, request.ids["payout"])
        accounts = await payouts.find_accounts_of(tx, merchant_id, [payout.id])
        runs = await payouts.find_runs_of_payouts(tx, [payout])
        arrival = await payouts_on_way.find_usual_arrival(tx, merchant_id)
        contents = (
            await figures.find_payout_contents(tx, merchant_id, payout.id)
            if with_contents
            else None
        )
        rows: list[Row] = []
        if contents is not None and contents.sums is not None:
            items = await figures.list_payout_items(tx, merchant_id, contents, number, lists.SIZE)
            reader = Reader(localizer, request.access.may)
            rows = await payout_items.rows(tx, merchant_id, contents.currency, items, reader)

    zone = ZoneInfo(merchant.time_zone)
    day = payouts_on_way.expected_day(request, arrival, payout, zone)

    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, payout.currency))

    return render.page(
        request,
        "payout.html",
        zone=zone,
        payout=payout,
        account=accounts.get(payout.id),
        timeline=_timeline(payout, runs.get((merchant_id, payout.id)), day),
        arrival=arrival.shown(localizer) if payout.status == "PENDING" else "",
        amount=amount(payout.amount_minor),
        fee=amount(payout.fee_minor) if payout.fee_minor else "",
        debit=amount(payout.amount_minor + payout.fee_minor),
        contents=contents,
        breakdown=payout_items.breakdown(contents, payout, amount) if contents else [],
        left=amount(contents.left_minor) if contents and contents.left_minor else "",
        pager=Pager(number, contents.items if contents else 0),
        rows=rows,
    )


def _timeline(payout: Payout, run: RunOfPayout | None, day: str) -> list[TimelineItem]:
    """Return the expected arrival of a pending payout, and what has happened, newest first."""
    items = [
        TimelineItem("created", payout.created_at),
        TimelineItem("sent", run.sent_at if run else None),
        TimelineItem("arrived", payout.paid_at),
        TimelineItem("came back", payout.failed_at),
    ]
    past = [item for item in items if item.at is not None][::-1]
    expected = [TimelineItem("expected", None, day)] if payout.status == "PENDING" else []
    return expected + past


# Columns of the file, all of them texts or amounts in the payout's currency.
_COLUMNS: Final = (
    "timeUtc", "id", "type", "sourceType", "sourceId", "gross", "fee", "amount", "currency"
)  # fmt: skip


async def show_file(request: PageRequest) -> Response:
    """Send the contents of a payout as CSV, oldest first. Raises NotFound."""
    merchant_id, db = request.access.merchant_id, request.app.db
    async with db.snapshot() as tx:
        zone = page_helpers.zone_of(request)
        payout = await payouts.find(tx, merchant_id, request.ids["payout"])
        contents = or_not_found(await figures.find_payout_contents(tx, merchant_id, payout.id))

    def show_amount(minor: int | None) -> str:
        return "" if minor is None else money.show(minor, contents.currency)

    async def rows() -> AsyncIterator[list[str]]:
        async for item in figures.all_payout_items(db, merchant_id, contents):
            yield [
                csvfile.format_local(item.created_at, zone),
                csvfile.format_utc(item.created_at),
                item.id,
                item.type,
                item.source_type,
                csvfile.format_cell(item.source_id),
                show_amount(item.gross_minor),
                show_amount(item.fee_minor),
                show_amount(item.amount_minor),
                contents.currency,
            ]

    chunks = csvfile.encode_rows((f"time {zone}", *_COLUMNS), rows())
    return await downloads.table(f"payout_{payout.id}.csv", chunks)


pages: Final = (
    Page(
        "GET", f"{DASHBOARD_PATH}/payouts", "payouts.read", show, menu=N_("Payouts"), group="money"
    ),
    Page("GET", f"{DASHBOARD_PATH}/payouts.csv", "payouts.read", show_list_file),
    Page("GET", f"{DASHBOARD_PATH}/payouts/{{payout:id}}", "payouts.read", show_one),
    Page("GET", f"{DASHBOARD_PATH}/payouts/{{payout:id}}/contents.csv", "balance.read", show_file),
)
