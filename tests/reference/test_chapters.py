"""The chapters of the reference agree with the code."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
import playwright

from opentill import app, ledger, orders
from opentill.checkouts.model import (
    LIFETIME_MS,
    MAX_ATTEMPTS,
    MAX_CUSTOMER_NAME,
    MAX_DISPLAY_NAME,
)
from opentill.core import errors
from opentill.core.errors import Problem
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from opentill.http.inputs import MAX_KEY, MAX_KEYS, MAX_METADATA, MAX_URL
from opentill.orders.statuses import Status
from opentill.reference import chapters
from opentill.reference.book import Book
from opentill.reference.chapters import ADVICE, BY_NAME, CHAPTERS, Texts
from opentill.reference.document import Document
from opentill.reference.python_calls import CALLS
from opentill.sandbox.cards import TEST_CARDS
from opentill.webhooks import signing
from pages.test_render import Reader

CHAPTER_FILES: Final = Path(chapters.__file__).parent / "guides"
SETTINGS: Final = Settings(public_url="https://pay.example")
NODE: Final = shutil.which("node") or str(Path(playwright.__file__).parent / "driver" / "node")


def _text(name: str, **changes: Any) -> str:
    texts = Texts(Settings(public_url="https://pay.example", **changes))
    return Reader(str(texts.html(BY_NAME[name]))).text


def _problems(kind: type[Problem]) -> Iterator[type[Problem]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _problems(subclass)


def test_every_error_code_has_advice() -> None:
    problems = [type_ for type_ in _problems(Problem) if type_.__module__ == errors.__name__]
    codes = {type_.code for type_ in problems}
    assert {advice.code for advice in ADVICE} == codes
    text = _text("errors")
    for code in codes:
        assert str(code) in text
    documented = {
        content["example"]["code"]
        for methods in app.openapi_document(SETTINGS)["paths"].values()
        for operation in methods.values()
        for status, response in operation["responses"].items()
        if not status.startswith("2")
        for content in response["content"].values()
    }
    assert documented <= codes


def test_every_test_card_is_listed() -> None:
    text = _text("testing")
    for card in TEST_CARDS:
        assert card.spaced in text
    assert len(re.findall(r"4\d{3} \d{4} \d{4} \d{4}", text)) == len(TEST_CARDS)


def test_every_order_status_is_in_the_table() -> None:
    rows = re.findall(
        r"^\| `([A-Z]+)` \|", (CHAPTER_FILES / "payments.md").read_text(), re.MULTILINE
    )
    assert sorted(rows) == sorted(get_args(Status))


def test_limits_and_id_prefixes_in_the_chapters_are_those_of_the_code() -> None:
    limits, retries = _text("limits"), _text("idempotency")
    for figure in (
        f"{MAX_ATTEMPTS}",
        f"{LIFETIME_MS // 3_600_000} hours",
        f"{MAX_KEYS} keys of {MAX_KEY} characters, {MAX_METADATA // 1024} KiB",
        f"{MAX_URL} characters",
        f"{MAX_DISPLAY_NAME}, {MAX_CUSTOMER_NAME} characters",
    ):
        assert figure in limits
    assert "7 days" in retries
    for prefix in ("prod", "cs", "order", "re", "dp", "po", "txn", "evt", "whe", "mer"):
        assert f"{prefix}_" in _text("formats")


def test_chapters_show_the_values_of_this_deployment() -> None:
    assert "77 a minute" in _text("limits", limit_ip_per_minute=77)
    assert "none" in _text("limits", limit_ip_per_minute=0)
    assert "begin with svc_stg_" in _text("authentication", environment="staging")
    assert "takes real money" in _text("testing", gateways=("manual",))
    assert "No real money is taken here" in _text("testing")
    assert "1 minute, 5 minutes, 30 minutes, 2 hours" in _text("webhooks")


def test_the_search_finds_how_to_install_the_clients() -> None:
    book = Book(SETTINGS, msgspec.json.encode(app.openapi_document(SETTINGS)))
    assert "/docs/guides/clients#install" in book.search_page("install")
    text = _text("clients")
    for path in ("pip install ../opentill/clients/python", "npm install ../opentill/clients/"):
        assert path in text
    assert "opentill listen --server http" in _text("webhooks")


def test_every_column_of_the_csv_files_is_described_in_its_order() -> None:
    text = _text("paging")
    end = text.index("The columns are, in this order")
    for column in orders.EXPORT_COLUMNS:
        assert column.about, column.name
        end = text.index(column.about.replace("`", ""), text.index(column.name, end))
    end = text.index("The columns of a statement are, in this order")
    for name, content in ledger.STATEMENT_COLUMNS.items():
        end = text.index(content.replace("`", ""), text.index(name, end))


def test_python_examples_compile() -> None:
    texts = Texts(SETTINGS)
    blocks = [
        token.content
        for chapter in CHAPTERS
        for token in texts.tokens(chapter)
        if token.type == "fence" and token.info.startswith("python")
    ]
    assert len(blocks) >= 4
    for block in blocks:
        compile(block, "chapter", "exec")


def test_get_started_has_samples_in_three_languages() -> None:
    html = str(Texts(SETTINGS).html(BY_NAME["quickstart"]))
    assert html.count('<div class="languages"') == 4
    for language in ("curl", "Python", "JavaScript"):
        assert html.count(f'data-language="{language}"') == 4
    assert html.count(" open>") == 4, "one sample of each group is open"


def test_get_started_in_python_calls_the_client() -> None:
    texts = Texts(SETTINGS)
    blocks = [
        token.content
        for token in texts.tokens(BY_NAME["quickstart"])
        if token.type == "fence" and token.info == "python"
    ]
    calls = set(re.findall(r"client\.(\w+\.\w+)\(", "\n".join(blocks)))
    assert calls == {
        "products.create",
        "checkouts.create",
        "checkouts.get",
        "orders.get",
        "refunds.create",
    }
    assert calls <= set(CALLS.values())


def test_operations_of_people_have_pages_by_subject() -> None:
    document = Document(app.openapi_document(SETTINGS))
    names = [group.name for group in document.groups]
    for name in ("Logins", "API keys", "Team", "Agreement", "Payment links", "Team webhooks"):
        assert name in names
    assert not {"People", "Links", "Config"} & set(names)
    assert all(group.description for group in document.groups if group.name != "Events")


def test_the_epay_chapter_computes_the_right_signature() -> None:
    names: dict[str, Any] = {}
    exec(_block("epay", "python"), names)  # noqa: S102 - the example is the object of the test
    vectors_file = Path(__file__).parents[1] / "epay" / "vectors.json"
    vectors = json.loads(vectors_file.read_text())["vectors"]
    assert vectors
    for vector in vectors:
        assert names["sign"](vector["params"], vector["key"]) == vector["sign"]
    signature = hashlib.md5(b"a=1k").hexdigest()  # noqa: S324 - Epay signs with MD5
    assert names["sign"]({"a": "1", "b": ""}, "k") == signature


def test_the_javascript_example_verifies_webhooks(tmp_path: Path) -> None:
    secret, body, now = signing.new_secret(), b'{"id":"evt_1"}', now_ms()
    headers = dict(signing.headers([secret], "evt_1", now, body))
    newer_secrets = [signing.new_secret(), signing.new_secret()]
    rotated = dict(signing.headers([*newer_secrets, secret], "evt_1", now, body))
    program = f"""{_block("webhooks", "js")}
const body = Buffer.from({json.dumps(body.decode())});
const headers = {json.dumps(headers)};
const old = {{...headers, "x-svc-timestamp": "1736932500000"}};
console.log(verify(body, headers, {json.dumps(secret)}),
  verify(Buffer.from("{{}}"), headers, {json.dumps(secret)}),
  verify(body, headers, "whsec_other"), verify(body, old, {json.dumps(secret)}),
  verify(body, {{}}, {json.dumps(secret)}),
  verify(body, {json.dumps(rotated)}, {json.dumps(secret)}),
  verify(body, {json.dumps(rotated)}, "whsec_other"));
"""
    path = tmp_path / "verify.mjs"
    path.write_text(program)
    result = subprocess.run(
        [NODE, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert result.stdout.split() == ["true", *["false"] * 4, "true", "false"]


def _block(chapter: str, language: str) -> str:
    """Return the first code block of a chapter in a language."""
    texts = Texts(SETTINGS)
    return next(
        token.content
        for token in texts.tokens(BY_NAME[chapter])
        if token.type == "fence" and token.info.split()[0] == language
    )
