"""Generates the types and methods of ``clients/javascript`` from the OpenAPI document.

`make client` runs it. ``CALLS`` of ``opentill.reference`` maps operations to methods, as for the
Python client, so both have the same methods under the same names, in camelCase here. A test
compares the files in the repository with what is generated here (decision 0096).
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

PLACE: Final = Path(__file__).parents[1] / "clients" / "javascript" / "src"
_WIDTH: Final = 96
_GENERATED: Final = "// Generated from the OpenAPI document by `make client`: do not edit.\n"
_TIME: Final = re.compile(r"Unix (ms|milliseconds)\b")  # in the description of a time
_EXTENSION: Final = "An extension of the contract. "  # of no interest to users of the client
_EVENT: Final = "EventBody"  # any event; `Event` is the union of all
_PLAIN: Final = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
_ONLY_SERVERS: Final = frozenset({"Failure", "Detail", "Done"})  # of every response: src/send.ts

Json = dict[str, Any]


class Operation(NamedTuple):
    """One method: its names and its operation in the document."""

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
    """The types of the document's schemas, for sent requests and for responses."""

    def __init__(self, schemas: Mapping[str, Json]) -> None:
        """``schemas`` are the components of the document."""
        self.schemas = schemas
        self.sent: set[str] = set()  # names of bodies and of the schemas that they refer to

    def type_of(self, schema: Json, *, sent: bool) -> str:
        """Return the type of a schema. Raises ValueError for an unknown kind of schema."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if "additionalProperties" in self.schemas.get(name, ()):
                return self.type_of(self.schemas[name], sent=sent)
            return "Event" if name == _EVENT else name
        if "const" in schema:
            return json.dumps(schema["const"])
        if "enum" in schema:
            values = " | ".join(json.dumps(value) for value in schema["enum"])
            return values if sent else f"{values} | Later"
        if "anyOf" in schema:
            return " | ".join(self.type_of(one, sent=sent) for one in schema["anyOf"])
        kinds = schema.get("type", ())
        names = [kinds] if isinstance(kinds, str) else list(kinds)
        if not names:
            message = f"a schema without a type: {schema}"
            raise ValueError(message)
        return " | ".join(self._type_of_kind(kind, schema, sent=sent) for kind in names)

    def _type_of_kind(self, kind: str, schema: Json, *, sent: bool) -> str:
        if kind == "null":
            return "null"
        if kind == "array":
            inner = schema["items"]
            if set(inner.get("required", ())) == {"id", "type", "created_at", "data"}:
                return "Event[]"  # as they are delivered
            type_ = self.type_of(inner, sent=sent)
            type_ = f"({type_})" if " | " in type_ else type_
            return f"readonly {type_}[]" if sent else f"{type_}[]"
        if kind == "object":
            rest = schema.get("additionalProperties")
            value = self.type_of(rest, sent=sent) if isinstance(rest, dict) else "unknown"
            return f"Record<string, {value}>"
        type_ = _PLAIN[kind]
        return "number | Date" if sent and type_ == "number" and _is_time(schema) else type_

    def interface(self, name: str) -> Iterator[str]:
        """Yield the interface of a component."""
        schema, sent = self.schemas[name], name in self.sent
        yield from _comment(schema.get("description", name))
        yield f"export interface {name} {{"
        required = set(schema.get("required", ()))
        for field, inner in schema.get("properties", {}).items():
            yield from self.member(field, inner, sent=sent, required=field in required)
        yield "}"

    def member(self, name: str, schema: Json, *, sent: bool, required: bool) -> Iterator[str]:
        """Yield one field with its description."""
        if "description" in schema:
            yield from _comment(_sentence(schema["description"]), "  ")
        type_ = self.type_of(schema, sent=sent)
        absent = " | undefined" if sent and not required else ""
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
    """Return the names and all names that they refer to."""
    closure, rest = set[str](), list(names)
    while rest:
        name = rest.pop()
        if name not in closure:
            closure.add(name)
            rest += _referenced(schemas[name])
    return closure


def operations(document: Json) -> list[Operation]:
    """Return the operations that are methods, in the order of ``CALLS``."""
    by_id = {
        operation["operationId"]: (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    methods_ = []
    for operation_id, call in CALLS.items():
        group, _, name = call.partition(".")
        methods_.append(Operation(_camel(group), _camel(name), *by_id[operation_id]))
    return methods_


def _body(operation: Operation) -> Json | None:
    content = operation.spec.get("requestBody", {}).get("content", {})
    schema: Json | None = content.get("application/json", {}).get("schema")
    return schema


def _data(operation: Operation, schemas: Mapping[str, Json]) -> Json | None:
    """Return the schema of ``data``, None if the response has none."""
    (content,) = (
        one["content"] for status, one in operation.spec["responses"].items() if status[0] == "2"
    )
    if "application/json" not in content:
        return {"file": True}
    envelope = schemas[content["application/json"]["schema"]["$ref"].rpartition("/")[2]]
    data: Json | None = envelope["properties"].get("data")
    return data


def _parameters(operation: Operation, place: str) -> list[Json]:
    return [one for one in operation.spec.get("parameters", ()) if one["in"] == place]


def _amounts(fields: Mapping[str, Json], schemas: Mapping[str, Json]) -> Iterator[str]:
    """Yield the names of amounts; those of inner objects as ``item.price``."""
    for name, schema in fields.items():
        if is_decimal(schema):
            yield name
        for inner in _referenced(schema):
            inner_amounts = _amounts(schemas[inner].get("properties", {}), schemas)
            yield from (f"{name}.{one}" for one in inner_amounts)


class Methods:
    """The methods of all resources."""

    def __init__(self, document: Json) -> None:
        """``document`` is the OpenAPI document."""
        self.schemas: Mapping[str, Json] = document["components"]["schemas"]
        self.operations = operations(document)
        self.tags = {tag["name"]: tag.get("description", "") for tag in document["tags"]}
        self.types = Types(self.schemas)
        bodies = {name for one in self.operations for name in _referenced(_body(one))}
        self.types.sent = _closure(bodies, self.schemas)
        self.used: set[str] = set()  # names of types in signatures

    def query_name(self, operation: Operation) -> str:
        """Return the type name of a method's query parameters, "" without any."""
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
                        parameter["name"], schema, sent=True, required=parameter["required"]
                    )
                yield "}"

    def resources(self) -> Iterator[str]:
        """Yield a class for each resource, and one with all of them."""
        groups: dict[str, list[Operation]] = {}
        for operation in self.operations:
            groups.setdefault(operation.group, []).append(operation)
        for group, members in groups.items():
            tag = members[0].spec["tags"][0]
            sharing = {
                operation.group for operation in self.operations if operation.spec["tags"][0] == tag
            }
            about = self.tags[tag] if sharing == {group} else f"`client.{group}`."
            yield from ("", *_comment(about or group))
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
        takes: list[str] = []
        for parameter in _parameters(operation, "path"):
            takes.append(f"{parameter['name']}: string")
            parts.append(parameter["name"])
        fields: Mapping[str, Json] = {}
        if body is not None:
            name = self._named(body, sent=True)
            takes.append(f"body: {name}{'' if spec['requestBody'].get('required') else ' = {}'}")
            parts.append("body")
            fields = self.schemas[name]["properties"]
        if query := self.query_name(operation):
            self.used.add(query)
            required = any(one["required"] for one in _parameters(operation, "query"))
            takes.append(f"query: {query}{'' if required else ' = {}'}")
            parts.append("query")
            fields = {one["name"]: one["schema"] for one in _parameters(operation, "query")}
        if amounts := list(_amounts(fields, self.schemas)):
            parts.append(f"amounts: {json.dumps(amounts)}")
        post = operation.method == "POST"
        takes.append(f"options: {'Post' if post else 'Request'}Options = {{}}")
        returns, call = self._returned(operation)
        head, request = f"  {operation.name}(", f"{{ {', '.join(parts)} }}"
        line = f"{head}{', '.join(takes)}): {returns} {{"
        yield from [line] if len(line) <= _WIDTH else _broken(head, takes, f"  ): {returns} {{")
        line = f"    return {call}({request}, options);"
        if len(line) <= _WIDTH:
            yield line
        else:
            yield from _broken(f"    return {call}(", [request, "options"], "    );")
        yield "  }"

    def _returned(self, operation: Operation) -> tuple[str, str]:
        """Return the return type of a method, and the call that returns it."""
        data = _data(operation, self.schemas)
        if data is None:
            return "Promise<void>", "this.nothing"
        if "file" in data:
            return "Download", "this.file"
        name = self._named(data, sent=False)
        schema = self.schemas.get(name, {})
        if set(schema.get("properties", ())) == {"items", "pagination"}:
            item = self._named(schema["properties"]["items"]["items"], sent=False)
            self.used.discard(name)
            return f"Pages<{item}>", f"this.pages<{item}>"
        return f"Promise<{name}>", f"this.data<{name}>"

    def _named(self, schema: Json, *, sent: bool) -> str:
        name = self.types.type_of(schema, sent=sent)
        self.used.add(name)
        return name


