"""PayPal's objects on the wire, and their meaning.

Sources: PayPal's OpenAPI documents (github.com/paypal/paypal-rest-api-specifications:
``checkout_orders_v2``, ``payments_payment_v2``).
"""

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from opentill.core.ids import is_id
from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.gateways.failures import MALFORMED
from opentill.gateways.model import (
    GatewayRefundEvent,
    PaymentOutcome,
    PaymentRequest,
    PaymentStatus,
    RefundOutcome,
    RefundRequest,
    RefundStatus,
)
from opentill.gateways.paypal.amounts import from_paypal, to_paypal

T = TypeVar("T")
_CODE: Final = re.compile(r"[A-Z0-9_]{1,64}", re.ASCII)
_REFERENCE: Final = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)
_MOST_TEXT: Final = 127

# Our language tags → those of PayPal's pages, which have five characters or more.
_LOCALES: Final = {
    "en": "en-US", "de": "de-DE", "es": "es-ES", "fr": "fr-FR", "ja": "ja-JP", "pt": "pt-BR",
    "zh": "zh-CN", "zh-Hans": "zh-CN", "zh-Hant": "zh-TW",
}  # fmt: skip

# A customer who has approved an order; the money moves only by our capture.
APPROVED: Final = "APPROVED"
_WAITING: Final = frozenset({"CREATED", "SAVED", "PAYER_ACTION_REQUIRED"})
_CAPTURE_STATUSES: Final[dict[str, PaymentStatus]] = {
    "COMPLETED": "SUCCEEDED",
    "PARTIALLY_REFUNDED": "SUCCEEDED",
    "REFUNDED": "SUCCEEDED",
    "PENDING": "PENDING",
    "DECLINED": "DECLINED",
    "FAILED": "DECLINED",
}
_REFUND_STATUSES: Final[dict[str, RefundStatus]] = {
    "COMPLETED": "SUCCEEDED",
    "PENDING": "PENDING",
    "CANCELLED": "REFUSED",
    "FAILED": "REFUSED",
}


class Token(msgspec.Struct, frozen=True):
    """The response to a request for an access token."""

    access_token: str
    expires_in: int

    @property
    def is_usable(self) -> bool:
        """Whether it can be sent in a header."""
        return re.fullmatch(r"[!-~]+", self.access_token) is not None


class Detail(msgspec.Struct, frozen=True):
    """One reason for an error."""

    issue: str = ""


class Error(msgspec.Struct, frozen=True):
    """An error response. Its texts may quote the request, so only codes are used."""

    name: str = ""
    details: list[Detail] = []

    @property
    def code(self) -> str:
        """The issue of the error, or its name."""
        for text in (*(detail.issue for detail in self.details[:1]), self.name):
            if _CODE.fullmatch(text):
                return text
        return "an unreadable error"


class Amount(msgspec.Struct, frozen=True):
    """An amount; ``money`` is None if it cannot be used."""

    currency_code: str = ""
    value: str = ""

    @property
    def money(self) -> Money | None:
        """The amount, None if it is missing or impossible."""
        try:
            return from_paypal(self.value, self.currency_code)
        except ValueError:
            return None


class Link(msgspec.Struct, frozen=True):
    """A link to another object or page."""

    href: str = ""
    rel: str = ""


class StatusDetails(msgspec.Struct, frozen=True):
    """Why a capture or refund is pending or was declined."""

    reason: str = ""


class RelatedIds(msgspec.Struct, frozen=True):
    """Other objects of a payment."""

    order_id: str = ""


class SupplementaryData(msgspec.Struct, frozen=True):
    """The order of a capture."""

    related_ids: RelatedIds = RelatedIds()


class Payee(msgspec.Struct, frozen=True):
    """The PayPal account to which the payment goes."""

    merchant_id: str = ""


