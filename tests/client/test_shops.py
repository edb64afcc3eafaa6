"""Each shop of ``examples/`` takes real payments: on its pages, at the bank and by its webhook."""

import asyncio
import html
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest

from opentill.client import Client
from opentill.server.embedded.postgres import EmbeddedPostgres
from support.commands import ForkServer
from support.deployment import Deployment, checked_deployment
from support.javascript import TOP, javascript_client, require_programs, run, skip_or_fail
from support.pooler import connect
from support.ports import free_port
from support.sandbox_bank import wait_until

EXAMPLES: Final = TOP / "examples"
CARD: Final = {"number": "4242424242424242", "exp": "12/40", "csc": "123"}
ORDER: Final = re.compile(
    r"<tr><td>(\d+)</td><td>[^<]*</td><td>([^<]*)</td><td>(\w+)</td><td>(\w*)"
)


def _python_command(folder: Path, request: pytest.FixtureRequest) -> list[str]:
    return [sys.executable, str(EXAMPLES / "python-shop" / "shop.py")]


def _node_command(folder: Path, request: pytest.FixtureRequest) -> list[str]:
    built: Path = request.getfixturevalue("javascript_client")
    (folder / "shop.mjs").write_bytes((EXAMPLES / "node-shop" / "shop.mjs").read_bytes())
    (folder / "node_modules").symlink_to(built / "node_modules")
    return ["node", str(folder / "shop.mjs")]


def _php_command(folder: Path, request: pytest.FixtureRequest) -> list[str]:
    require_programs("php")
    if "pdo_sqlite" not in run(["php", "-m"], folder):
        skip_or_fail("PHP has no PDO for SQLite; Debian: apt-get install php-sqlite3")
    return ["php", "-S", "127.0.0.1:{port}", str(EXAMPLES / "php-shop" / "shop.php")]


SHOPS: Final[dict[str, Callable[[Path, pytest.FixtureRequest], list[str]]]] = {
    "python": _python_command,
    "node": _node_command,
    "php": _php_command,
}


@pytest.fixture(scope="module")
def server(fork_server: ForkServer, migrated: Path) -> Iterator[Deployment]:
    """OpenTill, allowed to send webhooks to this machine as the README of each shop says."""
    outgoing = {"OPENTILL_OUTGOING_HTTP": "yes", "OPENTILL_OUTGOING_ALLOW": "127.0.0.0/8"}
    with checked_deployment(fork_server, migrated, **outgoing) as deployment:
        yield deployment


class Shop:
    """An example shop as a program, its merchant's API client and a customer's browser."""

    def __init__(self, command: list[str], server: Deployment, folder: Path) -> None:
        """Create a merchant for the shop; ``running`` starts the program."""
        merchant = json.loads(server.run_checked("merchants", "create", "Tea House", "--json"))[
            "id"
        ]
        key = json.loads(server.run_checked("keys", "create", merchant, "--json"))["key"]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = Client(f"http://127.0.0.1:{server.port}", key, trust_env=False)
        self.browser = httpx2.Client(base_url=self.url, trust_env=False, timeout=30)
        self._command = [word.replace("{port}", str(self.port)) for word in command]
        self._log = folder / "shop.log"
        self._folder = folder
        self._environ = {
            **os.environ,
            "KEY": key,
            "OPENTILL_URL": f"http://127.0.0.1:{server.port}",
            "PORT": str(self.port),
            "SHOP_URL": self.url,
            "SHOP_DATA": str(folder / "shop.data"),
            "no_proxy": "*",
        }

    @contextmanager
    def running(self, **environ: str) -> Iterator[None]:
        """Run the shop until the block ends; its stored orders remain for the next run."""
        with self._log.open("a") as log:
            process = subprocess.Popen(
                self._command, env=self._environ | environ, cwd=self._folder, stdout=log, stderr=log
            )
            try:
                wait_until(lambda: process.poll() is not None or self._responds(), 30)
                assert process.poll() is None, self.log()
                yield
            finally:
                process.terminate()
                process.wait(30)

    def _responds(self) -> bool:
        try:
            return self.browser.get("/orders").is_success
        except httpx2.TransportError:
            return False

    def log(self) -> str:
        """Return the shop's output of all its runs."""
        return self._log.read_text()

    def count_shipments(self, number: str) -> int:
        """Return how many times the shop shipped an order."""
        return self.log().count(f"shipping order {number}:")

    def orders(self) -> dict[str, tuple[str, ...]]:
        """Return amount, payment and shipping of each order, by order number."""
        return {
            row[1]: row.groups()[1:] for row in ORDER.finditer(self.browser.get("/orders").text)
        }

    def buy(self, article: str) -> str:
        """Submit an order twice, as a double click does; return the URL of the one payment page."""
        page = self.browser.get("/").text
        assert "Green tea, 100 g, 9.99 USD" in page
        cart = re.search(r'name="cart" value="(\w+)"', page)
        assert cart, page
        self.form = {"cart": cart[1], "article": article}
        url = self.submit(self.form)
        assert self.submit(self.form) == url
        return url

    def submit(self, form: dict[str, str]) -> str:
        """Submit the form of the product page; return the URL to which the shop redirects."""
        response = self.browser.post("/buy", data=form)
        assert response.status_code == 303, self.log()
        return str(response.headers["location"])

    def pay(self, url: str, *, returns_to_shop: bool = True) -> str:
        """Pay by card at the bank; return the shop's page to which the customer returns."""
        form = {"email": "ann@example.com", "method": "CREDIT_CARD", "lang": "en"}
        with httpx2.Client(trust_env=False, timeout=30) as browser:
            redirect_page = browser.post(url, data=form, follow_redirects=True).text
            bank = re.search(r'href="(http://127[^"]*/pay/att_\w+)"', redirect_page)
            assert bank, redirect_page
            page = browser.post(bank[1], data=CARD)

            def find_return_url() -> str | None:
                nonlocal page
                link = re.search(r'href="([^"]*/thanks[?][^"]*)"', page.text)
                target = link[1] if link else page.headers.get("location", url)
                if target.startswith(f"{self.url}/thanks?"):
                    return html.unescape(target)
                page = browser.get(httpx2.URL(str(page.url)).join(target))
                return None

            return_url: str = wait_until(find_return_url, 60)
        return self.browser.get(return_url).text if returns_to_shop else ""


