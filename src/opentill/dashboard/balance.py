"""The balance: its accounts, awaited money and movements."""

from typing import Final, Literal
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import figures, ledger
from opentill.core.money import Money
from opentill.dashboard import (
    awaited,
    movement_search,
    movements,
    page_helpers,
    payout_facts,
    payout_wait,
    payouts_on_way,
)
from opentill.dashboard.labels import BALANCE
from opentill.db.database import Tx
from opentill.list_counts import EVER
from opentill.merchants import Merchant
from opentill.portal import downloads, lists, render
from opentill.portal.labels import ENTRY_TYPE
from opentill.portal.lists import Days, Pager
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

ACCOUNTS: Final = tuple(BALANCE)  # the merchant's accounts in the order of the pages


class Account(msgspec.Struct, frozen=True):
    """One of the merchant's accounts, with its balance as text."""

    name: str
    amount: str
    is_positive: bool
    held: str = ""  # the part that is overdue and held back, such as for a dispute


class Tab(msgspec.Struct, frozen=True):
    """A part of the list of movements, with its number of rows in the filtered days."""

    name: Literal["", "all"]  # "": money in and out
    rows: int
    is_shown: bool
    keeps_type: bool = True  # False: without the type in the filter, of which it has no rows


class _Listed(msgspec.Struct, frozen=True):
    """The entries of a page, its pager, and the numbers of rows in the filtered days.

    With a searched text, they are the numbers of its rows; ``is_cut``: there are older ones.
    """

    entries: list[ledger.Entry]
    pager: Pager
    counts: ledger.RowCounts
    is_cut: bool = False


async def show(request: PageRequest) -> Response:
    """Show each account, awaited money by day, and the movements, newest first."""
    merchant_id, localizer = request.access.merchant_id, request.localizer
    merchant, zone = await _merchant(request)
    db = request.app.replica.reading()
    days = lists.days(request, zone)
    kind = lists.choice(request, "type", ledger.TYPES)
    shows_all = _shows_all(request, kind)
    text = lists.text(request, "query")
    listed = await _read_entries(request, days, kind, text, shows_all=shows_all)
    entries, counts = listed.entries, listed.counts
    await figures.catch_up(request.app.db, merchant_id)
    coming = await figures.find_coming(request.app.db, merchant_id, zone, request.now)
    with_customers = request.access.may("payments.read")

    async def read_rows(tx: Tx) -> list[movements.Movement]:
        payments = [entry.source_id for entry in entries if entry.type == "PAYMENT"]
        fees = await ledger.list_fees(tx, merchant_id, payments) if payments else []
        return await movements.rows(
            tx, localizer, merchant_id, entries, fees, with_customers=with_customers
        )

    rows = await db.read(read_rows)
    kinds = counts.types
    if days.range != EVER:
        kinds = await db.read(lambda tx: ledger.list_types(tx, merchant_id))
    async with request.app.db.connection() as tx:
        wait = await payout_wait.find(tx, merchant_id, request.now)
        on_way = await payouts_on_way.find(tx, request, zone)
        sees_payouts = request.access.may("payouts.read")
        schedule = await payout_facts.read_schedule(tx, request, merchant) if sees_payouts else ""
    currencies = [
        (
            schedule.balance.currency,
            _accounts(localizer, schedule),
            awaited.chart(localizer, coming.days, schedule),
        )
        for schedule in coming.currencies
    ]
    return render.page(
        request,
        "balance.html",
        scripts=True,
        errors=days.errors,
        zone=zone,
        days=days,
        kind=kind,
        types=[
            (name, localizer.gettext(ENTRY_TYPE[name]))
            for name in ledger.TYPES
            if name == kind or (name in kinds and (shows_all or name not in ledger.TRANSFERS))
        ],
        tabs=_build_tabs(listed, kind, shows_all=shows_all),
        text=text,
        with_balances=shows_all and not _filters(request, "from", "to", "type", "query"),
        wait=wait if request.access.may("payouts.read") else None,
        on_way=on_way,
        schedule=schedule,
        may_see_payouts=request.access.may("payouts.read"),
        zero_of={
            schedule.balance.currency: localizer.amount(Money(0, schedule.balance.currency))
            for schedule in coming.currencies
        },
        pager=listed.pager,
        newest_payments=localizer.number(movement_search.MOST_ORDERS) if listed.is_cut else "",
        behind=coming.as_of if coming.as_of < request.now else None,
        currencies=currencies,
        settlement_currency=merchant.settlement_currency,
        zero=localizer.amount(Money(0, merchant.settlement_currency)),
        accounts=ACCOUNTS[:2],
        has_own_accounts=bool(page_helpers.own_accounts(request)),
        rows=rows,
        filters=_query(_filters(request)),
        days_only=_query(_filters(request, "from", "to")),
    )


