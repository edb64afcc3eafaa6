"""The client against the API's own table: every operation, once, with the same fields."""

import inspect
import subprocess
import sys
from typing import Any, Final

import msgspec
import pytest

from opentill.app import OPERATIONS
from opentill.client import AsyncClient, Client, asynchronous, blocking
from opentill.client.calls import Call, File
from opentill.client.model import Page
from opentill.http.operations import Operation
from opentill.http.paging import Listing
from opentill.http.responses import Download

ID: Final = "order_01m7y0m0jzefzv5n8efcf1hqw1"
# Fields of the API that the client leaves out, and why.
LEFT_OUT: Final = {
    "display_merchant_name": "another spelling of displayMerchantName",
}


def methods(client: Any) -> dict[str, Any]:
    """Return the functions of ``operations.py`` by ``group.method``."""
    found: dict[str, Any] = {}
    for group_name, group in vars(client).items():
        for name, member in vars(type(group)).items():
            if hasattr(member, "make"):
                assert callable(getattr(group, name))
                found[f"{group_name}.{name}"] = member.make
    return found


BLOCKING: Final = methods(Client("http://127.0.0.1:1"))
ASYNCHRONOUS: Final = methods(AsyncClient("http://127.0.0.1:1"))


def example(name: str) -> Any:
    """Return something that the parameter takes."""
    if name.endswith("_id"):
        return ID
    values = {"page": 1, "size": 20, "start_date": 1, "end_date": 2, "metadata": {"a": "b"}}
    values |= {"amount": "1.00", "price": "1.00", "events": ["order.paid"], "failed_only": True}
    values |= {"since": 1, "until": 2}
    return values.get(name, "text")


def called(make: Any) -> Call[Any]:
    """Make the call with every parameter."""
    call: Call[Any] = make(**{name: example(name) for name in inspect.signature(make).parameters})
    return call


def route(call: Call[Any]) -> tuple[str, str]:
    return call.verb, call.path.replace(ID, "{id}")


CALLS: Final = {name: called(make) for name, make in BLOCKING.items()}
BY_ROUTE: Final = {(row.method, row.path): row for row in OPERATIONS}


def test_both_clients_have_the_same_methods_of_the_same_operations() -> None:
    assert BLOCKING == ASYNCHRONOUS
    assert BLOCKING


def test_both_clients_have_the_same_groups_and_kinds_of_methods() -> None:
    for group, other in zip(
        vars(Client("http://127.0.0.1:1")).values(),
        vars(AsyncClient("http://127.0.0.1:1")).values(),
        strict=True,
    ):
        kinds = {name: type(member).__name__ for name, member in vars(type(group)).items()}
        others = {name: type(member).__name__ for name, member in vars(type(other)).items()}
        if isinstance(group, blocking.Group):
            assert isinstance(other, asynchronous.Group)
            assert kinds == others
            assert type(group).__doc__ == type(other).__doc__


def test_every_operation_is_one_method() -> None:
    assert sorted(route(call) for call in CALLS.values()) == sorted(BY_ROUTE)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_sent_is_what_the_operation_takes(name: str) -> None:
    call = CALLS[name]
    operation = BY_ROUTE[route(call)]
    fields = {field.encode_name for field in msgspec.structs.fields(operation.body)}
    assert set(msgspec.json.decode(call.body or b"{}")) == fields - set(LEFT_OUT)
    assert set(call.query) == {f.encode_name for f in msgspec.structs.fields(operation.query)}
    has_key = "idempotency_key" in inspect.signature(BLOCKING[name]).parameters
    assert has_key == (operation.method == "POST")
    required = {f.encode_name for f in msgspec.structs.fields(operation.body) if f.required}
    bare = called_with_required(BLOCKING[name])
    assert set(msgspec.json.decode(bare.body or b"{}")) == required


def called_with_required(make: Any) -> Call[Any]:
    """Make the call with nothing that may be left out."""
    parameters = inspect.signature(make).parameters.items()
    must = [name for name, parameter in parameters if parameter.default is inspect.Parameter.empty]
    call: Call[Any] = make(**{name: example(name) for name in must})
    return call


@pytest.mark.parametrize("name", CALLS)
def test_what_is_read_is_what_the_operation_answers(name: str) -> None:
    call = CALLS[name]
    operation = BY_ROUTE[route(call)]
    same(call.answer, operation)


def same(answer: Any, operation: Operation) -> None:
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
        msgspec.json.decode(shown, type=CALL_TYPES[operation.method, operation.path])


CALL_TYPES: Final = {route(call): call.answer for call in CALLS.values()}


def fields_of(struct: Any) -> list[str]:
    return sorted(field.encode_name for field in msgspec.structs.fields(struct))


@pytest.mark.parametrize("make", BLOCKING.values(), ids=BLOCKING)
def test_every_method_says_what_it_does(make: Any) -> None:
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
