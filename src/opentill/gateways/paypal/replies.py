"""The outcomes of PayPal's responses that say the same for several requests."""

from typing import Final

from opentill.gateways.model import PaymentOutcome, RefundOutcome, RefundRequest
from opentill.gateways.paypal import wire
from opentill.gateways.paypal.transport import NoReply, Reply

NOT_FOUND: Final = 404
_REFUSED: Final = frozenset({400, 403, 422})  # the request is wrong, or not allowed


def is_open(reply: Reply | NoReply) -> bool:
    """Whether PayPal may or may not have processed a request."""
    return reply.status == "UNKNOWN" if isinstance(reply, NoReply) else reply.is_open


def read_order(reply: Reply | NoReply) -> wire.Order | None:
    """Return the order of a successful response, None for others."""
    if isinstance(reply, NoReply) or not reply.is_success:
        return None
    return wire.read(reply.body, wire.Order)


def is_missing(reply: object) -> bool:
    """Whether PayPal says that it does not know an object."""
    return isinstance(reply, Reply) and reply.status == NOT_FOUND


def unknown_payment(reply: Reply | NoReply) -> PaymentOutcome:
    """Return the outcome of a query of a payment that failed."""
    if isinstance(reply, NoReply):
        return PaymentOutcome(status=reply.status, reason=reply.reason)
    return PaymentOutcome(status="UNKNOWN", reason=reply.error.code)


def refused_payment(reply: Reply) -> PaymentOutcome:
    """Return the outcome of an order that PayPal did not create."""
    code = reply.error.code
    if reply.is_unprocessed:
        return PaymentOutcome(status="UNREACHABLE", reason=code)
    if reply.status in _REFUSED:
        return PaymentOutcome(status="DECLINED", reason=wire.reason_of(code))
    return PaymentOutcome(status="UNKNOWN", reason=code)


def refund_outcome(reply: Reply | NoReply, request: RefundRequest) -> RefundOutcome:
    """Return the outcome of a refund, UNKNOWN if the response is about another one."""
    if isinstance(reply, NoReply):
        return RefundOutcome(status=reply.status, reason=reply.reason)
    refund = wire.read(reply.body, wire.Refund)
    if refund is None:
        return RefundOutcome(status="UNKNOWN", reason="a response in another format")
    is_other = refund.our_ids != (request.refund_id, request.attempt_id)
    if is_other or refund.amount.money != request.amount:
        return RefundOutcome(status="UNKNOWN", reason="the response is about another refund")
    return refund.outcome


def unknown_refund(reply: Reply | NoReply) -> RefundOutcome:
    """Return the outcome of a query of a refund that failed."""
    if isinstance(reply, NoReply):
        return RefundOutcome(status=reply.status, reason=reply.reason)
    return RefundOutcome(status="UNKNOWN", reason=f"HTTP {reply.status} {reply.error.code}")
