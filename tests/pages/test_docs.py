"""The API reference, from the real document and from hostile ones."""

import re
from typing import Any

from opentill import app
from opentill.core.settings import Settings
from opentill.pages.docs import reference
from pages.test_render import Reader

ALLOWED = {
    *("html", "head", "meta", "title", "link", "body", "a", "div", "nav", "p", "img", "h1", "h2"),
    *("h3", "h4", "ul", "ol", "li", "span", "main", "header", "code", "section", "article", "em"),
    *("table", "thead", "tbody", "tr", "th", "td", "details", "summary", "figure", "figcaption"),
    *("pre", "strong"),
}


def _document() -> dict[str, Any]:
    return app.document(Settings(public_url="https://pay.example"))


def test_every_operation_is_there_with_a_curl_line_and_an_answer() -> None:
    document = _document()
    html = reference(document)
    reader = Reader(html)
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["operationId"] in ids
            assert operation["summary"] in reader.text
        assert f"https://pay.example{path}" in reader.text
    for type_, methods in document["webhooks"].items():
        assert methods["post"]["operationId"] in ids
        assert type_ in reader.text
        assert f"pay.example{type_}" not in reader.text
    links = [attrs["href"] or "" for attrs in reader.all("a")]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert {tag for tag, _ in reader.elements} <= ALLOWED
    assert not re.search(r"\son\w+=|style=|<script", html)


def test_fields_are_listed_with_type_need_and_limits() -> None:
    text = " ".join(Reader(reference(_document())).text.split())
    assert "name required string" in text
    assert "image string or null" in text or "image null or string" in text
    assert "one of ACTIVE ARCHIVED" in text


HOSTILE = "<script>alert(1)</script>"


def test_hostile_and_circular_documents_are_drawn_all_the_same() -> None:
    loop = {"$ref": "#/components/schemas/Loop"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": HOSTILE, "version": HOSTILE, "description": HOSTILE},
        "servers": [],
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
    html = reference(document)
    assert "<script" not in html
    assert {tag for tag, _ in Reader(html).elements} <= ALLOWED
    assert "string or null" in html
    assert "always 1" in html
