"""Customers and their shops, over HTTP: the parts of the way of an order, and a queue of people."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from benchmarks.contest import create_request
from benchmarks.seed import Seed

_SERVER, _BANK = 0, 1
_ACCEPT: Final = "accept: text/html\r\naccept-language: en\r\n"
_FORM: Final = {"lang": "en", "email": "ada@example.com", "name": "Ada", "method": "CREDIT_CARD"}
_CARD: Final = {"number": "4242424242424242", "exp": "12/40", "csc": "123", "name": "Ada"}


class Order(msgspec.Struct):
    """An order on its way; ``place`` is its merchant's."""

    seed: Seed
    place: int
    session: str = ""
    attempt: str = ""
    next: str = ""  # the address that the customer was sent to


class Visitor:
    """A browser with a connection to the server and one to the bank."""

    def __init__(self, ports: Sequence[int]) -> None:
        """``ports`` are the server's and the bank's."""
        self._ports = ports
        self._open: dict[int, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def send(self, where: int, request: bytes, *, expected: int) -> tuple[str, bytes]:
        """Send a request; return where it leads to, and the body. Raises for another status."""
        if where not in self._open:
            self._open[where] = await asyncio.open_connection("127.0.0.1", self._ports[where])
        reader, writer = self._open[where]
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(fields.get("content-length", "0")))
        if int(head[0].split()[1]) != expected:
            message = f"{request[:100]!r}: {head[0]} {body[:300]!r}"
            raise RuntimeError(message)
        place = next((line[10:] for line in head if line.lower().startswith("location: ")), "")
        return place, body

    async def get(self, where: int, path: str, expected: int = 200) -> tuple[str, bytes]:
        """Load a page."""
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{_ACCEPT}\r\n"
        return await self.send(where, head.encode(), expected=expected)

    async def post(self, where: int, path: str, form: dict[str, str]) -> str:
        """Send a form; return where it leads to."""
        body = urlencode(form).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{_ACCEPT}"
            "content-type: application/x-www-form-urlencoded\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        )
        return (await self.send(where, head.encode() + body, expected=303))[0]

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._open.values():
            writer.close()


async def open_session(visitor: Visitor, order: Order) -> None:
    """Be the shop, which opens a session by the API."""
    request = create_request(order.seed, order.place)
    _, body = await visitor.send(_SERVER, request, expected=201)
    order.session = msgspec.json.decode(body)["data"]["id"]


async def look(visitor: Visitor, order: Order) -> None:
    """Load the payment page."""
    await visitor.get(_SERVER, f"/checkout/{order.session}")


async def submit(visitor: Visitor, order: Order) -> None:
    """Send the payment form."""
    order.next = _path(await visitor.post(_SERVER, f"/checkout/{order.session}", _FORM))
    order.attempt = urlsplit(order.next).path.rpartition("/continue/")[2]
    assert order.attempt.startswith("att_"), order.next


async def go_on(visitor: Visitor, order: Order) -> None:
    """Load the page that leads to the bank."""
    await visitor.get(_SERVER, order.next)


async def pay_at_bank(visitor: Visitor, order: Order) -> None:
    """Pay by card on the bank's page, and look at how that ended."""
    await visitor.get(_BANK, f"/pay/{order.attempt}")
    done = _path(await visitor.post(_BANK, f"/pay/{order.attempt}", _CARD))
    await visitor.get(_BANK, done)


async def come_back(visitor: Visitor, order: Order) -> None:
    """Come back from the bank."""
    path = f"/checkout/{order.session}/return/{order.attempt}?lang=en"
    order.next = _path((await visitor.get(_SERVER, path, 303))[0])


async def read_receipt(visitor: Visitor, order: Order) -> None:
    """Load the page that the way back leads to: that of a payment that arrived."""
    _, body = await visitor.get(_SERVER, order.next)
    assert b'name="method"' not in body, "the payment page asks again for a payment that was made"


STAGES: Final = {
    "session opened": open_session,
    "page": look,
    "form": submit,
    "page to the bank": go_on,
    "paid and reported": pay_at_bank,
    "way back": come_back,
    "receipt": read_receipt,
}


def _path(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


async def send(
    orders: Sequence[Order],
    do: Callable[[Visitor, Order], Awaitable[None]],
    *,
    ports: Sequence[int],
    rate: float,
    at_once: int,
) -> None:
    """Let customers do a part of the way: ``rate`` of them in a second, so many at once at most."""
    visitors: asyncio.Queue[Visitor] = asyncio.Queue()
    browsers = [Visitor(ports) for _ in range(at_once)]
    for visitor in browsers:
        visitors.put_nowait(visitor)
    clock = asyncio.get_running_loop().time
    started = clock()

    async def go(order: Order, visitor: Visitor) -> None:
        await do(visitor, order)
        visitors.put_nowait(visitor)

    try:
        async with asyncio.TaskGroup() as group:
            for number, order in enumerate(orders):
                await asyncio.sleep(max(0.0, started + number / rate - clock()))
                group.create_task(go(order, await visitors.get()))
    finally:
        for visitor in browsers:
            visitor.close()
