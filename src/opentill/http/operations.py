"""Operations: the API's routes with their checks, documentation and handlers.

An ``Operation`` describes one route completely. ``routing.py`` finds it, ``handling.py`` runs it
and ``openapi.py`` documents it.
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
    """A request that has passed all checks, as its handler receives it."""

    app: App
    merchant_id: str  # "" for an operation without authentication
    now: int  # Unix ms
    path: Mapping[str, str]
    query: Q
    body: B
    key_id: str = ""  # the id of the merchant's API key, "" if the request has none
    # The permissions of the logged-in person (people/model.py); None if nobody is logged in.
    access: Any = None
    who: str = ""  # the logged-in person as the audit log names them, "" if there is none
    browser: tuple[str, str] = ("", "")  # the client's address and User-Agent


class Admitted(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may make a request, and the merchant they act for."""

    merchant_id: str
    access: Any
    who: str


class Nothing(msgspec.Struct, frozen=True):
    """The query of an operation without parameters, and the body of an operation without a body."""


Read = Callable[[ApiRequest[Any, Any]], Awaitable[Any]]
Admit = Callable[[App, str, str, int], Awaitable[Admitted]]  # takes token, address, now
Write = Callable[[ApiRequest[Any, Any], Tx], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One route of the API. Exactly one of ``read``, ``write`` and ``act`` is its handler.

    ``write`` runs in the transaction that also stores the Idempotency-Key, if the request has one.
    ``act`` takes a body, manages its own transactions and supports no Idempotency-Key. ``admit``
    authenticates persons by their token instead of an API key. ``permission`` is the permission
    that such a person needs, and ``scope`` the scope that a restricted API key needs
    (people/permissions.py). ``response`` is the struct of ``data``, None for a response without
    data, or ``Download``.
    """

    method: str
    path: str
    tag: str
    summary: str
    response: Any
    read: Read | None = None
    write: Write | None = None
    act: Read | None = None
    # ``write`` runs without a transaction, since only its last statement writes.
    autocommit: bool = False
    status: int = 200
    id_of: Callable[[str], str] | None = None  # converts a trade_no in the path to an id
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] = Nothing
    needs_body: bool = False  # a body must be sent even if none of its fields is required
    auth: bool = True
    scope: str = ""  # the scope that an API key needs; "" if the operation takes no API key
    admit: Admit | None = None
    permission: str = ""
    per_merchant_limit: rate_limits.PerMerchant | None = None
    secret: bool = False  # the response holds a secret, so it is stored encrypted
    description: str = ""
    forbidden: str = ""  # documents which requests get 40301 although the key is valid
    # document which requests get 40001 besides requests with malformed fields
    refusals: tuple[str, ...] = ()
    example: Any = None  # an example of the body
    response_example: Any = None  # an example of ``data`` in the response
