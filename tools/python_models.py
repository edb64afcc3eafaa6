"""Generate the structs of the Python client from the models and events of the OpenAPI document.

``python_client.py`` writes them to files. The tables below keep public names of the client that
differ from the document's.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from opentill.http.fields import is_decimal

_WIDTH: Final = 96
_TIME: Final = re.compile(r"Unix (ms|milliseconds)\b")

# Name of a schema in the document → name of its class in the client, where they differ.
CLASSES: Final = {
    "SessionCreated": "NewCheckout",
    "Session": "Checkout",
    "LinkItem": "PaymentLinkItem",
    "Sales": "PaymentLinkSales",
    "Note": "DisputeNote",
    "Endpoint": "WebhookEndpoint",
    "EndpointWithSecret": "WebhookEndpointWithSecret",
    "Attempt": "DeliveryAttempt",
    "Resend": "Resent",
}
FIELDS: Final = {("DeliveryAttempt", "answer"): "response"}
# Payload of an event → the class for all payloads of that resource. Fields that only some of these
# payloads have may be None.
PAYLOADS: Final = {
    "CheckoutCompletedData": "CheckoutData",
    "CheckoutExpiredData": "CheckoutData",
    "PayoutPaidData": "PayoutData",
    "PayoutFailedData": "PayoutData",
}
# Defaults of fields that older servers or events lack. Nullable fields default to None.
MISSING_ON_OLD_SERVERS: Final = {"quantity": "1", "returned": "None"}
# Defaults of fields that are missing in events of the first versions.
MISSING_IN_OLD_EVENTS: Final = {
    ("OrderRefundedData", "product_id"): '""',
    ("RefundFailedData", "product_id"): '""',
}
# Schema → the hand-written class of the client.
HAND_WRITTEN: Final = {"Events": "EventList", "EventBody": "Event"}
# Struct → the source of properties that it has in addition to its fields.
EXTRA_PROPERTIES: Final = {
    "Delivery": (
        "    @property",
        "    def id(self) -> str:",
        '        """The event\'s id: an endpoint gets each event once."""',
        "        return self.event_id",
    )
}

Json = dict[str, Any]


def to_snake_case(name: str) -> str:
    """Return a name in snake case."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def types_of(schema: Json) -> list[str]:
    """Return the types of a schema: several if it is nullable."""
    types = schema.get("type", ())
    return [types] if isinstance(types, str) else list(types)


def component_name(reference: str) -> str:
    """Return the name of the component to which a reference points."""
    return reference.rpartition("/")[2]


def sentence(text: str) -> str:
    """Return a text with a capital letter and a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def docstring(text: str, indent: str) -> Iterator[str]:
    """Yield the lines of a docstring: the first sentence, then the rest."""
    first, *rest = text.split("\n\n")
    if not rest and len(indent) + len(first) + 6 <= _WIDTH:
        yield f'{indent}"""{first}"""'
        return
    if not rest or len(indent) + len(first) + 3 > _WIDTH:
        head, _, tail = first.partition(". ")
        first = head if head.endswith(".") else f"{head}."
        rest = [tail, *rest] if tail else rest
    lines = textwrap.wrap(first, _WIDTH - len(indent) - 3)
    yield f'{indent}"""{lines[0]}'
    yield from (f"{indent}{line}" for line in lines[1:])
    for paragraph in rest:
        yield ""
        yield from (f"{indent}{line}" for line in textwrap.wrap(paragraph, _WIDTH - len(indent)))
    yield f'{indent}"""'


def to_python_names(text: str) -> str:
    """Return a description with the Python names of fields and parameters."""
    sentences = [part for part in text.split(". ") if "another spelling" not in part]
    named = re.sub(
        r"`([a-z]+(?:[A-Z][a-z0-9]*)+)`",
        lambda part: f"`{to_snake_case(part[1])}`",
        ". ".join(sentences),
    )
    return sentence(named.replace("`", "``"))


def is_time(schema: Json) -> bool:
    """Whether a number is a time in Unix milliseconds."""
    return (
        schema.get("format") == "int64" and _TIME.search(schema.get("description", "")) is not None
    )


