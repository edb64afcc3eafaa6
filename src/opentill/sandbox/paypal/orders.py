"""Orders, captures and refunds of PayPal's API, over payments of the bank.

The bank's payment is made when the customer pays on its page; here that is the approval. The
capture follows by the shop's request.
"""

import re
import secrets
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

import msgspec

from opentill.sandbox.amounts import minor
from opentill.sandbox.bank import Bank
from opentill.sandbox.model import (
    FaultKind,
    Payment,
    PaymentOrder,
    Refund,
    RefundOrder,
    Refusal,
)
from opentill.sandbox.paypal.views import (
    WITHOUT_DECIMALS,
    Order,
    RefundRow,
    refund_fields,
)
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms, set_timer

T = TypeVar("T")
NAME: Final = "paypal"
# PayPal cancels an order that is not captured in this time.
_LIFETIME_MS: Final = 3 * 3_600_000
_CURRENCIES: Final = (
    "AUD BRL CAD CHF CNY CZK DKK EUR GBP HKD HUF ILS JPY MXN MYR NOK NZD PHP PLN SEK SGD THB TWD"
    " USD"
)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_ALPHABET: Final = "0123456789ABCDEFGHJKLMNPRSTUVWXY"


Text127 = Annotated[str, msgspec.Meta(min_length=1, max_length=127)]


class Money(msgspec.Struct, frozen=True):
    """An amount."""

    currency_code: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]
    value: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,15}(\.[0-9]{1,3})?\Z")]


class ExperienceContext(msgspec.Struct, frozen=True):
    """The look of the page, and where it leads."""

    return_url: str = ""
    cancel_url: str = ""
    brand_name: Annotated[str, msgspec.Meta(max_length=127)] = ""
    locale: Annotated[str, msgspec.Meta(pattern=r"^([a-z]{2}-[A-Z]{2})?\Z")] = ""


class Wallet(msgspec.Struct, frozen=True):
    """PayPal as the way to pay."""

    experience_context: ExperienceContext


class PaymentSource(msgspec.Struct, frozen=True):
    """The way to pay."""

    paypal: Wallet


class NewUnit(msgspec.Struct, frozen=True):
    """The part of a new order with its amount."""

    amount: Money
    custom_id: Text127 | None = None
    invoice_id: Text127 | None = None
    description: Text127 = "-"


class NewOrder(msgspec.Struct, frozen=True):
    """The body that creates an order."""

    intent: Literal["CAPTURE"]
    purchase_units: Annotated[list[NewUnit], msgspec.Meta(min_length=1, max_length=1)]
    payment_source: PaymentSource


class NewRefund(msgspec.Struct, frozen=True):
    """The body that refunds a capture; without an amount, all that is left."""

    amount: Money | None = None
    custom_id: Text127 = ""


class Error(Exception):
    """An error response: HTTP status, name, and the issue of its only detail."""

    def __init__(self, status: int, name: str, issue: str = "") -> None:
        """``issue`` is "" for errors without details."""
        super().__init__(issue or name)
        self.status, self.name, self.issue = status, name, issue


def refuse(issue: str) -> NoReturn:
    """Raise Error: the request is understood and refused."""
    raise Error(422, "UNPROCESSABLE_ENTITY", issue)


def missing() -> NoReturn:
    """Raise Error: there is no such object."""
    raise Error(404, "RESOURCE_NOT_FOUND", "INVALID_RESOURCE_ID")


