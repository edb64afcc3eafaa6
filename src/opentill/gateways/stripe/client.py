"""The adapter for Stripe, with its official library. It is stateless.

Stripe remembers an idempotency key for a day only. A request that may have been done before is
therefore searched first, by our ids in Stripe's metadata.
"""

import re
import time
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

import msgspec
import stripe

from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.ids import creation_time
from opentill.gateways.failures import MALFORMED, ProviderResponse
from opentill.gateways.model import (
    BadCallback,
    CheckProblem,
    GatewayEvent,
    GatewayRefundEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.stripe import balance, checkout, wire
from opentill.gateways.stripe.amounts import METHODS_BY_CURRENCY, to_stripe
from opentill.gateways.stripe.requests import (
    PAGE,
    TOO_MANY,
    FetchPage,
    ListingFailed,
    call,
    list_all,
    list_repeatedly,
    search,
)
from opentill.gateways.stripe.transport import TIMEOUT_S, Transport
from opentill.outgoing.client import Outgoing

_TOLERANCE_S: Final = 300
# A session is searched among those that were created in these ranges, in seconds after the attempt.
# The request is sent within 4 s and takes up to 10 s. The first range suffices if the clocks are
# synchronized; the others are the minute after it and the minute before it.
_SEARCH_WINDOWS_S: Final = ((-2, 20), (21, 75), (-60, -3))
_MAX_LIFETIME_S: Final = 25 * 3600  # a session lasts at most 24 hours; one hour is a margin
# This pattern is strict, so that the library and this adapter read the same timestamp from a
# header.
_HEADER: Final = re.compile(r"t=([0-9]{1,12})(?:,v[0-9]=[0-9a-f]{1,200}){1,16}", re.ASCII)
_PAYMENT: Final = "pi_"
_CLEARING: Final = "latest_charge.balance_transaction"


class StripeGateway:
    """The ``Gateway`` of Stripe; it implements every optional protocol but ``Notified``."""

    name = "stripe"
    report_delay_ms = balance.DELAY_MS

    def __init__(
        self,
        secret_key: str,
        webhook_secrets: tuple[str, ...],
        api_base: str,
        outgoing: Outgoing,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """A callback may be signed with any of ``webhook_secrets``.

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
        self._balance = client.v1.balance_transactions

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency, the preferred first."""
        return METHODS_BY_CURRENCY.get(currency, ())

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Open a Checkout Session, or report the session that was opened before with the same id.

        A refusal by Stripe is DECLINED: the order may be paid by another method or gateway.
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
        """Return the state of an attempt. NOT_FOUND if a search for its session has no result.

        ``provider_ref`` is Stripe's id of the session or, once that is paid, of the payment. If it
        is "", the sessions created in the minutes around the attempt are searched. If there are
        too many to search, NOT_FOUND is returned once the session would have expired, after a day:
        the customer cannot have paid it, because its URL never reached us.
        """
        if provider_ref.startswith(_PAYMENT):
            return _payment(await self._intent(provider_ref, attempt_id), attempt_id)
        return _payment(await self._session(attempt_id, provider_ref), attempt_id)

    async def expire(self, attempt_id: str, provider_ref: str) -> PaymentOutcome:
        """Expire the attempt's session and return its state.

        Stripe does not expire a session that is paid or being paid.
        """
        if provider_ref.startswith(_PAYMENT):  # its session is complete
            return await self.find_payment(attempt_id, provider_ref)
        session = await self._session(attempt_id, provider_ref)
        outcome = _payment(session, attempt_id)
        if session.value is None or outcome.status != "ACTION_REQUIRED":
            return outcome
        session_id = session.value.id
        closed = await call(
            wire.Session, "expire", attempt_id, lambda: self._sessions.expire_async(session_id)
        )
        if closed.status == "REFUSED":
            return await self.find_payment(attempt_id, session_id)
        return _payment(closed, attempt_id)

    async def check(self) -> CheckProblem | None:
        """List one Checkout Session, as every payment needs it; return the problem, or None."""
        response = await call(
            wire.Listed, "check", "the account", lambda: self._sessions.list_async({"limit": 1})
        )
        if response.value is not None:
            return None
        if response.status in ("UNREACHABLE", "UNKNOWN"):
            return CheckProblem(
                f"Stripe gave no usable response: {response.reason}", was_asked=False
            )
        return CheckProblem(
            f"Stripe does not accept the key ({response.reason}): correct"
            " OPENTILL_GATEWAY_STRIPE_SECRET_KEY, or allow it to read and write Checkout Sessions"
        )

    async def trace(self, payment_ref: str) -> str | None:
        """Return a payment's attempt id; "" if the payment is not ours, None on a failure."""
        response = await self._intent(payment_ref, payment_ref)
        return response.value.attempt_id if response.value else None

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Refund a payment, or report the refund that was made before with the same id.

        An existing refund is searched first, because Stripe may have forgotten the idempotency key
        and would refund twice.
        """
        payment_ref = request.provider_ref
        if not payment_ref.startswith(_PAYMENT):
            paid = await self.find_payment(request.attempt_id, payment_ref)
            if paid.status != "SUCCEEDED":
                return RefundOutcome(status="UNKNOWN", reason=f"its payment is {paid.status}")
            payment_ref = paid.provider_ref
        existing = await self.find_refund(request.refund_id, payment_ref)
        if existing.status != "NOT_FOUND":
            return existing
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
                # The id of a duplicate payment's refund is the attempt's id, which is already the
                # idempotency key of the Checkout Session; hence the suffix.
                {"idempotency_key": f"{request.refund_id}/refund"},
            ),
        )
        return _refund(response)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:
        """Return the state of a refund. NOT_FOUND only if Stripe reports it.

        Stripe lists refunds by payment: without the payment's id the state is UNKNOWN.
        """
        if not payment_ref.startswith(_PAYMENT):
            return RefundOutcome(status="UNKNOWN", reason="Stripe's name of the payment is needed")

        async def fetch_page(after: dict[str, str]) -> Any:
            params: Any = {"payment_intent": payment_ref, "limit": PAGE, **after}
            return await self._refunds.list_async(params)

        response = await search(
            wire.Refund, refund_id, [fetch_page], lambda refund: refund.refund_id, self._timeout_s
        )
        return _refund(response)

    async def list_refunds(
        self, payment_ref: str, attempt_id: str
    ) -> tuple[GatewayRefundEvent, ...] | None:
        """Return all refunds of a payment, including those made at Stripe; None on a failure."""

        async def fetch_page(after: dict[str, str]) -> Any:
            params: Any = {"payment_intent": payment_ref, "limit": PAGE, **after}
            return await self._refunds.list_async(params)

        try:
            return await list_all(
                wire.Refund,
                attempt_id,
                fetch_page,
                lambda refund: refund.to_event(attempt_id),
                self._timeout_s,
            )
        except ValueError:  # a refund has an impossible amount
            return None

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the balance transactions between two times (Unix ms, inclusive) as CSV.

        Raises Invalid without ``since``, and ConfigurationError if Stripe does not list them all.
        """
        if since is None or until is None:
            raise Invalid("from", "from must be a day: Stripe lists movements of a range of days")
        target.write(balance.text(balance.COLUMNS).encode())
        for first_s, last_s in balance.days(since, until):
            try:
                async for page in list_repeatedly(
                    balance.Movement, self._movements(first_s, last_s)
                ):
                    target.write(balance.text(*(movement.cells for movement in page)).encode())
            except ListingFailed as failure:
                msg = (
                    f"Stripe does not list its balance transactions ({failure}): try again, or"
                    " allow the key to read balance transactions, charges, refunds and disputes"
                )
                raise ConfigurationError(msg) from None

    def _movements(self, first_s: int, last_s: int) -> FetchPage:
        """Return a function that fetches pages of the movements of a range, newest first."""

        async def fetch_page(after: dict[str, str]) -> Any:
            params: Any = {
                "created": {"gte": first_s, "lte": last_s},
                "limit": PAGE,
                "expand": ["data.source"],
                **after,
            }
            return await self._balance.list_async(params)

        return fetch_page

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify an event and return it (``now`` in Unix ms). Raises BadCallback.

        ``Stripe-Signature: t=<Unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>``, at most five
        minutes old (https://docs.stripe.com/webhooks). An event of another type, or not about our
        payments, returns an empty tuple.
        """
        header = headers.get("stripe-signature", "")
        match = _HEADER.fullmatch(header)
        if match is None:
            msg = "no usable Stripe-Signature header"
            raise BadCallback(msg)
        if not any(_is_signed(body, header, secret) for secret in self._secrets):
            msg = "the signature does not fit the body"
            raise BadCallback(msg)
        if abs(now / 1000 - int(match[1])) > _TOLERANCE_S:
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
        """Return an attempt's session by its id, or by a search if the id is unknown."""
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
            created_s = creation_time(attempt_id) // 1000
        except ValueError:
            return ProviderResponse(reason="an id that does not say when it was made")

        lists = [
            self._sessions_between(created_s + first, created_s + last)
            for first, last in _SEARCH_WINDOWS_S
        ]
        response = await search(
            wire.Session, attempt_id, lists, lambda session: session.attempt_id, self._timeout_s
        )
        if response.reason == TOO_MANY and time.time() > created_s + _MAX_LIFETIME_S:
            return ProviderResponse(status="NOT_FOUND", reason="expired")
        return response

    def _sessions_between(self, first_s: int, last_s: int) -> FetchPage:
        """Return a function that fetches pages of sessions opened in a range, newest first."""

        async def fetch_page(after: dict[str, str]) -> Any:
            params: Any = {
                "created": {"gte": first_s, "lte": last_s},
                "limit": PAGE,
                "expand": ["data.payment_intent"],
                **after,
            }
            return await self._sessions.list_async(params)

        return fetch_page

    async def _intent(self, name: str, subject: str) -> ProviderResponse[wire.Intent]:
        return await call(
            wire.Intent,
            "find",
            subject,
            lambda: self._intents.retrieve_async(name, {"expand": [_CLEARING]}),
        )


def _is_signed(body: bytes, header: str, secret: str) -> bool:
    try:
        # The library does not check the signature's age here; the caller does, and also refuses a
        # time in the future.
        stripe.WebhookSignature.verify_header(body, header, secret)  # pyright: ignore[reportUnknownMemberType] - its tolerance has no type
    except (stripe.SignatureVerificationError, UnicodeDecodeError):
        return False
    return True


def _payment(
    response: ProviderResponse[wire.Session] | ProviderResponse[wire.Intent], attempt_id: str
) -> PaymentOutcome:
    paid_object = response.value
    if paid_object is None:
        status = "UNKNOWN" if response.status == "REFUSED" else response.status
        return PaymentOutcome(status=status, reason=response.reason)
    if paid_object.attempt_id != attempt_id:
        return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
    try:
        return paid_object.outcome
    except ValueError as error:
        return PaymentOutcome(status="UNKNOWN", reason=str(error))


def _refund(response: ProviderResponse[wire.Refund]) -> RefundOutcome:
    if response.value is not None:
        return response.value.outcome
    return RefundOutcome(status=response.status, reason=response.message or response.reason)
