"""The pages of the reference are rendered from the real document and from hostile ones."""

import gzip
import re
from collections.abc import Iterator
from decimal import Decimal
from html import unescape
from typing import Any, Final

import msgspec
import pytest

from opentill import app
from opentill.core.errors import NotFound
from opentill.core.settings import Settings
from opentill.http import responses
from opentill.reference.book import GUIDES, Book
from opentill.reference.chapters import CHAPTERS
from opentill.reference.document import Document
from opentill.reference.highlighting import highlight
from pages.test_render import Reader

SETTINGS: Final = Settings(public_url="https://pay.example/till")
DOCUMENT: Final = app.openapi_document(SETTINGS)


def html_of(book: Book, path: str) -> str:
    return gzip.decompress(book.page(path).compressed).decode()


@pytest.fixture(scope="module")
def book() -> Book:
    return Book(SETTINGS, responses.encode(DOCUMENT))


def _example(method: str, path: str) -> Any:
    """Return the first item, or the only one, of a response's example."""
    content = DOCUMENT["paths"][path][method]["responses"]["200"]["content"]
    data = content["application/json"]["example"]["data"]
    return data["items"][0] if "items" in data else data


def _events() -> dict[str, Any]:
    """Return the sample of each type of event."""
    return {
        type_: item["post"]["requestBody"]["content"]["application/json"]["example"]
        for type_, item in DOCUMENT["webhooks"].items()
    }


def test_the_samples_of_the_document_are_about_one_order_and_add_up() -> None:
    order, session = _example("get", "/v1/orders/{id}"), _example("get", "/v1/checkouts/{id}")
    product, dispute = _example("get", "/v1/products/{id}"), _example("get", "/v1/disputes/{id}")
    refund, fee = _example("get", "/v1/refunds/{id}"), _example("get", "/v1/balance/transactions")
    amount, net = Decimal(order["amount"]), Decimal(order["netAmount"])
    assert amount == Decimal(product["price"]) * order["quantity"]
    assert Decimal(order["platformFee"]) == round(amount * Decimal(order["platformFeeRate"]), 2)
    assert net == amount - Decimal(order["platformFee"])
    assert (order["settledAmount"], order["exchangeRate"]) == (order["netAmount"], "1")
    for name in ("amount", "currency", "quantity", "clientReference", "productId"):
        assert session[name] == order[name], name
    assert (session["orderId"], session["id"]) == (order["id"], order["checkoutSessionId"])
    assert (fee["amount"], fee["pendingAfter"]) == (f"-{order['platformFee']}", order["netAmount"])
    assert _example("get", "/v1/balance")["pending"] == order["netAmount"]
    assert Decimal(dispute["amount"]) == amount - Decimal(refund["amount"])
    assert {refund["orderId"], dispute["orderId"], fee["sourceId"]} == {order["id"]}

    events = {type_: event["data"] for type_, event in _events().items()}
    times = [
        session["createdAt"],
        events["order.paid"]["paid_at"],
        events["order.settled"]["settled_at"],
        events["dispute.created"]["opened_at"],
        events["dispute.closed"]["closed_at"],
    ]
    assert times == sorted(times)
    assert (times[1], times[3:]) == (order["paidAt"], [dispute["createdAt"], dispute["closedAt"]])
    for type_ in ("order.paid", "order.settled", "checkout.completed"):
        assert events[type_]["order_id"] == order["id"]
        assert (events[type_]["amount"], events[type_]["quantity"]) == (order["amount"], 2)
        assert events[type_].get("net_amount", order["netAmount"]) == order["netAmount"]
    refunded = events["order.refunded"]
    assert (refunded["amount"], refunded["original_amount"]) == (refund["amount"], order["amount"])
    assert (refunded["refunded_amount"], refunded["refund_status"]) == ("2.00", "PARTIAL")
    assert events["dispute.closed"]["debit"] == dispute["debit"]
    assert events["payout.paid"]["amount"] == _example("get", "/v1/payouts/{id}")["amount"]


@pytest.mark.parametrize("type_", app.PAYLOADS)
def test_a_sample_event_has_the_fields_of_its_type(type_: str) -> None:
    event = _events()[type_]
    assert event["type"] == type_
    payload = app.PAYLOADS[type_]
    assert event["data"].keys() <= set(payload.__struct_fields__)
    msgspec.json.decode(msgspec.json.encode(event["data"]), type=payload)
    moments = [
        value for name, value in event["data"].items() if name.endswith("_at") and value is not None
    ]
    assert not moments or event["created_at"] in moments


