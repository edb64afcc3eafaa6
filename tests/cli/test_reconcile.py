"""``opentill reconcile`` with the sandbox bank, and with the operator's files."""

import csv
import io
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.commands import ForkServer
from support.deployment import Deployment, checked_deployment

HEAD = "kind,reference,amount,currency,settled_at\n"


def _pay(deployment: Deployment, key: str) -> dict[str, Any]:
    """Pay with a test card as a customer; return the paid order."""
    base = f"http://127.0.0.1:{deployment.port}"
    headers = {"x-api-key": key}
    with httpx2.Client(base_url=base, trust_env=False, headers=headers) as api:
        product = {"name": "Tea", "price": "9.99", "currency": "USD"}
        product_id = api.post("/v1/products", json=product).json()["data"]["id"]
        session = api.post("/v1/checkouts", json={"productId": product_id}).json()["data"]
        with httpx2.Client(trust_env=False, follow_redirects=True) as browser:
            form = {"email": "ann@example.com", "method": "CREDIT_CARD", "lang": "en"}
            page = browser.post(session["url"], data=form)
            bank_page = re.search(rf"http://127.0.0.1:{deployment.sandbox_port}/pay/\w+", page.text)
            assert bank_page is not None
            card = {"number": "4242424242424242", "exp": "12/40", "csc": "123"}
            browser.post(bank_page[0], data=card)
        order_id = api.get(f"/v1/checkouts/{session['id']}").json()["data"]["orderId"]

        def find_paid() -> dict[str, Any] | None:
            order: dict[str, Any] = api.get(f"/v1/orders/{order_id}").json()["data"]
            return order if order["status"] == "PAID" else None

        end = time.monotonic() + 120
        while (order := find_paid()) is None:
            assert time.monotonic() < end, "the order is not paid"
            time.sleep(0.02)
        return order


@pytest.fixture(scope="module")
def deployment(fork_server: ForkServer, migrated: Path) -> Iterator[Deployment]:
    """A deployment of these tests only, because the bank's report has all its payments."""
    with checked_deployment(fork_server, migrated) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def order(deployment: Deployment) -> dict[str, Any]:
    """An order that is paid at the sandbox bank."""
    return _create_order(deployment)


def _create_order(deployment: Deployment) -> dict[str, Any]:
    merchant = json.loads(deployment.run_checked("merchants", "create", "A", "--json"))["id"]
    key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
    return _pay(deployment, key)


@pytest.fixture(scope="module")
def report(deployment: Deployment, order: dict[str, Any]) -> str:
    """The sandbox bank's own report."""
    secret = (deployment.directory / "data" / "sandbox.key").read_text().strip()
    response = httpx2.get(
        f"http://127.0.0.1:{deployment.sandbox_port}/settlement-report.csv",
        headers={"authorization": f"Bearer {secret}"},
        trust_env=False,
    )
    assert response.status_code == 200
    return response.text


def test_the_banks_report_has_the_payment(report: str, deployment: Deployment) -> None:
    (row,) = csv.DictReader(io.StringIO(report))
    assert (row["kind"], row["amount"], row["currency"]) == ("payment", "9.99", "USD")
    assert row["reference"].startswith("att_")
    url = f"http://127.0.0.1:{deployment.sandbox_port}/settlement-report.csv"
    assert httpx2.get(url, trust_env=False).status_code == 401


def test_a_report_fetched_from_the_bank_has_no_differences(
    deployment: Deployment, order: dict[str, Any], report: str
) -> None:
    process = deployment.run("reconcile", "sandbox", "--json")
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout)
    assert (result["rows"], result["items"], result["matched"], result["found"]) == (1, 1, 1, 0)
    assert json.loads(
        deployment.run_checked("reconcile", "sandbox", "--from", "1000000000", "--json")
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda text: text.replace("9.99", "9.98"), "different"),
        (lambda text: text + text.splitlines()[1] + "\r\n", "double in report"),
        (lambda text: text + text.splitlines()[1].replace("att_", "att_x"), "missing in ledger"),
    ],
)
def test_a_difference_is_exit_code_1(
    deployment: Deployment, report: str, change: Callable[[str], str], what: str
) -> None:
    file = deployment.directory / "report.csv"
    file.write_bytes(change(report).encode())
    process = deployment.run("reconcile", "sandbox", str(file), "--json")
    assert process.returncode == 1, process.stderr
    result = json.loads(process.stdout)
    assert [difference["what"] for difference in result["differences"]] == [what]
    as_text = deployment.run("reconcile", "sandbox", str(file))
    assert what in as_text.stdout
    assert "1 differences" in as_text.stderr


def test_a_payment_missing_at_the_bank_is_reported(fork_server: ForkServer, migrated: Path) -> None:
    """No report of this deployment was read before, which might have had the payment."""
    with checked_deployment(fork_server, migrated) as deployment:
        _create_order(deployment)
        file = deployment.directory / "empty.csv"
        file.write_text(HEAD)
        process = deployment.run("reconcile", "sandbox", str(file), "--json")
        assert process.returncode == 2
        assert "the report has no rows" in process.stderr
        days = ("--from", "2000-01-01", "--to", "2099-01-01")
        process = deployment.run("reconcile", "sandbox", str(file), *days, "--json")
        assert process.returncode == 1
    (difference,) = json.loads(process.stdout)["differences"]
    assert (difference["what"], difference["line"]) == ("missing in report", None)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "line 1: each of the columns kind, reference, amount, currency, settled_at"),
        (HEAD.encode() + b"payment,a,x,USD,2026-01-01\n", "line 2: amount must be"),
        (HEAD.encode() + b"payment,\xff,1,USD,2026-01-01\n", "must be CSV in UTF-8"),
        (None, "must be one that can be read"),
    ],
)
def test_an_invalid_file_is_reported_in_one_line(
    deployment: Deployment, content: bytes | None, text: str
) -> None:
    file = deployment.directory / "wrong.csv"
    file.unlink(missing_ok=True)
    if content is not None:
        file.write_bytes(content)
    refused = deployment.run("reconcile", "sandbox", str(file), "--json")
    assert refused.returncode == 2
    assert text in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_invalid_arguments_are_reported_in_one_line(deployment: Deployment) -> None:
    for words in (("sandbx",), ("sandbox", "--from", "x"), ("manual",)):
        refused = deployment.run("reconcile", *words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), words
