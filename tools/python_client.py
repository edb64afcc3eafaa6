"""Generates operations, models and events of ``opentill.client`` from the OpenAPI document.

`make client` runs it. Transport, retries, pagination and signatures are hand-written. A test
compares the files in the repository with what is generated here (decision 0130).
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.python_models import (
    CLASSES,
    HAND_WRITTEN,
    Json,
    Models,
    docstring,
    events,
    in_python,
    is_time,
    kinds,
    name_in,
    sentence,
    snake,
    values_of,
)  # fmt: skip

from opentill.app import openapi_document
from opentill.core.settings import Settings
from opentill.http.fields import is_decimal
from opentill.reference.python_calls import CALLS

CLIENT: Final = Path(__file__).parents[1] / "src" / "opentill" / "client"
_EXTENSION: Final = "An extension of the contract. "

SINGULAR: Final = {
    "products": "product",
    "checkouts": "checkout",
    "payment_links": "payment_link",
    "orders": "order",
    "refunds": "refund",
    "disputes": "dispute",
    "payouts": "payout",
    "balance": "balance",
    "agreement": "agreement",
    "balance_transactions": "balance_transaction",
    "webhook_endpoints": "endpoint",
    "webhook_deliveries": "delivery",
    "events": "event",
}
# Functions whose name is not the verb with the singular, or with the plural for a list.
FUNCTIONS: Final = {
    "orders.export": "export_orders",
    "balance.export_statement": "export_statement",
    "webhook_endpoints.rotate_secret": "rotate_secret",
    "webhook_endpoints.resend_events": "resend_events",
    "webhook_endpoints.send_test_event": "send_test_event",
    "webhook_endpoints.list": "list_endpoints",
    "webhook_deliveries.list": "list_deliveries",
}
# The field of a body that may be a positional argument.
FIRST: Final = {
    "create_checkout": "productId",
    "create_payment_link": "productId",
    "create_endpoint": "url",
}

_OPERATIONS: Final = '''"""Operations of the API: each is one typed function that makes its request.

``asynchronous.py`` and ``blocking.py`` make their methods of these functions, so that both
clients send the same.

Generated from the OpenAPI document by `make client`: change nothing here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import UNSET, UnsetType