def test_highlighting_changes_no_character_of_a_sample() -> None:
    document = Document(DOCUMENT)
    samples = [
        (sample.text, sample.language)
        for group in document.groups
        for operation in document.operations(group)
        for sample in operation.samples
    ]
    assert {language for _, language in samples} == {"curl", "Python", "JavaScript"}
    for text, language in [*samples, ('\n{"a": "<b>", "c": [1.5, null]}\n\n', "json"), ("<&", "")]:
        html = highlight(text, language)
        assert unescape(re.sub(r"</?span[^>]*>", "", html)) == text
    assert '<span class="code-string">&#34;' in highlight('["a"]', "json")
    assert "span" not in highlight('["a"]', "unknown")


def test_every_page_is_markdown_too_and_listed_for_programs(book: Book) -> None:
    listed = gzip.decompress(book.page("llms.txt").compressed).decode()
    for path in filter(None, _paths()):
        page = book.page(f"{path}.md")
        assert page.media_type == "text/markdown"
        text = gzip.decompress(page.compressed).decode()
        assert text.startswith("# ")
        assert not re.search(r"</?(p|div|span|code)\b", text), path
        assert f"(https://pay.example/till/docs/{path}.md)" in listed
        assert f'type="text/markdown" href="/till/docs/{path}.md"' in html_of(book, path)
    orders = gzip.decompress(book.page("orders.md").compressed).decode()
    assert "`GET /v1/orders/{id}` – API key" in orders
    assert "client.orders.get(" in orders
    assert book.page("index.md").compressed == book.page("llms.txt").compressed
    for path in ("nothing.md", "guides/nothing.md", "search.md"):
        with pytest.raises(NotFound):
            book.page(path)


def _paths() -> Iterator[str]:
    yield ""
    yield from (GUIDES + chapter.name for chapter in CHAPTERS)
    yield from (group.slug for group in Document(DOCUMENT).groups)


@pytest.fixture(scope="module")
def pages(book: Book) -> dict[str, Reader]:
    return {path: Reader(html_of(book, path)) for path in _paths()}


def test_every_operation_has_three_samples_on_the_page_of_its_group(
    pages: dict[str, Reader],
) -> None:
    slugs = {
        (entry.method, entry.path): group.slug
        for group in Document(DOCUMENT).groups
        for entry in group.entries
    }
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            page = pages[slugs[method.upper(), path]]
            assert operation["operationId"] in _ids(page)
            assert operation["summary"] in page.text
            assert f"{method.upper()} {path}" in page.text
    groups = [group for group in Document(DOCUMENT).groups if group.slug != "events"]
    for group in groups:
        samples = [attrs for _, attrs in pages[group.slug].elements if "data-language" in attrs]
        assert len(samples) == 3 * len(group.entries)
        assert "https://pay.example/till/v1/" in pages[group.slug].text


def test_every_event_type_has_an_example_body_and_no_samples(pages: dict[str, Reader]) -> None:
    page = pages["events"]
    for type_, methods in DOCUMENT["webhooks"].items():
        assert methods["post"]["operationId"] in _ids(page)
        assert f'"type": "{type_}"' in page.text
    assert not [attrs for _, attrs in page.elements if "data-language" in attrs]


def test_every_link_has_an_existing_page_and_anchor(pages: dict[str, Reader]) -> None:
    other_addresses = {
        "", "/till/dashboard", "/till/openapi.json", "/till/llms.txt",
        "https://www.standardwebhooks.com",
    }  # fmt: skip
    for path, page in pages.items():
        for attrs in page.all("a"):
            address, _, anchor = (attrs["href"] or "").partition("#")
            target = address.removeprefix("/till/docs").strip("/")
            if address in other_addresses and (address or not anchor):
                continue
            if address == f"/till/docs/{path or 'index'}.md":
                continue
            assert not address or address.startswith("/till/docs"), f"{path}: {address}"
            target_page = pages[target if address else path]
            assert not anchor or anchor in _ids(target_page), f"{path}: {attrs['href']}"


def test_the_first_page_has_an_anchor_for_every_operation(pages: dict[str, Reader]) -> None:
    operation_ids = {
        operation["operationId"]
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
    }
    assert operation_ids <= set(_ids(pages[""]))


def test_pages_have_unique_ids_and_no_inline_script_or_style(
    book: Book, pages: dict[str, Reader]
) -> None:
    for path, page in pages.items():
        ids = _ids(page)
        assert len(set(ids)) == len(ids), path
        html = html_of(book, path)
        assert not re.search(r"\son\w+=|style=|<style|javascript:", html), path
        scripts = page.all("script")
        assert [attrs["src"] for attrs in scripts if attrs.get("src")], path
        assert len(scripts) == 1, path
        assert {attrs.get("href", "").partition("?")[0] for attrs in page.all("link")} == {
            "/till/static/favicon.svg", "/till/static/inter.woff2", "/till/static/reference.css",
            f"/till/docs/{path or 'index'}.md",
        }  # fmt: skip


