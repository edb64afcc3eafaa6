"""JSON Schemas of the structs on the wire, in the forms that client generators understand.

msgspec's schemas are true, but generators make wrong or poor code of some of their forms: 32 bits
for every integer, ``any`` for values without a type, a class of its own for null. Everything here
keeps the meaning, but for one thing: spellings that are only accepted are not shown.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

# Keyword for `extra_json_schema` of a field that is another spelling of the field it names. It is
# accepted and not documented: generators would give both the same name.
SPELLING_OF: Final = "x-spelling-of"

Schema = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_NULL: Final = {"type": "null"}
_TYPES: Final[Mapping[type, str]] = {
    str: "string",
    int: "integer",
    bool: "boolean",
    type(None): "null",
}
_CITATION: Final = re.compile(r" ?\([^()]*(?:§|contract\.md#)[^()]*\)")
_LISTING: Final = re.compile(r"Listing_(\w+)_")
_ABOUT: Final = ("description", SPELLING_OF)
_WIDEST: Final = 2**31 - 1  # of 32 bits


def of(kinds: Iterable[Any]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """Return the schema of each struct, a reference, and the components they refer to."""
    asked = tuple(dict.fromkeys(kinds))
    references, components = msgspec.json.schema_components(asked, ref_template=_REF)
    return dict(zip(asked, map(shaped, references), strict=True)), _named(components)


def finished(document: Schema) -> Schema:
    """Return a document with every schema in it shaped, wherever it came from; twice is once."""
    made: Schema = _shape_within(document)
    made["components"]["schemas"] = _named(document["components"]["schemas"])
    return made


def _shape_within(node: Any) -> Any:
    if isinstance(node, list):
        return [_shape_within(one) for one in cast("Sequence[Any]", node)]
    if not isinstance(node, dict):
        return node
    made: Schema = {}
    for key, value in cast("Schema", node).items():
        if key == "schema":
            made[key] = shaped(value)
        elif key == "description" and isinstance(value, str):
            made[key] = readable(value)
        else:
            made[key] = value if key in {"example", "examples"} else _shape_within(value)
    return made


def _named(components: Mapping[str, Schema]) -> dict[str, Schema]:
    made = {type_name(name): shaped(schema) for name, schema in components.items()}
    if len(made) != len(components):
        msg = f"two structs have one name: {sorted(components)}"
        raise ValueError(msg)
    return made


def type_name(struct: str) -> str:
    """Name a struct as integrators know it: ``Listing_OrderOut_`` is an ``OrderList``."""
    listed = _LISTING.fullmatch(struct)
    return type_name(listed[1]) + "List" if listed else struct.removesuffix("Out")


def reference(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": _REF.format(name=name)}


def name_of(referring: Schema) -> str:
    """Return the name of the component that a reference leads to."""
    return str(referring["$ref"]).rsplit("/", 1)[-1]


def shaped(schema: Schema) -> Schema:
    """Return a schema in the forms that generators understand, with all the schemas in it."""
    made = {keyword: _inside(keyword, value) for keyword, value in schema.items()}
    made.pop("title", None)  # the component's name says it
    made = _nullable(made)
    if made.get("default", 0) is None:
        del made["default"]  # what is absent is absent
    if "$ref" in made:
        made |= reference(type_name(name_of(made)))
    if "description" in made:
        made["description"] = readable(made["description"])
    _type_values(made)
    if "integer" in types(made) and "format" not in made:
        made["format"] = _width(made)
    return made


def without_null(schema: Schema) -> Schema:
    """Return the schema of a parameter: one that is absent is absent, it is never null."""
    others = _others(schema)
    if len(others) == 1:
        return others[0] | {key: value for key, value in schema.items() if key != "anyOf"}
    made = dict(schema)
    kinds = [kind for kind in types(schema) if kind != "null"]
    if kinds:
        made["type"] = kinds[0] if len(kinds) == 1 else kinds
    return made


def readable(docstring: str) -> str:
    """Turn a docstring into Markdown for readers who have neither our sources nor their papers."""
    return _CITATION.sub("", inspect.cleandoc(docstring)).replace("``", "`")


def types(schema: Schema) -> list[str]:
    """Name the types that a schema allows."""
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _inside(keyword: str, value: Any) -> Any:
    """Shape the schemas that a keyword holds; values are left alone."""
    match keyword:
        case "properties" | "patternProperties" | "$defs":
            made = {name: shaped(schema) for name, schema in value.items()}
            return {name: schema for name, schema in made.items() if SPELLING_OF not in schema}
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return [shaped(schema) for schema in value]
        case "items" | "additionalProperties" | "propertyNames" | "not":
            return shaped(cast("Schema", value)) if isinstance(value, dict) else value
        case _:
            return value


def _nullable(schema: Schema) -> Schema:
    """Say by the type that something may be null, where msgspec says it by a choice of two.

    A list of values stays a choice: openapi-python-client makes three classes of one whose values
    include null, and one of the choice; the others understand both.
    """
    others = _others(schema)
    if _NULL not in schema.get("anyOf", ()) or len(others) != 1 or "$ref" in others[0]:
        return schema
    beside = {key: value for key, value in schema.items() if key != "anyOf"}
    if "enum" not in others[0]:
        return others[0] | beside | {"type": [*types(others[0]), "null"]}
    about = {key: others[0][key] for key in others[0] if key in _ABOUT}
    values = {key: others[0][key] for key in others[0] if key not in _ABOUT}
    return about | beside | {"anyOf": [values, _NULL]}


def _others(schema: Schema) -> list[Schema]:
    """Return what a schema lets choose from, beside null."""
    return [choice for choice in schema.get("anyOf", ()) if choice != _NULL]


def _type_values(schema: Schema) -> None:
    """Give a list of values, or a single one, the type that all of them are of."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values and "type" not in schema:
        kinds = list(dict.fromkeys(_TYPES[type(value)] for value in values))
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds


def _width(schema: Schema) -> str:
    """64 bits, unless every value that is allowed fits in 32."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    least = min(values, default=schema.get("minimum"))
    most = max(values, default=schema.get("maximum"))
    if least is None or most is None:
        return "int64"
    return "int32" if least >= -_WIDEST and most <= _WIDEST else "int64"
