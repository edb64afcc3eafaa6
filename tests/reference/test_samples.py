"""The samples of every operation run in each language against a real server."""

import contextlib
import inspect
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import playwright
import pytest

from opentill import client
from opentill.reference.document import EVENTS, PEOPLE_PREFIX, Document, Operation
from opentill.reference.python_calls import CALLS
from support.api_server import ApiServer, Shop

NODE: Final = shutil.which("node") or str(Path(playwright.__file__).parent / "driver" / "node")
# These operations end objects that other samples need, so they run last.
CALLED_LAST: Final = ("archiveProduct", "deleteWebhookEndpoint")


@pytest.fixture(scope="module")
def document(api_server: ApiServer) -> Document:
    return Document(api_server.http.get("/openapi.json").json())


def _operations(document: Document) -> Iterator[tuple[str, Operation]]:
    """Yield the operations that an API key can call, with the names of their groups."""
    runnable = [
        (group.name, operation)
        for group in document.groups
        if group.name != EVENTS
        for operation in document.operations(group)
        if not operation.path.startswith(PEOPLE_PREFIX)  # they need a person's tokens
        if operation.credential is None or operation.credential.variable == "OPENTILL_KEY"
    ]
    yield from sorted(runnable, key=lambda pair: pair[1].anchor in CALLED_LAST)


def _ids(shop: Shop, document: dict[str, Any]) -> dict[str, str]:
    """Return the ids in the samples, and for each an id of this merchant that replaces it."""
    product = shop.create_product()["id"]
    session = shop.create_session(product)["id"]
    order = shop.create_paid_order(product)["id"]
    refund = shop.refund(order, amount="0.10")["id"]
    ids_by_path = {
        "/v1/products/{id}": product,
        "/v1/checkouts/{id}": session,
        "/v1/payment-links/{id}": shop.data(
            "POST", "/v1/payment-links", json={"productId": product}
        )["id"],
        "/v1/orders/{id}": order,
        "/v1/refunds/{id}": refund,
        "/v1/disputes/{id}": shop.open_dispute(shop.create_paid_order(product)["id"]).id,
        "/v1/payouts/{id}": shop.create_payout().id,
        "/v1/webhook-endpoints/{id}": shop.create_endpoint()["id"],
        "/v1/events/{id}": shop.data("GET", "/v1/events")["items"][0]["id"],
    }
    return {
        document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"][
            "example"
        ]["data"]["id"]: id_
        for path, id_ in ids_by_path.items()
    }


@pytest.fixture
def samples(api_server: ApiServer, shop: Shop, document: Document) -> dict[str, dict[str, str]]:
    """The samples by language and operation, with this server's URL and the merchant's ids."""
    ids = _ids(shop, api_server.http.get("/openapi.json").json()) | {
        document.server: api_server.url
    }
    texts: dict[str, dict[str, str]] = {}
    for _, operation in _operations(document):
        for sample in operation.samples:
            text = sample.text
            for example, replacement in ids.items():
                text = text.replace(example, replacement)
            texts.setdefault(sample.language, {})[operation.anchor] = text
    return texts


def test_every_group_of_the_document_has_runnable_operations(document: Document) -> None:
    groups = {name for name, _ in _operations(document)}
    assert groups >= {
        "Agreement",
        "Products",
        "Checkouts",
        "Orders",
        "Refunds",
        "Balance",
        "Webhooks",
    }


def test_curl_samples_run(samples: Any, shop: Shop, tmp_path: Path) -> None:
    for operation, text in samples["curl"].items():
        program = 'curl() { command curl -sS --fail-with-body "$@"; }\n' + text
        result = subprocess.run(
            ["bash", "-c", program],
            env={**os.environ, "OPENTILL_KEY": shop.key, "no_proxy": "*"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert result.returncode == 0, (operation, text, result.stdout, result.stderr)
        file = text.rpartition(" -o ")[2]
        output = (tmp_path / file).read_text() if "\n  -o " in text else result.stdout
        assert output.startswith(("{", "\ufeff", "id,", "type,", "number,")) or "," in output


def test_python_samples_run(
    samples: Any, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentill_client", client)  # the same source
    monkeypatch.setenv("OPENTILL_KEY", shop.key)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.chdir(tmp_path)
    for operation, text in samples["Python"].items():
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout):
            exec(compile(text, operation, "exec"), {})  # noqa: S102 - the sample is the object of the test
        files = [path for path in tmp_path.iterdir() if path.stat().st_size]
        prints_nothing = operation in (*CALLED_LAST, "listPayouts")
        assert stdout.getvalue() or files or prints_nothing, operation
        for path in files:
            path.unlink()


def test_javascript_samples_run(samples: Any, shop: Shop, tmp_path: Path) -> None:
    # One process runs all samples, each as a module of its own.
    names = []
    for number, text in enumerate(samples["JavaScript"].values()):
        path = tmp_path / f"sample{number}.mjs"
        path.write_text(text)
        names.append(path.name)
    program = tmp_path / "all.mjs"
    program.write_text(
        f"for (const name of {json.dumps(names)}) {{ console.log('#', name); "
        "await import('./' + name); }"
    )
    result = subprocess.run(
        [NODE, str(program)],
        env={**os.environ, "OPENTILL_KEY": shop.key, "no_proxy": "*"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.returncode == 0, (result.stdout[-300:], result.stderr[-2000:])
    assert result.stdout.count("# sample") == len(names)
    assert "message: 'success'" in result.stdout


def test_samples_use_the_python_client_for_every_operation_that_it_has(
    document: Document,
) -> None:
    with client.Client("http://127.0.0.1:9", "svc_live_x") as api:
        for call in CALLS.values():
            resource, method = call.split(".")
            assert callable(getattr(getattr(api, resource), method)), call
        methods = {
            f"{name}.{method}"
            for name, resource in vars(api).items()
            if not name.startswith("_")
            for method, _ in inspect.getmembers(resource, callable)
            if not method.startswith("_")
        }
    assert methods == set(CALLS.values())
    assert set(CALLS) <= {operation.anchor for _, operation in _operations(document)}
