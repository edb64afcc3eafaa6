"""The scenarios, the competitors, and the rounds in which competitors take turns."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from benchmarks import pgbench, plain_payment
from benchmarks.deployment import SECRET, fetch, read_cpu_s
from benchmarks.driver import Driver, Load, Outcome
from benchmarks.recording import Statement
from benchmarks.seed import (
    MERCHANTS,
    Seed,
    attempt_id,
    order_id,
    payment_callback,
    session_body,
    signature,
)

Operation = Literal["create", "read", "pay"]
CONNECTIONS: Final = 32
POOL: Final = 10  # each server, and pgbench, has this many database connections
ORDERS_PER_MERCHANT: Final = 20  # the read scenarios read this many orders of each merchant
ASSUMED_PAYMENT_RATE: Final = 1500  # payments per second, until a rate has been measured
MAX_PAYMENTS: Final = 80_000  # at most this many payments are prepared for a measurement


class Scenario(msgspec.Struct, frozen=True):
    """An operation whose requests are spread over a number of merchants."""

    name: str
    operation: Operation
    merchants: int


SCENARIOS: Final = (
    Scenario("create-many", "create", MERCHANTS),
    Scenario("create-hot", "create", 1),
    Scenario("read-many", "read", MERCHANTS),
    Scenario("read-hot", "read", 1),
    Scenario("pay-many", "pay", MERCHANTS),
    Scenario("pay-hot", "pay", 1),
)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one measurement. Processor times are microseconds per request."""

    rate: float
    p50_ms: float
    p99_ms: float
    server_us: float
    database_us: float
    driver_busy: float
    requests: int
    failures: dict[str, int]


class Workload(msgspec.Struct, kw_only=True):
    """What all competitors are measured with: the seeded database and the orders to read in it."""

    seed: Seed
    postmaster_pid: int
    first_read_orders: Mapping[int, int]  # number of merchants → number of the first order to read
    merchant_count: int

    def with_available_merchants(self, scenario: Scenario) -> Scenario:
        """Return the scenario, limited to the merchants that were seeded."""
        count = min(scenario.merchants, self.merchant_count)
        return msgspec.structs.replace(scenario, merchants=count)


class Competitor(Protocol):
    """A program that can run the scenarios of its ``operations``."""

    name: str
    operations: Sequence[Operation]

    async def measure(self, workload: Workload, scenario: Scenario, seconds: float) -> Sample:
        """Run the scenario for some seconds."""
        ...


class HttpCompetitor:
    """A server to which the driver sends requests."""

    operations: Sequence[Operation] = ("create", "read", "pay")

    def __init__(
        self, name: str, port: int, pid: int, driver: Driver, schema: str = "public"
    ) -> None:
        """``pid`` is the id of the server's process, ``schema`` the schema of its tables."""
        self.name = name
        self._schema = schema
        self._port, self._pid, self._driver = port, pid, driver
        self._rates: dict[str, float] = {}

    async def measure(self, workload: Workload, scenario: Scenario, seconds: float) -> Sample:
        """Send requests for some seconds, or until no payment is left."""
        is_payment = scenario.operation == "pay"
        count = _count_payments(self._rates.get(scenario.name), seconds) if is_payment else 0
        load = Load(
            port=self._port,
            requests=await self.build_requests(workload, scenario, count),
            connections=CONNECTIONS,
            seconds=seconds,
            once=is_payment,
        )
        sample = take_sample(lambda: self._driver.run(load), self._pid, workload.postmaster_pid)
        self._rates[scenario.name] = sample.rate
        return sample

    async def build_requests(
        self, workload: Workload, scenario: Scenario, payment_count: int
    ) -> list[bytes]:
        """Return the requests of a scenario. Each payment pays another new order."""
        seed = workload.seed
        if scenario.operation == "create":
            return [build_session_request(seed, index) for index in range(scenario.merchants)]
        if scenario.operation == "read":
            first = workload.first_read_orders[scenario.merchants]
            total = scenario.merchants * ORDERS_PER_MERCHANT
            return [
                build_read_request(seed, first + n, n % scenario.merchants) for n in range(total)
            ]
        first = await seed.copy_orders(payment_count, scenario.merchants, self._schema)
        return [build_payment_request(first + n) for n in range(payment_count)]

    async def fetch_response(self, workload: Workload, scenario: Scenario) -> tuple[int, bytes]:
        """Send one request of the scenario; return the status and body of the response."""
        return fetch(self._port, (await self.build_requests(workload, scenario, 1))[0])


