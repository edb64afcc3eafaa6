"""Time the dashboard's pages and searches for a merchant with 1,000,000 orders and one with 1,000.

The driver sends one request at a time, so that a figure is the time that the server and its
database need for one page.
"""

import gzip
import re
from datetime import UTC, datetime
from typing import Final

import msgspec

from benchmarks import generated_orders
from benchmarks.competitors import build_get_request, build_page_request
from benchmarks.deployment import Server, fetch, resident_mb
from benchmarks.driver import Load
from benchmarks.run import BenchDatabase, Run, log_progress
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

_CHEAP_HASH: Final = Cost(8, 1)  # makes logins fast, because hashing passwords is not measured
# One hour before the last order (s). Both merchants have orders on the day that contains this time.
_LAST_HOUR_S: Final = (generated_orders.time_range(1)[1] - 3_600_000) / 1000
_DAY: Final = f"{datetime.fromtimestamp(_LAST_HOUR_S, UTC):%Y-%m-%d}"
_ORDER_COUNTS: Final = ("1,000,000", "1,000")
_ASSET: Final = re.compile(r'(?:src|href)="(/static/[^"]+)"')


async def measure(run: Run) -> None:
    """Generate orders of a large and a small merchant, run the jobs on them and time each page."""
    sizes = (400, 100) if run.options.quick else (1_000_000, 1000)
    async with run.create_database("bench_dashboard", 2) as database:
        async with database.db.transaction() as tx:
            await generated_orders.create_second_products(tx)
        for index, size in enumerate(sizes):
            generated = await generated_orders.generate(
                database.seed, size, range(index, index + 1)
            )
            log_progress(f"{size:,} orders generated in {generated.seconds:.1f} s")
        await _run_jobs(database)
        login_tokens = [await _log_in_owner(database, index) for index in range(len(sizes))]
        server = Server(run.data_dir, with_worker=False, database_url=database.url)
        try:
            for name, path in PAGES.items():
                _time_page(run, database, server, login_tokens, (name, path))
            weight_kb = _weigh_home_page(database, server, login_tokens[0])
            run.record_figure("home page's weight", weight_kb)
            run.record_figure("resident with the dashboard", resident_mb(server.pid))
        finally:
            server.close()


async def _run_jobs(database: BenchDatabase) -> None:
    """Settle due orders, roll up list counts, index orders and count figures, as the worker does.

    A few orders of each merchant get another customer. Generated orders did not fire the triggers,
    so ``search_changes`` is filled here.
    """
    while await settlement.settle_due(database.db, now_ms()):
        pass
    while await list_counts.roll_up(database.db):
        pass
    async with database.db.transaction() as tx:
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
    log_progress(
        f"{await indexing.index_orders(database.db, at_least=1):,} orders indexed for searches"
    )
    log_progress(f"{await jobs.count_all(database.db):,} entries counted")
    async with database.db.connection() as tx:
        await tx.execute("vacuum analyze", timeout=600)


async def _log_in_owner(database: BenchDatabase, index: int) -> str:
    """Create an owner of a merchant; return the token of the owner's login."""
    now, merchant_id = now_ms(), database.seed.merchants[index].merchant_id
    email, actor = f"owner{index}@example.com", Actor("bench", "to measure pages")
    link = await database.db.run(
        lambda tx: people.invite(tx, email, now, merchant_id=merchant_id, role="owner", actor=actor)
    )
    browser = Browser("127.0.0.1", "Bench")
    password = "nine purple lanterns hum"  # noqa: S105 - of a person in a temporary database
    login = await people.join(
        database.db, link.token, "Ada", password, browser, now, cost=_CHEAP_HASH
    )
    return login.token


def _time_page(
    run: Run,
    database: BenchDatabase,
    server: Server,
    login_tokens: list[str],
    page: tuple[str, str],
) -> None:
    name, path = page
    loads = []
    for index, login_token in enumerate(login_tokens):
        merchant_id = database.seed.merchants[index].merchant_id
        page_path = path.format(order=_find_order_id(database, server, index), day=_DAY)
        request = build_page_request(f"/dashboard/{merchant_id}{page_path}", login_token)
        status, body = fetch(server.port, request)
        if status != 200:
            run.report.failures.append(f"{name}: {status} {body[:200]!r}")
            return
        load = Load(
            port=server.port, requests=[request], connections=1, seconds=run.options.seconds / 5
        )
        run.driver.run(msgspec.structs.replace(load, seconds=0.1))
        loads.append(load)
    for _ in range(run.options.rounds):
        for order_count, load in zip(_ORDER_COUNTS, loads, strict=True):
            outcome = run.driver.run(load)
            run.record_figure(f"dashboard: {name}, of {order_count}", outcome.p50_ms)
            run.record_figure(f"dashboard: {name}, 99 of 100, of {order_count}", outcome.p99_ms)
            run.report.failures += [f"{name}: {failure}" for failure in outcome.failures]


def _find_order_id(database: BenchDatabase, server: Server, index: int) -> str:
    """Return the id of an order on page 20 of a merchant's list."""
    request = build_get_request(database.seed, "/v1/orders?page=20&size=5", index)
    status, body = fetch(server.port, request)
    assert status == 200, body
    order_id: str = msgspec.json.decode(body)["data"]["items"][0]["id"]
    assert is_id(order_id)
    return order_id


def _weigh_home_page(database: BenchDatabase, server: Server, login_token: str) -> float:
    """Return the compressed size of the home page and its assets in kB."""
    merchant_id = database.seed.merchants[0].merchant_id
    request = build_page_request(f"/dashboard/{merchant_id}/", login_token)
    status, page = fetch(server.port, request)
    assert status == 200, page
    total = len(gzip.compress(page))
    for path in set(_ASSET.findall(page.decode())):
        status, asset = fetch(server.port, build_page_request(path, login_token))
        assert status == 200, path
        total += len(gzip.compress(asset))
    return total / 1000
