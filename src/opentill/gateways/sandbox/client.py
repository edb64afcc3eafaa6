"""Talks to the sandbox bank and translates; remembers nothing.

What matters is what is said when no usable answer comes. A request that surely never arrived is
UNREACHABLE; whatever may have arrived and been done is UNKNOWN until the bank is asked again.
"""

import hashlib
import hmac
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, BinaryIO, Final, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS
from opentill.gateways.model import (
    BadCallback,
    GatewayEvent,
    Method,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)
from opentill.gateways.sandbox import wire
from opentill.outgoing.client import Forbidden, NoResponse, Outgoing, Policy, Response, Unreachable

T = TypeVar("T")

_TOTAL_S: Final = 10.0
_MOST: Final = 1 << 20  # of an answer, in bytes
_REPORT_S: Final = 600.0
_REPORT_MOST: Final = 1 << 32
_TOLERANCE_S: Final = 300
_ANY: Final = frozenset(EXPONENTS)


def _some(currencies: str) -> frozenset[str]:
    return frozenset(currencies.split())


# In order of preference. Wallets take the currencies that their real acquirers do.
_METHODS: Final[tuple[tuple[Method, frozenset[str]], ...]] = (
    ("CREDIT_CARD", _ANY),
    ("ALIPAY", _some("AUD CAD CNY EUR GBP HKD JPY MYR NZD SGD USD")),
    ("WECHAT_PAY", _some("AUD CAD CHF CNY DKK EUR GBP HKD JPY NOK SEK SGD USD")),
    ("PAYNOW", _some("SGD")),
    ("CRYPTO", _some("USD")),
    ("BANK_TRANSFER", _ANY),
)
_OFFERS: Final[dict[str, tuple[Method, ...]]] = {
    currency: tuple(method for method, currencies in _METHODS if currency in currencies)
    for currency in EXPONENTS
}

# Answers of 4xx that decide nothing: ask again later. A secret that is wrong for the moment says
# nothing about the payment or refund, which may have been done before it was.
_UNDECIDED: Final = (401, 403, 407, 408, 421, 425, 429)
_NOT_FOUND: Final = 404
_CLIENT_ERRORS: Final = range(400, 500)
_SUCCESS: Final = range(200, 300)

_TIMESTAMP: Final = re.compile(r"(?:^|,)\s*t=(\d{1,12})\s*(?:,|$)", re.ASCII)
_SIGNATURE: Final = re.compile(r"(?:^|,)\s*v1=([0-9a-f]{64})\s*(?=,|$)", re.ASCII)

_log: Final = logging.getLogger(__name__)


class _Response(msgspec.Struct, Generic[T], frozen=True):
    """What came of a call: the bank's object, or why there is none."""

    found: T | None = None
    status: Literal["UNREACHABLE", "NOT_FOUND", "REFUSED", "UNKNOWN"] = "UNKNOWN"
    reason: str = ""


