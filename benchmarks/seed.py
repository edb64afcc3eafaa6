"""Seed a database with merchants, their keys and products, and orders that wait for payment.

The services create one order of each merchant: they open a session, start an attempt, and apply the
gateway's response that the customer must act. All other orders are copies of these rows under other
ids, so that they equal what the services would have written, at the speed of ``insert … select``.
The id of a copy contains its number, so that pgbench can compute it. Merchants are numbered from 0;
``index`` is that number.
"""

import hashlib
import hmac
import time
from typing import Any, Final

import msgspec

from benchmarks.recording import RecordedStatement, Statement, build_trace, recording
from opentill import callbacks, checkouts, merchants, orders
from opentill.checkouts import api as checkouts_api
from opentill.checkouts.model import SessionBody
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.gateways.model import GatewayPaymentEvent, PaymentOutcome
from opentill.http.operations import ApiRequest, Nothing
from opentill.orders import api as orders_api
from opentill.outgoing.client import merchant_client
from opentill.products import service as products_service
from opentill.products.model import ProductBody

MERCHANTS: Final = 200
FIRST_COPY: Final = 1_000_000
FIRST_PGBENCH_SESSION: Final = 1_000_000_000_000
CLIENT_ADDRESS: Final = "203.0.113.7"
_WEEK_MS: Final = 7 * 24 * 3600 * 1000
_PRODUCT: Final = ProductBody(
    name="Tea, 100 g",
    price="9.99",
    currency="USD",
    description="Loose leaf green tea.",
    metadata=msgspec.Raw(b'{"sku":"TEA-100"}'),
)
# Kind of object → SQL that computes its id from a number, for inserts and pgbench. Functions below
# compute the same ids in Python.
SQL_IDS: Final = {
    "session": "'cs_' || lpad(({0})::text, 32, '0')",
    "order": "'order_' || lpad(({0})::text, 26, '0')",
    "attempt": "'att_' || lpad(({0})::text, 26, '0')",
    "product": "'prod_' || lpad(({0})::text, 26, '0')",
    "event": "'evt_' || lpad(({0})::text, 25, '0')",
    "digest": "decode(lpad(to_hex(({0})::int), 64, '0'), 'hex')",
}


def order_id(number: int) -> str:
    """Return the id of a copied order."""
    return f"order_{number:026}"


def session_id(number: int) -> str:
    """Return the id of a copied session."""
    return f"cs_{number:032}"


def attempt_id(number: int) -> str:
    """Return the id of a copied attempt."""
    return f"att_{number:026}"


def product_id(index: int) -> str:
    """Return the id of a merchant's product."""
    return f"prod_{index:026}"