def decode(body: bytes, kind: type[T]) -> T:
    """Decode the body of a request. Raises Error."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Error(400, "INVALID_REQUEST", "INVALID_PARAMETER_SYNTAX") from None


def start(
    tx: Tx, bank: Bank, new: NewOrder, request_id: str, webhook_url: str
) -> tuple[Order, bool]:
    """Create an order; return it and whether it is new. A repeated request id creates no other."""
    if request_id and (existing := _find(tx, "request_id", request_id)) is not None:
        return existing, False
    unit, now = new.purchase_units[0], now_ms()
    context = new.payment_source.paypal.experience_context
    if not context.return_url or not context.cancel_url:
        raise Error(400, "INVALID_REQUEST", "MISSING_REQUIRED_PARAMETER")
    order_id = new_paypal_id()
    custom_id = unit.custom_id or ""
    is_free = _ID.fullmatch(custom_id) and not tx.all(
        Payment, "select * from payments where id = :id", id=custom_id
    )
    separator = "&" if "?" in context.return_url else "?"
    payment = PaymentOrder(
        id=custom_id if is_free else f"pp_{secrets.token_hex(12)}",
        amount_minor=minor_of(unit.amount),
        currency=unit.amount.currency_code,
        method="CREDIT_CARD",
        return_url=f"{context.return_url}{separator}token={order_id}&PayerID=SBXPAYER00001",
        callback_url=webhook_url or context.return_url,
        description=unit.description,
        merchant_name=context.brand_name,
        locale=context.locale,
    )
    bank.start_payment(tx, payment, now, NAME)
    order = Order(
        payment_id=payment.id,
        order_id=order_id,
        capture_id=new_paypal_id(),
        request_id=request_id,
        custom_id=custom_id,
        invoice_id=unit.invoice_id or "",
    )
    tx.insert("paypal_orders", msgspec.structs.asdict(order))
    set_timer(tx, "expire", payment.id, now + _LIFETIME_MS)
    return order, True


def capture(tx: Tx, order: Order, payment: Payment, request_id: str) -> tuple[Order, bool]:
    """Capture an approved order; return it and whether that is new. Raises Error."""
    if order.captured_at is not None:
        if request_id and request_id == order.capture_request_id:
            return order, False
        refuse("ORDER_ALREADY_CAPTURED")
    match payment.status:
        case "action_required":
            refuse("ORDER_NOT_APPROVED")
        case "declined":
            refuse("INSTRUMENT_DECLINED")
        case "refused":
            refuse("TRANSACTION_REFUSED")
        case _:  # approved
            pass
    now = now_ms()
    tx.run(
        "update paypal_orders set captured_at = :now, capture_request_id = :request_id"
        " where payment_id = :id",
        id=order.payment_id,
        now=now,
        request_id=request_id,
    )
    after = msgspec.structs.replace(order, captured_at=now, capture_request_id=request_id)
    return after, True


def start_refund(
    tx: Tx, bank: Bank, order: Order, new: NewRefund, request_id: str, fault: FaultKind | None
) -> tuple[dict[str, Any], bool]:
    """Refund a capture; return the refund as PayPal shows it, and whether it is new."""
    payment = bank.find_payment(tx, order.payment_id)
    if order.captured_at is None or payment.status != "succeeded":
        refuse("PENDING_CAPTURE")
    left_minor = payment.amount_minor - payment.refunded_minor
    amount_minor = left_minor if new.amount is None else minor_of(new.amount)
    if new.amount is not None and new.amount.currency_code != payment.currency:
        refuse("REFUND_CAPTURE_CURRENCY_MISMATCH")
    now = now_ms()
    refund_order = RefundOrder(
        id=request_id if _ID.fullmatch(request_id) else f"rq_{secrets.token_hex(12)}",
        payment_id=payment.id,
        amount_minor=max(amount_minor, 1),
        currency=payment.currency,
        callback_url=payment.callback_url,
    )
    row = RefundRow(refund_id=refund_order.id, paypal_id=new_paypal_id(), custom_id=new.custom_id)
    if fault == "unconfirmed":  # the refund is accepted; it is done when it is sent again
        accepted = Refund(
            **msgspec.structs.asdict(refund_order),
            status="pending",
            error=None,
            created_at=now,
            updated_at=now,
        )
        return refund_fields(order, row, accepted), True
    if _find_refund(tx, refund_order.id) is None:
        tx.insert("paypal_refunds", msgspec.structs.asdict(row))
    try:
        refund, is_new = bank.start_refund(tx, refund_order, now)
    except Refusal:
        refuse("PAYPAL_REQUEST_ID_PREVIOUSLY_USED")
    if refund.status == "failed" and is_new:
        # The bank remembers a refund that it has refused, PayPal does not.
        tx.run("delete from refunds where id = :id", id=refund.id)
        tx.run("delete from paypal_refunds where refund_id = :id", id=refund.id)
        refuse("REFUND_AMOUNT_EXCEEDED" if left_minor else "CAPTURE_FULLY_REFUNDED")
    fields = refund_fields(order, refund_row(tx, refund), refund)
    if fault == "other_account":
        fields["custom_id"] = "re_of_another_account"
    return fields, is_new


def find_order(tx: Tx, bank: Bank, order_id: str) -> tuple[Order, Payment]:
    """Return an order and its payment. Raises Error, also for an order that has expired."""
    order = _find(tx, "order_id", order_id)
    payment = None if order is None else bank.find_payment(tx, order.payment_id)
    if order is None or payment is None or payment.status == "voided":
        missing()
    return order, payment


def find_captured(tx: Tx, capture_id: str) -> Order:
    """Return the order of a capture. Raises Error."""
    order = _find(tx, "capture_id", capture_id)
    if order is None or order.captured_at is None:
        missing()
    return order


def find_of_payment(tx: Tx, payment_id: str) -> Order | None:
    """Return the order of a payment."""
    return _find(tx, "payment_id", payment_id)


def _find(
    tx: Tx, column: Literal["order_id", "capture_id", "request_id", "payment_id"], value: str
) -> Order | None:
    sql = f"select * from paypal_orders where {column} = :value"  # noqa: S608 - interpolates constants of this program only
    return tx.first(Order, sql, value=value)


def refund_row(tx: Tx, refund: Refund) -> RefundRow:
    """Return PayPal's id of a refund; a refund at the bank's desk gets one."""
    row = _find_refund(tx, refund.id)
    if row is None:
        row = RefundRow(refund_id=refund.id, paypal_id=new_paypal_id(), custom_id="")
        tx.insert("paypal_refunds", msgspec.structs.asdict(row))
    return row


def _find_refund(tx: Tx, refund_id: str) -> RefundRow | None:
    sql = "select * from paypal_refunds where refund_id = :id or paypal_id = :id"
    return tx.first(RefundRow, sql, id=refund_id)


def find_refund(tx: Tx, bank: Bank, paypal_id: str) -> tuple[Order, RefundRow, Refund]:
    """Return a refund by PayPal's id. Raises Error."""
    row = _find_refund(tx, paypal_id)
    if row is None:
        missing()
    refund = bank.find_refund(tx, row.refund_id)
    order = find_of_payment(tx, refund.payment_id)
    if order is None:
        missing()
    return order, row, refund


def minor_of(money: Money) -> int:
    """Return minor units of ISO 4217. Raises Error for an amount that PayPal does not take."""
    if money.currency_code not in _CURRENCIES.split():
        refuse("CURRENCY_NOT_SUPPORTED")
    if "." in money.value and money.currency_code in WITHOUT_DECIMALS:
        refuse("DECIMALS_NOT_SUPPORTED")
    exact = minor(money.value, money.currency_code)
    if exact is None:
        refuse("DECIMAL_PRECISION")
    if exact == 0:
        refuse("CANNOT_BE_ZERO_OR_NEGATIVE")
    return exact


def new_paypal_id() -> str:
    """Return a new id in PayPal's form."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(17))
