"""Talks to Stripe through its official library and translates; remembers nothing.

What matters is what is said when no usable answer comes. Stripe keeps an idempotency key for a
day only, so nothing here rests on it alone: what may have been done before is looked for first, by
our ids in its metadata.
"""

import re
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import stripe

from opentill.core.ids import made_at
from opentill.gateways.model import (
    BadCallback,
    GatewayEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.stripe import checkout, wire
from opentill.gateways.stripe.amounts import OFFERS, to_stripe
from opentill.gateways.stripe.calls import PAGE, StripeResponse, call, search
from opentill.gateways.stripe.transport import TIMEOUT_S, Sender, Transport

_TOLERANCE_S: Final = 300
# Where the session of an attempt is looked for: clocks differ, and calls take their time.
_BEFORE_S: Final = 300
_AFTER_S: Final = 600
# Strict, so that the library and we cannot read different times out of one header.
_HEADER: Final = re.compile(r"t=([0-9]{1,12})(?:,v[0-9]=[0-9a-f]{1,200}){1,16}", re.ASCII)
_PAYMENT: Final = "pi_"
_CLEARING: Final = "latest_charge.balance_transaction"


class StripeGateway:
    """The ``Gateway`` of Stripe. ``Expires`` sessions and ``Traces`` payments as well."""

    name = "stripe"

    def __init__(
        self,
        secret_key: str,
        webhook_secrets: tuple[str, ...],
        api_base: str,
        outgoing: Sender,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """``webhook_secrets`` are those that a callback may be signed with; any of them will do.

        ``outgoing`` is closed with the gateway.
        """
        self._secrets = webhook_secrets
        self._transport = Transport(outgoing, timeout_s)
        client = stripe.StripeClient(
            secret_key,
            base_addresses={"api": api_base.rstrip("/")},
            http_client=self._transport,
            max_network_retries=0,
        )
        self._sessions = client.v1.checkout.sessions
        self._intents = client.v1.payment_intents
        self._refunds = client.v1.refunds

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods on offer for the currency, in order of preference."""
        return OFFERS.get(currency, ())

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Open a Checkout Session, or find it if it was opened before under the same id.

        What Stripe refuses is DECLINED: the order may still be paid by another method or gateway.
        """
        try:
            params = checkout.params(request, time.time_ns() // 1_000_000)
        except ValueError as error:
            return PaymentOutcome(status="DECLINED", reason=str(error))
        answer = await call(
            wire.Session,
            "open",
            request.attempt_id,
            lambda: self._sessions.create_async(params, {"idempotency_key": request.attempt_id}),
        )
        if answer.status == "REFUSED":
            return PaymentOutcome(status="DECLINED", reason=answer.reason)
        return _payment(answer, request.attempt_id)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Ask what became of an attempt. NOT_FOUND only if Stripe says so.

        ``provider_ref`` is Stripe's name of the session or, once it is paid, of the payment.
        Without one the sessions of the minutes around the attempt are looked through.
        """
        if provider_ref.startswith(_PAYMENT):
            return _payment(await self._intent(provider_ref, attempt_id), attempt_id)
        return _payment(await self._session(attempt_id, provider_ref), attempt_id)

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close the attempt's page, so that nobody pays there any more; what became of it.

        Stripe does not close a page that is paid or being paid: then that is the answer.
        """
        session = await self._session(attempt_id, provider_ref)
        outcome = _payment(session, attempt_id)
        if session.found is None or outcome.status != "ACTION_REQUIRED":
            return outcome
        name = session.found.id
        closed = await call(
            wire.Session, "expire", attempt_id, lambda: self._sessions.expire_async(name)
        )
        if closed.status == "REFUSED":
            return await self.find_payment(attempt_id, name)
        return _payment(closed, attempt_id)

    async def trace(self, payment_ref: str) -> str | None:
        """Return the attempt that a payment was made for; "" if none of ours, None if unknown."""
        answer = await self._intent(payment_ref, payment_ref)
        return answer.found.attempt_id if answer.found else None

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Give money back, or find the refund if it was made before under the same id.

        Looks first: a key that Stripe has forgotten by now would give the money back twice.
        """
        payment_ref = request.provider_ref
        if not payment_ref.startswith(_PAYMENT):
            paid = await self.find_payment(request.attempt_id, payment_ref)
            if paid.status != "SUCCEEDED":
                return RefundOutcome(status="UNKNOWN", reason=f"its payment is {paid.status}")
            payment_ref = paid.provider_ref
        before = await self.find_refund(request.refund_id, payment_ref)
        if before.status != "NOT_FOUND":
            return before
        try:
            amount = to_stripe(request.amount)
        except ValueError as error:
            return RefundOutcome(status="REFUSED", reason=str(error))
        answer = await call(
            wire.Refund,
            "refund",
            request.refund_id,
            lambda: self._refunds.create_async(
                {
                    "payment_intent": payment_ref,
                    "amount": amount,
                    "metadata": {
                        wire.ATTEMPT: request.attempt_id,
                        wire.REFUND: request.refund_id,
                    },
                },
                # A duplicate is given back under the attempt's id, which was the session's key.
                {"idempotency_key": f"{request.refund_id}/refund"},
            ),
        )
        return _refund(answer)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Ask what became of a refund of a payment. NOT_FOUND only if Stripe says so.

        Stripe lists refunds by their payment: without its name the answer is UNKNOWN.
        """
        if not payment_ref.startswith(_PAYMENT):
            return RefundOutcome(status="UNKNOWN", reason="Stripe's name of the payment is needed")

        async def listed(after: dict[str, str]) -> Any:
            params: Any = {"payment_intent": payment_ref, "limit": PAGE, **after}
            return await self._refunds.list_async(params)

        return _refund(await search(wire.Refund, refund_id, listed, lambda one: one.refund_id))

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify and translate an event (``now`` in Unix ms). Raises BadCallback.

        ``Stripe-Signature: t=<Unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>``, at most five
        minutes old (https://docs.stripe.com/webhooks). An event of a type that we do not read, or
        about what is not ours, is an empty tuple.
        """
        header = headers.get("stripe-signature", "")
        found = _HEADER.fullmatch(header)
        if found is None:
            msg = "no usable Stripe-Signature header"
            raise BadCallback(msg)
        if not any(_is_signed(body, header, secret) for secret in self._secrets):
            msg = "the signature does not fit the body"
            raise BadCallback(msg)
        if abs(now / 1000 - int(found[1])) > _TOLERANCE_S:
            msg = "the signature is more than five minutes old"
            raise BadCallback(msg)
        try:
            event = msgspec.json.decode(body, type=wire.Kind)
            kind = None if event.account else wire.EVENTS.get(event.type)
            return () if kind is None else msgspec.json.decode(body, type=kind).gateway_event
        except (msgspec.MsgspecError, ValueError) as error:
            msg = f"the body is not in Stripe's form: {error}"
            raise BadCallback(msg) from error

    async def close(self) -> None:
        """Close connections."""
        await self._transport.close_async()

    async def _session(self, attempt_id: str, provider_ref: str) -> StripeResponse[wire.Session]:
        """Return an attempt's session: by its name, or by search as long as none is known."""
        if provider_ref:
            return await call(
                wire.Session,
                "find",
                attempt_id,
                lambda: self._sessions.retrieve_async(
                    provider_ref, {"expand": ["payment_intent", f"payment_intent.{_CLEARING}"]}
                ),
            )
        try:
            made_s = made_at(attempt_id) // 1000
        except ValueError:
            return StripeResponse(reason="an id that does not say when it was made")

        async def listed(after: dict[str, str]) -> Any:
            params: Any = {
                "created": {"gte": made_s - _BEFORE_S, "lte": made_s + _AFTER_S},
                "limit": PAGE,
                "expand": ["data.payment_intent"],
                **after,
            }
            return await self._sessions.list_async(params)

        return await search(wire.Session, attempt_id, listed, lambda one: one.attempt_id)

    async def _intent(self, name: str, subject: str) -> StripeResponse[wire.Intent]:
        return await call(
            wire.Intent,
            "find",
            subject,
            lambda: self._intents.retrieve_async(name, {"expand": [_CLEARING]}),
        )


def _is_signed(body: bytes, header: str, secret: str) -> bool:
    try:  # its age is looked at apart: by the time that is given, and in both directions
        stripe.WebhookSignature.verify_header(body, header, secret)  # pyright: ignore[reportUnknownMemberType] - its tolerance has no type
    except (stripe.SignatureVerificationError, UnicodeDecodeError):
        return False
    return True


def _payment(
    answer: StripeResponse[wire.Session] | StripeResponse[wire.Intent], attempt_id: str
) -> PaymentOutcome:
    found = answer.found
    if found is None:
        status = "UNKNOWN" if answer.status == "REFUSED" else answer.status
        return PaymentOutcome(status=status, reason=answer.reason)
    if found.attempt_id != attempt_id:
        return PaymentOutcome(status="UNKNOWN", reason="the answer is about another payment")
    try:
        return found.outcome
    except ValueError as error:
        return PaymentOutcome(status="UNKNOWN", reason=str(error))


def _refund(answer: StripeResponse[wire.Refund]) -> RefundOutcome:
    if answer.found is not None:
        return answer.found.outcome
    return RefundOutcome(status=answer.status, reason=answer.message or answer.reason)
