"""The unchanged programs of ``examples/`` run against a real server."""

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
def run_example(name: str, argument: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run an example until the block ends."""
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


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the example prints."""
    assert process.stdout is not None
    return process.stdout.readline()


def test_the_example_buys_and_refunds(api_server: ApiServer, shop: Shop) -> None:
    with run_example("buy_and_refund.py", api_server.url, KEY=shop.key) as process:
        output = read_line(process)
        session_id = output.rpartition("/")[2].strip()
        order_id = shop.data("GET", f"/v1/checkouts/{session_id}")["orderId"]
        shop.confirm(order_id)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert f"{order_id} is PAID\nrefunding 2.00 USD\n" in output
    assert "PAYMENT 9.99 USD" in output


def test_the_example_verifies_webhooks() -> None:
    secret = signing.new_secret()
    body = b'{"id":"evt_1","type":"order.paid","created_at":1,"data":{"order_id":"order_1"}}'
    with run_example("verify_webhook.py", "0", SECRET=secret) as process:
        url = f"http://127.0.0.1:{read_line(process).split()[-1]}/"
        now = now_ms()
        for timestamp, sent_body, status in [
            (now, body, 204),
            (now, body + b" ", 400),
            (now - 600_000, body, 400),
        ]:
            headers = dict(signing.headers([secret], "evt_1", timestamp, body))
            response = httpx2.post(url, content=sent_body, headers=headers, trust_env=False)
            assert response.status_code == status
        for keys, status in [
            (
                [signing.new_secret(), signing.new_secret(), secret],
                204,
            ),  # the secret was rotated twice: the new secrets sign first
            ([signing.new_secret(), signing.new_secret()], 400),
        ]:
            headers = dict(signing.headers(keys, "evt_1", now, body))
            response = httpx2.post(url, content=body, headers=headers, trust_env=False)
            assert response.status_code == status
        assert httpx2.post(url, content=body, trust_env=False).status_code == 400