'''


class Parameter(NamedTuple):
    """A parameter of a function, and the expression of its sent value."""

    name: str
    type: str
    default: str | None  # None: required
    sent: str

    def signature(self) -> str:
        """Return the parameter's declaration."""
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


# The parameter type of each form of value, and the expression that converts ``{0}`` for sending.
_PLAIN: Final = {
    "array": ("Sequence[str]", "list({0})"),
    "texts": ("Mapping[str, str]", "{0}"),
    "object": ("Mapping[str, Any]", "{0}"),
    "amount": ("Amount", "decimal_text({0})"),
    "time": ("Moment", "millis({0})"),
    "string": ("str", "{0}"),
    "integer": ("int", "{0}"),
    "boolean": ("bool", "{0}"),
}


def _form_of(schema: Json) -> str:
    """Return the form of a value: its type in the document, or a more precise one."""
    kind = next(kind for kind in kinds(schema) if kind != "null")
    if kind == "object":
        return "object" if schema.get("additionalProperties") in (None, True) else "texts"
    if kind == "string":
        return "amount" if is_decimal(schema) else "string"
    return "time" if kind == "integer" and is_time(schema) else kind


class Operations:
    """The functions of all operations."""

    def __init__(self, spec: Json) -> None:
        """``spec`` is the document."""
        self.schemas = spec["components"]["schemas"]
        self.models = Models(self.schemas)
        self._by_id = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in spec["paths"].items()
            for method, operation in methods.items()
        }
        self._responses: set[str] = set()
        self._literals: dict[str, tuple[str, ...]] = {}
        self._everywhere = self._shared()

    def _shared(self) -> set[tuple[str, tuple[str, ...]]]:
        """Return the enumerations that several groups have under one name."""
        groups: dict[tuple[str, tuple[str, ...]], set[str]] = {}
        for operation_id, call in CALLS.items():
            for wire, schema in self._inputs(operation_id):
                if values := tuple(values_of(schema)):
                    groups.setdefault((wire, values), set()).add(call.partition(".")[0])
        return {key for key, found_in in groups.items() if len(found_in) > 1}

    def _inputs(self, operation_id: str) -> Iterator[tuple[str, Json]]:
        operation = self._by_id[operation_id][2]
        if body := self._body(operation):
            yield from body["properties"].items()
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query":
                yield parameter["name"], parameter["schema"]

    def _body(self, operation: Json) -> Json | None:
        content = operation.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        return None if schema is None else self.schemas[name_in(schema["$ref"])]

    def _input_type(self, wire: str, schema: Json, group: str) -> tuple[str, str]:
        """Return the parameter type, and the expression that converts ``{0}`` for sending."""
        if "$ref" in schema:
            return "Mapping[str, Any]", "item_fields({0})"
        if values := tuple(values_of(schema)):
            if wire == "type":
                return "str", "{0}"
            shared = (wire, values) in self._everywhere
            prefix = "" if shared else SINGULAR[group].title().replace("_", "")
            name = f"{prefix}{wire[:1].upper()}{wire[1:]}"
            self._literals[name] = values
            return name, "{0}"
        return _PLAIN[_form_of(schema)]

    def _field(self, wire: str, schema: Json, group: str, *, patch: bool, must: bool) -> Parameter:
        name = snake(wire)
        type_, conversion = self._input_type(wire, schema, group)
        sent = conversion.format(name)
        if must:
            return Parameter(name, type_, None, sent)
        if not patch:
            if sent != name and type_ != "Moment":  # ``millis`` takes None
                sent = f"None if {name} is None else {sent}"
            return Parameter(name, f"{type_} | None", "None", sent)
        nullable = "null" in kinds(schema) or any(
            "null" in kinds(part) for part in schema.get("anyOf", ())
        )
        if sent != name:
            also = f" or {name} is None" if nullable and type_ != "Moment" else ""
            keep = f"isinstance({name}, UnsetType){also}"
            sent = f"{name} if {keep} else {sent}"
        none = " | None" if nullable else ""
        return Parameter(name, f"{type_} | UnsetType{none}", "UNSET", sent)

    def _query(self, parameter: Json, group: str) -> Parameter:
        schema = parameter["schema"]
        if "$ref" in schema:
            schema = self.schemas[name_in(schema["$ref"])]
        schema = schema | {"description": parameter.get("description", "")}
        if parameter["name"] in {"page", "size"}:
            default = {"page": "1", "size": "100"}[parameter["name"]]
            return Parameter(parameter["name"], "int", default, parameter["name"])
        return self._field(
            parameter["name"], schema, group, patch=False, must=parameter["required"]
        )

    def _response(self, operation: Json) -> tuple[str, str]:
        """Return the response type of a request, and its expression in the call."""
        ((_, response),) = [
            (status, one) for status, one in operation["responses"].items() if status[0] == "2"
        ]
        content = response["content"]
        if "application/json" not in content:
            return "File", "File"
        envelope = self.schemas[name_in(content["application/json"]["schema"]["$ref"])]
        data = envelope["properties"].get("data")
        if data is None:
            return "None", ""
        component = name_in(data["$ref"])
        if component in HAND_WRITTEN:
            return HAND_WRITTEN[component], HAND_WRITTEN[component]
        properties = self.schemas[component]["properties"]
        if set(properties) == {"items", "pagination"}:
            item = name_in(properties["items"]["items"]["$ref"])
            self.models.add(item)
            name = CLASSES.get(item, item)
            self._responses.add(name)
            return f"Page[{name}]", f"Page[{name}]"
        self.models.add(component)
        name = CLASSES.get(component, component)
        self._responses.add(name)
        return name, name

    def _function(self, operation_id: str, call: str) -> str:
        method, path, operation = self._by_id[operation_id]
        group, _, verb = call.partition(".")
        plain = group if verb == "list" else SINGULAR[group]
        name = FUNCTIONS.get(call, f"{verb}_{plain}")
        first: list[Parameter] = []
        rest: list[Parameter] = []
        if "{id}" in path:
            segment = path.split("/")[2].replace("-", "_")
            id_name = f"{SINGULAR[segment]}_id"
            first.append(Parameter(id_name, "str", None, f"checked_id({id_name})"))
            path = path.replace("{id}", f"{{checked_id({id_name})}}")
        body = self._body(operation)
        fields = body["properties"] if body is not None else {}
        for wire, schema in fields.items():
            parameter = self._field(
                wire,
                schema,
                group,
                patch=method == "PATCH",
                must=body is not None and wire in body.get("required", ()),
            )
            (first if FIRST.get(name) == wire else rest).append(parameter)
        rest.sort(key=lambda parameter: parameter.default is not None)
        queries = [
            self._query(parameter, group)
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query"
        ]
        queries.sort(key=lambda parameter: parameter.name in {"page", "size"})
        sent = [*(p for p in first if "checked_id" not in p.sent), *rest, *queries]
        rest += queries
        if method == "POST":
            rest.append(Parameter("idempotency_key", "str | None", "None", ""))
        returns, response = self._response(operation)
        declared = [parameter.signature() for parameter in first]
        declared += ["*", *(parameter.signature() for parameter in rest)] if rest else []
        place = f'f"{path}"' if "{" in path else f'"{path}"'
        arguments = [place, *([response] if response else [])]
        arguments += ["idempotency_key"] if method == "POST" else []
        arguments += [f"{parameter.name}={parameter.sent}" for parameter in sent]
        about = sentence(operation["summary"])
        if "description" in operation:
            about = f"{about}\n\n{operation['description'].removeprefix(_EXTENSION)}"
        lines = [f"def {name}({', '.join(declared)}) -> Request[{returns}]:"]
        lines += docstring(in_python(about), "    ")
        lines.append(f"    return {method.lower()}({', '.join(arguments)})")
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """Return the source of the module."""
        functions = [self._function(*each) for each in CALLS.items()]
        models = ", ".join(sorted(self._responses))
        literals = "\n".join(
            f"{name} = Literal[{', '.join(map(repr, values))}]"
            for name, values in sorted(self._literals.items())
        )
        return (
            f"{_OPERATIONS}from .event import Event\nfrom .event_reading import EventList\n"
            f"from .model import {models}\n"
            "from .pages import Page\n"
            "from .request import (Amount, File, Moment, Request, checked_id, decimal_text,"
            " delete, get, item_fields, millis, patch, post)\n\n"
            f"{literals}\n\n\n" + "\n\n".join(functions)
        )


def _formatted(text: str, path: Path) -> str:
    for arguments in (["check", "--fix", "--quiet", "--select", "F401,I,Q"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(path), "-"]
        text = subprocess.run(  # noqa: S603 - the formatter, on our own text
            ruff, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def generated() -> dict[str, str]:
    """Return the text of each generated file by its name."""
    spec = openapi_document(Settings())
    operations = Operations(spec)
    texts = {
        "operations.py": operations.text(),
        "model.py": operations.models.text(),
        "events.py": events(spec),
    }
    return {name: _formatted(text, CLIENT / name) for name, text in texts.items()}


if __name__ == "__main__":
    for file, text in generated().items():
        (CLIENT / file).write_text(text)