class Refund(msgspec.Struct, frozen=True, kw_only=True):
    """A refund. Its ``custom_id`` is that of ``refund_body`` if we have made it."""

    id: str
    status: str
    amount: Amount = Amount()
    custom_id: str = ""
    invoice_id: str = ""
    status_details: StatusDetails | None = None
    links: list[Link] = []

    @property
    def our_ids(self) -> tuple[str, str] | None:
        """Our ids of the refund and of the attempt; None if it was made at PayPal."""
        refund_id, separator, attempt_id = self.custom_id.partition(".")
        if not separator or not is_id(refund_id) or not is_attempt(attempt_id):
            return None
        return refund_id, attempt_id

    @property
    def outcome(self) -> RefundOutcome:
        """The outcome of the refund."""
        status = _REFUND_STATUSES.get(self.status, "UNKNOWN")
        details = self.status_details.reason if self.status_details else ""
        reason = "" if status == "SUCCEEDED" else reason_of(details or self.status)
        return RefundOutcome(status=status, provider_ref=reference(self.id), reason=reason)

    @property
    def event(self) -> GatewayRefundEvent | None:
        """The report of the refund; None if it names no payment.

        A refund made at PayPal inherits the ids of its payment, or is traced by its capture.
        """
        if self.our_ids is not None:
            refund_id, attempt_id = self.our_ids
            return GatewayRefundEvent(
                attempt_id=attempt_id, refund_id=refund_id, outcome=self.outcome,
                amount=self.amount.money,
            )  # fmt: skip
        capture = _capture_of(self.links)
        attempt_id = next((id_ for id_ in (self.custom_id, self.invoice_id) if is_attempt(id_)), "")
        if self.amount.money is None or not (attempt_id or capture):
            return None
        return GatewayRefundEvent(
            attempt_id=attempt_id, refund_id="", outcome=self.outcome, payment_ref=capture,
            amount=self.amount.money,
        )  # fmt: skip


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """A captured payment."""

    id: str
    status: str
    amount: Amount = Amount()
    custom_id: str = ""
    status_details: StatusDetails | None = None
    supplementary_data: SupplementaryData | None = None
    payee: Payee | None = None

    @property
    def order_id(self) -> str:
        """The order of the capture, "" if PayPal does not name it."""
        data = self.supplementary_data
        return "" if data is None else reference(data.related_ids.order_id)

    @property
    def outcome(self) -> PaymentOutcome:
        """The outcome of the attempt."""
        status = _CAPTURE_STATUSES.get(self.status, "UNKNOWN")
        details = self.status_details.reason if self.status_details else ""
        ref = reference(self.id)
        if status != "SUCCEEDED":
            reason = reason_of(details or self.status)
            return PaymentOutcome(status=status, provider_ref=ref, reason=reason)
        amount = self.amount.money
        if amount is None or not ref:
            return PaymentOutcome(status="UNKNOWN", reason="a capture without an id or an amount")
        return PaymentOutcome(status=status, provider_ref=ref, amount=amount, method="CREDIT_CARD")


class Payments(msgspec.Struct, frozen=True):
    """The captures and refunds of an order."""

    captures: list[Capture] = []
    refunds: list[Refund] = []


