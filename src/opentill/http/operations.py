"""An operation: one route of the API with its checks, its documentation and its handler.

An ``Operation`` is a row that says everything about a route. ``handling.py`` runs it,
``routing.py`` finds it, and ``openapi.py`` documents it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from opentill.context import App
from opentill.db import rate_limits
from opentill.db.database import Tx

B = TypeVar("B")
Q = TypeVar("Q")


class ApiRequest(msgspec.Struct, Generic[Q, B], frozen=True, kw_only=True):
    """A request whose checks it has passed: of which merchant, and what it asks for."""

    app: App
    merchant_id: str  # "" for an operation without authentication
    now: int  # Unix ms
    path: Mapping[str, str]
    query: Q
    body: B
    key_id: str = ""  # of the merchant's API key
    access: Any = None  # of a person who is logged in: what they may do (people/model.py)
    who: str = ""  # the person, as the audit log names them
    browser: tuple[str, str] = ("", "")  # address, and what the client calls itself


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may make a request, at which merchant."""

    merchant_id: str
    access: Any
    who: str


class Nothing(msgspec.Struct, frozen=True):
    """No query parameters, or no body."""


Read = Callable[[ApiRequest[Any, Any]], Awaitable[Any]]
Admit = Callable[[App, str, str, int], Awaitable[Admitted]]  # token, address, now
Write = Callable[[ApiRequest[Any, Any], Tx], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the API. Exactly one of ``read``, ``write`` and ``act`` is given.

    ``write`` runs in a transaction of its own with the Idempotency-Key, if there is one; ``act``
    takes a body and has transactions of its own, if any, and knows no Idempotency-Key.
    ``admit`` lets in persons, by their token, and no API key; ``permission`` is what it asks for.
    ``scope`` is what a restricted API key needs (people/permissions.py has them all).
    ``response`` is the struct of ``data``, None for a response without data, or ``Download``.
    """

    method: str
    path: str
    tag: str
    summary: str
    response: Any
    read: Read | None = None
    write: Write | None = None
    act: Read | None = None
    autocommit: bool = False  # ``write`` changes all by its last statement: that is its transaction
    status: int = 200
    id_of: Callable[[str], str] | None = None  # of another name that may stand in the path's place
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] = Nothing
    needs_body: bool = False  # though none of its fields is required
    auth: bool = True
    scope: str = ""  # of each operation that takes an API key
    admit: Admit | None = None
    permission: str = ""
    per_merchant_limit: rate_limits.OfMerchant | None = None
    secret: bool = False  # the response shows one: it is stored encrypted under its Idempotency-Key
    description: str = ""
    forbidden: str = ""  # what is refused with 40301, of a merchant whose key is right
    refusals: tuple[str, ...] = ()  # refused with 40001, beside malformed fields
    example: Any = None  # of the body
    response_example: Any = None  # of data
