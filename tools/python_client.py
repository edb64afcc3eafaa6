"""Generate operations, models and events of ``opentill.client`` from the OpenAPI document.

`make client` runs it. Transport, retries, pagination and signatures are hand-written. A test
compares the files in the repository with the output of this program (decision 0130).
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
    component_name,
    docstring,
    generate_events,
    is_time,
    sentence,
    to_python_names,
    to_snake_case,
    types_of,
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
# The name of a function is usually the verb and the resource, in the plural if the function returns
# a list. These functions have other names.
FUNCTIONS: Final = {
    "orders.export": "export_orders",
    "balance.export_statement": "export_statement",
    "webhook_endpoints.rotate_secret": "rotate_secret",
    "webhook_endpoints.resend_events": "resend_events",
    "webhook_endpoints.send_test_event": "send_test_event",
    "webhook_endpoints.list": "list_endpoints",
    "webhook_deliveries.list": "list_deliveries",
}
# Function → the field of the body that may be a positional argument.
POSITIONAL_FIELDS: Final = {
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
    """A parameter of a function, and the expression of the value that is sent."""

    name: str
    type: str
    default: str | None  # source of the default value; None if the parameter is required
    value: str

    def signature(self) -> str:
        """Return the parameter's declaration."""
        return f"{self.name}: {self.type}" + ("" if self.default is None else f" = {self.default}")


# Kind of value → type of the parameter, and the expression that converts ``{0}`` before sending.
_CONVERSIONS: Final = {
    "array": ("Sequence[str]", "list({0})"),
    "texts": ("Mapping[str, str]", "{0}"),
    "object": ("Mapping[str, Any]", "{0}"),
    "amount": ("Amount", "decimal_text({0})"),
    "time": ("Moment", "millis({0})"),
    "string": ("str", "{0}"),
    "integer": ("int", "{0}"),
    "boolean": ("bool", "{0}"),
}


def _kind_of(schema: Json) -> str:
    """Return the kind of a value: its type in the document, or a more precise one."""
    kind = next(kind for kind in types_of(schema) if kind != "null")
    if kind == "object":
        return "object" if schema.get("additionalProperties") in (None, True) else "texts"
    if kind == "string":
        return "amount" if is_decimal(schema) else "string"
    return "time" if kind == "integer" and is_time(schema) else kind


