"""``/docs``: the API reference, drawn on the server from the OpenAPI document.

No script, nothing from elsewhere: it works offline, on paper and in a terminal's browser. The
document is untrusted input like any other, so that every value is escaped and depth is bounded.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from markdown_it import MarkdownIt
from markupsafe import Markup

from opentill.pages import assets
from opentill.pages.render import ENVIRONMENT

METHODS: Final = ("get", "post", "put", "patch", "delete", "head", "options")
_DEEPEST: Final = 6
_SHELL_QUOTE: Final = "'\\''"
_SAMPLES: Final[Mapping[str, Any]] = {
    "integer": 1,
    "number": 1,
    "boolean": True,
    "string": "text",
    "null": None,
}
# JSON Schema keyword → how a reader says it
_LIMITS: Final[Mapping[str, str]] = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "maxProperties": "at most {} keys",
    "pattern": "matches {}",
    "format": "{}",
    "default": "default {}",
    "const": "always {}",
}

# what the description of a field says in words already
_IN_DESCRIPTION: Final = frozenset(_LIMITS) - {"default", "const", "format"}
_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}

# Raw HTML stays text, and only http, https and mailto links become links.
MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")

Json = Mapping[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a table: a parameter or a field, with the fields below it."""

    name: str
    place: str = ""
    type: str
    required: bool
    notes: Markup
    limits: tuple[str, ...]
    rows: tuple["Row", ...] = ()


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
    book = _Book(document)
    groups: dict[str, list[Operation]] = {}
    for path, methods in document.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                tags = methods[method].get("tags") or ["Other"]
                groups.setdefault(tags[0], []).append(book.operation(path, method, methods))
    for name, methods in document.get("webhooks", {}).items():
        # They are sent to the merchant: there is nothing to call.
        event = book.operation(name, "post", methods)
        groups.setdefault("Events", []).append(msgspec.structs.replace(event, curl=""))
    described = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    order = [*(name for name in described if name in groups), *groups]
    return ENVIRONMENT.get_template("docs.html").render(
        title=document["info"]["title"],
        version=document["info"]["version"],
        description=markdown(document["info"].get("description", "")),
        server=book.server,
        groups=[
            (tag, markdown(described.get(tag, "")), groups[tag]) for tag in dict.fromkeys(order)
        ],
        asset=assets.finder(base),
        base=base,
    )


def markdown(text: str) -> Markup:
    """Turn Markdown into markup; raw HTML in it stays visible text."""
    return Markup(MARKDOWN.render(text))  # noqa: S704 - the renderer escapes