def test_pages_show_the_url_and_key_prefix_of_the_deployment() -> None:
    settings = Settings(public_url="https://stage.example", environment="staging")
    staging = Book(settings, responses.encode(app.openapi_document(settings)))
    for path in _paths():
        html = html_of(staging, path)
        assert "pay.example" not in html
        assert "svc_live_" not in html or path == "guides/authentication"
    assert "https://stage.example/v1/products" in html_of(staging, "products")
    assert "svc_stg_" in html_of(staging, "guides/quickstart")
    assert 'placeholder="svc_stg_…"' in html_of(staging, "products")


def test_fields_are_listed_with_type_requirement_and_limits(pages: dict[str, Reader]) -> None:
    text = " ".join(pages["products"].text.split())
    assert "name string required" in text
    assert "image string or null" in text or "image null or string" in text
    assert "one of ACTIVE, ARCHIVED" in text
    assert "What one costs, with two decimals. decimal" in text
    assert "9007199254740991" not in text


def test_a_group_with_another_credential_is_rendered() -> None:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "servers": [{"url": "https://pay.example"}],
        "paths": {
            "/v1/merchant/sessions": {
                "post": {
                    "operationId": "logIn",
                    "tags": ["Your account"],
                    "security": [],
                    "requestBody": {"content": {"application/json": {"example": {"a": None}}}},
                    "responses": {"201": {"description": "Created."}},
                }
            },
            "/v1/merchant/keys/{id}": {
                "get": {
                    "operationId": "getKey",
                    "tags": ["Your account"],
                    "security": [{"person": []}],
                    "responses": {
                        "200": {
                            "description": "Done.",
                            "content": {
                                "application/json": {
                                    "example": {"data": {"id": "key_1"}},
                                    "schema": {"properties": {"data": {"type": "object"}}},
                                }
                            },
                        }
                    },
                }
            },
        },
        "components": {"securitySchemes": {"person": {"type": "http", "scheme": "bearer"}}},
    }
    parsed = Document(document)
    (group,) = parsed.groups
    assert group.slug == "your-account"
    log_in, get_key = parsed.operations(group)
    assert log_in.credential is None
    curl, python, javascript = (sample.text for sample in get_key.samples)
    assert '-H "Authorization: Bearer $OPENTILL_TOKEN"' in curl
    assert "https://pay.example/v1/merchant/keys/key_1" in curl
    assert '"Authorization": "Bearer " + os.environ["OPENTILL_TOKEN"],' in python
    assert "Authorization: `Bearer ${process.env.OPENTILL_TOKEN}`," in javascript
    for sample in (*log_in.samples, *get_key.samples):
        if sample.language == "Python":
            compile(sample.text, "sample", "exec")
    page = Reader(html_of(Book(SETTINGS, msgspec.json.encode(document)), "your-account"))
    assert "Your access token" in page.text


HOSTILE = "<script>alert(1)</script>"


def test_hostile_and_circular_documents_are_rendered_safely() -> None:
    loop = {"$ref": "#/components/schemas/Loop"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": HOSTILE, "version": HOSTILE, "description": HOSTILE},
        "servers": [],
        "tags": [{"name": "Other", "description": HOSTILE}],
        "paths": {
            f"/{HOSTILE}": {
                "post": {
                    "summary": HOSTILE,
                    "description": HOSTILE,
                    "deprecated": True,
                    "parameters": [{"name": HOSTILE, "in": "query", "schema": {"enum": [HOSTILE]}}],
                    "requestBody": {"content": {"application/json": {"schema": loop}}},
                    "responses": {
                        "200": {"description": HOSTILE, "content": {"text/csv": {"example": "a"}}},
                        "400": {"$ref": "#/components/responses/Gone"},
                    },
                }
            }
        },
        "components": {
            "schemas": {
                "Loop": {
                    "allOf": [loop],
                    "properties": {
                        "a": loop,
                        "b": {"type": "array", "items": loop},
                        "c": {"oneOf": [loop, {"type": "null"}]},
                        "d": {"type": ["string", "null"], "maxLength": 3},
                        "e": {"const": 1},
                    },
                }
            }
        },
    }
    hostile = Book(SETTINGS, msgspec.json.encode(document))
    for html in (html_of(hostile, ""), html_of(hostile, "other"), hostile.search_page(HOSTILE)):
        assert "<script>" not in html
        assert len(Reader(html).all("script")) == 1
    html = html_of(hostile, "other")
    assert "string or null" in html
    assert "always 1" in html


def _ids(page: Reader) -> list[str]:
    return [attrs["id"] or "" for _, attrs in page.elements if "id" in attrs]