class SeededMerchant(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant with a key, a product, and an order that waits for payment."""

    merchant_id: str
    key: str
    order_id: str
    session_id: str
    attempt_id: str


class Seed:
    """A seeded database, in which ``copy_orders`` creates more orders."""

    def __init__(
        self, db: Db, seeded_merchants: list[SeededMerchant], columns: dict[str, list[str]]
    ) -> None:
        """Use ``seed_merchants``, which also creates the rows."""
        self.db = db
        self.merchants = seeded_merchants
        self._columns = columns
        self._next_order = FIRST_COPY
        self._next_session = FIRST_PGBENCH_SESSION

    async def copy_orders(
        self, count: int, merchant_count: int, schema: str = "public", first: int | None = None
    ) -> int:
        """Create orders with pending attempts; return the number of the first one.

        Order ``n`` belongs to merchant ``(n - first) % merchant_count``. ``schema`` contains the
        tables; only ``public`` has a directory. ``first`` is the number of the first order; None
        reserves numbers. The orders are not queued for the search index, because that is part of
        the cost of opening an order.
        """
        if first is None:
            first = self.reserve_orders(count)
        async with self.db.transaction() as tx:
            for table, expressions in _COPIED:
                if table == "directory" and schema != "public":
                    continue
                columns = self._columns[table]
                selected = ", ".join(expressions.get(column, f"t.{column}") for column in columns)
                await tx.execute(
                    f"insert into {schema}.{table} ({', '.join(columns)}) select {selected}"  # noqa: S608 - constants
                    f" from generate_series($1::bigint, $1::bigint + $2::bigint - 1) n"
                    f" join bench_merchants b on b.merchant_index = (n - $1::bigint) % $3::bigint"
                    f" join public.{table} t on t.merchant_id = b.merchant_id and t.{_KEYS[table]}",
                    first,
                    count,
                    merchant_count,
                    timeout=120,
                )
            await tx.execute("delete from search_changes")
        return first

    def reserve_orders(self, count: int) -> int:
        """Reserve ``count`` order numbers; return the first one."""
        first = self._next_order
        self._next_order += count
        return first

    def columns(self, table: str) -> list[str]:
        """Return the names of a copied table's columns."""
        return self._columns[table]

    def reserve_sessions(self, count: int) -> int:
        """Reserve ``count`` session numbers; return the first one."""
        first = self._next_session
        self._next_session += count
        return first


_SESSION, _ORDER, _ATTEMPT = (SQL_IDS[name].format("n") for name in ("session", "order", "attempt"))
_KEYS: Final = {
    "checkouts": "id = b.session_id",
    "orders": "id = b.order_id",
    "order_history": "order_id = b.order_id",
    "payment_attempts": "id = b.attempt_id",
    "directory": "id in (b.session_id, b.attempt_id)",
}
# Tables, each with SQL of the columns that differ from the copied row.
_COPIED: Final = (
    ("checkouts", {"id": _SESSION, "order_id": _ORDER}),
    ("orders", {"id": _ORDER, "checkout_id": _SESSION}),
    ("order_history", {"order_id": _ORDER}),
    (
        "payment_attempts",
        {"id": _ATTEMPT, "order_id": _ORDER, "check_at": f"t.check_at + {_WEEK_MS}"},
    ),
    (
        "directory",
        {"id": f"case when t.id = b.session_id then {_SESSION} else {_ATTEMPT} end"},
    ),
)


async def seed_merchants(db: Db, settings: Settings, count: int = MERCHANTS) -> Seed:
    """Seed an empty database with ``count`` merchants."""
    now = now_ms()
    seeded_merchants = []
    for index in range(count):
        async with db.transaction() as tx:
            seeded_merchants.append(await _seed_merchant(tx, settings, index, now))
    async with db.transaction() as tx:
        await tx.execute(
            "create table bench_merchants (merchant_index int primary key, merchant_id text,"
            " order_id text, session_id text, attempt_id text)"
        )
        for index, merchant in enumerate(seeded_merchants):
            await tx.execute(
                "insert into bench_merchants values ($1, $2, $3, $4, $5)",
                index,
                merchant.merchant_id,
                merchant.order_id,
                merchant.session_id,
                merchant.attempt_id,
            )
            # pgbench cannot hash keys. Therefore a key's digest is made from the merchant's index.
            await tx.execute(
                "insert into api_keys (id, merchant_id, key_sha256, hint, environment, created_at)"  # noqa: S608 - constants
                f" values ($1, $2, {SQL_IDS['digest'].format('$3::int')}, '', $4, $5)",
                f"key_{index:026}",
                merchant.merchant_id,
                index,
                settings.environment,
                now,
            )
        columns = {table: await _column_names(tx, table) for table, _ in _COPIED}
    return Seed(db, seeded_merchants, columns)


async def _seed_merchant(tx: Tx, settings: Settings, index: int, now: int) -> SeededMerchant:
    merchant = await merchants.create(tx, name=f"Tea house {index}", now=now)
    key = await merchants.create_key(tx, merchant.id, settings.environment, now)
    product = await products_service.create(tx, merchant.id, _PRODUCT, now)
    await tx.execute("update products set id = $1 where id = $2", product_id(index), product.id)
    body = msgspec.json.decode(session_body(index), type=SessionBody)
    session = await checkouts.open_session(tx, merchant.id, body, now)
    order = await orders.lock(tx, merchant.id, session.order_id)
    payer = orders.Payer(email="ada@example.com", name="Ada", ip=CLIENT_ADDRESS, locale="en")
    attempt = await orders.start_attempt(tx, order, "sandbox", "ALIPAY", payer, now)
    url = "http://127.0.0.1:8081/pay/1"
    outcome = PaymentOutcome(status="ACTION_REQUIRED", provider_ref=attempt.id, action_url=url)
    await orders.apply_outcome(tx, merchant.id, attempt.id, outcome, now, gateway="sandbox")
    await tx.execute(
        "update payment_attempts set check_at = check_at + $2 where id = $1", attempt.id, _WEEK_MS
    )
    return SeededMerchant(
        merchant_id=merchant.id,
        key=key.key,
        order_id=session.order_id,
        session_id=session.id,
        attempt_id=attempt.id,
    )


async def _column_names(tx: Tx, table: str) -> list[str]:
    rows = await tx.fetch(
        "select column_name from information_schema.columns where table_name = $1"
        " and table_schema = 'public' and is_generated = 'NEVER' order by ordinal_position",
        table,
    )
    return [row[0] for row in rows]


def session_body(index: int) -> bytes:
    """Return the body that opens a session for a merchant's product."""
    body = {
        "productId": product_id(index),
        "successUrl": "https://shop.example.com/thanks?session={CHECKOUT_SESSION_ID}",
        "cancelUrl": "https://shop.example.com/cart",
        "customerEmail": "ada@example.com",
        "metadata": {"cart": "42"},
    }
    return msgspec.json.encode(body)


def payment_callback(attempt: str) -> bytes:
    """Return the body of the sandbox bank's callback about a paid attempt."""
    payment = {
        "id": attempt,
        "status": "succeeded",
        "decline_code": None,
        "amount_minor": 999,
        "currency": "USD",
        "method": "ALIPAY",
        "action_url": "http://127.0.0.1:8081/pay/1",
        "qr_text": None,
    }
    body = {
        "id": f"cb_{attempt[-20:]}",
        "type": "payment.succeeded",
        "created_at": now_ms(),
        "data": {"payment": payment},
    }
    return msgspec.json.encode(body)


def signature(secret: str, body: bytes) -> str:
    """Return the bank's signature of a callback that is sent now."""
    timestamp = str(int(time.time()))
    message = timestamp.encode() + b"." + body
    return f"t={timestamp},v1={hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()}"


def _create_app(db: Db, settings: Settings) -> App:
    return App(
        settings=settings, db=db, gateways={}, outgoing=merchant_client(settings), clock=now_ms
    )


async def confirm_first_payments(db: Db, seed: Seed, settings: Settings) -> None:
    """Confirm a payment of each merchant, which creates the merchant's balance."""
    app, count = _create_app(db, settings), len(seed.merchants)
    first = await seed.copy_orders(count, count)
    for number in range(first, first + count):
        await callbacks.apply_event(app, "sandbox", _paid_event(attempt_id(number)), now_ms())


async def record_traces(url: str, seed: Seed, settings: Settings) -> dict[str, list[Statement]]:
    """Run each operation once and return the statements that it runs."""
    async with recording(url) as (db, recorded):
        return await _run_operations(db, recorded, seed, settings)


async def _run_operations(
    db: Db, recorded: list[RecordedStatement], seed: Seed, settings: Settings
) -> dict[str, list[Statement]]:
    app = _create_app(db, settings)
    merchant = seed.merchants[0]
    now = now_ms()
    traces: dict[str, list[Statement]] = {}

    def build_request(path: dict[str, str], body: Any = None) -> ApiRequest[Any, Any]:
        return ApiRequest(
            app=app,
            merchant_id=merchant.merchant_id,
            now=now,
            path=path,
            query=Nothing(),
            body=body,
        )

    role_values: dict[str, Any] = {
        "merchant": merchant.merchant_id,
        "digest": hashlib.sha256(merchant.key.encode()).digest(),
    }
    recorded.clear()
    await merchants.authenticate(db, settings, merchant.key, "127.0.0.1", now)
    await orders_api.get(build_request({"id": merchant.order_id}))
    traces["read"] = build_trace(recorded, {**role_values, "order": merchant.order_id})

    recorded.clear()
    body = msgspec.json.decode(session_body(0), type=SessionBody)
    await merchants.authenticate(db, settings, merchant.key, "127.0.0.1", now)
    request = build_request({}, body)
    (operation,) = (each for each in checkouts_api.operations if each.write is checkouts_api.create)
    run = db.read if operation.autocommit else db.run  # the same choice as in http.operations
    checkout = await run(lambda tx: checkouts_api.create(request, tx))
    statements = list(recorded)
    async with seed.db.connection() as tx:
        session = await checkouts.find(tx, merchant.merchant_id, checkout.id)
    create_values = {"session": checkout.id, "order": session.order_id, "product": product_id(0)}
    traces["create"] = build_trace(statements, {**role_values, **create_values})

    number = await seed.copy_orders(1, 1)
    reports = [orders.Report("sandbox", _paid_event(attempt_id(number)))]
    recorded.clear()
    confirmed = await db.run(lambda tx: orders.confirm_many(tx, reports, now))
    assert confirmed == {reports[0].key}, "an ordinary payment is confirmed as part of a batch"
    pay_values = {
        "attempt": attempt_id(number),
        "order": order_id(number),
        "session": session_id(number),
        "product": product_id(0),
    }
    traces["pay"] = build_trace(recorded, {**role_values, **pay_values})
    return traces


def _paid_event(attempt: str) -> GatewayPaymentEvent:
    outcome = PaymentOutcome(status="SUCCEEDED", provider_ref=attempt, method="ALIPAY")
    return GatewayPaymentEvent(attempt_id=attempt, outcome=outcome)
