r"""JSON Schemas of the structs on the wire, rewritten for client generators.

msgspec's schemas are correct, but generators produce wrong or poor code from some of their forms:
32 bits for every integer, ``any`` for values without a type, a separate class for null. The
rewritten schemas mean the same, except that alternative spellings of fields are omitted.

msgspec searches for a field's pattern with Python's ``re``, whose ``$`` also matches before a final
line break. Therefore a pattern of ``msgspec.Meta`` ends in ``\Z``, which JSON Schema does not
have: the rewritten schema has ``$``, which matches there only at the end.
"""

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, Final, cast, get_args, get_type_hints

import msgspec

# A field with this keyword in its `extra_json_schema` is an alternative spelling of the field that
# the keyword names. The alternative is accepted but not documented, since generators would give
# both fields the same name.
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
_INT32_MAX: Final = 2**31 - 1


def build(kinds: Iterable[Any]) -> tuple[dict[Any, Schema], dict[str, Schema]]:
    """Return a schema reference for each type, and the components that they refer to."""
    unique = tuple(dict.fromkeys(kinds))
    references, components = msgspec.json.schema_components(unique, ref_template=_REF)
    return dict(zip(unique, map(rewrite, references), strict=True)), _name_components(components)


def rewrite_document(document: Schema) -> Schema:
    """Rewrite every schema of an OpenAPI document. Idempotent."""
    rewritten: Schema = _shape_within(document)
    rewritten["components"]["schemas"] = _name_components(document["components"]["schemas"])
    return rewritten


def _shape_within(node: Any) -> Any:
    if isinstance(node, list):
        return [_shape_within(child) for child in cast("Sequence[Any]", node)]
    if not isinstance(node, dict):
        return node
    rewritten: Schema = {}
    for key, value in cast("Schema", node).items():
        if key == "schema":
            rewritten[key] = rewrite(value)
        elif key == "description" and isinstance(value, str):
            rewritten[key] = readable(value)
        else:
            rewritten[key] = value if key in {"example", "examples"} else _shape_within(value)
    return rewritten


def _name_components(components: Mapping[str, Schema]) -> dict[str, Schema]:
    named = {type_name(name): rewrite(schema) for name, schema in components.items()}
    if len(named) != len(components):
        msg = f"two structs have one name: {sorted(components)}"
        raise ValueError(msg)
    return named


def type_name(struct: str) -> str:
    """Return a struct's name in the API document: ``Listing_OrderOut_`` is ``OrderList``."""
    listed = _LISTING.fullmatch(struct)
    return type_name(listed[1]) + "List" if listed else struct.removesuffix("Out")


def reference(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": _REF.format(name=name)}


def component_name(referring: Schema) -> str:
    """Return the name of the component that a schema refers to."""
    return str(referring["$ref"]).rsplit("/", 1)[-1]


def rewrite(schema: Schema) -> Schema:
    """Rewrite a schema, and all schemas nested in it, for client generators."""
    rewritten = {keyword: _inside(keyword, value) for keyword, value in schema.items()}
    rewritten.pop("title", None)  # the title only repeats the component's name
    rewritten = _nullable(rewritten)
    if rewritten.get("default", 0) is None:
        del rewritten["default"]  # null as a default only says that the field may be omitted
    if "$ref" in rewritten:
        rewritten |= reference(type_name(component_name(rewritten)))
    if "description" in rewritten:
        rewritten["description"] = readable(rewritten["description"])
    if "pattern" in rewritten:
        rewritten["pattern"] = rewritten["pattern"].replace(r"\Z", "$")
    _type_values(rewritten)
    if "integer" in types(rewritten) and "format" not in rewritten:
        rewritten["format"] = _width(rewritten)
    return rewritten


def without_null(schema: Schema) -> Schema:
    """Return a query parameter's schema: a parameter may be omitted but is never null."""
    others = _others(schema)
    if len(others) == 1:
        return others[0] | {key: value for key, value in schema.items() if key != "anyOf"}
    rewritten = dict(schema)
    kinds = [kind for kind in types(schema) if kind != "null"]
    if kinds:
        rewritten["type"] = kinds[0] if len(kinds) == 1 else kinds
    return rewritten


def readable(docstring: str) -> str:
    """Convert a docstring to Markdown, without the citations that only maintainers need."""
    return _CITATION.sub("", inspect.cleandoc(docstring)).replace("``", "`")


def nullable_fields(struct: type[msgspec.Struct]) -> dict[str, None]:
    """Return null for each field that may be null, by its name in JSON: a base for examples."""
    hints = get_type_hints(struct)
    return {
        field.encode_name: None
        for field in msgspec.structs.fields(struct)
        if NoneType in get_args(hints[field.name])
    }


def types(schema: Schema) -> list[str]:
    """Return the names of the types that a schema allows."""
    kind = schema.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _inside(keyword: str, value: Any) -> Any:
    """Rewrite the schemas that a keyword contains; other values are returned unchanged."""
    match keyword:
        case "properties" | "patternProperties" | "$defs":
            properties = {name: rewrite(schema) for name, schema in value.items()}
            return {
                name: schema for name, schema in properties.items() if SPELLING_OF not in schema
            }
        case "anyOf" | "oneOf" | "allOf" | "prefixItems":
            return [rewrite(schema) for schema in value]
        case "items" | "additionalProperties" | "propertyNames" | "not":
            return rewrite(cast("Schema", value)) if isinstance(value, dict) else value
        case _:
            return value


def _nullable(schema: Schema) -> Schema:
    """Express that a value may be null by ``type``, where msgspec uses ``anyOf``.

    An enum keeps ``anyOf``: openapi-python-client generates three classes from an enum that
    includes null and one from ``anyOf``; other generators accept both.
    """
    others = _others(schema)
    if _NULL not in schema.get("anyOf", ()) or len(others) != 1 or "$ref" in others[0]:
        return schema
    siblings = {key: value for key, value in schema.items() if key != "anyOf"}
    if "enum" not in others[0]:
        return others[0] | siblings | {"type": [*types(others[0]), "null"]}
    annotations = {key: others[0][key] for key in others[0] if key in _ABOUT}
    values = {key: others[0][key] for key in others[0] if key not in _ABOUT}
    return annotations | siblings | {"anyOf": [values, _NULL]}


def _others(schema: Schema) -> list[Schema]:
    """Return the alternatives of ``anyOf``, without null."""
    return [choice for choice in schema.get("anyOf", ()) if choice != _NULL]


def _type_values(schema: Schema) -> None:
    """Add the type of the values to a schema with ``enum`` or ``const``."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values and "type" not in schema:
        kinds = list(dict.fromkeys(_TYPES[type(value)] for value in values))
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds


def _width(schema: Schema) -> str:
    """Return the integer format: ``int32`` if every allowed value fits, else ``int64``."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    least = min(values, default=schema.get("minimum"))
    most = max(values, default=schema.get("maximum"))
    if least is None or most is None:
        return "int64"
    return "int32" if least >= -_INT32_MAX and most <= _INT32_MAX else "int64"
