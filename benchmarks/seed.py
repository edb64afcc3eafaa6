"""What the benchmarks work on: merchants with keys and products, and orders that wait for payment.

One order of each merchant goes through the services: session opened, attempt started, gateway
asked the customer to act. As many more as are needed are copies of those rows under other ids, so
that they are what the services would have written, at the speed of ``insert … select``. An id of a
copy is its number, so that pgbench can name it too.
"""

import hashlib
import hmac
import time
from typing import Any, Final

import msgspec

from benchmarks.recording import RanStatement, Statement, recording, trace
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
COPIES_FROM: Final = 1_000_000
SESSIONS_FROM: Final = 1_000_000_000_000  # those that pgbench opens
ADDRESS: Final = "203.0.113.7"
_FAR_MS: Final = 7 * 24 * 3600 * 1000
_PRODUCT: Final = ProductBody(
    name="Tea, 100 g",
    price="9.99",
    currency="USD",
    description="Loose leaf green tea.",
    metadata=msgspec.Raw(b'{"sku":"TEA-100"}'),
)
# How a number becomes an id: SQL for inserts and pgbench, Python for requests.
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


def product_id(place: int) -> str:
    """Return the id of the product of the merchant at a place."""
    return f"prod_{place:026}"


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant with a key, a product, and an order that waits for its payment."""

    merchant_id: str
    key: str
    order_id: str
    session_id: str
    attempt_id: str


class Seed:
    """The seeded database; ``copy`` makes more orders that wait."""

    def __init__(self, db: Db, tenants: list[Tenant], columns: dict[str, list[str]]) -> None:
        """Use ``plant`` instead."""
        self.db = db
        self.tenants = tenants
        self._columns = columns
        self._next = COPIES_FROM
        self._next_session = SESSIONS_FROM

    async def copy(
        self, count: int, merchants_: int, schema: str = "public", first: int | None = None
    ) -> int:
        """Make orders with attempts that wait; return the first's number.

        Copy ``n`` belongs to the merchant at the place ``(n - first) % merchants_``. ``schema``:
        where to put them, without the directory if elsewhere than ours. ``first``: the number, of
        those that are in another schema already. They are not indexed for searches: that is part of
        what opening an order costs.
        """
        if first is None:
            first = self.reserve(count)
        async with self.db.transaction() as tx:
            for table, ids in _COPIED:
                if table == "directory" and schema != "public":
                    continue
                columns = self._columns[table]
                chosen = ", ".join(ids.get(column, f"t.{column}") for column in columns)
                await tx.execute(
                    f"insert into {schema}.{table} ({', '.join(columns)}) select {chosen}"  # noqa: S608 - ours
                    f" from generate_series($1::bigint, $1::bigint + $2::bigint - 1) n"
                    f" join bench_tenants b on b.place = (n - $1::bigint) % $3::bigint"
                    f" join public.{table} t on t.merchant_id = b.merchant_id and t.{_KEYS[table]}",
                    first,
                    count,
                    merchants_,
                    timeout=120,
                )
            await tx.execute("delete from search_changes")
        return first

    def reserve(self, count: int) -> int:
        """Return the first of so many numbers of orders that nobody else uses."""
        first = self._next
        self._next += count
        return first

    def columns(self, table: str) -> list[str]:
        """Return the columns of a table that is copied."""
        return self._columns[table]

    def reserve_sessions(self, count: int) -> int:
        """Return the first of so many session numbers that nobody else uses."""
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
# (table, what its copied columns become)
_COPIED: Final = (
    ("checkouts", {"id": _SESSION, "order_id": _ORDER}),
    ("orders", {"id": _ORDER, "checkout_id": _SESSION}),
    ("order_history", {"order_id": _ORDER}),
    (
        "payment_attempts",
        {"id": _ATTEMPT, "order_id": _ORDER, "check_at": f"t.check_at + {_FAR_MS}"},
    ),
    (
        "directory",
        {"id": f"case when t.id = b.session_id then {_SESSION} else {_ATTEMPT} end"},
    ),
)


async def plant(db: Db, settings: Settings, count: int = MERCHANTS) -> Seed:
    """Seed an empty database with so many merchants."""
    now = now_ms()
    tenants = []
    for place in range(count):
        async with db.transaction() as tx:
            tenants.append(await _tenant(tx, settings, place, now))
    async with db.transaction() as tx:
        await tx.execute(
            "create table bench_tenants (place int primary key, merchant_id text, order_id text,"
            " session_id text, attempt_id text)"
        )
        for place, tenant in enumerate(tenants):
            await tx.execute(
                "insert into bench_tenants values ($1, $2, $3, $4, $5)",
                place,
                tenant.merchant_id,
                tenant.order_id,
                tenant.session_id,
                tenant.attempt_id,
            )
            # pgbench cannot digest a key; it enters by a digest that is the merchant's place.
            await tx.execute(
                "insert into api_keys (id, merchant_id, key_sha256, hint, environment, created_at)"  # noqa: S608 - ours
                f" values ($1, $2, {SQL_IDS['digest'].format('$3::int')}, '', $4, $5)",
                f"key_{place:026}",
                tenant.merchant_id,
                place,
                settings.environment,
                now,
            )
        columns = {table: await _column_names(tx, table) for table, _ in _COPIED}
    return Seed(db, tenants, columns)


async def _tenant(tx: Tx, settings: Settings, place: int, now: int) -> Tenant:
    merchant = await merchants.create(tx, name=f"Tea house {place}", now=now)
    key = await merchants.create_key(tx, merchant.id, settings.environment, now)
    product = await products_service.create(tx, merchant.id, _PRODUCT, now)
    await tx.execute("update products set id = $1 where id = $2", product_id(place), product.id)
    body = msgspec.json.decode(session_body(place), type=SessionBody)
    session = await checkouts.open_session(tx, merchant.id, body, now)
    order = await orders.lock(tx, merchant.id, session.order_id)
    payer = orders.Payer(email="ada@example.com", name="Ada", ip=ADDRESS, locale="en")
    attempt = await orders.start_attempt(tx, order, "sandbox", "ALIPAY", payer, now)
    url = "http://127.0.0.1:8081/pay/1"
    waits = PaymentOutcome(status="ACTION_REQUIRED", provider_ref=attempt.id, action_url=url)
    await orders.apply_outcome(tx, merchant.id, attempt.id, waits, now, gateway="sandbox")
    await tx.execute(
        "update payment_attempts set check_at = check_at + $2 where id = $1", attempt.id, _FAR_MS
    )
    return Tenant(
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


def session_body(place: int) -> bytes:
    """Return the body that opens a session for the product of the merchant at a place."""
    body = {
        "productId": product_id(place),
        "successUrl": "https://shop.example.com/thanks?session={CHECKOUT_SESSION_ID}",
        "cancelUrl": "https://shop.example.com/cart",
        "customerEmail": "ada@example.com",
        "metadata": {"cart": "42"},
    }
    return msgspec.json.encode(body)


def payment_callback(attempt: str) -> bytes:
    """Return what the sandbox bank sends when an attempt was paid."""
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
    """Sign a callback as the bank does, now."""
    timestamp = str(int(time.time()))
    signed = timestamp.encode() + b"." + body
    return f"t={timestamp},v1={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def _app(db: Db, settings: Settings) -> App:
    return App(
        settings=settings, db=db, gateways={}, outgoing=merchant_client(settings), clock=now_ms
    )


async def first_payments(db: Db, seed: Seed, settings: Settings) -> None:
    """Confirm a payment of each merchant: the first makes the merchant's balance."""
    first = await seed.copy(len(seed.tenants), len(seed.tenants))
    for number in range(first, first + len(seed.tenants)):
        await callbacks.apply_event(
            _app(db, settings), "sandbox", _paid(attempt_id(number)), now_ms()
        )


