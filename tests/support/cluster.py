"""A deployment whose processes tests can kill: servers, worker and sandbox bank."""

import asyncio
import http.client
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx2

import opentill
from opentill import merchants
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.products import service as products
from opentill.products.model import ProductBody
from support import pooler
from support.commands import ForkedProcess, ForkServer
from support.ports import free_port

T = TypeVar("T")
SECRET: Final = "the sandbox bank's secret, 32 characters and more"
_NUMBERS: Final = itertools.count(1)
CARD: Final = "4242424242424242"
REFUNDS_FAIL: Final = "4000000000005126"
DECLINED: Final = "4000000000000002"

_BANK: Final = """
import sys, uvicorn
from pathlib import Path
from opentill.sandbox import Timing, create_app
folder, port, secret = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
timing = Timing(processing_s=0.5, dispute_after_s=600, refund_fails_after_s=0.2,
                retry_s=(0.1, 0.2, 0.5), callback_timeout_s=2.0)
url = f"http://127.0.0.1:{port}"
app = create_app(data_dir=folder, secret=secret, public_url=url, timing=timing)
# Longer than any client keeps a connection, so that none sends a request to a closed one.
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", timeout_keep_alive=60)
"""


class Process:
    """A process that writes its output to a file."""

    def __init__(
        self,
        name: str,
        words: list[str],
        env: dict[str, str],
        log: Path,
        port: int = 0,
        fork_server: ForkServer | None = None,
    ):
        """``words``: arguments of ``opentill``, or of Python if there is no fork server."""
        self.name, self.port = name, port
        self._words, self._env, self._log = words, env, log
        self._fork_server = fork_server
        self._popen: subprocess.Popen[bytes] | ForkedProcess | None = None

    def copy(self, name: str, **environ: str) -> "Process":
        """Return a process that is not started, with another name and changed environment."""
        log = self._log.with_name(f"{name}.log")
        env = self._env | environ
        return Process(name, self._words, env, log, self.port, self._fork_server)

    def command(self, *words: str) -> "Process":
        """Return a command that is not started, with the settings of this process."""
        log = self._log.with_name(f"{words[0]}-{next(_NUMBERS)}.log")
        return Process(words[0], ["-m", "opentill", *words], self._env, log)

    def environ(self, name: str) -> str:
        """Return an environment variable of the process."""
        return self._env[name]

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._popen is not None and self._popen.poll() is None

    def wait(self, seconds: float = 180) -> int:
        """Wait until the process has ended; return its exit code, or minus the signal's number."""
        assert self._popen is not None
        return self._popen.wait(seconds)

    def start(self) -> None:
        """Start the process; it may be started again after it has ended."""
        with self._log.open("ab") as log:
            if self._fork_server is not None:
                self._popen = self._fork_server.start_logged(
                    self._words, self._env, self._log.parent, log.fileno()
                )
                return
            self._popen = subprocess.Popen(
                [sys.executable, *self._words], env=self._env, stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def restart_if_ended(self) -> None:
        """Start the process again if it has ended, as a supervisor does."""
        if self._popen is not None and self._popen.poll() is not None:
            self.start()

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def terminate(self) -> None:
        """Send SIGTERM."""
        if self._popen is not None and self._popen.poll() is None:
            self._popen.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM and wait for the end; send SIGKILL after a minute."""
        if self._popen is None or self._popen.poll() is not None:
            return
        self.terminate()
        try:
            self._popen.wait(60)
        except (subprocess.TimeoutExpired, TimeoutError):
            self.kill()

    @property
    def url(self) -> str:
        """The address at which the process serves."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def output(self) -> str:
        """The output so far."""
        return self._log.read_text(errors="replace")


class Cluster:
    """Servers, worker and bank on one database."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        servers: int = 2,
        fork_server: ForkServer | None = None,
        source: Path | None = None,
        **settings: str,
    ) -> None:
        """``settings``: environment variables without their prefix.

        With a fork server, servers, worker and bank are forked from it. ``source``: the folder of
        the package, by default this checkout's.
        """
        program = ["-m", "opentill"] if fork_server is None else []
        ports = [free_port() for _ in range(servers + 1)]
        bank_url = f"http://127.0.0.1:{ports[0]}"
        src = str(source or Path(opentill.__file__).parents[1])
        bare = {k: v for k, v in os.environ.items() if not k.startswith(("OPENTILL_", "COV"))}
        common = bare | {
            "PYTHONPATH": src,
            "OPENTILL_DATABASE_URL": database_url,
            "OPENTILL_SANDBOX": "yes",
            "OPENTILL_DATA_DIR": str(folder / "data"),
            "OPENTILL_SECRET_KEY": "a secret key for tests, 32 characters and more",
            "OPENTILL_SANDBOX_SECRET": SECRET,
            "OPENTILL_SANDBOX_URL": bank_url,
            "OPENTILL_PUBLIC_URL": f"http://127.0.0.1:{ports[1]}",
            "OPENTILL_LIMIT_IP_PER_MINUTE": "0",
            "OPENTILL_LIMIT_CHECKOUTS_PER_MINUTE": "0",
            "OPENTILL_LIMIT_PAYMENTS_PER_MINUTE": "0",
            "OPENTILL_LOG_LEVEL": "warning",
            "OPENTILL_DB_PREPARED": pooler.prepared_setting(database_url),
            **{f"OPENTILL_{name}": value for name, value in settings.items()},
        }
        self.bank = Process(
            "bank", ["-c", _BANK, str(folder / "bank"), str(ports[0]), SECRET],
            bare | {"PYTHONPATH": src}, folder / "bank.log", ports[0], fork_server,
        )  # fmt: skip
        self.servers = [
            Process(
                f"server-{port}", [*program, "serve", "--no-worker"],
                common | {"OPENTILL_PORT": str(port)}, folder / f"server-{port}.log", port,
                fork_server,
            )
            for port in ports[1:]
        ]  # fmt: skip
        self.worker = Process(
            "worker", [*program, "worker"], common, folder / "worker.log", fork_server=fork_server
        )
        self.public_url = common["OPENTILL_PUBLIC_URL"]

    @property
    def processes(self) -> list[Process]:
        """Bank, servers and worker."""
        return [self.bank, *self.servers, self.worker]

    def start(self, *, with_bank: bool = True) -> "Cluster":
        """Start all processes, or only the servers, and wait until they respond."""
        processes = self.processes if with_bank else self.servers
        for process in processes:
            process.start()
        for process in processes:
            if process.port:
                wait_until_ready(process)
        return self

    def stop(self) -> None:
        """Stop everything."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.stop()

    async def client(self, key: str = "") -> "Client":
        """Return a client with an API key."""
        return Client(self, key)


def wait_until_ready(process: Process, seconds: float = 180, *, keep: bool = False) -> None:
    """Wait until a process responds; with ``keep``, start it again whenever it ends."""
    end = time.monotonic() + seconds
    while True:
        if keep:
            process.restart_if_ended()
        if _is_healthy(process.port):
            return
        assert time.monotonic() < end, f"{process.name} does not start: {process.output[-3000:]}"
        time.sleep(0.02)


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def eventually(condition: Callable[[], Awaitable[T]], seconds: float = 180) -> T:
    """Call ``condition`` until its result is true or the time is over; return the last result."""
    end = time.monotonic() + seconds
    while not (result := await condition()) and time.monotonic() < end:
        await asyncio.sleep(0.03)
    return result


class Shop:
    """A merchant of a running cluster, with an API key and a product."""

    def __init__(self, merchant_id: str, key_id: str, key: str, product_id: str) -> None:
        """Use ``create_shop``."""
        self.id, self.key_id, self.key, self.product_id = merchant_id, key_id, key, product_id


async def create_shop(db: Db, price: str = "5.00", **terms: Any) -> Shop:
    """Create a merchant with an API key and a product."""
    now = now_ms()

    async def work(tx: Tx) -> Shop:
        merchant = await merchants.create(tx, name="Shop", now=now, **terms)
        key = await merchants.create_key(tx, merchant.id, "production", now)
        body = ProductBody(name="A mug", price=price, currency="USD")
        product = await products.create(tx, merchant.id, body, now)
        return Shop(merchant.id, key.id, key.key, product.id)

    return await db.run(work)


class Client:
    """A merchant's program and its customers' browsers; each request goes to a random server."""

    def __init__(self, cluster: Cluster, key: str = "") -> None:
        """``key``: the merchant's API key."""
        self.cluster, self.key = cluster, key
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=100)
        self.http = httpx2.AsyncClient(timeout=120, limits=limits, trust_env=False)

    async def close(self) -> None:
        """Close connections."""
        await self.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def random_server(self) -> str:
        """Return the address of a random server."""
        return random.choice(self.cluster.servers).url

    async def call(
        self, method: str, path: str, body: Any = None, idempotency: str = "", server: str = ""
    ) -> httpx2.Response:
        """Send an API request."""
        headers = {"X-API-Key": self.key}
        if idempotency:
            headers["Idempotency-Key"] = idempotency
        return await self.http.request(
            method, (server or self.random_server()) + path, json=body, headers=headers
        )

    async def open_session(self, product_id: str) -> tuple[str, str]:
        """Open a session; return its id and its order's."""
        created = await self.call("POST", "/v1/checkouts", {"productId": product_id})
        created.raise_for_status()
        session_id = created.json()["data"]["id"]
        checkout = await self.call("GET", f"/v1/checkouts/{session_id}")
        checkout.raise_for_status()
        return session_id, checkout.json()["data"]["orderId"]

    async def send_form(self, session_id: str, method: str) -> httpx2.Response:
        """Send the payment page's form."""
        form = {"email": "ann@example.com", "name": "Ann", "method": method}
        return await self.http.post(f"{self.random_server()}/checkout/{session_id}", data=form)

    async def start_payment(self, session_id: str, method: str = "CREDIT_CARD") -> str | None:
        """Submit the payment page; return the attempt's id if the payment continues at the bank."""
        response = await self.send_form(session_id, method)
        assert response.status_code == 303, (response.status_code, response.text[:500])
        match = re.search(r"/continue/(att_\w+)", response.headers["location"])
        return match[1] if match else None

    async def type_card(self, attempt_id: str, number: str = CARD) -> None:
        """Submit the bank's card form."""
        form = {"number": number, "exp": "12/34", "csc": "123"}
        response = await self.http.post(f"{self.cluster.bank.url}/pay/{attempt_id}", data=form)
        assert response.status_code in {302, 303, 307}, response.text[:500]

    async def return_from_bank(self, session_id: str, attempt_id: str) -> None:
        """Follow the bank's link back."""
        await self.http.get(f"{self.random_server()}/checkout/{session_id}/return/{attempt_id}")

    async def read_order(self, order_id: str) -> dict[str, Any]:
        """Read an order."""
        order = await self.call("GET", f"/v1/orders/{order_id}")
        order.raise_for_status()
        data: dict[str, Any] = order.json()["data"]
        return data

    async def create_paid_order(self, product_id: str, number: str = CARD) -> str:
        """Open a session, pay at the bank and return the id of the PAID order."""
        session_id, order_id = await self.open_session(product_id)
        attempt_id = await self.start_payment(session_id)
        assert attempt_id
        await self.type_card(attempt_id, number)
        # The customer's return makes the server query the bank once.
        await self.return_from_bank(session_id, attempt_id)

        async def is_paid() -> bool:
            return (await self.read_order(order_id))["status"] == "PAID"

        assert await eventually(is_paid), (await self.read_order(order_id))["status"]
        return order_id

    async def inject_fault(self, operation: str, kind: str, **options: Any) -> None:
        """Inject a fault at the bank."""
        fault = {"operation": operation, "kind": kind, **options}
        response = await self.call_bank("POST", "/faults", fault)
        assert response.status_code == 201, response.text

    async def call_bank(self, method: str, path: str, body: Any = None) -> httpx2.Response:
        """Send a request to the bank's API."""
        headers = {"Authorization": f"Bearer {SECRET}"}
        return await self.http.request(
            method, self.cluster.bank.url + path, json=body, headers=headers
        )