def _build_tabs(listed: _Listed, kind: ledger.Type | None, *, shows_all: bool) -> list[Tab]:
    """Return both parts of the list, with the numbers of rows that the filters select."""
    if kind is None:
        numbers = (listed.counts.money_rows, listed.counts.rows)
    else:
        number = listed.pager.total
        numbers = (0 if kind in ledger.TRANSFERS else number, number)
    return [
        Tab("", numbers[0], not shows_all, keeps_type=kind not in ledger.TRANSFERS),
        Tab("all", numbers[1], shows_all),
    ]


async def _read_entries(
    request: PageRequest, days: Days, kind: ledger.Type | None, text: str, *, shows_all: bool
) -> _Listed:
    """Return the entries of the page that the filters and the searched text select."""
    db, merchant_id = request.app.replica.reading(), request.merchant_id
    number = lists.page_number(request)
    if kind is None and not text:
        entries, counts = await ledger.list_rows(
            db, merchant_id, number, lists.SIZE, days.range, with_transfers=shows_all
        )
        total = counts.rows if shows_all else counts.money_rows
        return _Listed(entries, Pager(number, total), counts)
    _, counts = await ledger.list_rows(db, merchant_id, 1, 1, days.range, with_transfers=shows_all)
    if not text:
        entries, total = await ledger.list_entries(
            db, merchant_id, kind, number, lists.SIZE, days.range
        )
        return _Listed(entries, Pager(number, total), counts)
    matches = await movement_search.find(
        db, merchant_id, text, days.range, with_customers=request.access.may("payments.read")
    )
    payments = {entry.source_id for entry in matches.entries if entry.type == "PAYMENT"}
    rows = [
        entry
        for entry in matches.entries
        if not (entry.type == "FEE" and entry.source_id in payments)  # in the payment's row
    ]
    of_money = [entry for entry in rows if entry.type not in ledger.TRANSFERS]
    counts = msgspec.structs.replace(counts, rows=len(rows), money_rows=len(of_money))
    entries = rows if shows_all else of_money
    if kind is not None:
        entries = [entry for entry in matches.entries if entry.type == kind]
    return _Listed(entries, Pager(1, len(entries), max(len(entries), 1)), counts, matches.is_cut)


def _accounts(localizer: Localizer, schedule: figures.Expected) -> list[Account]:
    balance = schedule.balance
    held = {"pending": schedule.pending.held, "reserve": schedule.reserve.held}

    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, balance.currency))

    return [
        Account(
            name,
            amount(getattr(balance, name)),
            getattr(balance, name) > 0,
            amount(held[name]) if held.get(name, 0) > 0 else "",
        )
        for name in awaited.shown_accounts(balance)
    ]


async def _merchant(request: PageRequest) -> tuple[Merchant, ZoneInfo]:
    merchant = await page_helpers.find_merchant(request)
    return merchant, ZoneInfo(merchant.time_zone)


def _filters(request: PageRequest, *names: str) -> dict[str, str]:
    """Return the filters of the request that are not empty; without ``names``, all of them."""
    names = names or ("from", "to", "type", "tab")
    return {name: request.query[name] for name in names if request.query.get(name)}


def _shows_all(request: PageRequest, kind: ledger.Type | None) -> bool:
    """Whether the list has transfers between the merchant's accounts too."""
    return request.query.get("tab") == "all" or kind in ledger.TRANSFERS


def _query(filters: dict[str, str]) -> str:
    return f"?{urlencode(filters)}" if filters else ""


async def movements_file(request: PageRequest) -> Response:
    """Send all pages of the list of movements as CSV."""
    merchant, zone = await _merchant(request)
    days = lists.days(request, zone)
    if days.errors:  # redirect to the page, which shows the errors
        return page_helpers.redirect(request, "balance", **_filters(request))
    kind = lists.choice(request, "type", ledger.TYPES)
    db = request.app.replica.reading()
    without = () if _shows_all(request, kind) else ledger.TRANSFERS
    chunks = ledger.movements_file(db, merchant.id, kind, days.range, zone, without)
    return await downloads.table(days.filename("balance"), chunks)


# The files need the permission of the pages, since they contain the same data. The permission
# payments.export is for files that contain the addresses of customers.
pages: Final = (
    Page(
        "GET", f"{DASHBOARD_PATH}/balance", "balance.read", show, menu=N_("Balance"), group="money"
    ),
    Page("GET", f"{DASHBOARD_PATH}/balance.csv", "balance.read", movements_file),
)
