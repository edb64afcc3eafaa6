"""``/docs``: the API reference, drawn on the server from the OpenAPI document.

No script, nothing from elsewhere: it works offline, on paper and in a terminal's browser. The
document is untrusted input like any other, so that every value is escaped. ``schemas.py`` reads its
schemas.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from markupsafe import Markup

from opentill.pages.render import ENVIRONMENT
from opentill.pages.schemas import Json, Row, Schemas
from opentill.web import assets
from opentill.web.markdown import markdown

METHODS: Final = ("get", "post", "put", "patch", "delete", "head", "options")
_SHELL_QUOTE: Final = "'\\''"


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A body, sent or received: its fields and an example, ``""`` where there is none."""

    status: str = ""
    description: str = ""
    media_type: str = ""
    type: str = ""
    rows: tuple[Row, ...] = ()
    example: str = ""


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation as the page shows it."""

    anchor: str
    method: str
    path: str
    summary: str
    description: Markup
    deprecated: bool
    locked: bool
    parameters: tuple[Row, ...]
    body: Body | None
    responses: tuple[Body, ...]
    curl: str


def reference(document: Json, base: str = "") -> str:
    """Draw the reference page of an OpenAPI 3.1 document. ``base``: the public address's path."""
    read = _Document(document)
    groups: dict[str, list[Operation]] = {}
    for path, methods in document.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                tags = methods[method].get("tags") or ["Other"]
                groups.setdefault(tags[0], []).append(read.operation(path, method, methods))
    for name, methods in document.get("webhooks", {}).items():
        # They are sent to the merchant: there is nothing to call.
        event = read.operation(name, "post", methods)
        groups.setdefault("Events", []).append(msgspec.structs.replace(event, curl=""))
    described = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    order = [*(name for name in described if name in groups), *groups]
    return ENVIRONMENT.get_template("docs.html").render(
        title=document["info"]["title"],
        version=document["info"]["version"],
        description=markdown(document["info"].get("description", "")),
        server=read.server,
        groups=[
            (tag, markdown(described.get(tag, "")), groups[tag]) for tag in dict.fromkeys(order)
        ],
        asset=assets.finder(base),
        base=base,
    )


class _Document:
    """The document while it is read."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._schemas = Schemas(document)
        servers = document.get("servers") or [{"url": ""}]
        self.server: str = str(servers[0].get("url", "")).rstrip("/")

    def operation(self, path: str, method: str, methods: Json) -> Operation:
        given: Json = methods[method]
        parameters = [
            self._schemas.follow(one)
            for one in (*methods.get("parameters", ()), *given.get("parameters", ()))
        ]
        body = self._body(self._schemas.follow(given.get("requestBody", {})))
        security = given.get("security", self._document.get("security", []))
        locked = any(security) and {} not in security
        responses = tuple(
            self._response(status, self._schemas.follow(response))
            for status, response in given.get("responses", {}).items()
        )
        anchor = given.get("operationId") or f"{method}-{path.strip('/').replace('/', '-')}"
        return Operation(
            anchor=anchor.replace("{", "").replace("}", ""),
            method=method.upper(),
            path=path,
            summary=given.get("summary") or path,
            description=markdown(given.get("description", "")),
            deprecated=bool(given.get("deprecated")),
            locked=locked,
            parameters=tuple(self._parameter(one) for one in parameters),
            body=body,
            responses=responses,
            curl=self._curl(method, path, body, self._key_header(security) if locked else ""),
        )

    def _key_header(self, security: Sequence[Json]) -> str:
        schemes = self._document.get("components", {}).get("securitySchemes", {})
        for name in (name for one in security for name in one):
            scheme = self._schemas.follow(schemes.get(name, {}))
            if scheme.get("in") == "header":
                return f"{scheme.get('name', 'x-api-key')}: $OPENTILL_KEY"
        return "x-api-key: $OPENTILL_KEY"

    def _curl(self, method: str, path: str, body: Body | None, key: str) -> str:
        lines = [f"curl {self.server}{path}"]
        if method != "get" and not (method == "post" and body and body.example):
            lines[0] = f"curl -X {method.upper()} {self.server}{path}"
        if key:
            lines.append(f'-H "{key}"')
        if body and body.example:
            lines.append(f"-H 'Content-Type: {body.media_type}'")
            lines.append(f"-d '{body.example.replace(chr(39), _SHELL_QUOTE)}'")
        return " \\\n  ".join(lines)

    def _parameter(self, given: Json) -> Row:
        return self._schemas.row(
            given["name"],
            self._schemas.follow(given.get("schema", {})),
            0,
            required=bool(given.get("required")),
            place=given.get("in", ""),
            description=given.get("description", ""),
        )

    def _response(self, status: str, given: Json) -> Body:
        body = self._body(given) or Body()
        return msgspec.structs.replace(
            body, status=status, description=given.get("description", "")
        )

    def _body(self, given: Json) -> Body | None:
        for media_type, content in given.get("content", {}).items():
            schema = self._schemas.follow(content.get("schema", {}))
            example = self._example(content, schema)
            shown = example if isinstance(example, str) else _json(example)
            return Body(
                media_type=media_type,
                type=self._schemas.type_of(schema),
                rows=self._schemas.rows(schema, 0),
                example=shown if "json" in media_type or isinstance(example, str) else "",
            )
        return None

    def _example(self, content: Json, schema: Json) -> Any:
        if "example" in content:
            return content["example"]
        for example in content.get("examples", {}).values():
            return self._schemas.follow(example).get("value")
        return self._schemas.sample(schema, 0)


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
