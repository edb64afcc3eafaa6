"""The tables as SQLAlchemy maps them. Times are Unix ms, amounts are integers of minor units."""

from decimal import Decimal
from typing import ClassVar

from sqlalchemy import BigInteger, LargeBinary, Numeric, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    """All tables are in one schema."""

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
    settlement_calendar: Mapped[str]
    terms_version: Mapped[int]
    fees: Mapped[str]
    dispute_fee_minor: Mapped[int]


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
    settlement_calendar: Mapped[str]
    terms_version: Mapped[int]
    fees: Mapped[str]
    reserve_days: Mapped[int]
    dispute_fee_minor: Mapped[int]
    due_at: Mapped[int | None]
    settle_at: Mapped[int | None]
    # SQLAlchemy reserves the name "metadata".
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
