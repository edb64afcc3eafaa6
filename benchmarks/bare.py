"""The limit: an ASGI application on OpenTill's HTTP server that runs the very same SQL, no more.

No framework, no validation, no rules, no log: a request's ids are taken out of its bytes, the
recorded statements are run through asyncpg on one connection, the last row becomes the same JSON.
``/constant`` responds at once: the HTTP server alone.
"""

import hashlib
import operator
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, Final, cast

import asyncpg
import msgspec

from benchmarks.recording import Joined, Role, Statement, events_of
from opentill.checkouts.model import LIFETIME_MS
from opentill.core.ids import new_id, new_session_id
from opentill.core.settings import Settings
from opentill.db.pool import Pool
from opentill.orders import Order, OrderDetail
from opentill.server import http_server

Traces = Mapping[str, list[Statement]]  # by operation: create, read, pay
Row = Mapping[str, Any]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_STORED_FIELDS: Final = [
    field for field in msgspec.structs.fields(OrderDetail) if field.name in Order.__struct_fields__
]
_SHOWN_AS_STORED: Final = tuple(field.encode_name for field in _STORED_FIELDS)
_stored_values: Final = operator.itemgetter(*(field.name for field in _STORED_FIELDS))
_DONE: Final = b'{"code":0,"message":"success"}'


class _Prepared(msgspec.Struct, frozen=True):
    """A statement, ready to run."""

    how: str
    sql: str
    values: Callable[[dict[str, Any]], tuple[Any, ...]]
    gives: tuple[tuple[str, str], ...]


def _source(value: Any, constants: list[Any]) -> str:
    if isinstance(value, Role):
        return f"r[{value.name!r}]"
    if isinstance(value, Joined):
        return "''.join((" + ", ".join(_source_text(part) for part in value.parts) + "))"
    if isinstance(value, list):
        return "[" + ", ".join(_source(item, constants) for item in value) + "]"
    constants.append(value)
    return f"c[{len(constants) - 1}]"


def _source_text(part: str | Role) -> str:
    return f"r[{part.name!r}]" if isinstance(part, Role) else repr(part)


def prepare(statements: list[Statement]) -> list[_Prepared]:
    """Compile a trace, so that binding values costs next to nothing."""
    prepared = []
    for statement in statements:
        constants: list[Any] = []
        items = "".join(_source(value, constants) + ", " for value in statement.values)
        values = eval(f"lambda r, c=c: ({items})", {"c": constants})  # noqa: S307 - our own words
        gives = tuple((column, role) for column, role in statement.gives.items())
        prepared.append(_Prepared(statement.how, statement.sql, values, gives))
    return prepared


class Bare:
    """The application."""

    def __init__(self, url: str, traces: Traces, pool_size: int) -> None:
        """``traces`` say what each operation runs."""
        self._url = url
        self._pool_size = pool_size
        self._prepared = {name: prepare(statements) for name, statements in traces.items()}
        self._events = {name: events_of(statements) for name, statements in traces.items()}

    def _ids(self, operation: str) -> dict[str, Any]:
        return {name: new_id("evt") for name in self._events[operation]}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        path: str = scope["path"]
        if path == "/constant":
            await _send(send, 200, _DONE)
        elif path.startswith("/v1/orders/"):
            roles = {"digest": _digest(scope), "order": path[11:]}
            row = await self._run("read", roles)
            await _send(send, 200, _encode(_order(row)))
        elif path == "/v1/checkouts":
            body = _decode(await _read(receive))
            roles = {"digest": _digest(scope), "product": body["productId"]}
            roles |= {"session": new_session_id(), "order": new_id("order")} | self._ids("create")
            offer = await self._run("create", roles)
            await _send(send, 201, _encode(_session(offer, roles)))
        else:
            body = _decode(await _read(receive))
            await self._run("pay", self._ids("pay") | {"attempt": body["data"]["payment"]["id"]})
            await _send(send, 200, _DONE)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        # OpenTill's own, which costs less than asyncpg's: the limit has what is best.
        self._pool = Pool(lambda: asyncpg.connect(self._url), self._pool_size)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._pool.terminate()
        await send({"type": "lifespan.shutdown.complete"})

    async def _run(self, operation: str, roles: dict[str, Any]) -> Row:
        """Run an operation's statements and return the last row that one of them gave."""
        last: Any = None
        connection = self._pool.take_now() or await self._pool.take(10)
        try:
            for statement in self._prepared[operation]:
                if statement.how == "begin":
                    transaction = connection.transaction()
                    await transaction.start()
                elif statement.how == "commit":
                    await transaction.commit()
                else:
                    run: Callable[..., Awaitable[Any]] = getattr(connection, statement.how)
                    rows = await run(statement.sql, *statement.values(roles))
                    if statement.how != "execute":
                        last = rows[0] if statement.how == "fetch" and rows else rows
                    for column, role in statement.gives:
                        roles[role] = last[column]
        finally:
            self._pool.give_back(connection)
        return cast("Row", last)


async def _read(receive: Any) -> bytes:
    message = await receive()
    body: bytes = message["body"]
    while message["more_body"]:
        message = await receive()
        body += message["body"]
    return body


async def _send(send: Any, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _digest(scope: Any) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            return hashlib.sha256(value).digest()
    return b""


def _money(minor: int) -> str:
    return f"{minor // 100}.{minor % 100:02}"


def _rate(rate: Decimal) -> str:
    return str(rate)


def _session(offer: Row, roles: Mapping[str, Any]) -> dict[str, Any]:
    now = time.time_ns() // 1_000_000
    data = {
        "id": roles["session"],
        "productId": roles["product"],
        "amount": _money(offer["price_minor"]),
        "currency": offer["currency"],
        "status": "OPEN",
        "url": f"http://127.0.0.1:8080/checkout/{roles['session']}",
        "expiresAt": now + LIFETIME_MS,
        "createdAt": now,
    }
    return {"code": 0, "message": "success", "data": data}


def _order(row: Row) -> dict[str, Any]:
    """Show an order. What is not computed here is shown as it is stored."""
    amount = _money(row["amount_minor"])
    data = dict(zip(_SHOWN_AS_STORED, _stored_values(row), strict=True)) | {
        "checkoutSessionId": row["checkout_id"],
        "amount": amount,
        "platformFeeRate": _rate(row["platform_fee_rate"]),
        "platformFee": _money(row["platform_fee_minor"]),
        "netAmount": _money(row["amount_minor"] - row["platform_fee_minor"]),
        "settledAmount": _money(row["net_settled_minor"]),
        "exchangeRate": _rate(row["exchange_rate"]),
        "metadata": msgspec.Raw(row["metadata"].encode()),
        "baseAmount": amount,
        "payableAmount": amount,
        "refundStatus": "NONE",
        "refundedAmount": "0",
        "rollingReserveRate": _rate(row["reserve_rate"]),
        "rollingReserveAmount": _money(row["reserve_minor"]),
        "rollingReserveStatus": row["reserve_status"],
        "rollingReserveReleaseAt": row["reserve_release_at"],
        "livemode": bool(row["livemode"]),
        "quantity": row["quantity"] or 1,
        "cardBrand": None,
        "cardLast4": None,
    }
    return {"code": 0, "message": "success", "data": data}


def bare_server(
    url: str, traces: Traces, pool_size: int, settings: Settings, listener: socket.socket
) -> None:
    """Serve until terminated, in a process of its own."""
    http_server.serve(lambda: Bare(url, traces, pool_size), settings, [listener])