def values_of(schema: Json) -> list[str]:
    """Return the values of an enumeration, which may be nullable."""
    for part in (schema, *schema.get("anyOf", ())):
        if "enum" in part:
            return [str(value) for value in part["enum"]]
    return []


# ── models ─────────────────────────────────────────────────────────────────────────────────────


def _type(schema: Json) -> str:
    """Return the Python type of a response's schema. Raises ValueError for an unknown kind."""
    if "$ref" in schema:
        name = component_name(schema["$ref"])
        return CLASSES.get(name, name)
    if "const" in schema:
        return type(schema["const"]).__name__
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return "str"
    types = []
    for kind in types_of(schema):
        match kind:
            case "array":
                types.append(f"list[{_type(schema['items'])}]")
            case "object":
                types.append("Metadata")
            case "string":
                types.append("Decimal" if is_decimal(schema) else "str")
            case _:
                types.append({"integer": "int", "boolean": "bool", "null": "None"}[kind])
    if not types:
        message = f"a schema without a type: {schema}"
        raise ValueError(message)
    return " | ".join(types)


class Field(NamedTuple):
    """A field of a struct: its type, its default if it is absent, and the values of an enum.

    ``note`` has these values, separated by spaces; "" if the field may have any value.
    """

    name: str
    type: str
    default: str | None
    note: str

    def line(self) -> str:
        """Return the field's line in the struct, with the comment if it fits."""
        text = f"    {self.name}: {self.type}{'' if self.default is None else f' = {self.default}'}"
        commented = f"{text}  # one of {', '.join(self.note.split())}"
        return commented if self.note and len(commented) <= _WIDTH else text


def fields_of(owner: str, schema: Json, *, camel: bool) -> dict[str, Field]:
    """Return the fields of a schema by their names in the API, which are in camelCase or not."""
    required = set(schema.get("required", ()))
    fields = {}
    for api_name, inner in schema["properties"].items():
        name = FIELDS.get((owner, api_name), to_snake_case(api_name) if camel else api_name)
        type_ = _type(inner)
        default = MISSING_IN_OLD_EVENTS.get((owner, name), MISSING_ON_OLD_SERVERS.get(name))
        if default is None and (api_name not in required or "None" in type_):
            default = "None"
        if default == "None" and "None" not in type_:
            type_ += " | None"
        renamed = re.sub(r"_([a-z0-9])", lambda part: part[1].upper(), name) if camel else name
        if renamed != api_name:  # msgspec cannot derive the API's name from the field's
            options = f'name="{api_name}"' + (f", default={default}" if default is not None else "")
            default = f"msgspec.field({options})"
        fields[api_name] = Field(name, type_, default, " ".join(values_of(inner)))
    return fields


def _struct(
    name: str, base: str, description: str, fields: Mapping[str, Field], rename: str
) -> str:
    lines = [f"class {name}({base}, frozen=True, kw_only=True{rename}):"]
    lines += [*docstring(description, "    "), ""]
    lines += [field.line() for field in fields.values()]
    lines += ["", *EXTRA_PROPERTIES[name]] if name in EXTRA_PROPERTIES else []
    return "\n".join(lines) + "\n"


