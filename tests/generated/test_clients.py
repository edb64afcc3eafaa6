"""Clients that are generated from the API document compile, buy and refund."""

import json
import re
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from generated.toolchain import PYTHON, VENV, copy_files, generate, run
from opentill.refunds import jobs
from support.api_server import ApiServer, Shop
from support.sandbox_bank import wait_until

pytestmark = pytest.mark.clients


def _go(document: Path, folder: Path, node_programs: Path, *options: str) -> list[str | Path]:
    names = ("--git-host", "example.com", "--git-user-id", "opentill", "--git-repo-id", "till")
    generate("go", document, folder, *names, "--package-name", "till", *options)
    copy_files(folder / "buy", "go/main.go")
    run("go", "vet", "./...", cwd=folder)
    run("go", "build", "-o", "built", "./buy", cwd=folder)
    return [folder / "built"]


def _go_tolerant(document: Path, folder: Path, node_programs: Path) -> list[str | Path]:
    """Generate the Go client with the option that docs/recipes/generate-a-client.md recommends."""
    option = "disallowAdditionalPropertiesIfNotPresent=false"
    return _go(document, folder, node_programs, "--additional-properties", option)


def _typescript(document: Path, folder: Path, node_programs: Path) -> list[str | Path]:
    generate("typescript-fetch", document, folder / "till")
    copy_files(folder, "typescript/buy.ts", "typescript/tsconfig.json")
    run(node_programs / "tsc", "-p", ".", cwd=folder)
    return ["node", folder / "built" / "buy.js"]


def _python(document: Path, folder: Path, node_programs: Path) -> list[str | Path]:
    (folder / "settings.yml").write_text("post_hooks: []\n")
    program, target = VENV / "bin" / "openapi-python-client", folder / "till"
    run(
        *(program, "generate", "--path", document, "--output-path", target, "--meta", "none"),
        *("--config", folder / "settings.yml", "--fail-on-warning"),
        cwd=folder,
    )
    copy_files(folder, "python/buy.py")
    run(PYTHON, "-W", "error", "-m", "compileall", "-q", "till", "buy.py", cwd=folder)
    return [PYTHON, folder / "buy.py"]


CLIENTS: Final = {
    "go": _go,
    "go, tolerant": _go_tolerant,
    "typescript-fetch": _typescript,
    "openapi-python-client": _python,
}


def pay(api_server: ApiServer, session_id: str) -> None:
    """Pay a session at the sandbox bank, as a browser does."""
    with httpx2.Client(trust_env=False, timeout=30) as browser:
        form = {"email": "ann@example.com", "name": "Ann", "method": "CREDIT_CARD"}
        response = browser.post(f"{api_server.url}/checkout/{session_id}", data=form)
        attempt = re.search(r"/continue/(att_\w+)", response.headers["location"])
        assert attempt, response.headers["location"]
        card = {"number": "4242424242424242", "exp": "12/34", "csc": "123"}
        bank_page = f"{api_server.settings.sandbox_url}/pay/{attempt[1]}"
        assert browser.post(bank_page, data=card).is_redirect
        browser.get(f"{api_server.url}/checkout/{session_id}/return/{attempt[1]}")


def send_refund(api_server: ApiServer, shop: Shop, refund_id: str) -> dict[str, Any]:
    """Send due refunds to the bank as the worker does; return the refund when it has succeeded."""

    def find_succeeded() -> dict[str, Any] | None:
        current: dict[str, Any] = shop.data("GET", f"/v1/refunds/{refund_id}")
        return current if current["status"] == "SUCCEEDED" else None

    app = api_server.app
    api_server.run(jobs.send_due(app.db, app.gateways, api_server.url, app.clock()))
    refund: dict[str, Any] = wait_until(find_succeeded, 30)
    return refund


@pytest.mark.parametrize("client", CLIENTS)
def test_a_generated_client_compiles_buys_and_refunds(
    api_server: ApiServer,
    shop: Shop,
    document: Path,
    node_programs: Path,
    tmp_path: Path,
    client: str,
) -> None:
    program = CLIENTS[client](document, tmp_path, node_programs)

    def run_stage(*arguments: str) -> dict[str, Any]:
        environment = {"TILL_URL": api_server.url, "TILL_KEY": shop.key}
        output: dict[str, Any] = json.loads(run(*program, *arguments, cwd=tmp_path, **environment))
        return output

    session_output = run_stage("open")
    session = shop.data("GET", f"/v1/checkouts/{session_output['session']}")
    assert session_output == {
        "session": session["id"],
        "order": session["orderId"],
        "expiresAt": session["expiresAt"],
    }
    pay(api_server, session_output["session"])
    wait_until(lambda: shop.read_order(session_output["order"])["status"] == "PAID", 30)
    order = shop.read_order(session_output["order"])
    output = run_stage("refund", order["id"])
    (refund,) = shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]
    assert output == {
        "status": "PAID",
        "paidAt": order["paidAt"],
        "method": "CREDIT_CARD",
        "settledAt": None,
        "listed": [order["id"]],
        "total": 1,
        "carts": [1, 0],
        "refund": refund["id"],
    }
    (event,) = shop.data("GET", "/v1/events", params={"type": "order.paid"})["items"]
    assert run_stage("event", json.dumps(event)) == {
        "event": event["id"],
        "createdAt": event["created_at"],
        "order": order["id"],
        "amount": event["data"]["amount"],
        "paidAt": order["paidAt"],
    }
    succeeded = send_refund(api_server, shop, refund["id"])
    transactions = shop.data("GET", "/v1/balance/transactions")["items"]
    output = run_stage("read", refund["id"])
    assert order["id"] in output.pop("csv")
    assert output == {
        "status": "SUCCEEDED",
        "amount": "2.00",
        "succeededAt": succeeded["succeededAt"],
        "types": [row["type"] for row in transactions],
        "unknown": 40401,
    }
    assert {"PAYMENT", "FEE", "REFUND"} <= set(output["types"])
