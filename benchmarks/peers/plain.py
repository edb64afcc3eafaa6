"""The peer: three operations with FastAPI, pydantic and SQLAlchemy, as most teams would write them.

Open a session, read an order, confirm a payment (signature, order, history, ledger entries with
running balances). It takes the very requests that OpenTill takes and answers with the same fields,
over tables like OpenTill's own in a schema ``plain``. It has none of the rest: no limits, no
idempotency, no events, no log. Run by uvicorn with uvloop and httptools, in an environment of its
own (``requirements.lock``)::

    PLAIN_URL=postgresql+asyncpg://… PLAIN_SECRET=… uvicorn --app-dir benchmarks/peers plain:app
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any, ClassVar

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from pydantic import BaseModel, Field, HttpUrl
from sqlalchemy import BigInteger, LargeBinary, Numeric, Text, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SECRET = os.environ["PLAIN_SECRET"].encode()
TOLERANCE_S = 300
DAY_MS = 24 * 3600 * 1000

engine = create_async_engine(os.environ["PLAIN_URL"], pool_size=10, max_overflow=0)
sessions = async_sessionmaker(engine, expire_on_commit=False)
app = FastAPI()


# ── tables ─────────────────────────────────────────────────────────────────────────────────────


class Base(DeclarativeBase):
    """All in one schema; times are Unix ms, amounts whole minor units."""

    __table_args__: ClassVar = {"schema": "plain"}
    type_annotation_map: ClassVar = {
        int: BigInteger,
        str: Text,
        bytes: LargeBinary,
        Decimal: Numeric,
    }


class Merchant(Base):
    __tablename__ = "merchants"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    settlement_currency: Mapped[str]
    platform_fee_rate: Mapped[Decimal]
    refund_fee_policy: Mapped[str]
    reserve_rate: Mapped[Decimal]
    reserve_days: Mapped[int]
    settlement_delay_days: Mapped[int]


class ApiKey(Base):
    __tablename__ = "api_keys"
    id: Mapped[str] = mapped_column(primary_key=True)
    merchant_id: Mapped[str]
    key_sha256: Mapped[bytes]
    expires_at: Mapped[int | None]
    revoked_at: Mapped[int | None]


class Product(Base):
    __tablename__ = "products"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    description: Mapped[str]
    image: Mapped[str | None]
    price_minor: Mapped[int]
    currency: Mapped[str]
    status: Mapped[str]


class Checkout(Base):
    __tablename__ = "checkouts"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    product_id: Mapped[str]
    order_id: Mapped[str]
    amount_minor: Mapped[int]
    currency: Mapped[str]
    status: Mapped[str]
    success_url: Mapped[str | None]
    cancel_url: Mapped[str | None]
    customer_email: Mapped[str]
    customer_name: Mapped[str | None]
    display_merchant_name: Mapped[str]
    expires_at: Mapped[int]
    created_at: Mapped[int]
    updated_at: Mapped[int]


class Order(Base):
    __tablename__ = "orders"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    checkout_id: Mapped[str]
    product_id: Mapped[str]
    product_name: Mapped[str]
    product_description: Mapped[str]
    product_image: Mapped[str | None]
    source: Mapped[str]
    status: Mapped[str]
    history_number: Mapped[int]
    currency: Mapped[str]
    amount_minor: Mapped[int]
    platform_fee_rate: Mapped[Decimal]
    platform_fee_minor: Mapped[int]
    settled_currency: Mapped[str]
    exchange_rate: Mapped[Decimal]
    usd_exchange_rate: Mapped[Decimal]
    hkd_exchange_rate: Mapped[Decimal | None]
    gross_settled_minor: Mapped[int]
    net_settled_minor: Mapped[int]
    refund_fee_policy: Mapped[str]
    payment_method: Mapped[str | None]
    paid_attempt_id: Mapped[str | None]
    customer_email: Mapped[str]
    customer_name: Mapped[str | None]
    payer_ip: Mapped[str]
    paid_at: Mapped[int | None]
    settled_at: Mapped[int | None]
    refunded_minor: Mapped[int]
    refund_held_minor: Mapped[int]
    refund_debit_minor: Mapped[int]
    reserve_rate: Mapped[Decimal]
    reserve_minor: Mapped[int]
    reserve_status: Mapped[str]
    reserve_release_at: Mapped[int | None]
    livemode: Mapped[bool | None]
    settlement_delay_days: Mapped[int]
    due_at: Mapped[int | None]
    settle_at: Mapped[int | None]
    # Not "metadata", which SQLAlchemy keeps for itself.
    metadata_: Mapped[str] = mapped_column("metadata")
    created_at: Mapped[int]
    updated_at: Mapped[int]


class History(Base):
    __tablename__ = "order_history"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    order_id: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    at: Mapped[int]
    event: Mapped[str]
    from_status: Mapped[str | None]
    to_status: Mapped[str]
    cause: Mapped[str]


class Attempt(Base):
    __tablename__ = "payment_attempts"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    order_id: Mapped[str]
    method: Mapped[str]
    status: Mapped[str]
    amount_minor: Mapped[int]
    currency: Mapped[str]
    check_at: Mapped[int | None]
    updated_at: Mapped[int]


class Balance(Base):
    __tablename__ = "balances"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    currency: Mapped[str] = mapped_column(primary_key=True)
    pending: Mapped[int]
    available: Mapped[int]
    frozen: Mapped[int]
    reserve: Mapped[int]
    gateway: Mapped[int]
    bank: Mapped[int]
    platform: Mapped[int]
    entries: Mapped[int]
    last_at: Mapped[int]


class Entry(Base):
    __tablename__ = "entries"
    merchant_id: Mapped[str] = mapped_column(primary_key=True)
    currency: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    id: Mapped[str]
    type: Mapped[str]
    from_account: Mapped[str]
    to_account: Mapped[str]
    amount_minor: Mapped[int]
    shown_minor: Mapped[int]
    pending_after: Mapped[int]
    available_after: Mapped[int]
    frozen_after: Mapped[int]
    reserve_after: Mapped[int]
    source_type: Mapped[str]
    source_id: Mapped[str]
    description: Mapped[str]
    created_at: Mapped[int]


# ── what comes and goes ────────────────────────────────────────────────────────────────────────


class SessionIn(BaseModel):
    productId: str
    successUrl: HttpUrl | None = None
    cancelUrl: HttpUrl | None = None
    customerEmail: str = Field(default="", max_length=254, pattern=r"^[^@\s]+@[^@\s]+$|^$")
    customerName: str | None = Field(default=None, max_length=200)
    metadata: dict[str, Any] = {}


class SessionOut(BaseModel):
    id: str
    productId: str
    amount: str
    currency: str
    status: str
    url: str
    expiresAt: int
    createdAt: int


class OrderOut(BaseModel):
    id: str
    checkoutSessionId: str
    productId: str
    customerEmail: str
    customerName: str | None
    amount: str
    currency: str
    platformFeeRate: str
    platformFee: str
    netAmount: str
    settledAmount: str
    settledCurrency: str
    exchangeRate: str
    hkdExchangeRate: str | None
    paymentMethod: str | None
    status: str
    paidAt: int | None
    settledAt: int | None
    metadata: dict[str, Any]
    createdAt: int
    baseAmount: str
    payableAmount: str
    refundStatus: str
    refundedAmount: str
    payerIp: str
    updatedAt: int
    rollingReserveRate: str
    rollingReserveAmount: str
    rollingReserveStatus: str
    rollingReserveReleaseAt: int | None
    livemode: bool


class SessionAnswer(BaseModel):
    code: int = 0
    message: str = "success"
    data: SessionOut


class OrderAnswer(BaseModel):
    code: int = 0
    message: str = "success"
    data: OrderOut


class Payment(BaseModel):
    id: str
    status: str
    amount_minor: int
    currency: str
    method: str


class CallbackData(BaseModel):
    payment: Payment


class Callback(BaseModel):
    id: str
    type: str
    created_at: int
    data: CallbackData


class Done(BaseModel):
    code: int = 0
    message: str = "success"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(13)}"


def show(minor: int) -> str:
    return str(Decimal(minor).scaleb(-2))


# ── operations ─────────────────────────────────────────────────────────────────────────────────


async def database() -> AsyncIterator[AsyncSession]:
    async with sessions() as session:
        yield session


Database = Annotated[AsyncSession, Depends(database)]


async def calling(db: Database, x_api_key: Annotated[str, Header()]) -> Merchant:
    digest = hashlib.sha256(x_api_key.encode()).digest()
    now = now_ms()
    merchant = await db.scalar(
        select(Merchant)
        .join(ApiKey, ApiKey.merchant_id == Merchant.id)
        .where(
            ApiKey.key_sha256 == digest,
            ApiKey.revoked_at.is_(None),
            (ApiKey.expires_at.is_(None)) | (ApiKey.expires_at > now),
        )
    )
    if merchant is None:
        raise HTTPException(401, "unknown key")
    return merchant


Caller = Annotated[Merchant, Depends(calling)]


@app.post("/v1/checkouts", status_code=201)
async def open_session(body: SessionIn, db: Database, merchant: Caller) -> SessionAnswer:
    product = await db.get(Product, (merchant.id, body.productId))
    if product is None or product.status != "ACTIVE":
        raise HTTPException(400, "no such product")
    now = now_ms()
    fee = int(
        (product.price_minor * merchant.platform_fee_rate).quantize(Decimal(1), ROUND_HALF_UP)
    )
    order_id, session_id = new_id("order"), f"cs_{secrets.token_hex(16)}"
    checkout = Checkout(
        merchant_id=merchant.id,
        id=session_id,
        product_id=product.id,
        order_id=order_id,
        amount_minor=product.price_minor,
        currency=product.currency,
        status="OPEN",
        success_url=str(body.successUrl) if body.successUrl else None,
        cancel_url=str(body.cancelUrl) if body.cancelUrl else None,
        customer_email=body.customerEmail,
        customer_name=body.customerName,
        display_merchant_name=merchant.name,
        expires_at=now + DAY_MS,
        created_at=now,
        updated_at=now,
    )
    order = Order(
        merchant_id=merchant.id,
        id=order_id,
        checkout_id=session_id,
        product_id=product.id,
        product_name=product.name,
        product_description=product.description,
        product_image=product.image,
        source="API",
        status="PENDING",
        history_number=1,
        currency=product.currency,
        amount_minor=product.price_minor,
        platform_fee_rate=merchant.platform_fee_rate,
        platform_fee_minor=fee,
        settled_currency=merchant.settlement_currency,
        exchange_rate=Decimal(1),
        usd_exchange_rate=Decimal(1),
        gross_settled_minor=product.price_minor,
        net_settled_minor=product.price_minor - fee,
        refund_fee_policy=merchant.refund_fee_policy,
        customer_email=body.customerEmail,
        customer_name=body.customerName,
        payer_ip="",
        refunded_minor=0,
        refund_held_minor=0,
        refund_debit_minor=0,
        reserve_rate=merchant.reserve_rate,
        reserve_minor=0,
        reserve_status="NONE",
        settlement_delay_days=merchant.settlement_delay_days,
        metadata_=json.dumps(body.metadata),
        created_at=now,
        updated_at=now,
    )
    opened = History(
        merchant_id=merchant.id,
        order_id=order_id,
        number=1,
        at=now,
        event="opened",
        to_status="PENDING",
        cause=session_id,
    )
    db.add_all([checkout, order, opened])
    await db.commit()
    return SessionAnswer(
        data=SessionOut(
            id=checkout.id,
            productId=checkout.product_id,
            amount=show(checkout.amount_minor),
            currency=checkout.currency,
            status=checkout.status,
            url=f"http://127.0.0.1:8080/checkout/{checkout.id}",
            expiresAt=checkout.expires_at,
            createdAt=checkout.created_at,
        )
    )


@app.get("/v1/orders/{order_id}")
async def read_order(order_id: str, db: Database, merchant: Caller) -> OrderAnswer:
    order = await db.get(Order, (merchant.id, order_id))
    if order is None:
        raise HTTPException(404, "no such order")
    amount = show(order.amount_minor)
    refunded = order.refunded_minor
    return OrderAnswer(
        data=OrderOut(
            id=order.id,
            checkoutSessionId=order.checkout_id,
            productId=order.product_id,
            customerEmail=order.customer_email,
            customerName=order.customer_name,
            amount=amount,
            currency=order.currency,
            platformFeeRate=str(order.platform_fee_rate),
            platformFee=show(order.platform_fee_minor),
            netAmount=show(order.amount_minor - order.platform_fee_minor),
            settledAmount=show(order.net_settled_minor),
            settledCurrency=order.settled_currency,
            exchangeRate=str(order.exchange_rate),
            hkdExchangeRate=None
            if order.hkd_exchange_rate is None
            else str(order.hkd_exchange_rate),
            paymentMethod=order.payment_method,
            status=order.status,
            paidAt=order.paid_at,
            settledAt=order.settled_at,
            metadata=json.loads(order.metadata_),
            createdAt=order.created_at,
            baseAmount=amount,
            payableAmount=amount,
            refundStatus="NONE" if not refunded else "PARTIAL",
            refundedAmount=show(refunded) if refunded else "0",
            payerIp=order.payer_ip,
            updatedAt=order.updated_at,
            rollingReserveRate=str(order.reserve_rate),
            rollingReserveAmount=show(order.reserve_minor),
            rollingReserveStatus=order.reserve_status,
            rollingReserveReleaseAt=order.reserve_release_at,
            livemode=bool(order.livemode),
        )
    )


async def verified(request: Request, sandbox_signature: Annotated[str, Header()]) -> Callback:
    body = await request.body()
    found = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", sandbox_signature)
    if found is None:
        raise HTTPException(400, "no signature")
    expected = hmac.new(SECRET, found[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, found[2]):
        raise HTTPException(400, "wrong signature")
    if abs(time.time() - int(found[1])) > TOLERANCE_S:
        raise HTTPException(400, "old signature")
    return Callback.model_validate_json(body)


@app.post("/gateways/sandbox/callback")
async def confirm_payment(told: Annotated[Callback, Depends(verified)], db: Database) -> Done:
    payment = told.data.payment
    attempt = await db.scalar(select(Attempt).where(Attempt.id == payment.id))
    if attempt is None:
        raise HTTPException(400, "no such payment")
    order = await db.get(Order, (attempt.merchant_id, attempt.order_id), with_for_update=True)
    if order is None or order.status not in {"CREATING", "PENDING"}:
        return Done()  # told before
    if (payment.amount_minor, payment.currency) != (attempt.amount_minor, attempt.currency):
        raise HTTPException(400, "another amount")
    now = now_ms()
    attempt.status = "SUCCEEDED"
    attempt.check_at = None
    attempt.updated_at = now
    before, order.status = order.status, "PAID"
    order.history_number += 1
    order.paid_at = now
    order.updated_at = now
    order.payment_method = payment.method
    order.paid_attempt_id = attempt.id
    order.due_at = order.settle_at = now + order.settlement_delay_days * DAY_MS
    db.add(
        History(
            merchant_id=order.merchant_id,
            order_id=order.id,
            number=order.history_number,
            at=now,
            event="confirmed",
            from_status=before,
            to_status="PAID",
            cause=f"{attempt.id} confirmed",
        )
    )
    checkout = await db.get(Checkout, (order.merchant_id, order.checkout_id))
    if checkout is not None and checkout.status == "OPEN":
        checkout.status = "COMPLETE"
        checkout.updated_at = now
    balance = await db.get(
        Balance, (order.merchant_id, order.settled_currency), with_for_update=True
    )
    if balance is None:
        raise HTTPException(500, "no balance")
    gross, net = order.gross_settled_minor, order.net_settled_minor
    _post(db, balance, order, ("PAYMENT", "gateway", "pending", gross, gross), now)
    if gross > net:
        _post(db, balance, order, ("FEE", "pending", "platform", gross - net, net - gross), now)
    await db.commit()
    return Done()


def _post(
    db: AsyncSession, balance: Balance, order: Order, move: tuple[str, str, str, int, int], now: int
) -> None:
    type_, source, target, amount, shown = move
    setattr(balance, source, getattr(balance, source) - amount)
    setattr(balance, target, getattr(balance, target) + amount)
    balance.entries += 1
    balance.last_at = max(balance.last_at, now)
    db.add(
        Entry(
            merchant_id=balance.merchant_id,
            currency=balance.currency,
            number=balance.entries,
            id=new_id("txn"),
            type=type_,
            from_account=source,
            to_account=target,
            amount_minor=amount,
            shown_minor=shown,
            pending_after=balance.pending,
            available_after=balance.available,
            frozen_after=balance.frozen,
            reserve_after=balance.reserve,
            source_type="order",
            source_id=order.id,
            description=f"{type_.title()} of {order.product_name}",
            created_at=balance.last_at,
        )
    )
