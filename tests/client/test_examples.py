"""The programs in ``examples/``, run as they stand there against a real server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2

from opentill.db.clock import now_ms
from opentill.webhooks import signing
from support.api_server import ApiServer, Shop

EXAMPLES: Final = Path(__file__).parents[2] / "examples"


@contextmanager
def running(name: str, argument: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run an example; it is ended with the block."""
    program = [sys.executable, str(EXAMPLES / name), argument]
    with subprocess.Popen(
        program,
        env={**os.environ, "no_proxy": "*", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the example prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_buying_and_refunding(api_server: ApiServer, shop: Shop) -> None:
    with running("buy_and_refund.py", api_server.url, KEY=shop.key) as process:
        output = line(process)
        session_id = output.rpartition("/")[2].strip()
        order_id = shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"]
        shop.confirm(order_id)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert f"{order_id} is PAID\nrefunding 2.00 USD\n" in rest
    assert "PAYMENT 9.99 USD" in rest


def test_verifying_a_webhook() -> None:
    secret = signing.new_secret()
    body = b'{"id":"evt_1","type":"order.paid","created_at":1,"data":{"order_id":"order_1"}}'
    with running("verify_webhook.py", "0", SECRET=secret) as process:
        url = f"http://127.0.0.1:{line(process).split()[-1]}/"
        now = now_ms()
        for at, sent, status in [
            (now, body, 204),
            (now, body + b" ", 400),
            (now - 600_000, body, 400),
        ]:
            headers = dict(signing.headers([secret], "evt_1", at, body))
            response = httpx2.post(url, content=sent, headers=headers, trust_env=False)
            assert response.status_code == status
        for keys, status in [
            ([signing.new_secret(), signing.new_secret(), secret], 204),  # rotated twice
            ([signing.new_secret(), signing.new_secret()], 400),
        ]:
            headers = dict(signing.headers(keys, "evt_1", now, body))
            response = httpx2.post(url, content=body, headers=headers, trust_env=False)
            assert response.status_code == status
        assert httpx2.post(url, content=body, trust_env=False).status_code == 400