class Pgbench:
    """A competitor: pgbench, which runs the recorded statements."""

    name = "pgbench"
    operations: Sequence[Operation] = ("create", "read", "pay")

    def __init__(
        self, program: Path, socket_dir: Path, traces: Mapping[str, list[Statement]]
    ) -> None:
        """Write the script of each operation."""
        self._program, self._socket_dir = program, socket_dir
        self._scripts = {name: pgbench.build_script(name, trace) for name, trace in traces.items()}
        self._rates: dict[str, float] = {}

    async def measure(self, workload: Workload, scenario: Scenario, seconds: float) -> Sample:
        """Run the script for some seconds, or for as many payments as should take that long."""
        count = 0
        if scenario.operation == "pay":
            count = _count_payments(self._rates.get(scenario.name), seconds)
            first = await workload.seed.copy_orders(count, scenario.merchants)
        elif scenario.operation == "create":
            first = workload.seed.reserve_sessions(10_000_000)
        else:
            first = workload.first_read_orders[scenario.merchants]
        variables = {
            "first": first,
            "merchants": scenario.merchants,
            "orders_per_merchant": ORDERS_PER_MERCHANT,
        }

        def run() -> Outcome:
            return pgbench.run(
                self._program,
                self._socket_dir,
                self._scripts[scenario.operation],
                variables=variables,
                clients=POOL,
                seconds=None if count else seconds,
                transactions=count,
            )

        sample = take_sample(run, None, workload.postmaster_pid)
        self._rates[scenario.name] = sample.rate
        return sample


class PlainPgbench:
    """pgbench, running the plain version of a payment on the plain tables."""

    name = "pgbench, plain"
    operations: Sequence[Operation] = ("pay",)

    def __init__(self, program: Path, socket_dir: Path) -> None:
        """``program`` is the path of pgbench."""
        self._program, self._socket_dir = program, socket_dir
        self._rates: dict[str, float] = {}

    async def measure(self, workload: Workload, scenario: Scenario, seconds: float) -> Sample:
        """Confirm as many payments as should take some seconds."""
        count = _count_payments(self._rates.get(scenario.name), seconds)
        first = await workload.seed.copy_orders(count, scenario.merchants, plain_payment.SCHEMA)
        sample = take_sample(
            lambda: pgbench.run(
                self._program,
                self._socket_dir,
                plain_payment.SCRIPT,
                variables={"first": first, "merchants": scenario.merchants},
                clients=POOL,
                transactions=count,
            ),
            None,
            workload.postmaster_pid,
        )
        self._rates[scenario.name] = sample.rate
        return sample


async def run_rounds(
    workload: Workload,
    scenario: Scenario,
    competitors: Sequence[Competitor],
    *,
    count: int,
    seconds: float,
    log_progress: Callable[[str], None],
) -> dict[str, list[Sample]]:
    """Measure the competitors in turns, after a warm-up.

    Each round starts with the next competitor.
    """
    competitors = [each for each in competitors if scenario.operation in each.operations]
    samples: dict[str, list[Sample]] = {each.name: [] for each in competitors}
    for competitor in competitors:
        await competitor.measure(workload, scenario, min(seconds, 0.5))
    for number in range(count):
        first = number % len(competitors)
        for competitor in [*competitors[first:], *competitors[:first]]:
            sample = await competitor.measure(workload, scenario, seconds)
            samples[competitor.name].append(sample)
            log_progress(f"{scenario.name} {competitor.name}: {sample.rate:.0f}/s")
    return samples


