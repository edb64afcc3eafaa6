"""The FastAPI application with its three operations."""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from decimal import ROUND_HALF_UP, Decimal
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from plain.bodies import (
    Callback,
    Done,
    OrderOut,
    OrderResponse,
    SessionIn,
    SessionOut,
    SessionResponse,
)
from plain.tables import (
    ApiKey,
    Attempt,
    Balance,
    Checkout,
    Entry,
    History,
    Merchant,
    Order,
    Product,
)
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

SECRET = os.environ["PLAIN_SECRET"].encode()
TOLERANCE_S = 300
DAY_MS = 24 * 3600 * 1000

engine = create_async_engine(os.environ["PLAIN_URL"], pool_size=10, max_overflow=0)
sessions = async_sessionmaker(engine, expire_on_commit=False)
app = FastAPI()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(13)}"


def format_amount(minor: int) -> str:
    return str(Decimal(minor).scaleb(-2))


async def open_database() -> AsyncIterator[AsyncSession]:
    async with sessions() as session:
        yield session


Database = Annotated[AsyncSession, Depends(open_database)]


async def authenticate(db: Database, x_api_key: Annotated[str, Header()]) -> Merchant:
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


Caller = Annotated[Merchant, Depends(authenticate)]


@app.post("/v1/checkouts", status_code=201)
async def open_session(body: SessionIn, db: Database, merchant: Caller) -> SessionResponse:
    product = await db.get(Product, (merchant.id, body.productId))
    if product is None or product.status != "ACTIVE":
        raise HTTPException(400, "no such product")
    now = now_ms()
    checkout = _new_checkout(body, merchant, product, now)
    order = _new_order(checkout, merchant, product, body.metadata)
    opened = History(
        merchant_id=merchant.id,
        order_id=order.id,
        number=1,
        at=now,
        event="opened",
        to_status="PENDING",
        cause=checkout.id,
    )
    db.add_all([checkout, order, opened])
    await db.commit()
    return SessionResponse(
        data=SessionOut(
            id=checkout.id,
            productId=checkout.product_id,
            amount=format_amount(checkout.amount_minor),
            currency=checkout.currency,
            status=checkout.status,
            url=f"http://127.0.0.1:8080/checkout/{checkout.id}",
            expiresAt=checkout.expires_at,
            createdAt=checkout.created_at,
        )
    )


def _new_checkout(body: SessionIn, merchant: Merchant, product: Product, now: int) -> Checkout:
    return Checkout(
        merchant_id=merchant.id,
        id=f"cs_{secrets.token_hex(16)}",
        product_id=product.id,
        order_id=new_id("order"),
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


def _new_order(
    checkout: Checkout, merchant: Merchant, product: Product, metadata: dict[str, Any]
) -> Order:
    fee = int(
        (product.price_minor * merchant.platform_fee_rate).quantize(Decimal(1), ROUND_HALF_UP)
    )
    return Order(
        merchant_id=merchant.id,
        id=checkout.order_id,
        checkout_id=checkout.id,
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
        customer_email=checkout.customer_email,
        customer_name=checkout.customer_name,
        payer_ip="",
        refunded_minor=0,
        refund_held_minor=0,
        refund_debit_minor=0,
        reserve_rate=merchant.reserve_rate,
        reserve_minor=0,
        reserve_status="NONE",
        settlement_delay_days=merchant.settlement_delay_days,
        settlement_calendar=merchant.settlement_calendar,
        terms_version=merchant.terms_version,
        fees=merchant.fees,
        reserve_days=merchant.reserve_days,
        dispute_fee_minor=merchant.dispute_fee_minor,
        metadata_=json.dumps(metadata),
        created_at=checkout.created_at,
        updated_at=checkout.updated_at,
    )


@app.get("/v1/orders/{order_id}")
async def get_order(order_id: str, db: Database, merchant: Caller) -> OrderResponse:
    order = await db.get(Order, (merchant.id, order_id))
    if order is None:
        raise HTTPException(404, "no such order")
    amount = format_amount(order.amount_minor)
    refunded = order.refunded_minor
    return OrderResponse(
        data=OrderOut(
            id=order.id,
            checkoutSessionId=order.checkout_id,
            productId=order.product_id,
            customerEmail=order.customer_email,
            customerName=order.customer_name,
            amount=amount,
            currency=order.currency,
            platformFeeRate=str(order.platform_fee_rate),
            platformFee=format_amount(order.platform_fee_minor),
            netAmount=format_amount(order.amount_minor - order.platform_fee_minor),
            settledAmount=format_amount(order.net_settled_minor),
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
            refundedAmount=format_amount(refunded) if refunded else "0",
            payerIp=order.payer_ip,
            updatedAt=order.updated_at,
            rollingReserveRate=str(order.reserve_rate),
            rollingReserveAmount=format_amount(order.reserve_minor),
            rollingReserveStatus=order.reserve_status,
            rollingReserveReleaseAt=order.reserve_release_at,
            livemode=bool(order.livemode),
        )
    )


async def verify_callback(
    request: Request, sandbox_signature: Annotated[str, Header()]
) -> Callback:
    body = await request.body()
    match = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", sandbox_signature)
    if match is None:
        raise HTTPException(400, "no signature")
    expected = hmac.new(SECRET, match[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, match[2]):
        raise HTTPException(400, "wrong signature")
    if abs(time.time() - int(match[1])) > TOLERANCE_S:
        raise HTTPException(400, "old signature")
    return Callback.model_validate_json(body)


@app.post("/gateways/sandbox/callback")
async def confirm_payment(
    callback: Annotated[Callback, Depends(verify_callback)], db: Database
) -> Done:
    payment = callback.data.payment
    attempt = await db.scalar(select(Attempt).where(Attempt.id == payment.id))
    if attempt is None:
        raise HTTPException(400, "no such payment")
    order = await db.get(Order, (attempt.merchant_id, attempt.order_id), with_for_update=True)
    if order is None or order.status not in {"CREATING", "PENDING"}:
        return Done()  # the payment is already confirmed
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