class Operations:
    """The source of the functions of all operations."""

    def __init__(self, spec: Json) -> None:
        """``spec`` is the OpenAPI document."""
        self.schemas = spec["components"]["schemas"]
        self.models = Models(self.schemas)
        self._by_id = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in spec["paths"].items()
            for method, operation in methods.items()
        }
        self._responses: set[str] = set()
        self._literals: dict[str, tuple[str, ...]] = {}
        self._shared_enums = self._find_shared_enums()

    def _find_shared_enums(self) -> set[tuple[str, tuple[str, ...]]]:
        """Return the enumerations that several groups have under the same name."""
        groups: dict[tuple[str, tuple[str, ...]], set[str]] = {}
        for operation_id, call in CALLS.items():
            for api_name, schema in self._inputs(operation_id):
                if values := tuple(values_of(schema)):
                    groups.setdefault((api_name, values), set()).add(call.partition(".")[0])
        return {key for key, group_names in groups.items() if len(group_names) > 1}

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
        return None if schema is None else self.schemas[component_name(schema["$ref"])]

    def _input_type(self, api_name: str, schema: Json, group: str) -> tuple[str, str]:
        """Return the parameter type, and the expression that converts ``{0}`` for sending."""
        if "$ref" in schema:
            return "Mapping[str, Any]", "item_fields({0})"
        if values := tuple(values_of(schema)):
            if api_name == "type":
                return "str", "{0}"
            shared = (api_name, values) in self._shared_enums
            prefix = "" if shared else SINGULAR[group].title().replace("_", "")
            name = f"{prefix}{api_name[:1].upper()}{api_name[1:]}"
            self._literals[name] = values
            return name, "{0}"
        return _CONVERSIONS[_kind_of(schema)]

    def _field(
        self, api_name: str, schema: Json, group: str, *, patch: bool, is_required: bool
    ) -> Parameter:
        name = to_snake_case(api_name)
        type_, conversion = self._input_type(api_name, schema, group)
        value = conversion.format(name)
        if is_required:
            return Parameter(name, type_, None, value)
        if not patch:
            # The conversion of a Moment, ``millis``, returns None for None by itself.
            if value != name and type_ != "Moment":
                value = f"None if {name} is None else {value}"
            return Parameter(name, f"{type_} | None", "None", value)
        nullable = "null" in types_of(schema) or any(
            "null" in types_of(part) for part in schema.get("anyOf", ())
        )
        if value != name:
            or_none = f" or {name} is None" if nullable and type_ != "Moment" else ""
            is_unchanged = f"isinstance({name}, UnsetType){or_none}"
            value = f"{name} if {is_unchanged} else {value}"
        none = " | None" if nullable else ""
        return Parameter(name, f"{type_} | UnsetType{none}", "UNSET", value)

    def _query(self, parameter: Json, group: str) -> Parameter:
        schema = parameter["schema"]
        if "$ref" in schema:
            schema = self.schemas[component_name(schema["$ref"])]
        schema = schema | {"description": parameter.get("description", "")}
        if parameter["name"] in {"page", "size"}:
            default = {"page": "1", "size": "100"}[parameter["name"]]
            return Parameter(parameter["name"], "int", default, parameter["name"])
        return self._field(
            parameter["name"], schema, group, patch=False, is_required=parameter["required"]
        )

    def _response(self, operation: Json) -> tuple[str, str]:
        """Return the type of the response, and its expression in the call."""
        ((_, response),) = [
            (status, each) for status, each in operation["responses"].items() if status[0] == "2"
        ]
        content = response["content"]
        if "application/json" not in content:
            return "File", "File"
        envelope = self.schemas[component_name(content["application/json"]["schema"]["$ref"])]
        data = envelope["properties"].get("data")
        if data is None:
            return "None", ""
        component = component_name(data["$ref"])
        if component in HAND_WRITTEN:
            return HAND_WRITTEN[component], HAND_WRITTEN[component]
        properties = self.schemas[component]["properties"]
        if set(properties) == {"items", "pagination"}:
            item = component_name(properties["items"]["items"]["$ref"])
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
        noun = group if verb == "list" else SINGULAR[group]
        name = FUNCTIONS.get(call, f"{verb}_{noun}")
        positional: list[Parameter] = []
        keyword_only: list[Parameter] = []
        if "{id}" in path:
            segment = path.split("/")[2].replace("-", "_")
            id_name = f"{SINGULAR[segment]}_id"
            positional.append(Parameter(id_name, "str", None, f"checked_id({id_name})"))
            path = path.replace("{id}", f"{{checked_id({id_name})}}")
        body = self._body(operation)
        fields = body["properties"] if body is not None else {}
        for api_name, schema in fields.items():
            parameter = self._field(
                api_name,
                schema,
                group,
                patch=method == "PATCH",
                is_required=body is not None and api_name in body.get("required", ()),
            )
            (positional if POSITIONAL_FIELDS.get(name) == api_name else keyword_only).append(
                parameter
            )
        keyword_only.sort(key=lambda parameter: parameter.default is not None)
        queries = [
            self._query(parameter, group)
            for parameter in operation.get("parameters", ())
            if parameter["in"] == "query"
        ]
        queries.sort(key=lambda parameter: parameter.name in {"page", "size"})
        sent = [*(p for p in positional if "checked_id" not in p.value), *keyword_only, *queries]
        keyword_only += queries
        if method == "POST":
            keyword_only.append(Parameter("idempotency_key", "str | None", "None", ""))
        response_type, response = self._response(operation)
        declared = [parameter.signature() for parameter in positional]
        declared += (
            ["*", *(parameter.signature() for parameter in keyword_only)] if keyword_only else []
        )
        path_literal = f'f"{path}"' if "{" in path else f'"{path}"'
        arguments = [path_literal, *([response] if response else [])]
        arguments += ["idempotency_key"] if method == "POST" else []
        arguments += [f"{parameter.name}={parameter.value}" for parameter in sent]
        description = sentence(operation["summary"])
        if "description" in operation:
            description = f"{description}\n\n{operation['description'].removeprefix(_EXTENSION)}"
        lines = [f"def {name}({', '.join(declared)}) -> Request[{response_type}]:"]
        lines += docstring(to_python_names(description), "    ")
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


def _format(text: str, path: Path) -> str:
    for arguments in (["check", "--fix", "--quiet", "--select", "F401,I,Q"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(path), "-"]
        text = subprocess.run(  # noqa: S603 - the formatter, run on our own source
            ruff, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def generate_files() -> dict[str, str]:
    """Return the content of each generated file by its name."""
    spec = openapi_document(Settings())
    operations = Operations(spec)
    texts = {
        "operations.py": operations.text(),
        "model.py": operations.models.text(),
        "events.py": generate_events(spec),
    }
    return {name: _format(text, CLIENT / name) for name, text in texts.items()}


if __name__ == "__main__":
    for file, text in generate_files().items():
        (CLIENT / file).write_text(text)
