"""How time grows with data: one operation at a time, from a thousand orders to a million.

Measured with all orders of one merchant, then with orders of a thousand merchants. The lists of a
merchant with a million orders are compared with those of a merchant with a thousand, and ``bulk``
times the operations on all orders.
"""

import statistics

import msgspec

from benchmarks import books, bulk
from benchmarks.contest import create_request, get_request, pay_request, read_request
from benchmarks.deployment import Serving, fetch
from benchmarks.driver import Load
from benchmarks.run import Apart, Run, say
from benchmarks.seed import product_id
from benchmarks.targets import LISTS

READ = 200  # different orders that are read
_PAGE = 20


async def measure(run: Run) -> None:
    """Fill two databases size by size, and measure on the way."""
    sizes = (100, 400) if run.options.quick else (1000, 10_000, 100_000, 1_000_000)
    merchants = 20 if run.options.quick else 1000
    async with run.database("bench_one", 2) as apart:
        await _grow(run, apart, "one merchant", sizes, range(1))
        filled = await books.fill(apart.seed, sizes[0], range(1, 2))
        serving = Serving(run.data_dir, with_worker=False, database_url=apart.url)
        try:
            await _lists(run, apart, serving, sizes[-1], filled)
            await bulk.exports(run, apart, serving, sizes)
        finally:
            serving.close()
        await bulk.settlement(run, apart)
        await bulk.check(run, apart)
    async with run.database("bench_many", merchants) as apart:
        await _grow(run, apart, f"{merchants:,} merchants", sizes, range(merchants))
        await bulk.settlement(run, apart)


async def _grow(run: Run, apart: Apart, series: str, sizes: tuple[int, ...], places: range) -> None:
    """Measure every operation at every size."""
    async with apart.db.transaction() as tx:
        await books.second_products(tx)
    points = run.report.growth.setdefault(series, {})
    there, fills = 0, []
    for size in sizes:
        filled = await books.fill(apart.seed, size - there, places)
        say(f"{series}: {size:,} orders, the last {filled.count:,} made in {filled.seconds:.1f} s")
        there = size
        fills.append(filled)
        serving = Serving(run.data_dir, with_worker=False, database_url=apart.url)
        try:
            requests = await _requests(run, apart, serving, places, fills)
            for name, (request, once) in requests.items():
                points.setdefault(name, []).append(
                    (size, _median_ms(run, serving, request, once=once))
                )
        finally:
            serving.close()


def _median_ms(run: Run, serving: Serving, requests: list[bytes], *, once: bool) -> float:
    """Return the median over the rounds of the median time of a request, one after the other."""
    rounds = run.options.rounds
    load = Load(
        port=serving.port,
        requests=requests,
        connections=1,
        seconds=run.options.seconds / 8,
        once=once,
    )
    if not once:
        run.driver.run(msgspec.structs.replace(load, seconds=0.1))
    times = []
    for number in range(rounds):
        each = requests[number::rounds] if once else requests
        outcome = run.driver.run(msgspec.structs.replace(load, requests=each))
        run.report.failures += outcome.failures
        times.append(outcome.p50_ms)
    return statistics.median(times)


async def _requests(
    run: Run, apart: Apart, serving: Serving, places: range, fills: list[books.Filled]
) -> dict[str, tuple[list[bytes], bool]]:
    """Return each operation's requests, and whether each of them can be made only once."""
    seed, count = apart.seed, len(places)
    spread = [filled.first + filled.count * n // READ for filled in fills for n in range(READ)]
    owners = {number: (number - filled.first) % count
              for filled in fills for number in spread
              if filled.first <= number < filled.first + filled.count}  # fmt: skip
    some = list(places)[:READ]
    payments = max(20, round(800 * run.options.seconds / 8)) * run.options.rounds
    first = await seed.copy(payments, count)
    last = [_last_page(serving, apart, place) for place in some[:20]]
    return {
        "read an order": ([read_request(seed, n, owners[n]) for n in spread], False),
        "list, first page": ([_list(apart, "", 1, place) for place in some], False),
        "list, last page": (
            [_list(apart, "", page, some[n]) for n, page in enumerate(last)],
            False,
        ),
        "open a session": ([create_request(seed, place) for place in some], False),
        "confirm a payment": ([pay_request(first + n) for n in range(payments)], True),
    }


def _list(apart: Apart, filters: str, page: int, place: int) -> bytes:
    path = f"/v1/orders?page={page}&size={_PAGE}{filters}"
    return get_request(apart.seed, path, place)


def _last_page(serving: Serving, apart: Apart, place: int, filters: str = "") -> int:
    status, body = fetch(serving.port, _list(apart, filters, 1, place))
    assert status == 200, body
    pages: int = msgspec.json.decode(body)["data"]["pagination"]["totalPages"]
    return max(1, pages)


async def _lists(run: Run, apart: Apart, serving: Serving, large: int, small: books.Filled) -> None:
    """Hold the lists of the first merchant, who has a million, beside those of the second."""
    for name in LISTS:
        for page in ("first", "last"):
            for _ in range(run.options.rounds):
                for place, total in ((0, large), (1, small.count)):
                    filters = _filters(name, place, total)
                    number = _last_page(serving, apart, place, filters) if page == "last" else 1
                    load = Load(
                        port=serving.port,
                        requests=[_list(apart, filters, number, place)],
                        connections=1,
                        seconds=run.options.seconds / 10,
                    )
                    run.driver.run(msgspec.structs.replace(load, seconds=0.05))
                    outcome = run.driver.run(load)
                    order_count = "1,000,000" if place == 0 else "1,000"
                    run.note(f"list by {name}, {page} page, of {order_count}", outcome.p50_ms)
                    run.report.failures += [f"list by {name}: {w}" for w in outcome.failures]


def _filters(name: str, place: int, total: int) -> str:
    """Write a list's filters; the dates are the middle half of all orders."""
    begin, end = books.times(total)
    quarter = (end - begin) // 4
    texts = {
        "status": "&status=SETTLED",
        "product": f"&productId={product_id(place)}",
        "dates": f"&startDate={begin + quarter}&endDate={end - quarter}",
    }
    return "".join(text for part, text in texts.items() if part in name.split(" and "))
