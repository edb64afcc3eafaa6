"""Samples of a request in curl, Python and JavaScript, ready to run.

The key is in an environment variable, so that copied code contains no secret. Python uses the
OpenTill client if it has the operation (``python_calls.py``), else the standard library, so that a
new operation needs no change here.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from opentill.reference.python_calls import CALLS
from opentill.reference.schemas import members

_SHELL_QUOTE: Final = "'\\''"
_WIDTH: Final = 72  # a value that makes a line longer than this is split into several lines
_INDENT: Final = "    "


class Credential(msgspec.Struct, frozen=True):
    """How a request authenticates: header, prefix of its value, environment variable."""

    header: str
    scheme: str
    variable: str
    name: str  # how pages call the credential


class Sample(msgspec.Struct, frozen=True):
    """A program that makes one request."""

    language: str  # how pages call the programming language
    text: str


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The request that samples send. ``ids`` are those in the path of ``url``."""

    operation_id: str
    method: str
    url: str
    ids: tuple[str, ...]
    credential: Credential | None
    body: Any
    media_type: str
    response_type: str
    is_list: bool
    has_data: bool

    @property
    def file(self) -> str:
        """The name for a response that is a file, ``""`` for JSON."""
        if "csv" not in self.response_type:
            return ""
        last = self.url.split("?")[0].rstrip("/").rsplit("/", 2)[-2:]
        return last[-1] if last[-1].endswith(".csv") else f"{last[0]}.csv"

    @property
    def server(self) -> str:
        """The URL before the path."""
        return self.url.split("/v1/", maxsplit=1)[0]


def all_samples(request: Request) -> tuple[Sample, ...]:
    """Return a sample of a request in each language."""
    return (
        Sample("curl", curl(request)),
        Sample("Python", python(request)),
        Sample("JavaScript", javascript(request)),
    )


def curl(request: Request) -> str:
    """Return a shell command."""
    url = request.url if re.fullmatch(r"[A-Za-z0-9:/._?=%-]+", request.url) else f"'{request.url}'"
    # With -d, curl sends a POST unless -X says otherwise.
    implied = "POST" if request.body is not None else "GET"
    verb = "" if request.method == implied else f"-X {request.method} "
    lines = [f"curl {verb}{url}"]
    if request.credential:
        value = f"{request.credential.scheme}${request.credential.variable}"
        lines.append(f'-H "{request.credential.header}: {value}"')
    if request.body is not None:
        lines.append(f"-H 'Content-Type: {request.media_type}'")
        body = json.dumps(request.body, indent=2, ensure_ascii=False)
        lines.append(f"-d '{body.replace(chr(39), _SHELL_QUOTE)}'")
    if request.file:
        lines.append(f"-o {request.file}")
    return " \\\n  ".join(lines)


def python(request: Request) -> str:
    """Return a Python program, with the OpenTill client if it has the operation."""
    call = CALLS.get(request.operation_id)
    return _with_urllib(request) if call is None else _with_client(request, call)


def _with_client(request: Request, call: str) -> str:
    key = f', os.environ["{request.credential.variable}"]' if request.credential else ""
    lines = ["import os", ""] if key else []
    lines += [
        "from opentill_client import Client",
        "",
        f'with Client("{request.server}"{key}) as client:',
    ]
    arguments = [json.dumps(identifier) for identifier in request.ids]
    arguments += [
        f"{_snake(name)}={literal(value, 2)}" for name, value in members(request.body).items()
    ]
    expression = f"client.{call}({', '.join(arguments)})"
    if len(expression) > _WIDTH or "\n" in expression:
        inner = "".join(f"{_INDENT * 2}{one},\n" for one in arguments)
        expression = f"client.{call}(\n{inner}{_INDENT})"
    if request.file:
        lines.append(f'{_INDENT}{expression}.save("{request.file}")')
    elif request.is_list:
        lines += [f"{_INDENT}for one in {expression}:", f"{_INDENT * 2}print(one)"]
    elif request.has_data:
        lines.append(
            f"{_INDENT}made = {expression}"
            if "\n" in expression
            else f"{_INDENT}print({expression})"
        )
        lines += [f"{_INDENT}print(made)"] if "\n" in expression else []
    else:
        lines.append(f"{_INDENT}{expression}")
    return "\n".join(lines)