def _broken(head: str, parts: list[str], end: str) -> Iterator[str]:
    indent = " " * (len(head) - len(head.lstrip()) + 2)
    yield head
    yield from (f"{indent}{part}," for part in parts)
    yield end


def generated() -> dict[str, str]:
    """Return the text of each generated file by its name."""
    document = openapi_document(Settings())
    methods = Methods(document)
    resources = list(methods.resources())
    types = methods.types
    events = [
        next(_referenced(one["post"]["requestBody"])) for one in document["webhooks"].values()
    ]
    names = {name for name in methods.used if name in types.schemas} | types.sent | {*events}
    names.add("Pagination")  # of every list: src/pages.ts
    shown = _closure(names, types.schemas) - _ONLY_SERVERS - {_EVENT}
    lines = [_GENERATED, *_comment("A value that a later version of the API may add.")]
    lines.append("export type Later = string & {};")
    for name in types.schemas:
        if name in shown:
            lines += ["", *types.interface(name)]
    lines += [*methods.queries(), "", *_comment("Any event. Another `type` may come: ignore it.")]
    lines += ["export type Event =", *(f"  | {name}" for name in events)]
    lines[-1] += ";"
    imported = sorted(methods.used)
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
    for file, text in generated().items():
        (PLACE / file).write_text(text)
