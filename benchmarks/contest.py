"""Who is measured at what: scenarios, competitors, and rounds in which they take turns."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

import msgspec

from benchmarks import pgbench, plain
from benchmarks.deployment import SECRET, fetch, used_cpu_s
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
POOL: Final = 10  # database connections of each server, and of pgbench
READ_EACH: Final = 20  # orders of each merchant that are read
FIRST_GUESS: Final = 1500  # payments per second, before anything is known
MOST_COPIES: Final = 80_000


class Scenario(msgspec.Struct, frozen=True):
    """An operation over so many merchants."""

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
    """One measurement. Processor times are microseconds for each request."""

    rate: float
    p50_ms: float
    p99_ms: float
    server_us: float
    database_us: float
    driver_busy: float
    requests: int
    failures: dict[str, int]


class Work(msgspec.Struct, kw_only=True):
    """What all competitors work on."""

    seed: Seed
    postmaster: int
    read_from: Mapping[int, int]  # the first of the orders to read, by number of merchants
    merchants: int

    def sized(self, scenario: Scenario) -> Scenario:
        """Return a scenario for as many merchants as there are."""
        return msgspec.structs.replace(scenario, merchants=min(scenario.merchants, self.merchants))


class Competitor(Protocol):
    """Somebody who can do a scenario, if its operation is among ``operations``."""

    name: str
    operations: Sequence[Operation]

    async def measure(self, work: Work, scenario: Scenario, seconds: float) -> Sample:
        """Do it for some seconds."""
        ...


class OverHttp:
    """A server that is sent requests by the driver."""

    operations: Sequence[Operation] = ("create", "read", "pay")

    def __init__(
        self, name: str, port: int, pid: int, driver: Driver, schema: str = "public"
    ) -> None:
        """``pid`` is the server's process, ``schema`` where it works."""
        self.name = name
        self._schema = schema
        self._port, self._pid, self._driver = port, pid, driver
        self._rates: dict[str, float] = {}

    async def measure(self, work: Work, scenario: Scenario, seconds: float) -> Sample:
        """Send requests for some seconds, or until all payments are made."""
        pays = scenario.operation == "pay"
        count = _enough(self._rates.get(scenario.name), seconds) if pays else 0
        requests = await self.requests(work, scenario, count)
        load = Load(
            port=self._port, requests=requests, connections=CONNECTIONS, seconds=seconds, once=pays
        )
        sample = _measured(work, self._pid, lambda: self._driver.run(load))
        self._rates[scenario.name] = sample.rate
        return sample

    async def requests(self, work: Work, scenario: Scenario, count: int) -> list[bytes]:
        """Make the requests of a scenario; ``count`` is for payments, each of which is new."""
        if scenario.operation == "create":
            return [create_request(work.seed, place) for place in range(scenario.merchants)]
        if scenario.operation == "read":
            first = work.read_from[scenario.merchants]
            total = scenario.merchants * READ_EACH
            return [
                read_request(work.seed, first + n, n % scenario.merchants) for n in range(total)
            ]
        first = await work.seed.copy(count, scenario.merchants, self._schema)
        return [pay_request(first + n) for n in range(count)]

    async def response(self, work: Work, scenario: Scenario) -> tuple[int, bytes]:
        """Return the response to one request, to be compared with another's."""
        return fetch(self._port, (await self.requests(work, scenario, 1))[0])


class Pgbench:
    """pgbench with the same statements."""

    name = "pgbench"
    operations: Sequence[Operation] = ("create", "read", "pay")

    def __init__(
        self, program: Path, socket_dir: Path, traces: Mapping[str, list[Statement]]
    ) -> None:
        """``traces`` are what each operation runs."""
        self._program, self._socket_dir = program, socket_dir
        self._scripts = {name: pgbench.script(name, trace) for name, trace in traces.items()}
        self._rates: dict[str, float] = {}

    async def measure(self, work: Work, scenario: Scenario, seconds: float) -> Sample:
        """Run the script for some seconds, or so many payments as that should be."""
        count = 0
        if scenario.operation == "pay":
            count = _enough(self._rates.get(scenario.name), seconds)
            first = await work.seed.copy(count, scenario.merchants)
        elif scenario.operation == "create":
            first = work.seed.reserve_sessions(10_000_000)
        else:
            first = work.read_from[scenario.merchants]
        variables = {"first": first, "merchants": scenario.merchants, "each": READ_EACH}

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

        sample = _measured(work, None, run)
        self._rates[scenario.name] = sample.rate
        return sample


