"""Generate the types and methods of ``clients/javascript`` from the OpenAPI document.

`make client` runs it. ``CALLS`` of ``opentill.reference`` maps operations to methods, as for the
Python client, so that both clients have the same methods; names are in camelCase here. A test
compares the files in the repository with the output of this program (decision 0096).
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from opentill import __version__
from opentill.app import openapi_document
from opentill.core.settings import Settings
from opentill.http.fields import is_decimal
from opentill.reference.python_calls import CALLS

FOLDER: Final = Path(__file__).parents[1] / "clients" / "javascript" / "src"
_WIDTH: Final = 96
_GENERATED: Final = "// Generated from the OpenAPI document by `make client`: do not edit.\n"
_TIME: Final = re.compile(r"Unix (ms|milliseconds)\b")  # the description of each time contains this
_EXTENSION: Final = "An extension of the contract. "  # is left out of the client's descriptions
_EVENT: Final = "EventBody"  # the schema of an event of any type; the client has `Event` instead
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
_SERVER_ONLY: Final = frozenset({"Failure", "Detail", "Done"})  # only src/send.ts reads these

Json = dict[str, Any]


class Operation(NamedTuple):
    """A method of the client, and its operation in the document."""

    group: str
    name: str
    method: str
    path: str
    spec: Json


def _camel(text: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), text)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _comment(text: str, indent: str = "") -> Iterator[str]:
    """Yield a documentation comment, on one line if it fits."""
    text = text.replace("*/", "*\\/")
    if len(indent) + len(text) + 7 <= _WIDTH and "\n" not in text:
        yield f"{indent}/** {text} */"
        return
    yield f"{indent}/**"
    for paragraph in text.split("\n\n"):
        if paragraph != text.split("\n\n")[0]:
            yield f"{indent} *"
        for line in textwrap.wrap(paragraph, _WIDTH - len(indent) - 3):
            yield f"{indent} * {line}"
    yield f"{indent} */"


class Types:
    """The TypeScript types of the document's schemas, in requests and in responses."""

    def __init__(self, schemas: Mapping[str, Json]) -> None:
        """``schemas`` are the components of the document."""
        self.schemas = schemas
        self.request_schemas: set[str] = set()  # schemas of bodies, and those to which they refer

    def type_of(self, schema: Json, *, is_request: bool) -> str:
        """Return the type of a schema. Raises ValueError for an unknown kind of schema."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if "additionalProperties" in self.schemas.get(name, ()):
                return self.type_of(self.schemas[name], is_request=is_request)
            return "Event" if name == _EVENT else name
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            values = " | ".join(json.dumps(value) for value in schema["enum"])
            return values if is_request else f"{values} | Later"
        if "anyOf" in schema:
            return " | ".join(self.type_of(part, is_request=is_request) for part in schema["anyOf"])
        kinds = schema.get("type", ())
        names = [kinds] if isinstance(kinds, str) else list(kinds)
        if not names:
            message = f"a schema without a type: {schema}"
            raise ValueError(message)
        return " | ".join(self._type_of_kind(kind, schema, is_request=is_request) for kind in names)

    def _type_of_kind(self, kind: str, schema: Json, *, is_request: bool) -> str:
        if kind == "null":
            return "null"
        if kind == "array":
            inner = schema["items"]
            if set(inner.get("required", ())) == {"id", "type", "created_at", "data"}:
                return "Event[]"  # an item with these fields is an event
            type_ = self.type_of(inner, is_request=is_request)
            type_ = f"({type_})" if " | " in type_ else type_
            return f"readonly {type_}[]" if is_request else f"{type_}[]"
        if kind == "object":
            values = schema.get("additionalProperties")
            value = "unknown"
            if isinstance(values, dict):
                value = self.type_of(values, is_request=is_request)
            return f"Record<string, {value}>"
        type_ = _PLAIN[kind]
        return "number | Date" if is_request and type_ == "number" and _is_time(schema) else type_

    def interface(self, name: str) -> Iterator[str]:
        """Yield the interface of a component."""
        schema, is_request = self.schemas[name], name in self.request_schemas
        yield from _comment(schema.get("description", name))
        yield f"export interface {name} {{"
        required = set(schema.get("required", ()))
        for field, inner in schema.get("properties", {}).items():
            yield from self.member(field, inner, is_request=is_request, required=field in required)
        yield "}"

    def member(self, name: str, schema: Json, *, is_request: bool, required: bool) -> Iterator[str]:
        """Yield one field with its description."""
        if "description" in schema:
            yield from _comment(_sentence(schema["description"]), "  ")
        type_ = self.type_of(schema, is_request=is_request)
        absent = " | undefined" if is_request and not required else ""
        yield f"  {name}{'' if required else '?'}: {type_}{absent};"


def _sentence(text: str) -> str:
    text = _capital(text)
    return text if text.endswith((".", "!", "?", "`", ":")) else f"{text}."


def _is_time(schema: Json) -> bool:
    return (
        schema.get("format") == "int64" and _TIME.search(schema.get("description", "")) is not None
    )


def _referenced(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].rpartition("/")[2]
        for inner in schema.values():
            yield from _referenced(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _referenced(inner)


def _closure(names: set[str], schemas: Mapping[str, Json]) -> set[str]:
    """Return the schemas and all schemas to which they refer, by name."""
    closure, pending = set[str](), list(names)
    while pending:
        name = pending.pop()
        if name not in closure:
            closure.add(name)
            pending += _referenced(schemas[name])
    return closure


def list_operations(document: Json) -> list[Operation]:
    """Return the operations of the client's methods, in the order of ``CALLS``."""
    by_id = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    operations = []
    for operation_id, call in CALLS.items():
        group, _, name = call.partition(".")
        operations.append(Operation(_camel(group), _camel(name), *by_id[operation_id]))
    return operations


