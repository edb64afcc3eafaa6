"""The examples of docs/client.md run unchanged."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from client.test_operations import BLOCKING
from support.api_server import ApiServer, Shop

TOP: Final = Path(__file__).parents[2]
ADDRESS: Final = "http://127.0.0.1:8080"


def blocks(text: str, language: str) -> list[str]:
    """Return a document's code blocks in a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_blocking_examples_run(
    api_server: ApiServer, shop: Shop, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (TOP / "docs" / "client.md").read_text()
    names: dict[str, Any] = {"KEY": shop.key}
    shop.create_paid_order()
    for block in blocks(text, "python"):
        if "asyncio.run" not in block:
            exec(block.replace(ADDRESS, api_server.url), names)  # noqa: S102 - our own documents
    names["client"].close()
    output = capsys.readouterr().out
    assert "send the customer to" in output
    assert "2 products" in output
    assert "statement_all_all.csv" in output
    assert Path("orders.csv").read_text().count("\n") == 4  # the file has a header and three orders


def test_the_asynchronous_example_runs(api_server: ApiServer, shop: Shop) -> None:
    order = shop.create_paid_order()
    (block,) = [
        block
        for block in blocks((TOP / "docs" / "client.md").read_text(), "python")
        if "asyncio.run" in block
    ]
    process = subprocess.run(
        [sys.executable, "-c", f"KEY = {shop.key!r}\n" + block.replace(ADDRESS, api_server.url)],
        env={"PYTHONPATH": str(TOP / "src"), "no_proxy": "*"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert order["id"] in process.stdout


def test_the_document_names_every_method() -> None:
    text = (TOP / "docs" / "client.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    documented = {
        f"{group}.{name}" for group in rows for name in re.findall(r"`(\w+)`", rows[group])
    }
    assert set(BLOCKING) <= documented
