"""Measure localstripe, an emulator of Stripe, at its operations that resemble ours.

The comparison is not fair: localstripe has no database, and writes its whole state to a file after
every change.
"""

import sys
from urllib.parse import urlencode

import msgspec

from benchmarks.deployment import Program, fetch, find_free_port
from benchmarks.driver import Load
from benchmarks.run import Run

_INTENT = {"amount": "999", "currency": "usd"}
_CARD = {"type": "card", "card[number]": "4242424242424242", "card[exp_month]": "12",
         "card[exp_year]": "2099", "card[cvc]": "123"}  # fmt: skip
_CONNECTIONS = 8


def measure(run: Run) -> None:
    """Measure creating, retrieving and confirming payment intents."""
    port = find_free_port()
    command = [sys.executable, "-m", "localstripe", "--from-scratch", "--port", str(port)]
    emulator = Program(command, port, run.data_dir / "localstripe.log")
    try:
        card = _create(port, _build_post("/v1/payment_methods", _CARD))
        count = 10 if run.options.quick else 150
        for _ in range(run.options.rounds):
            intents = [
                _create(
                    port, _build_post("/v1/payment_intents", {**_INTENT, "payment_method": card})
                )
                for _ in range(count)
            ]
            confirmations = [
                _build_post(f"/v1/payment_intents/{intent}/confirm", {}) for intent in intents
            ]
            retrieval = _build_request("GET", f"/v1/payment_intents/{intents[0]}")
            creation = _build_post("/v1/payment_intents", _INTENT)
            for name, requests, once in (
                ("confirm a payment intent", confirmations, True),
                ("retrieve a payment intent", [retrieval], False),
                ("create a payment intent", [creation], False),
            ):
                load = Load(
                    port=port, requests=requests, connections=_CONNECTIONS, once=once,
                    seconds=run.options.seconds / 4,
                )  # fmt: skip
                outcome = run.driver.run(load)
                run.report.failures += [
                    f"localstripe, {name}: {failure}" for failure in outcome.failures
                ]
                run.record_figure(f"localstripe: {name}", outcome.requests / outcome.seconds)
    finally:
        emulator.close()


def _build_request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer sk_test_12345\r\n"
    head += (
        f"content-type: application/x-www-form-urlencoded\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _build_post(path: str, fields: dict[str, str]) -> bytes:
    return _build_request("POST", path, urlencode(fields).encode())


def _create(port: int, request: bytes) -> str:
    status, body = fetch(port, request)
    assert status == 200, body
    created_id: str = msgspec.json.decode(body)["id"]
    return created_id