def _body(operation: Operation) -> Json | None:
    content = operation.spec.get("requestBody", {}).get("content", {})
    schema: Json | None = content.get("application/json", {}).get("schema")
    return schema


def _data(operation: Operation, schemas: Mapping[str, Json]) -> Json | None:
    """Return the schema of the response's ``data``, or None if it has none."""
    (content,) = (
        response["content"]
        for status, response in operation.spec["responses"].items()
        if status[0] == "2"
    )
    if "application/json" not in content:
        return {"file": True}
    envelope = schemas[content["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    data: Json | None = envelope["properties"].get("data")
    return data


def _parameters(operation: Operation, location: str) -> list[Json]:
    parameters = operation.spec.get("parameters", ())
    return [parameter for parameter in parameters if parameter["in"] == location]


def _amounts(fields: Mapping[str, Json], schemas: Mapping[str, Json]) -> Iterator[str]:
    """Yield the names of amounts. Those of nested objects look like ``item.price``."""
    for name, schema in fields.items():
        if is_decimal(schema):
            yield name
        for inner in _referenced(schema):
            inner_amounts = _amounts(schemas[inner].get("properties", {}), schemas)
            yield from (f"{name}.{inner_name}" for inner_name in inner_amounts)


class Methods:
    """Generates the methods of all resources."""

    def __init__(self, document: Json) -> None:
        """``document`` is the OpenAPI document."""
        self.schemas: Mapping[str, Json] = document["components"]["schemas"]
        self.operations = list_operations(document)
        self.tags = {tag["name"]: tag.get("description", "") for tag in document["tags"]}
        self.types = Types(self.schemas)
        bodies = {name for each in self.operations for name in _referenced(_body(each))}
        self.types.request_schemas = _closure(bodies, self.schemas)
        self.used_types: set[str] = set()  # the types that signatures of methods contain

    def query_name(self, operation: Operation) -> str:
        """Return the type of a method's query parameters, or "" if it has none."""
        if not _parameters(operation, "query"):
            return ""
        return f"{_capital(operation.group)}{_capital(operation.name)}Query"

    def queries(self) -> Iterator[str]:
        """Yield the types of query parameters."""
        for operation in self.operations:
            if name := self.query_name(operation):
                yield from (
                    "",
                    *_comment(f"The query parameters of {operation.group}.{operation.name}."),
                )
                yield f"export interface {name} {{"
                for parameter in _parameters(operation, "query"):
                    schema = parameter["schema"] | {"description": parameter["description"]}
                    yield from self.types.member(
                        parameter["name"], schema, is_request=True, required=parameter["required"]
                    )
                yield "}"

    def resources(self) -> Iterator[str]:
        """Yield a class for each resource, and one with all of them."""
        groups: dict[str, list[Operation]] = {}
        for operation in self.operations:
            groups.setdefault(operation.group, []).append(operation)
        for group, members in groups.items():
            tag = members[0].spec["tags"][0]
            groups_of_tag = {
                operation.group for operation in self.operations if operation.spec["tags"][0] == tag
            }
            description = self.tags[tag] if groups_of_tag == {group} else f"`client.{group}`."
            yield from ("", *_comment(description or group))
            yield f"export class {_capital(group)}Resource extends Resource {{"
            for number, operation in enumerate(members):
                yield from [""] if number else []
                yield from self._method(operation)
            yield "}"
        yield from ("", *_comment("All operations, by resource."), "export class Resources {")
        yield from (f"  readonly {group}: {_capital(group)}Resource;" for group in groups)
        yield from ("", "  constructor(sender: Sender) {")
        yield from (
            f"    this.{group} = new {_capital(group)}Resource(sender);" for group in groups
        )
        yield from ("  }", "}")

    def _method(self, operation: Operation) -> Iterator[str]:
        spec, body = operation.spec, _body(operation)
        comment = _sentence(spec["summary"])
        if "description" in spec:
            comment = f"{comment}\n\n{spec['description'].removeprefix(_EXTENSION)}"
        yield from _comment(f"{comment}\n\n`{operation.method} {operation.path}`", "  ")
        parts = [f'method: "{operation.method}"', f'path: "{operation.path}"']
        parameters: list[str] = []
        for parameter in _parameters(operation, "path"):
            parameters.append(f"{parameter['name']}: string")
            parts.append(parameter["name"])
        fields: Mapping[str, Json] = {}
        if body is not None:
            name = self._use_type(body, is_request=True)
            parameters.append(
                f"body: {name}{'' if spec['requestBody'].get('required') else ' = {}'}"
            )
            parts.append("body")
            fields = self.schemas[name]["properties"]
        if query := self.query_name(operation):
            self.used_types.add(query)
            required = any(each["required"] for each in _parameters(operation, "query"))
            parameters.append(f"query: {query}{'' if required else ' = {}'}")
            parts.append("query")
            fields = {each["name"]: each["schema"] for each in _parameters(operation, "query")}
        if amounts := list(_amounts(fields, self.schemas)):
            parts.append(f"amounts: {json.dumps(amounts)}")
        is_post = operation.method == "POST"
        parameters.append(f"options: {'Post' if is_post else 'Request'}Options = {{}}")
        return_type, call = self._return_type(operation)
        head, request = f"  {operation.name}(", f"{{ {', '.join(parts)} }}"
        line = f"{head}{', '.join(parameters)}): {return_type} {{"
        yield from (
            [line]
            if len(line) <= _WIDTH
            else _wrap_call(head, parameters, f"  ): {return_type} {{")
        )
        line = f"    return {call}({request}, options);"
        if len(line) <= _WIDTH:
            yield line
        else:
            yield from _wrap_call(f"    return {call}(", [request, "options"], "    );")
        yield "  }"

    def _return_type(self, operation: Operation) -> tuple[str, str]:
        """Return the return type of a method, and the call that returns it."""
        data = _data(operation, self.schemas)
        if data is None:
            return "Promise<void>", "this.nothing"
        if "file" in data:
            return "Download", "this.file"
        name = self._use_type(data, is_request=False)
        schema = self.schemas.get(name, {})
        if set(schema.get("properties", ())) == {"items", "pagination"}:
            item = self._use_type(schema["properties"]["items"]["items"], is_request=False)
            self.used_types.discard(name)
            return f"Pages<{item}>", f"this.pages<{item}>"
        return f"Promise<{name}>", f"this.data<{name}>"

    def _use_type(self, schema: Json, *, is_request: bool) -> str:
        name = self.types.type_of(schema, is_request=is_request)
        self.used_types.add(name)
        return name


def _wrap_call(head: str, parts: list[str], end: str) -> Iterator[str]:
    indent = " " * (len(head) - len(head.lstrip()) + 2)
    yield head
    yield from (f"{indent}{part}," for part in parts)
    yield end


def generate_files() -> dict[str, str]:
    """Return the content of each generated file by its name."""
    document = openapi_document(Settings())
    methods = Methods(document)
    resources = list(methods.resources())
    types = methods.types
    events = [
        next(_referenced(webhook["post"]["requestBody"]))
        for webhook in document["webhooks"].values()
    ]
    names = (
        {name for name in methods.used_types if name in types.schemas}
        | types.request_schemas
        | {*events}
    )
    names.add("Pagination")  # src/pages.ts uses this type for every list
    declared = _closure(names, types.schemas) - _SERVER_ONLY - {_EVENT}
    lines = [_GENERATED, *_comment("A value that a later version of the API may add.")]
    lines.append("export type Later = string & {};")
    for name in types.schemas:
        if name in declared:
            lines += ["", *types.interface(name)]
    lines += [*methods.queries(), "", *_comment("Any event. Another `type` may come: ignore it.")]
    lines += ["export type Event =", *(f"  | {name}" for name in events)]
    lines[-1] += ";"
    imported = sorted(methods.used_types)
    heads = [
        _GENERATED,
        'import type { Download } from "./download.js";',
        'import type { Pages } from "./pages.js";',
        'import { Resource } from "./resource.js";',
        'import type { PostOptions, RequestOptions, Sender } from "./send.js";',
        "import type {",
        *(f"  {name}," for name in imported),
        '} from "./types.js";',
    ]
    version = (
        f"{_GENERATED}\n/** The version of this package. */\n"
        f'export const VERSION = "{__version__}";'
    )
    return {
        "types.ts": "\n".join(lines) + "\n",
        "resources.ts": "\n".join([*heads, *resources]) + "\n",
        "version.ts": version + "\n",
    }


if __name__ == "__main__":
    for file, text in generate_files().items():
        (FOLDER / file).write_text(text)
