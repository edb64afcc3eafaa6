"""The shops of ``examples/``, each through real payments: its page, the bank, its webhook."""

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

import asyncpg
import httpx2
import pytest

from opentill.client import Client
from opentill.server.embedded.postgres import EmbeddedPostgres
from support.commands import ForkServer
from support.deployment import Deployment, checked_deployment
from support.javascript import TOP, javascript_client, require_programs, run, skip_or_fail
from support.ports import free_port
from support.sandbox_bank import wait_until

EXAMPLES: Final = TOP / "examples"
CARD: Final = {"number": "4242424242424242", "exp": "12/40", "csc": "123"}
ORDER: Final = re.compile(
    r"<tr><td>(\d+)</td><td>[^<]*</td><td>([^<]*)</td><td>(\w+)</td><td>(\w*)"
)


def _python(place: Path, request: pytest.FixtureRequest) -> list[str]:
    return [sys.executable, str(EXAMPLES / "python-shop" / "shop.py")]


def _node(place: Path, request: pytest.FixtureRequest) -> list[str]:
    built: Path = request.getfixturevalue("javascript_client")
    (place / "shop.mjs").write_bytes((EXAMPLES / "node-shop" / "shop.mjs").read_bytes())
    (place / "node_modules").symlink_to(built / "node_modules")
    return ["node", str(place / "shop.mjs")]


def _php(place: Path, request: pytest.FixtureRequest) -> list[str]:
    require_programs("php")
    if "pdo_sqlite" not in run(["php", "-m"], place):
        skip_or_fail("PHP has no PDO for SQLite; Debian: apt-get install php-sqlite3")
    return ["php", "-S", "127.0.0.1:{port}", str(EXAMPLES / "php-shop" / "shop.php")]


SHOPS: Final[dict[str, Callable[[Path, pytest.FixtureRequest], list[str]]]] = {
    "python": _python,
    "node": _node,
    "php": _php,
}


@pytest.fixture(scope="module")
def server(fork_server: ForkServer, migrated: Path) -> Iterator[Deployment]:
    """OpenTill as the README of each shop starts it: webhooks may go to this machine."""
    allowed = {"OPENTILL_OUTGOING_HTTP": "yes", "OPENTILL_OUTGOING_ALLOW": "127.0.0.0/8"}
    with checked_deployment(fork_server, migrated, **allowed) as deployment:
        yield deployment


