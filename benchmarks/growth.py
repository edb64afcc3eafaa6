"""Measure how response times grow with data, from a thousand orders to a million.

The driver sends one request at a time: first with all orders of one merchant, then with orders of a
thousand merchants. The lists of a merchant with a million orders are compared with those of a
merchant with a thousand, and ``bulk`` times the operations on all orders.
"""

import statistics
from collections.abc import Sequence

import msgspec

from benchmarks import bulk, generated_orders
from benchmarks.competitors import (
    build_get_request,
    build_payment_request,
    build_read_request,
    build_session_request,
)
from benchmarks.deployment import Server, fetch
from benchmarks.driver import Load
from benchmarks.generated_orders import GeneratedOrders
from benchmarks.run import BenchDatabase, Run, log_progress
from benchmarks.seed import product_id
from benchmarks.targets import LISTS

_ORDERS_PER_SIZE = 200  # this many of the orders added at each size are read
_MERCHANTS = 200  # lists are read, and sessions opened, for at most this many merchants
_PAGE_SIZE = 20


async def measure(run: Run) -> None:
    """Fill two databases size by size, and measure at each size."""
    sizes = (100, 400) if run.options.quick else (1000, 10_000, 100_000, 1_000_000)
    merchant_count = 20 if run.options.quick else 1000
    async with run.create_database("bench_one", 2) as database:
        await _measure_sizes(run, database, "one merchant", sizes, range(1))
        small = await generated_orders.generate(database.seed, sizes[0], range(1, 2))
        server = Server(run.data_dir, with_worker=False, database_url=database.url)
        try:
            await _compare_lists(run, database, server, (sizes[-1], small.count))
            await bulk.measure_exports(run, database, server, sizes[-1])
        finally:
            server.close()
        await bulk.measure_settlement(run, database)
        await bulk.measure_ledger_check(run, database)
    async with run.create_database("bench_many", merchant_count) as database:
        series = f"{merchant_count:,} merchants"
        await _measure_sizes(run, database, series, sizes, range(merchant_count))
        await bulk.measure_settlement(run, database)


async def _measure_sizes(
    run: Run,
    database: BenchDatabase,
    series: str,
    sizes: tuple[int, ...],
    merchant_indexes: range,
) -> None:
    """Measure every operation at every size."""
    async with database.db.transaction() as tx:
        await generated_orders.create_second_products(tx)
    points = run.report.growth.setdefault(series, {})
    order_count = 0
    batches: list[GeneratedOrders] = []
    for size in sizes:
        batch = await generated_orders.generate(database.seed, size - order_count, merchant_indexes)
        log_progress(f"{series}: {size:,} orders, {batch.count:,} of them in {batch.seconds:.1f} s")
        order_count = size
        batches.append(batch)
        server = Server(run.data_dir, with_worker=False, database_url=database.url)
        try:
            operations = await _build_requests(run, database, server, merchant_indexes, batches)
            for name, (requests, once) in operations.items():
                median_ms = _measure_median_ms(run, server, requests, once=once)
                points.setdefault(name, []).append((size, median_ms))
        finally:
            server.close()


def _measure_median_ms(run: Run, server: Server, requests: list[bytes], *, once: bool) -> float:
    """Send one request at a time; return the median of the rounds' median latencies, in ms."""
    rounds = run.options.rounds
    load = Load(
        port=server.port,
        requests=requests,
        connections=1,
        seconds=run.options.seconds / 8,
        once=once,
    )
    if not once:
        run.driver.run(msgspec.structs.replace(load, seconds=0.1))
    medians = []
    for number in range(rounds):
        round_requests = requests[number::rounds] if once else requests
        outcome = run.driver.run(msgspec.structs.replace(load, requests=round_requests))
        run.report.failures += outcome.failures
        medians.append(outcome.p50_ms)
    return statistics.median(medians)


async def _build_requests(
    run: Run,
    database: BenchDatabase,
    server: Server,
    merchant_indexes: range,
    batches: Sequence[GeneratedOrders],
) -> dict[str, tuple[list[bytes], bool]]:
    """Return each operation's requests, and whether each request can be sent only once."""
    seed, count = database.seed, len(merchant_indexes)
    reads = [
        build_read_request(seed, batch.first + offset, offset % count)
        for batch in batches
        for offset in (batch.count * n // _ORDERS_PER_SIZE for n in range(_ORDERS_PER_SIZE))
    ]
    indexes = list(merchant_indexes)[:_MERCHANTS]
    payment_count = max(20, round(800 * run.options.seconds / 8)) * run.options.rounds
    first = await seed.copy_orders(payment_count, count)
    payments = [build_payment_request(first + n) for n in range(payment_count)]
    last_pages = [(index, _find_last_page(server, database, index)) for index in indexes[:20]]
    return {
        "read an order": (reads, False),
        "list, first page": ([_list_request(database, "", 1, index) for index in indexes], False),
        "list, last page": (
            [_list_request(database, "", page, index) for index, page in last_pages],
            False,
        ),
        "open a session": ([build_session_request(seed, index) for index in indexes], False),
        "confirm a payment": (payments, True),
    }


def _list_request(database: BenchDatabase, filters: str, page: int, index: int) -> bytes:
    path = f"/v1/orders?page={page}&size={_PAGE_SIZE}{filters}"
    return build_get_request(database.seed, path, index)


def _find_last_page(server: Server, database: BenchDatabase, index: int, filters: str = "") -> int:
    status, body = fetch(server.port, _list_request(database, filters, 1, index))
    assert status == 200, body
    page_count: int = msgspec.json.decode(body)["data"]["pagination"]["totalPages"]
    return max(1, page_count)


async def _compare_lists(
    run: Run, database: BenchDatabase, server: Server, order_counts: tuple[int, int]
) -> None:
    """Compare the lists of a merchant with a million orders with the lists of a small merchant."""
    for name in LISTS:
        for page in ("first", "last"):
            for _ in range(run.options.rounds):
                for index, order_count in enumerate(order_counts):
                    filters = _format_filters(name, index, order_count)
                    number = (
                        _find_last_page(server, database, index, filters) if page == "last" else 1
                    )
                    load = Load(
                        port=server.port,
                        requests=[_list_request(database, filters, number, index)],
                        connections=1,
                        seconds=run.options.seconds / 10,
                    )
                    run.driver.run(msgspec.structs.replace(load, seconds=0.05))
                    outcome = run.driver.run(load)
                    size = "1,000,000" if index == 0 else "1,000"
                    run.record_figure(f"list by {name}, {page} page, of {size}", outcome.p50_ms)
                    run.report.failures += [
                        f"list by {name}: {failure}" for failure in outcome.failures
                    ]


def _format_filters(name: str, index: int, order_count: int) -> str:
    """Return a list's filters as a query string. Dates select the middle half of the orders."""
    begin, end = generated_orders.time_range(order_count)
    quarter = (end - begin) // 4
    filters = {
        "status": "&status=SETTLED",
        "product": f"&productId={product_id(index)}",
        "dates": f"&startDate={begin + quarter}&endDate={end - quarter}",
    }
    return "".join(text for part, text in filters.items() if part in name.split(" and "))
