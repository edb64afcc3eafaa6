"""The adapter for Stripe, through its official library. It stores nothing.

Stripe remembers an idempotency key for a day only. What may have been done before is therefore
looked for first, by our ids in Stripe's metadata.
"""

import re
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import stripe

from opentill.core.ids import creation_time
from opentill.gateways.failures import MALFORMED, ProviderResponse
from opentill.gateways.model import (
    BadCallback,
    GatewayEvent,
    GatewayRefundEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.stripe import checkout, wire
from opentill.gateways.stripe.amounts import OFFERS, to_stripe
from opentill.gateways.stripe.requests import (
    PAGE,
    TOO_MANY,
    Listed,
    call,
    list_all,
    search,
)
from opentill.gateways.stripe.transport import TIMEOUT_S, Transport
from opentill.outgoing.client import Outgoing

_TOLERANCE_S: Final = 300
# Where an attempt's session is looked for, in seconds around the attempt, whose request is sent
# within four and lasts ten: first where it is if clocks agree, then a minute to either side.
_AROUND_S: Final = ((-2, 20), (21, 75), (-60, -3))
_LONGEST_S: Final = 25 * 3600  # a session lasts a day at most
# Strict, so that the library and this adapter read the same time from a header.
_HEADER: Final = re.compile(r"t=([0-9]{1,12})(?:,v[0-9]=[0-9a-f]{1,200}){1,16}", re.ASCII)
_PAYMENT: Final = "pi_"
_CLEARING: Final = "latest_charge.balance_transaction"


class StripeGateway:
    """The ``Gateway`` of Stripe. ``Expires`` sessions, ``Traces`` payments, ``ListsRefunds``."""

    name = "stripe"

    def __init__(
        self,
        secret_key: str,
        webhook_secrets: tuple[str, ...],
        api_base: str,
        outgoing: Outgoing,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """A callback is signed with any of ``webhook_secrets``.

        ``outgoing`` is closed with the gateway.
        """
        self._secrets = webhook_secrets
        self._timeout_s = timeout_s
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
        """Return the payment methods for the currency, the preferred first."""
        return OFFERS.get(currency, ())

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Open a Checkout Session, or find the one that was opened before under the same id.

        What Stripe refuses is DECLINED: the order may be paid by another method or gateway.
        """
        try:
            params = checkout.params(request, time.time_ns() // 1_000_000)
        except ValueError as error:
            return PaymentOutcome(status="DECLINED", reason=str(error))
        response = await call(
            wire.Session,
            "open",
            request.attempt_id,
            lambda: self._sessions.create_async(params, {"idempotency_key": request.attempt_id}),
        )
        if response.status == "REFUSED":
            return PaymentOutcome(status="DECLINED", reason=response.reason)
        return _payment(response, request.attempt_id)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Return an attempt's state. NOT_FOUND if Stripe says so, or nobody can pay any more.

        ``provider_ref`` is Stripe's id of the session or, once it is paid, of the payment. Without
        one the sessions of the minutes around the attempt are looked through. Nobody was given the
        address of such a session: where there are too many to look through, it is over in a day.
        """
        if provider_ref.startswith(_PAYMENT):
            return _payment(await self._intent(provider_ref, attempt_id), attempt_id)
        return _payment(await self._session(attempt_id, provider_ref), attempt_id)

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Close the attempt's page and return its state.

        Stripe does not close a page that is paid or being paid.
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
        """Return the attempt id of a payment; "" if it is not ours, None if that is unknown."""
        response = await self._intent(payment_ref, payment_ref)
        return response.found.attempt_id if response.found else None

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Give money back, or find the refund that was made before under the same id.

        It is looked for first: under a key that Stripe has forgotten, money would go back twice.
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
        response = await call(
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
        return _refund(response)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Return a refund's state. NOT_FOUND only if Stripe says so.

        Stripe lists refunds by their payment: without its id the state is UNKNOWN.
        """
        if not payment_ref.startswith(_PAYMENT):
            return RefundOutcome(status="UNKNOWN", reason="Stripe's name of the payment is needed")

        async def listed(after: dict[str, str]) -> Any:
            params: Any = {"payment_intent": payment_ref, "limit": PAGE, **after}
            return await self._refunds.list_async(params)

        found = await search(
            wire.Refund, refund_id, [listed], lambda one: one.refund_id, self._timeout_s
        )
        return _refund(found)

    async def list_refunds(
        self, payment_ref: str, attempt_id: str
    ) -> tuple[GatewayRefundEvent, ...] | None:
        """Return all refunds of a payment, whoever made them; None if they are unknown."""

        async def listed(after: dict[str, str]) -> Any:
            params: Any = {"payment_intent": payment_ref, "limit": PAGE, **after}
            return await self._refunds.list_async(params)

        try:
            return await list_all(
                wire.Refund,
                attempt_id,
                listed,
                lambda refund: refund.of_attempt(attempt_id),
                self._timeout_s,
            )
        except ValueError:  # an impossible amount
            return None

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify an event and return it (``now`` in Unix ms). Raises BadCallback.

        ``Stripe-Signature: t=<Unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>``, at most five
        minutes old (https://docs.stripe.com/webhooks). An event of a type that is not read, or not
        about a payment of ours, is an empty tuple.
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
            return (
                ()
                if kind is None
                else msgspec.json.decode(body, type=kind).data.object.gateway_events
            )
        except (*MALFORMED, ValueError) as error:
            msg = f"the body is not in Stripe's form: {error}"
            raise BadCallback(msg) from error

    async def close(self) -> None:
        """Close connections."""
        await self._transport.close_async()

    async def _session(self, attempt_id: str, provider_ref: str) -> ProviderResponse[wire.Session]:
        """Return an attempt's session: by its id, or by search if none is known."""
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
            made_s = creation_time(attempt_id) // 1000
        except ValueError:
            return ProviderResponse(reason="an id that does not say when it was made")

        around = [self._opened(made_s + first, made_s + last) for first, last in _AROUND_S]
        response = await search(
            wire.Session, attempt_id, around, lambda one: one.attempt_id, self._timeout_s
        )
        if response.reason == TOO_MANY and time.time() > made_s + _LONGEST_S:
            return ProviderResponse(status="NOT_FOUND", reason="expired")
        return response

    def _opened(self, first_s: int, last_s: int) -> Listed:
        """Return the list of the sessions that were opened between two times, newest first."""

        async def listed(after: dict[str, str]) -> Any:
            params: Any = {
                "created": {"gte": first_s, "lte": last_s},
                "limit": PAGE,
                "expand": ["data.payment_intent"],
                **after,
            }
            return await self._sessions.list_async(params)

        return listed

    async def _intent(self, name: str, subject: str) -> ProviderResponse[wire.Intent]:
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
    response: ProviderResponse[wire.Session] | ProviderResponse[wire.Intent], attempt_id: str
) -> PaymentOutcome:
    found = response.found
    if found is None:
        status = "UNKNOWN" if response.status == "REFUSED" else response.status
        return PaymentOutcome(status=status, reason=response.reason)
    if found.attempt_id != attempt_id:
        return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
    try:
        return found.outcome
    except ValueError as error:
        return PaymentOutcome(status="UNKNOWN", reason=str(error))


def _refund(response: ProviderResponse[wire.Refund]) -> RefundOutcome:
    if response.found is not None:
        return response.found.outcome
    return RefundOutcome(status=response.status, reason=response.message or response.reason)