def _referenced(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield component_name(schema["$ref"])
        for inner in schema.values():
            yield from _referenced(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _referenced(inner)


class Models:
    """Generates the structs of the operations' responses."""

    def __init__(self, schemas: Mapping[str, Json]) -> None:
        """``schemas`` are the components of the document."""
        self.schemas = schemas
        self._structs: dict[str, str] = {}
        self._fields: dict[str, dict[str, Field]] = {}

    def add(self, component: str) -> None:
        """Generate the struct of a component, after the components that it refers to."""
        if component in self._structs or component in HAND_WRITTEN or component == "Pagination":
            return
        self._structs[component] = ""  # a component that refers to itself must not recurse forever
        for inner in _referenced(self.schemas[component]["properties"]):
            self.add(inner)
        del self._structs[component]
        schema, name = self.schemas[component], CLASSES.get(component, component)
        fields = fields_of(name, schema, camel=True)
        base = self._base(fields)
        own = {
            api_name: field
            for api_name, field in fields.items()
            if not base or api_name not in self._fields[base]
        }
        parent = CLASSES.get(base, base) if base else "msgspec.Struct"
        description = to_python_names(sentence(schema.get("description", name)))
        self._fields[component] = fields
        self._structs[component] = _struct(name, parent, description, own, ', rename="camel"')

    def _base(self, fields: Mapping[str, Field]) -> str:
        """Return the largest component whose fields are all among these, or "" if there is none."""
        bases = [
            component
            for component, base_fields in self._fields.items()
            if len(base_fields) > 5  # noqa: PLR2004 - fewer fields may agree by chance
            and len(base_fields) < len(fields)
            and base_fields.items() <= fields.items()
        ]
        return max(bases, key=lambda component: len(self._fields[component]), default="")

    def text(self) -> str:
        """Return the source of the module."""
        return _MODELS + "\n\n".join(f"\n{struct}" for struct in self._structs.values()).lstrip(
            "\n"
        )


_MODELS: Final = '''"""Resources of the API. Amounts are ``Decimal``, times Unix milliseconds.

Fields that a newer server adds are ignored. Statuses and types are plain text for the same
reason: a program that reads them must not break when a new one appears.

Generated from the OpenAPI document by `make client`: change nothing here.
"""

from decimal import Decimal
from typing import Any

import msgspec

Metadata = dict[str, Any]


'''


# ── events ─────────────────────────────────────────────────────────────────────────────────────

_EVENTS: Final = '''"""Events of webhooks, typed. Amounts are ``Decimal``, times Unix milliseconds.

Generated from the OpenAPI document by `make client`: change nothing here.
"""

from decimal import Decimal
from typing import Any, Final

import msgspec

from .event import TypedEvent

Metadata = dict[str, Any]


'''


def _merge_fields(first: Mapping[str, Field], second: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields of both structs. Fields that only one of them has may be None."""
    merged = {}
    for api_name, field in {**first, **second}.items():
        is_common = api_name in first and api_name in second
        type_, default = field.type, field.default
        if not is_common and default is None:
            default = "None"
            type_ += "" if "None" in type_ else " | None"
        values = [
            side[api_name].note
            for side in (first, second)
            if api_name in side and side[api_name].note
        ]
        merged[api_name] = field._replace(
            type=type_, default=default, note=" ".join(dict.fromkeys(" ".join(values).split()))
        )
    return merged


def generate_events(spec: Json) -> str:
    """Return the source of the module of events."""
    schemas = spec["components"]["schemas"]
    payloads: dict[str, dict[str, Field]] = {}
    descriptions: dict[str, str] = {}
    classes: list[tuple[str, str, str]] = []
    for type_, webhook in spec["webhooks"].items():
        event = component_name(
            webhook["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        )
        component = component_name(schemas[event]["properties"]["data"]["$ref"])
        name = PAYLOADS.get(component, component)
        fields = fields_of(name, schemas[component], camel=False)
        if (name, event) not in [
            (other_name, other_event) for other_name, other_event, _ in classes
        ]:
            description = to_python_names(sentence(schemas[component].get("description", name)))
            if name in payloads and description not in descriptions[name]:
                descriptions[name] += f" {description}"
            descriptions.setdefault(name, description)
            payloads[name] = _merge_fields(payloads[name], fields) if name in payloads else fields
        classes.append((name, event.removesuffix("Event"), type_))
    structs = [
        _struct(name, "msgspec.Struct", descriptions[name], fields, "")
        for name, fields in payloads.items()
    ]
    for name, event, type_ in classes:
        structs.append(
            f"class {event}(TypedEvent[{name}], frozen=True, kw_only=True):\n"
            f'    """``{type_}``."""\n\n    form = {name}\n'
        )
    table = "".join(f'    "{type_}": {event},\n' for _, event, type_ in classes)
    table = f"EVENTS: Final[dict[str, type[TypedEvent[Any]]]] = {{\n{table}}}\n"
    return _EVENTS + "\n\n".join([*structs, table])
