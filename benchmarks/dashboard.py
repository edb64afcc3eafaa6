"""The dashboard's pages and searches: a merchant with a million orders beside one with a thousand.

One request at a time, so that a figure is the time of the server and its database for one page.
"""

import gzip
import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from benchmarks import books
from benchmarks.contest import get_request, page_request
from benchmarks.deployment import Serving, fetch, resident_mb
from benchmarks.driver import Load
from benchmarks.run import Apart, Run, say
from benchmarks.targets import PAGES
from opentill import people
from opentill.core.ids import is_id
from opentill.db.clock import now_ms
from opentill.figures import jobs
from opentill.list_counts import jobs as list_counts
from opentill.merchants import Actor
from opentill.orders.search import jobs as indexing
from opentill.orders.settlement import service as settlement
from opentill.people import Browser
from opentill.people.passwords import Cost

_CHEAP: Final = Cost(8, 1)  # the hash of a password is not what is measured
# One on which both have orders (``books.times``).
_DAY: Final = f"{datetime.fromtimestamp((books.times(1)[1] - 3_600_000) / 1000, UTC):%Y-%m-%d}"
_ORDER_COUNTS: Final = ("1,000,000", "1,000")
_ASSET: Final = re.compile(r'(?:src|href)="(/static/[^"]+)"')


async def measure(run: Run) -> None:
    """Create orders of a large and a small merchant, run the jobs on them and time each page."""
    sizes = (400, 100) if run.options.quick else (1_000_000, 1000)
    async with run.database("bench_dashboard", 2) as apart:
        async with apart.db.transaction() as tx:
            await books.second_products(tx)
        for place, size in enumerate(sizes):
            filled = await books.fill(apart.seed, size, range(place, place + 1))
            say(f"{size:,} orders made in {filled.seconds:.1f} s")
        await _caught_up(apart)
        cookies = [await _owner(apart, place) for place in range(len(sizes))]
        serving = Serving(run.data_dir, with_worker=False, database_url=apart.url)
        try:
            for name, path in PAGES.items():
                _compare(run, apart, serving, cookies, (name, path))
            run.note("home page's weight", _weight_kb(apart, serving, cookies[0]))
            run.note("resident with the dashboard", resident_mb(serving.pid))
        finally:
            serving.close()


async def _caught_up(apart: Apart) -> None:
    """Do what the worker would have: settle what is due, roll up counts, index, count figures.

    Filling goes past the triggers. A few orders of each merchant get another customer.
    """
    while await settlement.settle_due(apart.db, now_ms()):
        pass
    while await list_counts.roll_up(apart.db):
        pass
    async with apart.db.transaction() as tx:
        await tx.execute(
            "update orders o set customer_email = 'eve@example.com' from ("
            "select merchant_id, id, row_number() over (partition by merchant_id order by id) as n"
            " from orders) few where few.n % 200 = 7 and few.n < 1000"
            " and o.merchant_id = few.merchant_id and o.id = few.id",
            timeout=600,
        )
        await tx.execute("delete from search_changes")
        await tx.execute(
            "insert into search_changes (merchant_id, order_id) select merchant_id, id from orders"
        )
    say(f"{await indexing.index_orders(apart.db, at_least=1):,} orders indexed for searches")
    say(f"{await jobs.count_all(apart.db):,} entries counted")
    async with apart.db.connection() as tx:
        await tx.execute("vacuum analyze", timeout=600)


async def _owner(apart: Apart, place: int) -> str:
    """Return the token of an owner's login."""
    now, merchant_id = now_ms(), apart.seed.tenants[place].merchant_id
    email, actor = f"owner{place}@example.com", Actor("bench", "to look at pages")
    link = await apart.db.run(
        lambda tx: people.invite(tx, email, now, merchant_id=merchant_id, role="owner", actor=actor)
    )
    browser = Browser("127.0.0.1", "Bench")
    password = "nine purple lanterns hum"  # noqa: S105 - of nobody
    login = await people.join(apart.db, link.token, "Ada", password, browser, now, cost=_CHEAP)
    return login.token


def _compare(
    run: Run, apart: Apart, serving: Serving, cookies: list[str], page: tuple[str, str]
) -> None:
    name, path = page
    loads = []
    for place, cookie in enumerate(cookies):
        merchant_id = apart.seed.tenants[place].merchant_id
        page_path = path.format(order=_some_order(apart, serving, place), day=_DAY)
        request = page_request(f"/dashboard/{merchant_id}{page_path}", cookie)
        status, body = fetch(serving.port, request)
        if status != 200:
            run.report.failures.append(f"{name}: {status} {body[:200]!r}")
            return
        load = Load(
            port=serving.port, requests=[request], connections=1, seconds=run.options.seconds / 5
        )
        run.driver.run(msgspec.structs.replace(load, seconds=0.1))
        loads.append(load)
    for _ in range(run.options.rounds):
        for order_count, load in zip(_ORDER_COUNTS, loads, strict=True):
            outcome = run.driver.run(load)
            run.note(f"dashboard: {name}, of {order_count}", outcome.p50_ms)
            run.note(f"dashboard: {name}, 99 of 100, of {order_count}", outcome.p99_ms)
            run.report.failures += [f"{name}: {wrong}" for wrong in outcome.failures]


def _some_order(apart: Apart, serving: Serving, place: int) -> str:
    """Return the id of an order in the middle of a merchant's list."""
    listed = get_request(apart.seed, "/v1/orders?page=20&size=5", place)
    status, body = fetch(serving.port, listed)
    assert status == 200, body
    order_id: str = msgspec.json.decode(body)["data"]["items"][0]["id"]
    assert is_id(order_id)
    return order_id


def _weight_kb(apart: Apart, serving: Serving, cookie: str) -> float:
    """Return what the home page weighs with all that it loads, compressed, in kB."""
    merchant_id = apart.seed.tenants[0].merchant_id
    status, page = fetch(serving.port, page_request(f"/dashboard/{merchant_id}/", cookie))
    assert status == 200, page
    whole = len(gzip.compress(page))
    for path in set(_ASSET.findall(page.decode())):
        status, asset = fetch(serving.port, page_request(path, cookie))
        assert status == 200, path
        whole += len(gzip.compress(asset))
    return whole / 1000
