"""Orders, captures, refunds and disputes as PayPal's API shows them."""

import hashlib
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from opentill.sandbox.amounts import decimal
from opentill.sandbox.callbacks import DISPUTE_RESPONSE_MS
from opentill.sandbox.model import Dispute, FaultKind, Payment, PaymentView, Refund
from opentill.sandbox.paypal import keys

OTHER_MERCHANT: Final = "SBXMERCHANT02"
WITHOUT_DECIMALS: Final = frozenset({"HUF", "JPY", "TWD"})
_REFUND_STATES: Final = {"succeeded": "COMPLETED", "pending": "PENDING", "failed": "FAILED"}


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``paypal_orders``."""

    payment_id: str
    order_id: str
    capture_id: str
    request_id: str
    custom_id: str
    invoice_id: str
    captured_at: int | None = None
    capture_request_id: str = ""


class RefundRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of ``paypal_refunds``: PayPal's id of a refund of the bank, and the shop's text."""

    refund_id: str
    paypal_id: str
    custom_id: str


def order_fields(
    order: Order,
    payment: Payment | PaymentView,
    refunds: list[dict[str, Any]],
    fault: FaultKind | None,
    public_url: str,
) -> dict[str, Any]:
    """Return an order as PayPal shows it, with its refunds."""
    api = f"{public_url}/v2/checkout/orders/{order.order_id}"
    links = [{"href": api, "rel": "self", "method": "GET"}]
    status = "PAYER_ACTION_REQUIRED"
    if payment.status == "action_required":
        page = f"{public_url}/paypal/checkoutnow?token={order.order_id}"
        links.append({"href": page, "rel": "payer-action", "method": "GET"})
    else:
        status = "APPROVED" if order.captured_at is None else "COMPLETED"
        links.append({"href": f"{api}/capture", "rel": "capture", "method": "POST"})
    unit: dict[str, Any] = {
        "reference_id": "default",
        "amount": money(payment.amount_minor, payment.currency),
        "payee": {"merchant_id": _payee(fault)},
        "custom_id": order.custom_id,
        "invoice_id": order.invoice_id,
    }
    if order.captured_at is not None:
        unit["payments"] = {
            "captures": [capture_fields(order, payment, fault)],
            "refunds": refunds,
        }
    return {
        "id": order.order_id,
        "intent": "CAPTURE",
        "status": status,
        "create_time": time_of(payment.created_at),
        "payment_source": {"paypal": {"account_id": "SBXPAYER00001"}},
        "purchase_units": [unit],
        "links": links,
    }


def capture_fields(
    order: Order, payment: Payment | PaymentView, fault: FaultKind | None
) -> dict[str, Any]:
    """Return a capture as PayPal shows it."""
    status = {"processing": "PENDING", "succeeded": "COMPLETED"}.get(payment.status, "DECLINED")
    if status == "COMPLETED" and payment.refunded_minor:
        is_whole = payment.refunded_minor == payment.amount_minor
        status = "REFUNDED" if is_whole else "PARTIALLY_REFUNDED"
    fields: dict[str, Any] = {
        "id": order.capture_id,
        "status": status,
        "amount": money(payment.amount_minor + _spoiled(payment, fault), payment.currency),
        "final_capture": True,
        "custom_id": order.custom_id,
        "invoice_id": order.invoice_id,
        "payee": {"merchant_id": _payee(fault)},
        "supplementary_data": {"related_ids": {"order_id": order.order_id}},
        "create_time": time_of(order.captured_at or payment.created_at),
        "update_time": time_of(payment.updated_at),
    }
    if status == "PENDING":
        fields["status_details"] = {"reason": "PENDING_REVIEW"}
    return fields


def refund_fields(order: Order, row: RefundRow, refund: Refund) -> dict[str, Any]:
    """Return a refund as PayPal shows it.

    A refund that the shop's owner made on PayPal's own site has the ``custom_id`` and
    ``invoice_id`` of the payment; one that OpenTill requested has its own ``custom_id``.
    """
    by_shop = {"custom_id": row.custom_id} if row.custom_id else {}
    inherited = {"custom_id": order.custom_id, "invoice_id": order.invoice_id}
    api = f"https://api-m.sandbox.paypal.com/v2/payments/captures/{order.capture_id}"
    return {
        "id": row.paypal_id,
        "status": _REFUND_STATES[refund.status],
        "amount": money(refund.amount_minor, refund.currency),
        **(inherited if refund.by_bank else by_shop),
        "create_time": time_of(refund.created_at),
        "update_time": time_of(refund.updated_at),
        "links": [{"href": api, "rel": "up", "method": "GET"}],
    }


def dispute_fields(order: Order, dispute: Dispute, now: int) -> dict[str, Any]:
    """Return a dispute as PayPal shows it."""
    amount = money(dispute.amount_minor, dispute.currency)
    fields: dict[str, Any] = {
        "dispute_id": f"PP-D-{int(hashlib.sha256(dispute.id.encode()).hexdigest()[:8], 16)}",
        "create_time": time_of(dispute.created_at),
        "update_time": time_of(now),
        "disputed_transactions": [
            {
                "seller_transaction_id": order.capture_id,
                "custom": order.custom_id,
                "invoice_number": order.invoice_id,
                "seller": {"merchant_id": keys.MERCHANT_ID},
            }
        ],
        "reason": "UNAUTHORISED" if dispute.reason == "fraudulent" else "OTHER",
        "status": "WAITING_FOR_SELLER_RESPONSE",
        "dispute_amount": amount,
        "dispute_life_cycle_stage": "CHARGEBACK",
        "dispute_channel": "INTERNAL",
        "seller_response_due_date": time_of(dispute.created_at + DISPUTE_RESPONSE_MS),
    }
    if dispute.status == "opened":
        return fields
    lost = {"type": "RECOVER_FROM_SELLER", "adjudication_time": time_of(dispute.created_at + 1000)}
    won = {"type": "PAYOUT_TO_SELLER", "adjudication_time": time_of(dispute.updated_at + 2000)}
    decisions = {"won": [won], "lost": [lost], "recovered": [lost, won]}[dispute.status]
    code = "RESOLVED_BUYER_FAVOUR" if dispute.status == "lost" else "RESOLVED_SELLER_FAVOUR"
    outcome = {"outcome_code": code}
    return fields | {
        "status": "RESOLVED", "dispute_outcome": outcome, "adjudications": decisions,
    }  # fmt: skip


def money(minor_units: int, currency: str) -> dict[str, str]:
    """Return an amount with PayPal's decimals."""
    value = decimal(minor_units, currency)
    if currency in WITHOUT_DECIMALS:
        value = value.partition(".")[0]
    return {"currency_code": currency, "value": value}


def _spoiled(payment: Payment | PaymentView, fault: FaultKind | None) -> int:
    unit = 100 if payment.currency in WITHOUT_DECIMALS - {"JPY"} else 1
    return unit if fault == "wrong_amount" else 0


def _payee(fault: FaultKind | None) -> str:
    return OTHER_MERCHANT if fault == "other_account" else keys.MERCHANT_ID


def time_of(ms: int) -> str:
    """Return Unix milliseconds as PayPal writes times."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