def median_sample(samples: list[Sample]) -> Sample:
    """Return the median of each figure, the sum of the requests, and all failures."""

    def median(name: str) -> float:
        return float(statistics.median(getattr(sample, name) for sample in samples))

    return Sample(
        rate=median("rate"),
        p50_ms=median("p50_ms"),
        p99_ms=median("p99_ms"),
        server_us=median("server_us"),
        database_us=median("database_us"),
        driver_busy=median("driver_busy"),
        requests=sum(sample.requests for sample in samples),
        failures={name: n for sample in samples for name, n in sample.failures.items()},
    )


def _count_payments(rate: float | None, seconds: float) -> int:
    """Return how many payments to prepare: a few more than the rate confirms in ``seconds``."""
    count = int((rate * 1.2 if rate else ASSUMED_PAYMENT_RATE) * seconds)
    return max(POOL, min(MAX_PAYMENTS, count // POOL * POOL))


def take_sample(
    run: Callable[[], Outcome], server_pid: int | None, postmaster_pid: int | None
) -> Sample:
    """Call ``run``, and measure the processor time that server and PostgreSQL use meanwhile."""

    def read_cpu() -> tuple[float, float]:
        database = read_cpu_s(postmaster_pid) if postmaster_pid else 0.0
        return database, read_cpu_s(server_pid) if server_pid else 0.0

    database_before, server_before = read_cpu()
    outcome = run()
    if not server_pid:
        # The CPU time of a session that has ended counts once PostgreSQL has reaped its process.
        time.sleep(0.05)
    database_after, server_after = read_cpu()
    count = max(1, outcome.requests)
    return Sample(
        rate=outcome.requests / outcome.seconds,
        p50_ms=outcome.p50_ms,
        p99_ms=outcome.p99_ms,
        server_us=(server_after - server_before) / count * 1e6,
        database_us=(database_after - database_before) / count * 1e6,
        driver_busy=outcome.busy,
        requests=outcome.requests,
        failures=outcome.failures,
    )


_HEAD: Final = "host: 127.0.0.1\r\nuser-agent: bench\r\naccept: application/json\r\n"


def build_session_request(seed: Seed, index: int) -> bytes:
    """Return a request that opens a session for a merchant's product."""
    body = session_body(index)
    head = f"POST /v1/checkouts HTTP/1.1\r\n{_HEAD}x-api-key: {seed.merchants[index].key}\r\n"
    return _with_body(head, body)


def build_read_request(seed: Seed, number: int, index: int) -> bytes:
    """Return a request that reads a merchant's order."""
    return build_get_request(seed, f"/v1/orders/{order_id(number)}", index)


def build_get_request(seed: Seed, path: str, index: int) -> bytes:
    """Return a GET request with a merchant's key."""
    head = f"GET {path} HTTP/1.1\r\n{_HEAD}"
    return (head + f"x-api-key: {seed.merchants[index].key}\r\n\r\n").encode()


def build_page_request(path: str, login_token: str) -> bytes:
    """Return a request for a page, sent by a logged-in person."""
    head = f"GET {path} HTTP/1.1\r\n{_HEAD}"
    return (head + f"cookie: opentill={login_token}\r\naccept: text/html\r\n\r\n").encode()


def build_payment_request(number: int) -> bytes:
    """Return the sandbox bank's callback which reports that a copied order was paid."""
    body = payment_callback(attempt_id(number))
    head = f"POST /gateways/sandbox/callback HTTP/1.1\r\n{_HEAD}"
    return _with_body(head + f"sandbox-signature: {signature(SECRET, body)}\r\n", body)


def _with_body(head: str, body: bytes) -> bytes:
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def build_constant_request() -> bytes:
    """Return the request to which the bare application responds with a constant."""
    return f"GET /constant HTTP/1.1\r\n{_HEAD}\r\n".encode()