class PurchaseUnit(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an order with its amount; ours have one."""

    custom_id: str = ""
    payments: Payments = Payments()
    payee: Payee | None = None


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """An order: the page that a customer approves, and what was captured."""

    id: str
    status: str = ""
    purchase_units: list[PurchaseUnit] = []
    links: list[Link] = []

    @property
    def attempt_id(self) -> str:
        """Our id of the payment, "" if the order is not ours."""
        ids = [unit.custom_id for unit in self.purchase_units]
        return ids[0] if len(ids) == 1 and is_attempt(ids[0]) else ""

    @property
    def payee(self) -> str:
        """The id of the PayPal account to which the payment goes, "" if PayPal names none."""
        payees = [unit.payee for unit in self.purchase_units if unit.payee]
        return payees[0].merchant_id if payees else ""

    @property
    def captures(self) -> list[Capture]:
        """The captures of the order."""
        return [capture for unit in self.purchase_units for capture in unit.payments.captures]

    @property
    def refunds(self) -> list[Refund]:
        """The refunds of the order."""
        return [refund for unit in self.purchase_units for refund in unit.payments.refunds]

    @property
    def capture(self) -> Capture | None:
        """The capture that decides: one that has moved money, or may, before declined ones."""
        ranks: list[PaymentStatus] = ["SUCCEEDED", "UNKNOWN", "PENDING", "DECLINED"]
        return min(
            self.captures, key=lambda capture: ranks.index(capture.outcome.status), default=None
        )

    @property
    def outcome(self) -> PaymentOutcome:
        """The outcome of the attempt. An order that is APPROVED is PENDING until its capture."""
        capture, ref = self.capture, reference(self.id)
        if capture is not None:
            return capture.outcome
        if self.status in _WAITING:
            url = next(
                (link.href for link in self.links if link.rel in ("payer-action", "approve")), ""
            )
            return PaymentOutcome(
                status="ACTION_REQUIRED", provider_ref=ref, action_url=safe_url(url) or ""
            )
        if self.status == APPROVED:
            return PaymentOutcome(status="PENDING", provider_ref=ref, reason="approved")
        if self.status == "VOIDED":
            return PaymentOutcome(status="VOIDED", provider_ref=ref, reason="voided")
        reason = f"an order that is {reason_of(self.status)}, without a capture"
        return PaymentOutcome(status="UNKNOWN", reason=reason)


def read(body: bytes | msgspec.Raw, kind: type[T]) -> T | None:
    """Decode a body; None if it is not in PayPal's format."""
    try:
        return msgspec.json.decode(body, type=kind)
    except MALFORMED:
        return None


def check_payee(payee: str, merchant_id: str) -> None:
    """Raise ValueError if an object names another account than ours."""
    if payee and merchant_id and payee != merchant_id:
        msg = "the payment is one of another account"
        raise ValueError(msg)


def order_body(request: PaymentRequest) -> dict[str, Any]:
    """Return the body of a new order. Raises ValueError for an amount that PayPal does not take.

    Payments that take days (eChecks) are not accepted: the customer is waiting.
    """
    context: dict[str, str] = {
        "shipping_preference": "NO_SHIPPING",
        "user_action": "PAY_NOW",
        "payment_method_preference": "IMMEDIATE_PAYMENT_REQUIRED",
        "return_url": request.return_url,
        "cancel_url": request.return_url,
    }
    if brand := _cut(request.merchant_name):
        context["brand_name"] = brand
    if locale := _LOCALES.get(request.locale):
        context["locale"] = locale
    return {
        "intent": "CAPTURE",
        "purchase_units": [
            {
                "custom_id": request.attempt_id,
                "invoice_id": request.attempt_id,
                "description": _cut(request.description) or "-",
                "amount": to_paypal(request.amount),
            }
        ],
        "payment_source": {"paypal": {"experience_context": context}},
    }


def refund_body(request: RefundRequest) -> dict[str, Any]:
    """Return the body of a refund. Raises ValueError for an amount that PayPal does not take.

    ``custom_id`` has both of our ids, because a refund made at PayPal inherits that of its payment.
    """
    return {
        "amount": to_paypal(request.amount),
        "custom_id": f"{request.refund_id}.{request.attempt_id}",
    }


def find_refund(refunds: Sequence[Refund], refund_id: str) -> Refund | None:
    """Return our refund among those of an order."""
    return next((one for one in refunds if one.our_ids and one.our_ids[0] == refund_id), None)


def is_attempt(text: str) -> bool:
    """Whether a text is the id of an attempt of ours."""
    return text.startswith("att_") and is_id(text)


def reference(text: str) -> str:
    """Return an id of PayPal's, "" for a text that is none."""
    return text if _REFERENCE.fullmatch(text) else ""


def reason_of(code: str) -> str:
    """Return a code of PayPal's in lower case, as decline codes are written."""
    return code.lower() if _CODE.fullmatch(code) else "an unreadable code"


def _capture_of(links: Sequence[Link]) -> str:
    href = next((link.href for link in links if link.rel == "up"), "")
    path, _, capture_id = href.rpartition("/")
    return reference(capture_id) if path.endswith("/captures") else ""


def _cut(text: str) -> str:
    """Return text that PayPal accepts as a name: printable, and not too long in bytes."""
    plain = text.encode(errors="replace").decode()
    words = " ".join("".join(c if c.isprintable() else " " for c in plain).split())
    return words.encode()[:_MOST_TEXT].decode(errors="ignore").strip()
