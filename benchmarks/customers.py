"""Simulate customers of shops over HTTP: the stages of one order, and many orders at a rate."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from benchmarks.competitors import build_session_request
from benchmarks.seed import Seed

_SERVER, _BANK = 0, 1
_ACCEPT: Final = "accept: text/html\r\naccept-language: en\r\n"
_FORM: Final = {"lang": "en", "email": "ada@example.com", "name": "Ada", "method": "CREDIT_CARD"}
_CARD: Final = {"number": "4242424242424242", "exp": "12/40", "csc": "123", "name": "Ada"}


class Order(msgspec.Struct):
    """An order of a merchant; ids and the path are empty until the customer has received them."""

    seed: Seed
    merchant_index: int
    session_id: str = ""
    attempt_id: str = ""
    next_path: str = ""  # the path to which the last response redirects; "" before the first one


class Browser:
    """A browser with a keep-alive connection to the server and one to the bank."""

    def __init__(self, ports: Sequence[int]) -> None:
        """``ports``: the ports of the server and of the bank."""
        self._ports = ports
        self._connections: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def send(self, host: int, request: bytes, *, expected: int) -> tuple[str, bytes]:
        """Send a request; return the target of a redirect ("" if there is none) and the body.

        ``host``: index of the port. Raises RuntimeError if the status is not the expected one.
        """
        if host not in self._connections:
            port = self._ports[host]
            self._connections[host] = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = self._connections[host]
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        if int(head[0].split()[1]) != expected:
            message = f"{request[:100]!r}: {head[0]} {body[:300]!r}"
            raise RuntimeError(message)
        location = next((line[10:] for line in head if line.lower().startswith("location: ")), "")
        return location, body

    async def get(self, host: int, path: str, expected: int = 200) -> tuple[str, bytes]:
        """Load a page."""
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{_ACCEPT}\r\n"
        return await self.send(host, head.encode(), expected=expected)

    async def post(self, host: int, path: str, form: dict[str, str]) -> str:
        """Submit a form; return the target of the redirect."""
        body = urlencode(form).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{_ACCEPT}"
            "content-type: application/x-www-form-urlencoded\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return (await self.send(host, head.encode() + body, expected=303))[0]

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._connections.values():
            writer.close()


async def open_session(browser: Browser, order: Order) -> None:
    """Open the session by the API, as the shop does."""
    request = build_session_request(order.seed, order.merchant_index)
    _, body = await browser.send(_SERVER, request, expected=201)
    order.session_id = msgspec.json.decode(body)["data"]["id"]


async def load_payment_page(browser: Browser, order: Order) -> None:
    """Load the payment page."""
    await browser.get(_SERVER, f"/checkout/{order.session_id}")


async def submit_form(browser: Browser, order: Order) -> None:
    """Submit the payment form."""
    location = await browser.post(_SERVER, f"/checkout/{order.session_id}", _FORM)
    order.next_path = _path(location)
    order.attempt_id = urlsplit(location).path.rpartition("/continue/")[2]
    assert order.attempt_id.startswith("att_"), location


async def follow_to_bank(browser: Browser, order: Order) -> None:
    """Load the page that forwards the customer to the bank."""
    await browser.get(_SERVER, order.next_path)


async def pay_at_bank(browser: Browser, order: Order) -> None:
    """Pay by card on the bank's page, and load the page that shows the result."""
    await browser.get(_BANK, f"/pay/{order.attempt_id}")
    result_path = _path(await browser.post(_BANK, f"/pay/{order.attempt_id}", _CARD))
    await browser.get(_BANK, result_path)


async def return_from_bank(browser: Browser, order: Order) -> None:
    """Return from the bank to the shop's session."""
    path = f"/checkout/{order.session_id}/return/{order.attempt_id}?lang=en"
    order.next_path = _path((await browser.get(_SERVER, path, 303))[0])


async def load_receipt(browser: Browser, order: Order) -> None:
    """Load the session's page, which shows that the payment succeeded."""
    _, body = await browser.get(_SERVER, order.next_path)
    assert b'name="method"' not in body, "the page asks to pay a session that is already paid"


STAGES: Final = {
    "session opened": open_session,
    "page": load_payment_page,
    "form": submit_form,
    "page to the bank": follow_to_bank,
    "paid and reported": pay_at_bank,
    "way back": return_from_bank,
    "receipt": load_receipt,
}


def _path(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


async def run_customers(
    orders: Sequence[Order],
    stage: Callable[[Browser, Order], Awaitable[None]],
    *,
    ports: Sequence[int],
    rate: float,
    browser_count: int,
) -> None:
    """Run a stage for each order: start ``rate`` per second, but wait while no browser is idle."""
    idle_browsers: asyncio.Queue[Browser] = asyncio.Queue()
    browsers = [Browser(ports) for _ in range(browser_count)]
    for browser in browsers:
        idle_browsers.put_nowait(browser)
    clock = asyncio.get_running_loop().time
    started = clock()

    async def run_stage(order: Order, browser: Browser) -> None:
        await stage(browser, order)
        idle_browsers.put_nowait(browser)

    try:
        async with asyncio.TaskGroup() as group:
            for number, order in enumerate(orders):
                await asyncio.sleep(max(0.0, started + number / rate - clock()))
                group.create_task(run_stage(order, await idle_browsers.get()))
    finally:
        for browser in browsers:
            browser.close()