class PatientClient(Client):
    """A client that repeats requests after 503, as clients should.

    Tests use it for many concurrent requests: on a busy machine some of them wait too long for a
    database connection. A payment page may have started an attempt before it returned 503.
    """

    def __init__(self, cluster: Cluster, key: str = "") -> None:
        """``key``: the merchant's API key."""
        super().__init__(cluster, key)
        # The sessions whose payment page was submitted again, by id.
        self.resubmitted: set[str] = set()
        self.repeated = 0  # counts responses with 503

    async def call(
        self, method: str, path: str, body: Any = None, idempotency: str = "", server: str = ""
    ) -> httpx2.Response:
        """Send an API request, and repeat it after each 503."""
        while (
            response := await super().call(method, path, body, idempotency, server)
        ).status_code == 503:
            assert response.headers["retry-after"]
            self.repeated += 1
        return response

    async def assert_limited(self, calls: Iterable[Awaitable[Any]], limit: int) -> list[Any]:
        """Send requests concurrently, assert that ``limit`` of them pass, and return the responses.

        The limit may have counted a request before its 503, so that one request less passes.
        """
        repeated_before = self.repeated
        responses = await asyncio.gather(*calls)
        passed = sum(response.status_code != 429 for response in responses)
        assert limit - (self.repeated - repeated_before) <= passed <= limit
        return responses

    async def send_form(self, session_id: str, method: str) -> httpx2.Response:
        """Send the payment page's form, and repeat it after each 503."""
        while (response := await super().send_form(session_id, method)).status_code == 503:
            assert response.headers["retry-after"]
            self.resubmitted.add(session_id)
        return response
