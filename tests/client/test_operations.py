"""The client against the API's own table: every operation, once, with the same fields."""

import inspect
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

import opentill
from opentill.app import OPERATIONS
from opentill.client import AsyncClient, Client
from opentill.client.connection import Method
from opentill.client.pages import Page
from opentill.client.request import File, Request
from opentill.http.operations import Operation
from opentill.http.paging import Listing
from opentill.http.responses import Download

TOP: Final = Path(__file__).parents[2]
ID: Final = "order_01m7y0m0jzefzv5n8efcf1hqw1"
# Fields of the API that the client leaves out, and why.
LEFT_OUT: Final = {
    "display_merchant_name": "another spelling of displayMerchantName",
    "customer_name": "another spelling of customerName",
}


def methods(client: Any) -> dict[str, Any]:
    """Return the functions of ``operations.py`` by ``group.method``."""
    by_name: dict[str, Any] = {}
    for group_name, group in vars(client).items():
        for name, member in vars(type(group)).items():
            if isinstance(member, Method):
                assert callable(getattr(group, name))
                by_name[f"{group_name}.{name}"] = member.operation
    return by_name


BLOCKING: Final = methods(Client("http://127.0.0.1:1"))
ASYNCHRONOUS: Final = methods(AsyncClient("http://127.0.0.1:1"))


def example(name: str) -> Any:
    """Return something that the parameter takes."""
    if name.endswith("_id"):
        return ID
    values = {"page": 1, "size": 20, "start_date": 1, "end_date": 2, "metadata": {"a": "b"}}
    values |= {"amount": "1.00", "price": "1.00", "events": ["order.paid"], "failed_only": True}
    values |= {"since": 1, "until": 2, "expires_at": 1, "expires_in": 1, "quantity": 1}
    values |= {"item": {"price": 1}, "max_quantity": 1, "max_uses": 1, "active": True}
    values |= {"payment_methods": ["ALIPAY"]}
    return values.get(name, "text")


def called(make: Any) -> Request[Any]:
    """Make the request with every parameter."""
    request: Request[Any] = make(
        **{name: example(name) for name in inspect.signature(make).parameters}
    )
    return request


def route(request: Request[Any]) -> tuple[str, str]:
    return request.method, request.path.replace(ID, "{id}")


REQUESTS: Final = {name: called(make) for name, make in BLOCKING.items()}
BY_ROUTE: Final = {(row.method, row.path): row for row in OPERATIONS}


def test_both_clients_have_the_same_methods_of_the_same_operations() -> None:
    assert BLOCKING == ASYNCHRONOUS
    assert BLOCKING


def test_every_operation_is_one_method() -> None:
    assert sorted(route(request) for request in REQUESTS.values()) == sorted(BY_ROUTE)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_client_sends_the_fields_of_the_operation(name: str) -> None:
    request = REQUESTS[name]
    operation = BY_ROUTE[route(request)]
    fields = {field.encode_name for field in msgspec.structs.fields(operation.body)}
    assert set(msgspec.json.decode(request.body or b"{}")) == fields - set(LEFT_OUT)
    sent = {name.removesuffix("[a]") for name in request.query}
    assert sent == {f.encode_name for f in msgspec.structs.fields(operation.query)}
    has_key = "idempotency_key" in inspect.signature(BLOCKING[name]).parameters
    assert has_key == (operation.method == "POST")
    required = {f.encode_name for f in msgspec.structs.fields(operation.body) if f.required}
    bare = called_with_required(BLOCKING[name])
    assert set(msgspec.json.decode(bare.body or b"{}")) == required


def called_with_required(make: Any) -> Request[Any]:
    """Make the request with nothing that may be left out."""
    parameters = inspect.signature(make).parameters.items()
    must = [name for name, parameter in parameters if parameter.default is inspect.Parameter.empty]
    request: Request[Any] = make(**{name: example(name) for name in must})
    return request


@pytest.mark.parametrize("name", REQUESTS)
def test_the_client_reads_the_fields_of_the_operation(name: str) -> None:
    request = REQUESTS[name]
    operation = BY_ROUTE[route(request)]
    assert_same_response(request.response, operation)


def assert_same_response(answer: Any, operation: Operation) -> None:
    if operation.response is None:
        assert answer is None
    elif operation.response is Download:
        assert answer is File
    else:
        theirs = operation.response
        if getattr(theirs, "__origin__", None) is Listing:
            assert answer.__origin__ is Page
            answer, theirs = answer.__args__[0], theirs.__args__[0]
        assert fields_of(answer) == fields_of(theirs)
        shown = msgspec.json.encode(operation.response_example)
        msgspec.json.decode(shown, type=RESPONSES[operation.method, operation.path])


RESPONSES: Final = {route(request): request.response for request in REQUESTS.values()}


def fields_of(struct: Any) -> list[str]:
    return sorted(field.encode_name for field in msgspec.structs.fields(struct))


@pytest.mark.parametrize("make", BLOCKING.values(), ids=BLOCKING)
def test_every_method_has_a_docstring(make: Any) -> None:
    assert make.__doc__.strip().endswith(".")


def test_importing_the_client_imports_nothing_of_the_server() -> None:
    program = (
        "import sys, opentill.client\n"
        "ours = {name for name in sys.modules if name.startswith('opentill')}\n"
        "print(*sorted(n for n in ours if not n.startswith('opentill.client')))\n"
        "heavy = {'starlette', 'asyncpg', 'uvicorn', 'jinja2', 'typer', 'stripe', 'cryptography'}\n"
        "print(*sorted(heavy & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "opentill\n\n"


def test_the_contract_of_imports_names_every_package_of_the_server() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())
    (contract,) = [
        one
        for one in settings["tool"]["importlinter"]["contracts"]
        if one.get("source_modules") == ["opentill.client"]
    ]
    ours = {f"opentill.{module.name}" for module in pkgutil.iter_modules(opentill.__path__)}
    assert {*contract["forbidden_modules"]} == ours - {"opentill.client"}