async def record(url: str, seed: Seed, settings: Settings) -> dict[str, list[Statement]]:
    """Run each operation once and return what SQL it runs."""
    async with recording(url) as (db, ran):
        return await _traces(db, ran, seed, settings)


async def _traces(
    db: Db, ran: list[RanStatement], seed: Seed, settings: Settings
) -> dict[str, list[Statement]]:
    app = _app(db, settings)
    tenant = seed.tenants[0]
    now = now_ms()
    traces: dict[str, list[Statement]] = {}

    def call(path: dict[str, str], body: Any = None) -> ApiRequest[Any, Any]:
        return ApiRequest(
            app=app, merchant_id=tenant.merchant_id, now=now, path=path, query=Nothing(), body=body
        )

    role_values: dict[str, Any] = {
        "merchant": tenant.merchant_id,
        "digest": hashlib.sha256(tenant.key.encode()).digest(),
    }
    ran.clear()
    await merchants.authenticate(db, settings, tenant.key, "127.0.0.1", now)
    await orders_api.get(call({"id": tenant.order_id}))
    traces["read"] = trace(ran, {**role_values, "order": tenant.order_id})

    ran.clear()
    body = msgspec.json.decode(session_body(0), type=SessionBody)
    await merchants.authenticate(db, settings, tenant.key, "127.0.0.1", now)
    request = call({}, body)
    (operation,) = (one for one in checkouts_api.operations if one.write is checkouts_api.create)
    work = db.read if operation.autocommit else db.run  # as http.operations does
    checkout = await work(lambda tx: checkouts_api.create(request, tx))
    statements = list(ran)
    async with seed.db.connection() as tx:
        session = await checkouts.find(tx, tenant.merchant_id, checkout.id)
    own = {"session": checkout.id, "order": session.order_id, "product": product_id(0)}
    traces["create"] = trace(statements, {**role_values, **own})

    number = await seed.copy(1, 1)
    reports = [orders.Report("sandbox", _paid(attempt_id(number)))]
    ran.clear()
    done = await db.run(lambda tx: orders.confirm_many(tx, reports, now))
    assert done == {reports[0].key}, "a payment as usual is confirmed by arrays"
    own = {
        "attempt": attempt_id(number),
        "order": order_id(number),
        "session": session_id(number),
        "product": product_id(0),
    }
    traces["pay"] = trace(ran, {**role_values, **own})
    return traces


def _paid(attempt: str) -> GatewayPaymentEvent:
    outcome = PaymentOutcome(status="SUCCEEDED", provider_ref=attempt, method="ALIPAY")
    return GatewayPaymentEvent(attempt_id=attempt, outcome=outcome)