class SandboxGateway:
    """The ``Gateway`` of the sandbox bank."""

    name = "sandbox"

    def __init__(self, url: str, secret: str, timeout_s: float = _TOTAL_S) -> None:
        """``url`` is where the bank is, ``secret`` is shared with it.

        Raises Forbidden for a ``url`` that is not well-formed.
        """
        self._url = url.rstrip("/")
        self._secret = secret.encode()
        self._headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        self._timeout_s = timeout_s
        self._outgoing = Outgoing(Policy.only(self._url))

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the payment methods on offer for the currency, in order of preference."""
        return _OFFERS.get(currency, ())

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """Start the attempt, or find it if it was started before under the same id."""
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
        answer = await self._call(wire.Payment, "POST", "/payments", request.attempt_id, order)
        return _payment_outcome(answer, request.attempt_id)

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:  # noqa: ARG002 - the bank finds it by our id
        """Ask what became of an attempt. NOT_FOUND only if the bank says so."""
        path = f"/payments/{quote(attempt_id, safe='')}"
        answer = await self._call(wire.Payment, "GET", path, attempt_id)
        return _payment_outcome(answer, attempt_id)

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """Start the refund, or find it if it was started before under the same id."""
        order = wire.RefundOrder(
            id=request.refund_id,
            payment_id=request.provider_ref or request.attempt_id,
            amount_minor=request.amount.minor,
            currency=request.amount.currency,
            callback_url=request.callback_url,
        )
        answer = await self._call(wire.Refund, "POST", "/refunds", request.refund_id, order)
        return _refund_outcome(answer, request.refund_id)

    async def find_refund(self, refund_id: str, payment_ref: str = "") -> RefundOutcome:  # noqa: ARG002 - likewise
        """Ask what became of a refund. NOT_FOUND only if the bank says so."""
        path = f"/refunds/{quote(refund_id, safe='')}"
        answer = await self._call(wire.Refund, "GET", path, refund_id)
        return _refund_outcome(answer, refund_id)

    async def settlement_report(
        self, target: BinaryIO, since: int | None = None, until: int | None = None
    ) -> None:
        """Write the bank's settlement report (CSV; Unix ms, inclusive) into a file.

        For the operator's reconciliation. Raises ConfigurationError if it cannot be had.
        """
        times = {"from": since, "to": until}
        given = {name: str(time) for name, time in times.items() if time is not None}
        url = f"{self._url}/settlement-report.csv?{urlencode(given)}"
        try:
            answer = await self._outgoing.download(
                url,
                target,
                headers=self._headers,
                timeout_s=_REPORT_S,
                max_bytes=_REPORT_MOST,
            )
        except (Forbidden, Unreachable, NoResponse) as error:
            message = f"{self._url} does not answer ({error})"
            raise ConfigurationError(message) from None
        if answer.status != HTTPStatus.OK:
            message = f"{url} answered {answer.status}"
            raise ConfigurationError(message)

    def read_callback(
        self, headers: Mapping[str, str], body: bytes, now: int
    ) -> tuple[GatewayEvent, ...]:
        """Verify and translate a callback (``now`` in Unix ms). Raises BadCallback.

        ``Sandbox-Signature: t=<Unix s>,v1=<hex HMAC-SHA256(secret, t + "." + body)>``, at most five
        minutes old. A genuine callback of a type that we do not know is an empty tuple.
        """
        header = headers.get("sandbox-signature", "")
        timestamp = _TIMESTAMP.search(header)
        if timestamp is None:
            msg = "no usable Sandbox-Signature header"
            raise BadCallback(msg)
        signed = timestamp[1].encode() + b"." + body
        expected = hmac.new(self._secret, signed, hashlib.sha256).hexdigest()
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
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
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
    ) -> _Response[T]:
        """Send one request; every way to fail becomes an answer."""
        answer = await self._try(kind, verb, path, order)
        if answer.reason:
            _log.warning(
                "the sandbox bank's answer to %s for %s is %s: %s",
                verb,
                subject,
                answer.status,
                answer.reason,
            )
        return answer

    async def _try(
        self, kind: type[T], verb: Literal["GET", "POST"], path: str, order: msgspec.Struct | None
    ) -> _Response[T]:
        try:
            answer = await self._outgoing.send(
                verb,
                self._url + path,
                headers=self._headers,
                body=b"" if order is None else msgspec.json.encode(order),
                timeout_s=self._timeout_s,
                max_bytes=_MOST,
            )
        except (Forbidden, Unreachable) as error:
            return _Response(status="UNREACHABLE", reason=f"unreachable: {error}")
        except NoResponse as error:
            return _Response(reason=str(error))
        if answer.status in _SUCCESS:
            try:
                return _Response(found=msgspec.json.decode(answer.body, type=kind))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                return _Response(reason=f"bad answer: {error}")
        return _no_success(verb, answer)


def _no_success(verb: str, answer: Response) -> _Response[Any]:
    """Tell a decision of the bank from an answer that decides nothing.

    A 404 of another server, or for another address, does not say that the bank knows no such id.
    """
    code = answer.status
    problem = _explained(answer)
    if verb == "GET" and code == _NOT_FOUND and problem and problem.code == "not_found":
        return _Response(status="NOT_FOUND")
    reason = f"HTTP {code} {problem.code}: {problem.message}" if problem else f"HTTP {code}"
    if verb == "POST" and problem and code in _CLIENT_ERRORS and code not in _UNDECIDED:
        return _Response(status="REFUSED", reason=reason)
    return _Response(reason=reason)


def _explained(answer: Response) -> wire.Problem | None:
    """Return the bank's own words; a proxy's error page has none."""
    try:
        return msgspec.json.decode(answer.body, type=wire.Refused).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _payment_outcome(answer: _Response[wire.Payment], attempt_id: str) -> PaymentOutcome:
    if answer.found is None:
        return PaymentOutcome(status=answer.status, reason=answer.reason)
    if answer.found.id != attempt_id:
        return PaymentOutcome(status="UNKNOWN", reason="the answer is about another payment")
    return answer.found.outcome


def _refund_outcome(answer: _Response[wire.Refund], refund_id: str) -> RefundOutcome:
    if answer.found is None:
        return RefundOutcome(status=answer.status, reason=answer.reason)
    if answer.found.id != refund_id:
        return RefundOutcome(status="UNKNOWN", reason="the answer is about another refund")
    return answer.found.outcome
