"""Callbacks are signed and repeated until they are acknowledged, even if the bank is killed."""

import hashlib
import hmac
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from opentill.sandbox.callbacks import MAX_WAIT_S, sign
from support.commands import ForkedProcess, ForkServer
from support.ports import free_socket, url_of
from support.sandbox_bank import (
    FAST_TIMING,
    SECRET,
    Receiver,
    Shop,
    serving,
    wait_until,
)

_STDERR: Final = 2
_BANK: Final = """
import sys, uvicorn
from pathlib import Path
from opentill.sandbox import Timing, create_app
port = int(sys.argv[1])
timing = Timing(processing_s=0.5, retry_s=(0.1,))
app = create_app(data_dir=Path(sys.argv[2]), secret=sys.argv[3],
                 public_url=f"http://127.0.0.1:{port}", timing=timing)
uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")
"""


def test_the_signature_is_an_hmac_of_time_and_body() -> None:
    expected = hmac.new(b"secret", b"1736932500.{}", hashlib.sha256).hexdigest()
    assert sign("secret", b"{}", 1736932500) == f"t=1736932500,v1={expected}"


def test_a_callback_is_signed_and_sent_at_once(shop: Shop) -> None:
    payment_id = shop.start_payment()
    started = time.monotonic()
    shop.type_card(payment_id, "4242424242424242")
    callback = shop.receiver.wait_for(payment_id, "payment.succeeded")
    # A bank that polls for due callbacks would take longer.
    assert time.monotonic() - started < MAX_WAIT_S / 4
    assert callback["id"].startswith("cb_")
    headers, body = next(
        (headers, body)
        for headers, body in shop.receiver.received
        if callback["id"].encode() in body
    )
    assert headers["content-type"] == "application/json"
    timestamp = int(headers["sandbox-signature"].split(",")[0].removeprefix("t="))
    assert abs(time.time() - timestamp) < 5
    assert headers["sandbox-signature"] == sign(SECRET, body, timestamp)


def test_a_callback_is_repeated_until_it_is_acknowledged(shop: Shop) -> None:
    shop.receiver.status = 503
    try:
        payment_id = shop.create_paid_payment()
        shop.receiver.wait_for(payment_id, "payment.succeeded", times=2)
    finally:
        shop.receiver.status = 200
    wait_until(lambda: 200 in shop.receiver.statuses(payment_id))
    time.sleep(0.5)  # the longest pause between two attempts is shorter
    *failed_statuses, last_status = shop.receiver.statuses(payment_id)
    assert len(failed_statuses) >= 2
    assert (set(failed_statuses), last_status) == ({503}, 200)
    assert len({body["id"] for body in shop.receiver.callbacks_about(payment_id)}) == 1


def test_an_unreachable_receiver_does_not_delay_others(shop: Shop) -> None:
    silent = free_socket()
    silent.listen(200)  # this receiver accepts connections and never responds
    for _ in range(20):
        shop.create_paid_payment(callback_url=f"{url_of(silent)}/callback")
    started = time.monotonic()
    shop.receiver.wait_for(shop.create_paid_payment(), "payment.succeeded")
    # If callbacks were sent one after another, each of the first 20 would take a whole timeout.
    assert time.monotonic() - started < 20 * FAST_TIMING.callback_timeout_s / 2
    silent.close()


@pytest.fixture
def start_bank(fork_server: ForkServer, tmp_path: Path) -> Any:
    """Start banks as processes that can be killed."""
    processes: list[ForkedProcess] = []

    def start(port: int) -> ForkedProcess:
        arguments = ["-c", _BANK, str(port), str(tmp_path), SECRET]
        processes.append(fork_server.start_logged(arguments, os.environ, tmp_path, _STDERR))
        return processes[-1]

    yield start
    for process in processes:
        process.kill()
        process.wait()


def test_a_killed_bank_sends_its_callbacks_after_a_restart(
    start_bank: Callable[[int], ForkedProcess],
) -> None:
    receiver_socket = free_socket()  # the receiver does not listen before the restart
    receiver = Receiver()
    receiver.url = url_of(receiver_socket)
    sock = free_socket()
    port = sock.getsockname()[1]
    sock.close()
    shop = Shop(f"http://127.0.0.1:{port}", receiver)

    def is_ready() -> bool:
        try:
            return shop.browser.get("/healthz").is_success
        except Exception:  # noqa: BLE001 - whatever the error, the bank does not listen yet
            return False

    process = start_bank(port)
    wait_until(is_ready)
    paid, processing = shop.create_paid_payment(), shop.start_payment()
    shop.type_card(processing, "4000000000000119")
    process.send_signal(signal.SIGKILL)
    process.wait()

    start_bank(port)
    wait_until(is_ready)
    assert shop.find_payment(paid)["status"] == "succeeded"
    with serving(receiver, receiver_socket):
        receiver.wait_for(paid, "payment.succeeded")
        receiver.wait_for(processing, "payment.processing")
        receiver.wait_for(processing, "payment.declined")
    shop.close()
