"""The JavaScript client's own tests and the examples of its README run on Node.js."""

import re
from pathlib import Path
from typing import Final

import pytest

from opentill.core.settings import Settings
from opentill.reference.chapters import BY_NAME, Texts
from support.api_server import ApiServer, Shop
from support.javascript import SOURCE, node_tests, run

FILES: Final = sorted(path.name for path in (SOURCE / "test").glob("*.test.js"))
ADDRESS: Final = "http://127.0.0.1:8080"


@pytest.mark.parametrize("file", FILES)
def test_the_javascript_tests_pass(javascript_client: Path, control: str, file: str) -> None:
    report = node_tests(javascript_client, file, OPENTILL_TEST_CONTROL=control)
    assert re.search(r"^# fail 0$", report, re.MULTILINE), report
    assert re.search(r"^# skipped 0$", report, re.MULTILINE), report
    assert re.search(r"^# pass [1-9]", report, re.MULTILINE), report


def test_the_examples_of_the_readme_run(
    javascript_client: Path, api_server: ApiServer, shop: Shop, tmp_path: Path
) -> None:
    order = shop.create_paid_order()
    blocks = re.findall(r"```js\n(.*?)```", (SOURCE / "README.md").read_text(), re.DOTALL)
    program = javascript_client / "examples.mjs"
    program.write_text("\n".join(blocks).replace(ADDRESS, api_server.url))
    environ = {"KEY": shop.key, "WEBHOOK_SECRET": "whsec_example"}
    output = run(["node", program], tmp_path, **environ)
    assert "send the customer to http" in output
    assert "2 products" in output
    assert order["id"] in output
    assert (tmp_path / "orders.csv").read_text().startswith("id,")


def test_the_sample_of_the_reference_runs(
    javascript_client: Path, api_server: ApiServer, shop: Shop, tmp_path: Path
) -> None:
    tokens = Texts(Settings(public_url=api_server.url)).tokens(BY_NAME["clients"])
    (sample,) = (token.content for token in tokens if token.type == "fence" and token.info == "js")
    program = javascript_client / "reference.mjs"
    program.write_text(sample)
    output = run(["node", program], tmp_path, OPENTILL_KEY=shop.key)
    assert f"send the customer to {api_server.url}/checkout/cs_" in output


@pytest.mark.clients
def test_the_type_declarations_compile(javascript_client: Path) -> None:
    run([javascript_client / "node_modules/.bin/tsc", "-p", "test"], javascript_client)
