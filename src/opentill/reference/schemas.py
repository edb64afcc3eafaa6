"""JSON Schemas for readers: types, limits, tables of fields, examples.

A document is untrusted input, so recursion is bounded everywhere.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from markupsafe import Markup

from opentill.http.fields import is_decimal
from opentill.web.markdown import inline

Json = Mapping[str, Any]
_DEEPEST: Final = 6
_SAMPLES: Final[Mapping[str, Any]] = {
    "integer": 1,
    "number": 1,
    "boolean": True,
    "string": "…",
    "null": None,
}
# Keyword of JSON Schema → the text that readers see for it.
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

# Keywords that are not shown if the field has a description, because that explains them.
_IN_WORDS: Final = frozenset(_LIMITS) - {"default", "const", "format"}
# A field whose schema has one of these keywords gets its example from the schema.
_OWN_EXAMPLE: Final = {"example", "examples", "const", "default", "properties", "allOf"}
_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a table: a parameter or a field, with its nested fields."""

    name: str
    place: str = ""
    type: str
    required: bool
    notes: Markup
    source: str  # the notes in Markdown
    limits: tuple[str, ...]
    rows: tuple["Row", ...] = ()


class Schemas:
    """The schemas of an OpenAPI document, each of which may be a ``$ref``."""

    def __init__(self, document: Json, values: Json | None = None) -> None:
        """``document`` resolves references.

        ``values`` has example values by field name (``plain_name``).
        """
        self._document = document
        self._values: Json = values or {}

    def follow(self, schema: Json) -> Json:
        """Resolve ``$ref`` within the document; a dangling or circular one yields {}."""
        for _ in range(_DEEPEST):
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            target: Any = self._document
            for part in reference.removeprefix("#/").split("/"):
                key = part.replace("~1", "/").replace("~0", "~")
                target = cast("Json", target).get(key, {}) if isinstance(target, Mapping) else {}
            siblings = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**target, **siblings}
        return {}

    def type_of(self, schema: Json, depth: int = 0) -> str:
        """Return a readable type: ``string or null``, ``array of object``."""
        schema = self.follow(schema) if depth < _DEEPEST else {}
        choices: Sequence[Json] = schema.get("oneOf") or schema.get("anyOf") or ()
        if choices:
            return " or ".join(dict.fromkeys(self.type_of(choice, depth + 1) for choice in choices))
        kinds = _kinds(schema)
        if kinds == ["array"]:
            return f"array of {self.type_of(schema.get('items', {}), depth + 1) or 'anything'}"
        return " or ".join(dict.fromkeys(kinds))

    def about(self, schema: Json) -> str:
        """Return the description of a schema, else the first of its alternatives."""
        choices = map(self.follow, schema.get("oneOf") or schema.get("anyOf") or ())
        descriptions = (
            str(choice["description"]) for choice in (schema, *choices) if choice.get("description")
        )
        return next(descriptions, "")

    def limits(self, schema: Json, depth: int = 0, *, described: bool = False) -> Iterator[str]:
        """Yield limits of a value, such as ``at most 80 characters``.

        Most are omitted if the schema has a description, or the value is ``described`` elsewhere.
        """
        schema = self.follow(schema) if depth < _DEEPEST else {}
        for choice in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
            yield from self.limits(choice, depth + 1, described=described)
        if values := schema.get("enum"):
            yield "one of " + ", ".join(str(value) for value in values if value is not None)
        if is_decimal(schema):
            yield "decimal"
        has_description = described or bool(schema.get("description"))
        for keyword, sentence in _LIMITS.items():
            if schema.get(keyword) in (None, "int32", "int64") or (
                has_description and keyword in _IN_WORDS
            ):
                continue
            if keyword != "default" or schema[keyword] not in ("", [], False):
                value = schema[keyword]
                yield sentence.format(value if isinstance(value, str) else json.dumps(value))

    def sample(self, schema: Json, depth: int) -> Any:
        """Generate an example from a schema."""
        schema = self.follow(schema) if depth < _DEEPEST else {}
        for key in ("example", "const", "default"):
            if key in schema:
                return schema[key]
        for key in ("examples", "enum"):
            if schema.get(key):
                return schema[key][0]
        choice = next(iter(schema.get("oneOf") or schema.get("anyOf") or ()), None)
        if choice is not None:
            return self.sample(choice, depth + 1)
        properties = self._properties(schema)
        if properties or schema.get("type") == "object":
            return {
                name: self._sample_of(name, field, depth + 1) for name, field in properties.items()
            }
        if schema.get("type") == "array":
            return [self.sample(schema.get("items", {}), depth + 1)]
        return _SAMPLES.get(next(iter(_kinds(schema)), "null"))

    def _sample_of(self, name: str, schema: Json, depth: int) -> Any:
        """Generate an example of a field, from other examples of the document if possible."""
        schema = self.follow(schema)
        plain = plain_name(name)
        # A time that has no example gets the example of ``createdAt``.
        value = self._values.get(
            plain, self._values.get("createdat") if plain[-2:] == "at" else None
        )
        if (
            schema.keys() & _OWN_EXAMPLE
            or value is None
            or _TYPES.get(value.__class__, "object") not in _kinds(schema)
        ):
            return self.sample(schema, depth)
        values = schema.get("enum")
        return value if values is None or value in values else values[0]

    def rows(self, schema: Json, depth: int) -> tuple[Row, ...]:
        """List the fields of an object, an array's items or the first alternative with fields."""
        schema = self.follow(schema)
        if depth >= _DEEPEST:
            return ()
        if "items" in schema:
            return self.rows(schema["items"], depth)
        for choice in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
            if rows := self.rows(choice, depth + 1):
                return rows
        required = {
            name
            for part in (schema, *map(self.follow, schema.get("allOf", ())))
            for name in part.get("required", ())
        }
        return tuple(
            self.row(name, self.follow(field), depth, required=name in required)
            for name, field in self._properties(schema).items()
        )

    def row(
        self,
        name: str,
        schema: Json,
        depth: int,
        *,
        required: bool,
        place: str = "",
        description: str = "",
    ) -> Row:
        """Return the row of a parameter, which has a ``place``, or of a field."""
        source = _sentence(description or self.about(schema))
        return Row(
            name=name,
            place=place,
            type=self.type_of(schema),
            required=required,
            notes=inline(source),
            source=source,
            limits=tuple(self.limits(schema, described=bool(description))),
            rows=self.rows(schema, depth + 1),
        )

    def _properties(self, schema: Json, depth: int = 0) -> Json:
        properties = dict(schema.get("properties", {}))
        for part in schema.get("allOf", ()) if depth < _DEEPEST else ():
            properties.update(self._properties(self.follow(part), depth + 1))
        return properties


def members(value: Any) -> Json:
    """Return the members of a JSON object, {} for any other value."""
    return cast("Json", value) if isinstance(value, Mapping) else {}


def plain_name(name: str) -> str:
    """Return a field's name in lower case without underscores, since events use snake_case."""
    return name.replace("_", "").lower()


def _sentence(text: str) -> str:
    """Capitalize the text and add a full stop."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?:`" else ".")


def _kinds(schema: Json) -> list[str]:
    """Return the types that a schema allows, derived from its values if it names none."""
    kind: Any = schema.get("type")
    if isinstance(kind, str):
        return [kind]
    if kind:
        return list(kind)
    values: Sequence[Any] = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return [_TYPES.get(value.__class__, "anything") for value in values]