class Shop:
    """A running shop, its customer and its merchant."""

    def __init__(self, words: list[str], server: Deployment, place: Path) -> None:
        """Use ``opened``."""
        merchant = json.loads(server.run_checked("merchants", "create", "Tea House", "--json"))[
            "id"
        ]
        key = json.loads(server.run_checked("keys", "create", merchant, "--json"))["key"]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = Client(f"http://127.0.0.1:{server.port}", key, trust_env=False)
        self.browser = httpx2.Client(base_url=self.url, trust_env=False, timeout=30)
        self._words = [word.replace("{port}", str(self.port)) for word in words]
        self._log = place / "shop.log"
        self._place = place
        self._environ = {
            **os.environ,
            "KEY": key,
            "OPENTILL_URL": f"http://127.0.0.1:{server.port}",
            "PORT": str(self.port),
            "SHOP_URL": self.url,
            "SHOP_DATA": str(place / "shop.data"),
            "no_proxy": "*",
        }

    @contextmanager
    def opened(self, **environ: str) -> Iterator[None]:
        """Run it as long as the block; what it stores stays."""
        with self._log.open("a") as log:
            process = subprocess.Popen(
                self._words, env=self._environ | environ, cwd=self._place, stdout=log, stderr=log
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
        """Return what it printed."""
        return self._log.read_text()

    def shipped(self, number: str) -> int:
        """Return how often an order was shipped."""
        return self.log().count(f"shipping order {number}:")

    def orders(self) -> dict[str, tuple[str, ...]]:
        """Return amount, payment and shipping of each order by its number."""
        return {
            found[1]: found.groups()[1:]
            for found in ORDER.finditer(self.browser.get("/orders").text)
        }

    def buy(self, article: str) -> str:
        """Order with a double click, and return the address of the payment page."""
        page = self.browser.get("/").text
        assert "Green tea, 100 g, 9.99 USD" in page
        cart = re.search(r'name="cart" value="(\w+)"', page)
        assert cart, page
        self.form = {"cart": cart[1], "article": article}
        first, second = self.click(self.form), self.click(self.form)
        assert first == second
        return first

    def click(self, form: dict[str, str]) -> str:
        """Send a form of the page of products, and return where the customer is sent."""
        clicked = self.browser.post("/buy", data=form)
        assert clicked.status_code == 303, self.log()
        return str(clicked.headers["location"])

    def pay(self, url: str, *, comes_back: bool = True) -> str:
        """Pay as a customer does, and return what the shop says to who comes back."""
        form = {"email": "ann@example.com", "method": "CREDIT_CARD", "lang": "en"}
        with httpx2.Client(trust_env=False, timeout=30) as browser:
            leaving = browser.post(url, data=form, follow_redirects=True).text
            bank = re.search(r'href="(http://127[^"]*/pay/att_\w+)"', leaving)
            assert bank, leaving
            page = browser.post(bank[1], data=CARD)

            def back() -> str | None:
                nonlocal page
                link = re.search(r'href="([^"]*/thanks[?][^"]*)"', page.text)
                target = link[1] if link else page.headers.get("location", url)
                if target.startswith(f"{self.url}/thanks?"):
                    return html.unescape(target)
                page = browser.get(httpx2.URL(str(page.url)).join(target))
                return None

            address: str = wait_until(back, 60)
        return self.browser.get(address).text if comes_back else ""


def forget_idempotency_keys(server: Deployment) -> None:
    """Do what seven days do to all keys (contract.md#idempotency-keys)."""

    async def forget(url: str) -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("delete from idempotency_keys")
        finally:
            await connection.close()

    with EmbeddedPostgres.start(server.directory / "data") as database:
        asyncio.run(forget(database.url))


@pytest.fixture(params=SHOPS)
def shop(server: Deployment, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    """A shop of each language with a merchant of its own, open."""
    words = SHOPS[request.param](tmp_path, request)
    shop = Shop(words, server, tmp_path)
    yield shop
    shop.browser.close()
    shop.api.close()


def test_an_example_shop_takes_an_order_and_ships_once(shop: Shop, server: Deployment) -> None:
    with shop.opened():
        url = shop.buy("TEA")
        for wrong in ({"article": "GOLD"}, {"cart": "x\n"}, {"cart": ""}):
            form = {"cart": "0" * 32, "article": "TEA"} | wrong
            assert shop.browser.post("/buy", data=form).status_code == 404
        assert shop.orders() == {"1001": ("9.99 USD", "open", "")}
        session = url.rpartition("/")[2]
        early = shop.browser.get("/thanks", params={"session": session})
        assert "not paid yet" in early.text
        assert shop.browser.get("/thanks", params={"session": "cs_made_up"}).status_code == 404
        assert shop.shipped("1001") == 0

        assert "order 1001 is paid" in shop.pay(url)
        assert shop.orders() == {"1001": ("9.99 USD", "paid", "shipped")}
        (endpoint,) = shop.api.webhook_endpoints.list()
        (event,) = shop.api.events.list(type="order.paid").items

        def delivered() -> list[int | None]:
            (delivery,) = shop.api.webhook_deliveries.list(endpoint.id, event_id=event.id)
            return [one.http_status for one in delivery.attempts]

        wait_until(lambda: delivered() == [204], 60)
        forged = {"x-svc-timestamp": "1736932500000", "x-svc-signature": "sha256=" + 64 * "0"}
        for headers in ({}, forged):
            refused = shop.browser.post("/webhook", content=b"{}", headers=headers)
            assert refused.status_code == 400
    assert shop.shipped("1001") == 1

    paid = shop.form
    with shop.opened(KEY="svc_live_wrong"):
        assert shop.browser.get("/thanks", params={"session": session}).status_code == 503
    forget_idempotency_keys(server)  # it starts again only after a week
    with shop.opened():  # the webhook alone is enough, and nothing is forgotten
        assert shop.click(paid) == f"{shop.url}/thanks?session={session}"
        assert len(list(shop.api.checkouts.list())) == 1
        rotated = shop.api.webhook_endpoints.rotate_secret(endpoint.id)  # the shop has the old one
        assert rotated.secret
        shop.api.webhook_endpoints.resend_events(endpoint.id, event_id=event.id)
        wait_until(lambda: delivered() == [204, 204], 60)
        url = shop.buy("CUP")
        forget_idempotency_keys(server)
        assert shop.click(shop.form) == url
        order = shop.api.checkouts.get(url.rpartition("/")[2]).order_id
        assert shop.api.orders.get(order).client_reference == "1002"
        ended = shop.buy("TEA")
        shop.api.checkouts.expire(ended.rpartition("/")[2])
        assert shop.click(shop.form) not in {ended, url}
        names = [product.name for product in shop.api.products.list()]
        assert sorted(names) == sorted(set(names))
        assert [one.id for one in shop.api.webhook_endpoints.list()] == [endpoint.id]
        shop.pay(url, comes_back=False)
        wait_until(lambda: shop.orders()["1002"] == ("7.00 USD", "paid", "shipped"), 60)
    assert (shop.shipped("1001"), shop.shipped("1002")) == (1, 1)
    assert shop.log().count(f"event {event.id}: order.paid") == 1  # of two deliveries


__all__ = ["javascript_client"]