class Plain:
    """pgbench with the plain version of a payment, on the plain tables."""

    name = "pgbench, plain"
    operations: Sequence[Operation] = ("pay",)

    def __init__(self, program: Path, socket_dir: Path) -> None:
        """``program`` is pgbench."""
        self._program, self._socket_dir = program, socket_dir
        self._rates: dict[str, float] = {}

    async def measure(self, work: Work, scenario: Scenario, seconds: float) -> Sample:
        """Make so many payments as should take some seconds."""
        count = _enough(self._rates.get(scenario.name), seconds)
        first = await work.seed.copy(count, scenario.merchants, plain.SCHEMA)
        sample = _measured(
            work,
            None,
            lambda: pgbench.run(
                self._program,
                self._socket_dir,
                plain.SCRIPT,
                variables={"first": first, "merchants": scenario.merchants},
                clients=POOL,
                transactions=count,
            ),
        )
        self._rates[scenario.name] = sample.rate
        return sample


async def rounds(
    work: Work,
    scenario: Scenario,
    competitors: Sequence[Competitor],
    *,
    count: int,
    seconds: float,
    say: Callable[[str], None],
) -> dict[str, list[Sample]]:
    """Let all do a scenario, warmed up, in turns; each round begins with another."""
    competitors = [each for each in competitors if scenario.operation in each.operations]
    samples: dict[str, list[Sample]] = {each.name: [] for each in competitors}
    for each in competitors:
        await each.measure(work, scenario, min(seconds, 0.5))
    for number in range(count):
        turn = number % len(competitors)
        for each in [*competitors[turn:], *competitors[:turn]]:
            sample = await each.measure(work, scenario, seconds)
            samples[each.name].append(sample)
            say(f"{scenario.name} {each.name}: {sample.rate:.0f}/s")
    return samples


def median(samples: list[Sample]) -> Sample:
    """Return the middle of each figure."""

    def middle(name: str) -> float:
        return float(statistics.median(getattr(sample, name) for sample in samples))

    return Sample(
        rate=middle("rate"),
        p50_ms=middle("p50_ms"),
        p99_ms=middle("p99_ms"),
        server_us=middle("server_us"),
        database_us=middle("database_us"),
        driver_busy=middle("driver_busy"),
        requests=sum(sample.requests for sample in samples),
        failures={name: n for sample in samples for name, n in sample.failures.items()},
    )


def _enough(rate: float | None, seconds: float) -> int:
    """Return how many payments to prepare: some more than will be made in the time."""
    return min(MOST_COPIES, int((rate * 1.2 if rate else FIRST_GUESS) * seconds) // POOL * POOL)


def _measured(work: Work, pid: int | None, run: Callable[[], Outcome]) -> Sample:
    database, own = used_cpu_s(work.postmaster), used_cpu_s(pid) if pid else 0.0
    outcome = run()
    if not pid:
        time.sleep(0.05)  # until PostgreSQL has reaped the sessions
    database = used_cpu_s(work.postmaster) - database
    own = used_cpu_s(pid) - own if pid else 0.0
    done = max(1, outcome.requests)
    return Sample(
        rate=outcome.requests / outcome.seconds,
        p50_ms=outcome.p50_ms,
        p99_ms=outcome.p99_ms,
        server_us=own / done * 1e6,
        database_us=database / done * 1e6,
        driver_busy=outcome.busy,
        requests=outcome.requests,
        failures=outcome.failures,
    )


_HEAD: Final = "host: 127.0.0.1\r\nuser-agent: bench\r\naccept: application/json\r\n"


def create_request(seed: Seed, place: int) -> bytes:
    """Open a session for the product of the merchant at a place."""
    body = session_body(place)
    head = f"POST /v1/checkouts HTTP/1.1\r\n{_HEAD}x-api-key: {seed.tenants[place].key}\r\n"
    return _with_body(head, body)


def read_request(seed: Seed, number: int, place: int) -> bytes:
    """Read an order of the merchant at a place."""
    return get_request(seed, f"/v1/orders/{order_id(number)}", place)


def get_request(seed: Seed, path: str, place: int) -> bytes:
    """Read anything of the merchant at a place."""
    head = f"GET {path} HTTP/1.1\r\n{_HEAD}"
    return (head + f"x-api-key: {seed.tenants[place].key}\r\n\r\n").encode()


def page_request(path: str, login: str) -> bytes:
    """Look at a page as whoever has the token of this login."""
    head = f"GET {path} HTTP/1.1\r\n{_HEAD}"
    return (head + f"cookie: opentill={login}\r\naccept: text/html\r\n\r\n").encode()


def pay_request(number: int) -> bytes:
    """Say that a copied order was paid."""
    body = payment_callback(attempt_id(number))
    head = f"POST /gateways/sandbox/callback HTTP/1.1\r\n{_HEAD}"
    return _with_body(head + f"sandbox-signature: {signature(SECRET, body)}\r\n", body)


def _with_body(head: str, body: bytes) -> bytes:
    head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def constant() -> bytes:
    """Return the request that the bare HTTP server responds to with a constant."""
    return f"GET /constant HTTP/1.1\r\n{_HEAD}\r\n".encode()