class _Book:
    """The document while it is read."""

    def __init__(self, document: Json) -> None:
        self._document = document
        servers = document.get("servers") or [{"url": ""}]
        self.server: str = str(servers[0].get("url", "")).rstrip("/")

    def operation(self, path: str, method: str, methods: Json) -> Operation:
        given: Json = methods[method]
        parameters = [
            self._follow(one)
            for one in (*methods.get("parameters", ()), *given.get("parameters", ()))
        ]
        body = self._body(self._follow(given.get("requestBody", {})))
        security = given.get("security", self._document.get("security", []))
        locked = any(security) and {} not in security
        responses = tuple(
            self._response(status, self._follow(response))
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
            scheme = self._follow(schemes.get(name, {}))
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
        schema = self._follow(given.get("schema", {}))
        return Row(
            name=given["name"],
            place=given.get("in", ""),
            type=self._type(schema),
            required=bool(given.get("required")),
            notes=_inline(given.get("description") or self._about(schema)),
            limits=tuple(self._limits(schema)),
        )

    def _response(self, status: str, given: Json) -> Body:
        body = self._body(given) or Body()
        return msgspec.structs.replace(
            body, status=status, description=given.get("description", "")
        )

    def _body(self, given: Json) -> Body | None:
        for media_type, content in given.get("content", {}).items():
            schema = self._follow(content.get("schema", {}))
            example = self._example(content, schema)
            shown = example if isinstance(example, str) else _json(example)
            return Body(
                media_type=media_type,
                type=self._type(schema),
                rows=self._rows(schema, 0),
                example=shown if "json" in media_type or isinstance(example, str) else "",
            )
        return None

    def _example(self, content: Json, schema: Json) -> Any:
        if "example" in content:
            return content["example"]
        for example in content.get("examples", {}).values():
            return self._follow(example).get("value")
        return self._sample(schema, 0)

    def _sample(self, schema: Json, depth: int) -> Any:
        """Make an example up from a schema."""
        schema = self._follow(schema) if depth < _DEEPEST else {}
        for key in ("example", "const", "default"):
            if key in schema:
                return schema[key]
        for key in ("examples", "enum"):
            if schema.get(key):
                return schema[key][0]
        choice = next(iter(schema.get("oneOf") or schema.get("anyOf") or ()), None)
        if choice is not None:
            return self._sample(choice, depth + 1)
        properties = self._properties(schema)
        if properties or schema.get("type") == "object":
            return {name: self._sample(one, depth + 1) for name, one in properties.items()}
        if schema.get("type") == "array":
            return [self._sample(schema.get("items", {}), depth + 1)]
        return _SAMPLES.get(next(iter(_kinds(schema)), "null"))

    def _rows(self, schema: Json, depth: int) -> tuple[Row, ...]:
        """List the fields of an object, of an array's entries, or of the first choice with any."""
        schema = self._follow(schema)
        if depth >= _DEEPEST:
            return ()
        if "items" in schema:
            return self._rows(schema["items"], depth)
        for choice in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
            if rows := self._rows(choice, depth + 1):
                return rows
        required = {
            name
            for part in (schema, *map(self._follow, schema.get("allOf", ())))
            for name in part.get("required", ())
        }
        return tuple(
            self._row(name, self._follow(one), depth, required=name in required)
            for name, one in self._properties(schema).items()
        )

    def _row(self, name: str, schema: Json, depth: int, *, required: bool) -> Row:
        return Row(
            name=name,
            type=self._type(schema),
            required=required,
            notes=_inline(self._about(schema)),
            limits=tuple(self._limits(schema)),
            rows=self._rows(schema, depth + 1),
        )

    def _properties(self, schema: Json, depth: int = 0) -> Json:
        found = dict(schema.get("properties", {}))
        for part in schema.get("allOf", ()) if depth < _DEEPEST else ():
            found.update(self._properties(self._follow(part), depth + 1))
        return found

    def _type(self, schema: Json, depth: int = 0) -> str:
        """Name a type as one reads it: ``string or null``, ``array of object``."""
        schema = self._follow(schema) if depth < _DEEPEST else {}
        choices: Sequence[Json] = schema.get("oneOf") or schema.get("anyOf") or ()
        if choices:
            return " or ".join(dict.fromkeys(self._type(one, depth + 1) for one in choices))
        kinds = _kinds(schema)
        if kinds == ["array"]:
            return f"array of {self._type(schema.get('items', {}), depth + 1) or 'anything'}"
        return " or ".join(dict.fromkeys(kinds))

    def _about(self, schema: Json) -> str:
        """Return the description of a schema, or of the first of its choices that has one."""
        choices = map(self._follow, schema.get("oneOf") or schema.get("anyOf") or ())
        descriptions = (
            str(one["description"]) for one in (schema, *choices) if one.get("description")
        )
        return next(descriptions, "")

    def _limits(self, schema: Json, depth: int = 0) -> Iterator[str]:
        schema = self._follow(schema) if depth < _DEEPEST else {}
        for choice in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
            yield from self._limits(choice, depth + 1)
        if values := schema.get("enum"):
            yield "one of " + " ".join(str(value) for value in values if value is not None)
        described = _IN_DESCRIPTION if schema.get("description") else frozenset[str]()
        for keyword, sentence in _LIMITS.items():
            if schema.get(keyword) is not None and keyword not in described:
                value = schema[keyword]
                yield sentence.format(value if isinstance(value, str) else json.dumps(value))

    def _follow(self, given: Json) -> Json:
        """Follow ``$ref`` within the document; one that leads nowhere or in a circle is empty."""
        for _ in range(_DEEPEST):
            reference = given.get("$ref")
            if not isinstance(reference, str):
                return given
            found: Any = self._document
            for part in reference.removeprefix("#/").split("/"):
                key = part.replace("~1", "/").replace("~0", "~")
                found = cast("Json", found).get(key, {}) if isinstance(found, Mapping) else {}
            beside = {key: value for key, value in given.items() if key != "$ref"}
            given = {**found, **beside}
        return {}


def _kinds(schema: Json) -> list[str]:
    """Name the types that a schema allows; by its values where it names none."""
    kind: Any = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if kind:
        return list(kind)
    values: Sequence[Any] = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return [_TYPES.get(value.__class__, "anything") for value in values]


def _inline(text: str) -> Markup:
    """Markdown within a line; paragraphs run together."""
    return Markup(MARKDOWN.renderInline(" ".join(text.split())))  # noqa: S704 - it escapes


def _json(value: object) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False)
