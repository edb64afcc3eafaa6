"""The client has one method for each operation of the API, with the operation's fields."""

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
# Fields of the API that the client does not have, and why.
MISSING_FIELDS: Final = {
    "display_merchant_name": "another spelling of displayMerchantName",
    "customer_name": "another spelling of customerName",
}


def request_builders(client: Any) -> dict[str, Any]:
    """Return the function that builds each method's request, by ``group.method``."""
    by_name: dict[str, Any] = {}
    for group_name, group in vars(client).items():
        for name, member in vars(type(group)).items():
            if isinstance(member, Method):
                assert callable(getattr(group, name))
                by_name[f"{group_name}.{name}"] = member.operation
    return by_name


BLOCKING: Final = request_builders(Client("http://127.0.0.1:1"))
ASYNCHRONOUS: Final = request_builders(AsyncClient("http://127.0.0.1:1"))


def example_argument(name: str) -> Any:
    """Return a value that the parameter accepts."""
    if name.endswith("_id"):
        return ID
    values = {"page": 1, "size": 20, "start_date": 1, "end_date": 2, "metadata": {"a": "b"}}
    values |= {"amount": "1.00", "price": "1.00", "events": ["order.paid"], "failed_only": True}
    values |= {"since": 1, "until": 2, "expires_at": 1, "expires_in": 1, "quantity": 1}
    values |= {"item": {"price": 1}, "max_quantity": 1, "max_uses": 1, "active": True}
    values |= {"payment_methods": ["ALIPAY"]}
    return values.get(name, "text")


def build_full_request(builder: Any) -> Request[Any]:
    """Build the request with every parameter."""
    request: Request[Any] = builder(
        **{name: example_argument(name) for name in inspect.signature(builder).parameters}
    )
    return request


def route(request: Request[Any]) -> tuple[str, str]:
    return request.method, request.path.replace(ID, "{id}")


REQUESTS: Final = {name: build_full_request(builder) for name, builder in BLOCKING.items()}
BY_ROUTE: Final = {(row.method, row.path): row for row in OPERATIONS}


def test_both_clients_have_the_same_methods() -> None:
    assert BLOCKING == ASYNCHRONOUS
    assert BLOCKING


def test_every_operation_has_exactly_one_method() -> None:
    assert sorted(route(request) for request in REQUESTS.values()) == sorted(BY_ROUTE)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_client_sends_the_fields_of_the_operation(name: str) -> None:
    request = REQUESTS[name]
    operation = BY_ROUTE[route(request)]
    fields = {field.encode_name for field in msgspec.structs.fields(operation.body)}
    assert set(msgspec.json.decode(request.body or b"{}")) == fields - set(MISSING_FIELDS)
    sent_parameters = {name.removesuffix("[a]") for name in request.query}
    assert sent_parameters == {f.encode_name for f in msgspec.structs.fields(operation.query)}
    has_key = "idempotency_key" in inspect.signature(BLOCKING[name]).parameters
    assert has_key == (operation.method == "POST")
    required = {f.encode_name for f in msgspec.structs.fields(operation.body) if f.required}
    minimal_request = build_minimal_request(BLOCKING[name])
    assert set(msgspec.json.decode(minimal_request.body or b"{}")) == required


def build_minimal_request(builder: Any) -> Request[Any]:
    """Build the request with its required parameters only."""
    parameters = inspect.signature(builder).parameters.items()
    required = [
        name for name, parameter in parameters if parameter.default is inspect.Parameter.empty
    ]
    request: Request[Any] = builder(**{name: example_argument(name) for name in required})
    return request


@pytest.mark.parametrize("name", REQUESTS)
def test_the_client_reads_the_fields_of_the_operation(name: str) -> None:
    request = REQUESTS[name]
    operation = BY_ROUTE[route(request)]
    assert_same_response(request.response, operation)


def assert_same_response(response_type: Any, operation: Operation) -> None:
    if operation.response is None:
        assert response_type is None
    elif operation.response is Download:
        assert response_type is File
    else:
        server_type = operation.response
        if getattr(server_type, "__origin__", None) is Listing:
            assert response_type.__origin__ is Page
            response_type, server_type = response_type.__args__[0], server_type.__args__[0]
        assert field_names(response_type) == field_names(server_type)
        example = msgspec.json.encode(operation.response_example)
        msgspec.json.decode(example, type=RESPONSES[operation.method, operation.path])


RESPONSES: Final = {route(request): request.response for request in REQUESTS.values()}


def field_names(struct: Any) -> list[str]:
    return sorted(field.encode_name for field in msgspec.structs.fields(struct))


@pytest.mark.parametrize("builder", BLOCKING.values(), ids=BLOCKING)
def test_every_method_has_a_docstring(builder: Any) -> None:
    assert builder.__doc__.strip().endswith(".")


def test_importing_the_client_imports_no_server_module() -> None:
    program = (
        "import sys, opentill.client\n"
        "ours = {name for name in sys.modules if name.startswith('opentill')}\n"
        "print(*sorted(n for n in ours if not n.startswith('opentill.client')))\n"
        "heavy = {'starlette', 'asyncpg', 'uvicorn', 'jinja2', 'typer', 'stripe', 'cryptography'}\n"
        "print(*sorted(heavy & set(sys.modules)))\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert process.stdout == "opentill\n\n"


def test_the_client_may_import_no_package_of_the_server() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())
    (contract,) = [
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("source_modules") == ["opentill.client"]
    ]
    packages = {f"opentill.{module.name}" for module in pkgutil.iter_modules(opentill.__path__)}
    assert {*contract["forbidden_modules"]} == packages - {"opentill.client"}