def expire_idempotency_keys(server: Deployment) -> None:
    """Delete all idempotency keys, as if seven days had passed (contract.md#idempotency-keys)."""

    async def delete_keys(url: str) -> None:
        connection = await connect(url)
        try:
            await connection.execute("delete from idempotency_keys")
        finally:
            await connection.close()

    with EmbeddedPostgres.start(server.directory / "data") as database:
        asyncio.run(delete_keys(database.url))


@pytest.fixture(params=SHOPS)
def shop(server: Deployment, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """The shop of each language, with a merchant of its own."""
    shop = Shop(SHOPS[request.param](tmp_path, request), server, tmp_path)
    yield shop
    shop.browser.close()
    shop.api.close()


def test_an_example_shop_takes_an_order_and_ships_once(shop: Shop, server: Deployment) -> None:
    with shop.running():
        url = shop.buy("TEA")
        for invalid_field in ({"article": "GOLD"}, {"cart": "x\n"}, {"cart": ""}):
            form = {"cart": "0" * 32, "article": "TEA"} | invalid_field
            assert shop.browser.post("/buy", data=form).status_code == 404
        assert shop.orders() == {"1001": ("9.99 USD", "open", "")}
        session = url.rpartition("/")[2]
        page_before_payment = shop.browser.get("/thanks", params={"session": session})
        assert "not paid yet" in page_before_payment.text
        assert shop.browser.get("/thanks", params={"session": "cs_made_up"}).status_code == 404
        assert shop.count_shipments("1001") == 0

        assert "order 1001 is paid" in shop.pay(url)
        assert shop.orders() == {"1001": ("9.99 USD", "paid", "shipped")}
        (endpoint,) = shop.api.webhook_endpoints.list()
        (event,) = shop.api.events.list(type="order.paid").items

        def attempt_statuses() -> list[int | None]:
            (delivery,) = shop.api.webhook_deliveries.list(endpoint.id, event_id=event.id)
            return [attempt.http_status for attempt in delivery.attempts]

        wait_until(lambda: attempt_statuses() == [204], 60)
        forged = {"x-svc-timestamp": "1736932500000", "x-svc-signature": "sha256=" + 64 * "0"}
        for headers in ({}, forged):
            refusal = shop.browser.post("/webhook", content=b"{}", headers=headers)
            assert refusal.status_code == 400
    assert shop.count_shipments("1001") == 1

    paid_form = shop.form
    with shop.running(KEY="svc_live_wrong"):
        assert shop.browser.get("/thanks", params={"session": session}).status_code == 503
    expire_idempotency_keys(server)  # a week passes before the shop is restarted
    with shop.running():  # the restarted shop still has its orders
        assert shop.submit(paid_form) == f"{shop.url}/thanks?session={session}"
        assert len(list(shop.api.checkouts.list())) == 1
        rotated = shop.api.webhook_endpoints.rotate_secret(
            endpoint.id
        )  # the shop still uses the old secret
        assert rotated.secret
        shop.api.webhook_endpoints.resend_events(endpoint.id, event_id=event.id)
        wait_until(lambda: attempt_statuses() == [204, 204], 60)
        url = shop.buy("CUP")
        expire_idempotency_keys(server)
        assert shop.submit(shop.form) == url
        order = shop.api.checkouts.get(url.rpartition("/")[2]).order_id
        assert shop.api.orders.get(order).client_reference == "1002"
        expired_url = shop.buy("TEA")
        shop.api.checkouts.expire(expired_url.rpartition("/")[2])
        assert shop.submit(shop.form) not in {expired_url, url}
        names = [product.name for product in shop.api.products.list()]
        assert sorted(names) == sorted(set(names))
        assert [row.id for row in shop.api.webhook_endpoints.list()] == [endpoint.id]
        shop.pay(url, returns_to_shop=False)
        wait_until(lambda: shop.orders()["1002"] == ("7.00 USD", "paid", "shipped"), 60)
    assert (shop.count_shipments("1001"), shop.count_shipments("1002")) == (1, 1)
    # The event was delivered twice, but the shop handled it once.
    assert shop.log().count(f"event {event.id}: order.paid") == 1


__all__ = ["javascript_client"]
