"""Callbacks: genuine ones count, and nothing else does."""

import time
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import pytest

from opentill.gateways.conformance.case import Case
from opentill.gateways.conformance.provider import Callback, Provider
from opentill.gateways.conformance.running import Cases, Run
from opentill.gateways.model import GatewayPaymentEvent, is_notified

_MOST_CHANGES: Final = 60  # of one body
_YEAR_MS: Final = 365 * 86_400_000
_LONGEST_S: Final = 2.0
_ODD_BODIES: Final = (
    b"",
    b"{}",
    b"[]",
    b'"text"',
    b"null",
    b"<html></html>",
    b"\xff\xfe\x00",
    b"[" * 200_000,
    b'{"a":' * 50_000,
    b'{"type":"' + b"x" * 1_000_000 + b'"}',
    b'{"id":1e400,"data":{"object":{}}}',
)


def _changed_headers(headers: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the headers without each one, and with each one changed."""
    for name in headers:
        others = {other: text for other, text in headers.items() if other != name}
        yield others
        yield {**others, name: ""}
        yield {**others, name: headers[name][:-1] + ("0" if headers[name][-1:] != "0" else "1")}


def _changed_bodies(body: bytes) -> Iterator[bytes]:
    """Yield the body with single bits changed, cut, and with more at its end."""
    for position in range(0, len(body), max(1, len(body) // _MOST_CHANGES)):
        yield body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
    yield body[: len(body) // 2]
    yield body + b" "


def _changed_fields(fields: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the form without each field, and with each one changed."""
    for name, text in fields.items():
        others = {other: value for other, value in fields.items() if other != name}
        yield others
        yield {**others, name: text + "1"}
    yield {**fields, "another": "1"}


def _changes(callback: Callback) -> Iterator[Callback]:
    if callback.fields is not None:
        for fields in _changed_fields(callback.fields):
            yield msgspec.structs.replace(callback, fields=fields)
        return
    for headers in _changed_headers(callback.headers):
        yield msgspec.structs.replace(callback, headers=headers)
    for body in _changed_bodies(callback.body):
        yield msgspec.structs.replace(callback, body=body)


class CallbackCases(Cases):
    """Genuine, changed, old, foreign and odd callbacks."""

    @pytest.fixture(autouse=True)
    def _skip_without_callbacks(self, provider: Provider, request: pytest.FixtureRequest) -> None:
        name = request.node.originalname
        if not provider.calls_back and name != "test_odd_callbacks" and "callback" in name:
            pytest.skip("the provider sends no callbacks")

    def test_callback_of_a_payment(self, provider: Provider, run: Run) -> None:
        """A genuine callback is about our attempt; one that it is paid has the right amount."""

        async def work(case: Case) -> None:
            payment, _ref = await case.take()
            callbacks = await case.callbacks(payment.attempt_id)
            events = [event for one in callbacks for event in await case.read(one) or ()]
            assert events, "no callback has an event"
            for event in events:
                assert isinstance(event, GatewayPaymentEvent), event
                assert event.attempt_id == payment.attempt_id
                if event.outcome.status == "SUCCEEDED":
                    assert event.outcome.amount == provider.amount, event

        run(work)

    def test_callback_twice(self, run: Run) -> None:
        """A callback that arrives twice says the same twice."""

        async def work(case: Case) -> None:
            payment, _ref = await case.take()
            for callback in await case.callbacks(payment.attempt_id):
                assert await case.read(callback) == await case.read(callback)

        run(work)

    def test_callback_that_was_changed(self, run: Run) -> None:
        """A changed callback is refused, or says what the genuine one says."""

        async def work(case: Case) -> None:
            payment, _ref = await case.take()
            for callback in await case.callbacks(payment.attempt_id):
                genuine = await case.read(callback)
                assert genuine is not None
                for changed in _changes(callback):
                    assert await case.read(changed) in (None, (), genuine), changed

        run(work)

    def test_callback_of_last_year(self, run: Run) -> None:
        """An old callback is refused, or says what the new one said."""

        async def work(case: Case) -> None:
            payment, _ref = await case.take()
            later = time.time_ns() // 1_000_000 + _YEAR_MS
            for callback in await case.callbacks(payment.attempt_id):
                events = await case.read(callback, now=later)
                assert events in (None, await case.read(callback))

        run(work)

    def test_callback_to_another_account(self, provider: Provider, run: Run) -> None:
        """An adapter with the keys of another account believes no callback."""

        async def work(case: Case) -> None:
            payment, _ref = await case.take()
            other = provider.make_gateway(provider.url, other_account=True)
            try:
                for callback in await case.callbacks(payment.attempt_id):
                    assert await case.read(callback, other) is None
            finally:
                await other.close()

        run(work)

    def test_odd_callbacks(self, run: Run) -> None:
        """Whatever is not a callback is refused in a short time."""

        async def work(case: Case) -> None:
            if is_notified(case.gateway):
                for fields in ({}, {"sign": ""}, {"sign": "x" * 100_000}, {"\x00": "\ud800"}):
                    assert await case.read(Callback(fields=fields)) is None
            for body in _ODD_BODIES:
                began = time.monotonic()
                assert not await case.read(Callback(headers={"content-type": ""}, body=body))
                assert time.monotonic() - began < _LONGEST_S

        run(work)