def _with_urllib(request: Request) -> str:
    imports = ["import json"]
    headers: list[str] = []
    if request.credential:
        imports.append("import os")
        value = f'os.environ["{request.credential.variable}"]'
        if request.credential.scheme:
            value = f'"{request.credential.scheme}" + {value}'
        headers.append(f'"{request.credential.header}": {value},')
    if request.method == "POST":
        imports.append("import uuid")
        headers.append('"Idempotency-Key": str(uuid.uuid4()),')
    lines = [*imports, "from urllib.request import Request, urlopen", "", "request = Request("]
    lines += [f'{_INDENT}"{request.url}",', f'{_INDENT}method="{request.method}",']
    if request.body is not None:
        headers.append(f'"Content-Type": "{request.media_type}",')
        lines.append(f"{_INDENT}data=json.dumps({literal(request.body, 1)}).encode(),")
    if headers:
        lines += [f"{_INDENT}headers={{", *(f"{_INDENT * 2}{one}" for one in headers), "    },"]
    lines += [")", "with urlopen(request) as response:"]
    shown = 'json.load(response)["data"]' if request.has_data else "json.load(response)"
    if request.file:
        lines = [one for one in lines if one != "import json" or request.body is not None]
        shown = "response.read().decode()"
    return "\n".join([*lines, f"{_INDENT}print({shown})"])


def javascript(request: Request) -> str:
    """Return a Node.js module; a key must never be in a web page."""
    headers: list[str] = []
    if request.credential:
        value = f"process.env.{request.credential.variable}"
        if request.credential.scheme:
            value = f"`{request.credential.scheme}${{{value}}}`"
        headers.append(f"{_property(request.credential.header)}: {value},")
    if request.method == "POST":
        headers.append('"Idempotency-Key": crypto.randomUUID(),')
    if request.body is not None:
        headers.append(f'"Content-Type": "{request.media_type}",')
    options: list[str] = []
    if request.method != "GET":
        options.append(f'method: "{request.method}",')
    if headers:
        options += ["headers: {", *(f"  {one}" for one in headers), "},"]
    if request.body is not None:
        body = json.dumps(request.body, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        options.append(f"body: JSON.stringify({body}),")
    inner = "".join(f"  {one}\n" for one in options)
    fetched = f'fetch("{request.url}", {{\n{inner}}})' if options else f'fetch("{request.url}")'
    read = "response.text()" if request.file else "response.json()"
    refused = "if (!response.ok) throw new Error(await response.text());"
    if request.has_data:
        return (
            f"const response = await {fetched};\n{refused}\n"
            f"const {{ data }} = await {read};\nconsole.log(data);"
        )
    return f"const response = await {fetched};\n{refused}\nconsole.log(await {read});"


def literal(value: Any, depth: int) -> str:
    """Return a JSON value as a Python literal, split into lines if it is long."""
    short = _flat(value)
    if len(short) + len(_INDENT) * depth <= _WIDTH or not isinstance(value, dict | list):
        return short
    inner, outer = _INDENT * (depth + 1), _INDENT * depth
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    lines = "".join(f"{inner}{one},\n" for one in _parts(value, depth + 1))
    return f"{opening}\n{lines}{outer}{closing}"


def _parts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in cast("dict[str, Any]", value).items():
            yield f"{json.dumps(name)}: {literal(inner, depth)}"
    else:
        for inner in value:
            yield literal(inner, depth)


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(_parts(value, -99)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_parts(value, -99)) + "]"
    if value is None or isinstance(value, bool):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _property(name: str) -> str:
    return name if name.isidentifier() else f'"{name}"'


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
