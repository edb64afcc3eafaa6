"""The adapter for the sandbox bank. It is stateless."""

import hmac
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, BinaryIO, Final, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from opentill.core.errors import ConfigurationError
from opentill.core.ids import new_id
from opentill.core.money import EXPONENTS
from opentill.gateways.failures import FAILURES, MALFORMED, ProviderResponse, status_of
from opentill.gateways.model import (
    BadCallback,
    CheckProblem,
    GatewayEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.sandbox import wire
from opentill.outgoing.client import Outgoing, Policy, Response, ServerPolicy

T = TypeVar("T")

_TOTAL_S: Final = 10.0
_MAX_BYTES: Final = 1 << 20  # the largest response, except reports
_REPORT_S: Final = 600.0
_REPORT_MAX_BYTES: Final = 1 << 32
_TOLERANCE_S: Final = 300
_ANY: Final = frozenset(EXPONENTS)


def _split_codes(currencies: str) -> frozenset[str]:
    return frozenset(currencies.split())


# The methods in order of preference, with their currencies. Wallets have the same currencies as at
# real acquirers.
_METHODS: Final[tuple[tuple[Method, frozenset[str]], ...]] = (
    ("CREDIT_CARD", _ANY),
    ("ALIPAY", _split_codes("AUD CAD CNY EUR GBP HKD JPY MYR NZD SGD USD")),
    ("WECHAT_PAY", _split_codes("AUD CAD CHF CNY DKK EUR GBP HKD JPY NOK SEK SGD USD")),
    ("PAYNOW", _split_codes("SGD")),
    ("CRYPTO", _split_codes("USD")),
    ("BANK_TRANSFER", _ANY),
)
_METHODS_BY_CURRENCY: Final[dict[str, tuple[Method, ...]]] = {
    currency: tuple(method for method, currencies in _METHODS if currency in currencies)
    for currency in EXPONENTS
}

# 4xx statuses that do not prove a refusal. For example, if this request had a wrong secret, an
# earlier request with the right secret may have had its effect.
_UNDECIDED: Final = (401, 403, 407, 408, 421, 425, 429)
_NOT_FOUND: Final = 404
_CLIENT_ERRORS: Final = range(400, 500)
_SUCCESS: Final = range(200, 300)

_TIMESTAMP: Final = re.compile(r"(?:^|,)\s*t=(\d{1,12})\s*(?:,|$)", re.ASCII)
_SIGNATURE: Final = re.compile(r"(?:^|,)\s*v1=([0-9a-f]{64})\s*(?=,|$)", re.ASCII)

_log: Final = logging.getLogger(__name__)


class SandboxGateway:
    """The ``Gateway`` of the sandbox bank; it implements ``Checks``."""

    name = "sandbox"
    report_delay_ms = 0

    def __init__(
        self,
        url: str,
        secret: str,
        timeout_s: float = _TOTAL_S,
        server_policy: ServerPolicy = Policy.only,
    ) -> None:
        """``secret`` is shared with the bank at ``url``. Raises Forbidden for a malformed URL."""
        self._url = url.rstrip("/")
        self._secret = secret.encode()
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._timeout_s = timeout_s
        self._outgoing = Outgoing(server_policy(self._url))

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods for the currency, the preferred first."""
        return _METHODS_BY_CURRENCY.get(currency, ())

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Start the attempt, or report its state if it was started before with the same id."""
        order = wire.PaymentOrder(
            id=request.attempt_id,
            amount_minor=request.amount.minor,
            currency=request.amount.currency,
            method=request.method,
            description=request.description,
            merchant_name=request.merchant_name,
            customer_email=request.customer_email,
            return_url=request.return_url,
            callback_url=request.callback_url,
            locale=request.locale,
        )
        response = await self._call(wire.Payment, "POST", "/payments", request.attempt_id, order)
        return _payment_outcome(response, request.attempt_id)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:  # noqa: ARG002 - the bank finds it by our id
        """Query the state of an attempt. NOT_FOUND only if the bank reports it."""
        path = f"/payments/{quote(attempt_id, safe='')}"
        response = await self._call(wire.Payment, "GET", path, attempt_id)
        return _payment_outcome(response, attempt_id)

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Start the refund, or report its state if it was started before with the same id."""
        order = wire.RefundOrder(
            id=request.refund_id,
            payment_id=request.provider_ref or request.attempt_id,
            amount_minor=request.amount.minor,
            currency=request.amount.currency,
            callback_url=request.callback_url,
        )
        response = await self._call(wire.Refund, "POST", "/refunds", request.refund_id, order)
        return _refund_outcome(response, request.refund_id)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:  # noqa: ARG002 - the bank finds it by our id
        """Query the state of a refund. NOT_FOUND only if the bank reports it."""
        path = f"/refunds/{quote(refund_id, safe='')}"
        response = await self._call(wire.Refund, "GET", path, refund_id)
        return _refund_outcome(response, refund_id)

    async def check(self) -> CheckProblem | None:
        """Query a payment that does not exist; return the problem, None if the bank accepts us."""
        response = await self._send(wire.Payment, "GET", f"/payments/{new_id('att')}", None)
        if response.status == "NOT_FOUND":
            return None
        if "HTTP 401" in response.reason:
            return CheckProblem(
                f"OPENTILL_SANDBOX_SECRET differs from that of the bank at {self._url}"
            )
        if response.status in ("UNREACHABLE", "UNKNOWN"):
            return CheckProblem(
                f"{self._url} gave no usable response: {response.reason}", was_asked=False
            )
        return CheckProblem(f"{self._url} does not accept this account ({response.reason})")

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the bank's settlement report as CSV, for reconciliation.

        ``since`` and ``until`` are Unix ms, inclusive. Raises ConfigurationError on failure.
        """
        times = {"from": since, "to": until}
        query = {name: str(time) for name, time in times.items() if time is not None}
        url = f"{self._url}/settlement-report.csv?{urlencode(query)}"
        try:
            response = await self._outgoing.download(
                url,
                target,
                headers=self._headers,
                timeout_s=_REPORT_S,
                max_bytes=_REPORT_MAX_BYTES,
            )
        except FAILURES as error:
            message = f"{self._url} does not respond ({error})"
            raise ConfigurationError(message) from None
        if response.status != HTTPStatus.OK:
            message = f"{url} responded with {response.status}"
            raise ConfigurationError(message)

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify a callback and return its event (``now`` in Unix ms). Raises BadCallback.

        ``Sandbox-Signature: t=<Unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>``, at most five
        minutes old. A genuine callback of an unknown type returns an empty tuple.
        """
        header = headers.get("sandbox-signature", "")
        timestamp = _TIMESTAMP.search(header)
        if timestamp is None:
            msg = "no usable Sandbox-Signature header"
            raise BadCallback(msg)
        signed = timestamp[1].encode() + b"." + body
        expected = hmac.digest(self._secret, signed, "sha256").hex()
        if not any(hmac.compare_digest(expected, v1) for v1 in _SIGNATURE.findall(header)):
            msg = "the signature does not fit the body"
            raise BadCallback(msg)
        if abs(now / 1000 - int(timestamp[1])) > _TOLERANCE_S:
            msg = "the signature is more than five minutes old"
            raise BadCallback(msg)
        try:
            kind = wire.CALLBACKS.get(msgspec.json.decode(body, type=wire.Kind).type)
            if kind is None:
                return ()
            return (msgspec.json.decode(body, type=kind).data.gateway_event,)
        except (*MALFORMED, ValueError) as error:
            msg = f"the body is not in the bank's form: {error}"
            raise BadCallback(msg) from error

    async def close(self) -> None:
        """Close connections."""
        await self._outgoing.close()

    async def _call(
        self,
        kind: type[T],
        verb: Literal["GET", "POST"],
        path: str,
        subject: str,
        order: msgspec.Struct | None = None,
    ) -> ProviderResponse[T]:
        """Send one request and log a failure; ``subject`` is our id, for the log."""
        response = await self._send(kind, verb, path, order)
        if response.reason:
            _log.warning(
                "the sandbox bank's response to %s for %s is %s: %s",
                verb,
                subject,
                response.status,
                response.reason,
            )
        return response

    async def _send(
        self, kind: type[T], verb: Literal["GET", "POST"], path: str, order: msgspec.Struct | None
    ) -> ProviderResponse[T]:
        try:
            response = await self._outgoing.send(
                verb,
                self._url + path,
                headers=self._headers,
                body=b"" if order is None else msgspec.json.encode(order),
                timeout_s=self._timeout_s,
                max_bytes=_MAX_BYTES,
            )
        except FAILURES as error:
            return ProviderResponse(status=status_of(error), reason=str(error))
        if response.status in _SUCCESS:
            try:
                return ProviderResponse(value=msgspec.json.decode(response.body, type=kind))
            except MALFORMED as error:
                return ProviderResponse(reason=f"malformed response: {error}")
        return _failure(verb, response)


def _failure(verb: str, response: Response) -> ProviderResponse[Any]:
    """Return NOT_FOUND or REFUSED if the bank itself reports it, otherwise UNKNOWN.

    A 404 of another server or for another path does not mean that the bank has no such id.
    """
    code = response.status
    problem = _read_problem(response)
    if verb == "GET" and code == _NOT_FOUND and problem and problem.code == "not_found":
        return ProviderResponse(status="NOT_FOUND")
    reason = f"HTTP {code} {problem.code}: {problem.message}" if problem else f"HTTP {code}"
    if verb == "POST" and problem and code in _CLIENT_ERRORS and code not in _UNDECIDED:
        return ProviderResponse(status="REFUSED", reason=reason)
    return ProviderResponse(reason=reason)


def _read_problem(response: Response) -> wire.Problem | None:
    """Return the bank's error; None for another body, such as a proxy's error page."""
    try:
        return msgspec.json.decode(response.body, type=wire.Refused).error
    except MALFORMED:
        return None


def _payment_outcome(response: ProviderResponse[wire.Payment], attempt_id: str) -> PaymentOutcome:
    if response.value is None:
        return PaymentOutcome(status=response.status, reason=response.reason)
    if response.value.id != attempt_id:
        return PaymentOutcome(status="UNKNOWN", reason="the response is about another payment")
    return response.value.outcome


def _refund_outcome(response: ProviderResponse[wire.Refund], refund_id: str) -> RefundOutcome:
    if response.value is None:
        return RefundOutcome(status=response.status, reason=response.reason)
    if response.value.id != refund_id:
        return RefundOutcome(status="UNKNOWN", reason="the response is about another refund")
    return response.value.outcome
