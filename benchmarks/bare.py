"""An upper limit: an ASGI application on OpenTill's HTTP server that only runs the same SQL.

It has no framework, validation, rules or log. It takes the ids from the request, runs the recorded
statements through asyncpg on one connection, and encodes the last row as the same JSON.
``/constant`` responds with a constant, which measures the HTTP server alone.
"""

import hashlib
import operator
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, cast

import asyncpg
import msgspec

from benchmarks.recording import Joined, Role, Statement, event_roles
from opentill.checkouts.model import LIFETIME_MS
from opentill.core.ids import new_id, new_session_id
from opentill.core.settings import Settings
from opentill.db.pool import Pool
from opentill.orders import Order, OrderDetail
from opentill.server import http_server

Traces = Mapping[str, list[Statement]]  # operation (create, read, pay) → its statements
Row = Mapping[str, Any]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode
_STORED_FIELDS: Final = [
    field for field in msgspec.structs.fields(OrderDetail) if field.name in Order.__struct_fields__
]
_SHOWN_AS_STORED: Final = tuple(field.encode_name for field in _STORED_FIELDS)
_stored_values: Final = operator.itemgetter(*(field.name for field in _STORED_FIELDS))
_DONE: Final = b'{"code":0,"message":"success"}'


class _CompiledStatement(msgspec.Struct, frozen=True):
    """A recorded statement with a function that computes its values from the roles."""

    method: str
    sql: str
    bind: Callable[[dict[str, Any]], tuple[Any, ...]]
    returned_roles: tuple[tuple[str, str], ...]  # pairs of a returned column and the role it fills


def _source(value: Any, constants: list[Any]) -> str:
    """Return the Python source of a value: a lookup in the roles ``r`` or the constants ``c``."""
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


def compile_trace(statements: list[Statement]) -> list[_CompiledStatement]:
    """Compile the statements of a trace, so that binding their values costs almost nothing."""
    compiled = []
    for statement in statements:
        constants: list[Any] = []
        items = "".join(_source(value, constants) + ", " for value in statement.values)
        bind = eval(f"lambda r, c=c: ({items})", {"c": constants})  # noqa: S307 - built from our own statements
        returned_roles = tuple(statement.returned_roles.items())
        compiled.append(_CompiledStatement(statement.method, statement.sql, bind, returned_roles))
    return compiled


class BareApplication:
    """An ASGI application that runs the recorded statements of each operation."""

    def __init__(self, url: str, traces: Traces, pool_size: int) -> None:
        """Compile the statements of each operation."""
        self._url = url
        self._pool_size = pool_size
        self._statements = {name: compile_trace(trace) for name, trace in traces.items()}
        self._event_roles = {name: event_roles(trace) for name, trace in traces.items()}

    def _new_event_ids(self, operation: str) -> dict[str, Any]:
        return {role: new_id("evt") for role in self._event_roles[operation]}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Handle a request, or the start and stop of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        path: str = scope["path"]
        if path == "/constant":
            await _send(send, 200, _DONE)
        elif path.startswith("/v1/orders/"):
            roles = {"digest": _digest_key(scope), "order": path[11:]}
            row = await self._run("read", roles)
            await _send(send, 200, _encode(build_order_response(row)))
        elif path == "/v1/checkouts":
            body = _decode(await _read_body(receive))
            roles = {"digest": _digest_key(scope), "product": body["productId"]}
            roles |= {"session": new_session_id(), "order": new_id("order")}
            product = await self._run("create", roles | self._new_event_ids("create"))
            await _send(send, 201, _encode(build_session_response(product, roles)))
        else:
            body = _decode(await _read_body(receive))
            attempt_id = body["data"]["payment"]["id"]
            await self._run("pay", self._new_event_ids("pay") | {"attempt": attempt_id})
            await _send(send, 200, _DONE)

    async def _lifespan(self, receive: Any, send: Any) -> None:
        await receive()
        # This server shows the highest rate possible, so it uses OpenTill's own pool, which costs
        # less than asyncpg's.
        self._pool = Pool(lambda: asyncpg.connect(self._url), self._pool_size)
        await send({"type": "lifespan.startup.complete"})
        await receive()
        self._pool.terminate()
        await send({"type": "lifespan.shutdown.complete"})

    async def _run(self, operation: str, roles: dict[str, Any]) -> Row:
        """Run an operation's statements and return the last row that one of them returned."""
        row: Any = None
        connection = self._pool.take_now() or await self._pool.take(10)
        try:
            for statement in self._statements[operation]:
                if statement.method == "begin":
                    transaction = connection.transaction()
                    await transaction.start()
                elif statement.method == "commit":
                    await transaction.commit()
                else:
                    run: Callable[..., Awaitable[Any]] = getattr(connection, statement.method)
                    rows = await run(statement.sql, *statement.bind(roles))
                    if statement.method != "execute":
                        row = rows[0] if statement.method == "fetch" and rows else rows
                    for column, role in statement.returned_roles:
                        roles[role] = row[column]
        finally:
            self._pool.give_back(connection)
        return cast("Row", row)


async def _read_body(receive: Any) -> bytes:
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


def _digest_key(scope: Any) -> bytes:
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            return hashlib.sha256(value).digest()
    return b""


def _format_amount(minor: int) -> str:
    return f"{minor // 100}.{minor % 100:02}"


def build_session_response(product: Row, roles: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response body of the request that opened a session."""
    now = time.time_ns() // 1_000_000
    data = {
        "id": roles["session"],
        "productId": roles["product"],
        "amount": _format_amount(product["price_minor"]),
        "currency": product["currency"],
        "status": "OPEN",
        "url": f"http://127.0.0.1:8080/checkout/{roles['session']}",
        "expiresAt": now + LIFETIME_MS,
        "createdAt": now,
    }
    return {"code": 0, "message": "success", "data": data}


def build_order_response(row: Row) -> dict[str, Any]:
    """Return the body that shows an order. Fields that are not computed are shown as stored."""
    amount = _format_amount(row["amount_minor"])
    data = dict(zip(_SHOWN_AS_STORED, _stored_values(row), strict=True)) | {
        "checkoutSessionId": row["checkout_id"],
        "amount": amount,
        "platformFeeRate": str(row["platform_fee_rate"]),
        "platformFee": _format_amount(row["platform_fee_minor"]),
        "netAmount": _format_amount(row["amount_minor"] - row["platform_fee_minor"]),
        "settledAmount": _format_amount(row["net_settled_minor"]),
        "exchangeRate": str(row["exchange_rate"]),
        "metadata": msgspec.Raw(row["metadata"].encode()),
        "baseAmount": amount,
        "payableAmount": amount,
        "refundStatus": "NONE",
        "refundedAmount": "0",
        "rollingReserveRate": str(row["reserve_rate"]),
        "rollingReserveAmount": _format_amount(row["reserve_minor"]),
        "rollingReserveStatus": row["reserve_status"],
        "rollingReserveReleaseAt": row["reserve_release_at"],
        "livemode": bool(row["livemode"]),
        "quantity": row["quantity"] or 1,
        "cardBrand": None,
        "cardLast4": None,
    }
    return {"code": 0, "message": "success", "data": data}


def serve_bare(
    url: str, traces: Traces, pool_size: int, settings: Settings, listener: socket.socket
) -> None:
    """Serve the application until the process is terminated."""
    http_server.serve(lambda: BareApplication(url, traces, pool_size), settings, [listener])
