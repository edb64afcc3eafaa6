"""The gateway of the recipe, installed as a package, takes a payment in a real server."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.commands import SOURCE, ForkServer
from support.deployment import Deployment, checked_deployment
from support.ports import free_socket, url_of
from support.sandbox_bank import serving

RECIPE = Path(__file__).parents[2] / "docs/recipes/add-a-gateway.md"


def install(folder: Path) -> None:
    """Write the recipe's package into a folder as pip would install it, and its tests."""
    text = RECIPE.read_text()
    (project,), (module, tests) = (
        re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) for language in ("toml", "python")
    )
    metadata = tomllib.loads(project)["project"]
    folder.mkdir()
    (folder / "opentill_piggy.py").write_text(module)
    (folder / "test_piggy.py").write_text(tests)
    info = folder / f"opentill_piggy-{metadata['version']}.dist-info"
    info.mkdir()
    package_metadata = (
        f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    )
    (info / "METADATA").write_text(package_metadata)
    entry_points = [
        f"{name} = {target}"
        for name, target in metadata["entry-points"]["opentill.gateways"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(["[opentill.gateways]", *entry_points]) + "\n")


class Provider:
    """The payment provider of the recipe's gateway."""

    def __init__(self) -> None:
        self.payments: dict[str, dict[str, Any]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        if scope["method"] == "POST":
            order = json.loads((await receive())["body"])
            assert (b"authorization", b"Bearer k-1") in scope["headers"]
            self.payments[order["id"]] = {**order, "status": "done"}
            payment = self.payments[order["id"]]
        else:
            payment = self.payments.get(scope["path"].rpartition("/")[2], {})
        status = 200 if payment else 404
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(payment).encode()})


@pytest.fixture
def provider() -> Iterator[tuple[Provider, str]]:
    sock, provider = free_socket(), Provider()
    with serving(provider, sock):
        yield provider, url_of(sock)


def test_an_order_is_paid_and_refunded_through_a_third_party_gateway(
    fork_server: ForkServer, migrated: Path, tmp_path: Path, provider: tuple[Provider, str]
) -> None:
    install(tmp_path / "packages")
    environ = {
        "OPENTILL_GATEWAYS": "piggy",
        "OPENTILL_GATEWAY_PIGGY_URL": provider[1],
        "OPENTILL_GATEWAY_PIGGY_KEY": "k-1",
        "OPENTILL_GATEWAY_PIGGY_METHODS": "ALIPAY:EUR",
        "PYTHONPATH": f"{SOURCE}:{tmp_path / 'packages'}",
    }
    with checked_deployment(fork_server, migrated, **environ) as deployment:
        pay_and_refund(deployment, provider[0])
        # The command runs in a new interpreter, which must find the package too.
        rows = json.loads(deployment.run_unforked("doctor", "--json").stdout)
        (piggy,) = [row["text"] for row in rows if row["subject"] == "gateway"]
        assert piggy == "piggy takes ALIPAY in EUR"


def test_the_gateway_passes_the_conformance_suite(tmp_path: Path) -> None:
    install(tmp_path / "packages")
    suite = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", tmp_path,
         "-p", "opentill.gateways.conformance.plugin", "packages/test_piggy.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{SOURCE}:{tmp_path / 'packages'}"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )  # fmt: skip
    assert suite.returncode == 0, suite.stdout[-5000:] + suite.stderr[-5000:]
    assert re.search(
        r"^Piggy +5/5 \(3\) +4/4 +68/68 \(17\) +1/1 \(5\) +0/0 \(19\)$", suite.stdout, re.MULTILINE
    ), suite.stdout


def pay_and_refund(deployment: Deployment, provider: Provider) -> None:
    """Sell a product for 5 euros and refund 2 of them."""
    merchant = json.loads(deployment.run_checked("merchants", "create", "Shop", "--json"))["id"]
    deployment.run_checked("rates", "set", "EUR", "USD", "1.10")
    key = json.loads(deployment.run_checked("keys", "create", merchant, "--json"))["key"]
    url = f"http://127.0.0.1:{deployment.port}"
    with httpx2.Client(base_url=url, headers={"x-api-key": key}, timeout=30) as shop:

        def post(path: str, **body: str) -> dict[str, Any]:
            response = shop.post(path, json=body)
            assert response.status_code == 201, response.text
            data: dict[str, Any] = response.json()["data"]
            return data

        product = post("/v1/products", name="A mug", price="5.00", currency="EUR")
        session = post("/v1/checkouts", productId=product["id"])
        page = shop.get(session["url"]).text
        assert 'value="ALIPAY"' in page
        assert 'value="WECHAT_PAY"' not in page
        form = {"email": "ann@example.com", "name": "", "method": "ALIPAY"}
        assert shop.post(session["url"], data=form, headers={"origin": url}).status_code == 303
        order_id = shop.get(f"/v1/checkouts/{session['id']}").json()["data"]["orderId"]
        order = shop.get(f"/v1/orders/{order_id}").json()["data"]
        assert (order["status"], order["paymentMethod"]) == ("PAID", "ALIPAY")
        refund = post(f"/v1/orders/{order_id}/refunds", amount="2.00")
        for _ in range(300):
            status = shop.get(f"/v1/refunds/{refund['id']}").json()["data"]["status"]
            if status == "SUCCEEDED":
                break
            time.sleep(0.1)
    assert status == "SUCCEEDED"
    assert sorted(payment["amount"] for payment in provider.payments.values()) == [200, 500]
