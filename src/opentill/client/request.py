"""Unsent requests: method, path, query, body and the type of the response."""

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET

from .errors import NotFound

T = TypeVar("T")
Method = Literal["GET", "POST", "PATCH", "DELETE"]
Amount = str | Decimal | int  # never a float, which cannot hold 0.10
Moment = int | dt.datetime  # Unix milliseconds, or an aware datetime

# An id or a trade_no, neither of which needs escaping in a path.
_ID: Final = re.compile(r"\w{1,100}", re.ASCII)
_AMOUNTS: Final = frozenset({"price", "min_amount", "max_amount"})
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class File:
    """The type of a response that is a file."""


class Request(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A request; ``response`` is the type of the response's ``data``, None if it has no data."""

    method: Method
    path: str
    response: Any
    query: Mapping[str, str | int] = {}
    body: bytes | None = None
    idempotency_key: str | None = None  # None: a random one is sent with a POST

    def at(self, page: int) -> "Request[T]":
        """Return the same request for another page."""
        return msgspec.structs.replace(self, query={**self.query, "page": page})


def get(path: str, response: type[T], **query: str | int | Mapping[str, str] | None) -> Request[T]:
    """Return a GET; parameters that are None are omitted, mappings become ``name[key]=value``.

    Raises ValueError for an empty text: the server would refuse the parameter.
    """
    parameters: dict[str, str | int] = {}
    for name, value in query.items():
        if isinstance(value, Mapping):
            parameters |= {f"{_camel(name)}[{key}]": entry for key, entry in value.items()}
        elif value is not None:
            parameters[_camel(name)] = value
        if value == "" or (isinstance(value, Mapping) and "" in value.values()):
            message = f"{name} must not be empty: leave it out, or give None"
            raise ValueError(message)
    return Request(method="GET", path=path, response=response, query=parameters)


def post(path: str, response: type[T], idempotency_key: str | None, **fields: Any) -> Request[T]:
    """Return a POST; fields that are None are omitted."""
    sent_fields = {name: value for name, value in fields.items() if value is not None}
    return Request(
        method="POST",
        path=path,
        response=response,
        body=_json(sent_fields) if fields else None,
        idempotency_key=idempotency_key,
    )


def patch(path: str, response: type[T], **fields: Any) -> Request[T]:
    """Return a PATCH; fields that are UNSET are omitted, None is sent as null."""
    sent_fields = {name: value for name, value in fields.items() if value is not UNSET}
    return Request(method="PATCH", path=path, response=response, body=_json(sent_fields))


def delete(path: str) -> Request[None]:
    """Return a DELETE, whose response has no data."""
    return Request(method="DELETE", path=path, response=None)


def checked_id(text: str) -> str:
    """Return a valid id for a path. Raises NotFound, without a request, for any other text."""
    untyped = cast("object", text)  # a caller without a type checker may pass any object
    if not isinstance(untyped, str) or _ID.fullmatch(untyped) is None:
        message = f"{text!r} is not an id"
        raise NotFound(message)
    return text


def decimal_text(value: Amount) -> str:
    """Return an amount as decimal text. Raises TypeError for a float, ValueError for NaN."""
    untyped = cast("object", value)  # a caller without a type checker may pass any object
    if isinstance(untyped, str):
        return untyped
    if isinstance(untyped, bool) or not isinstance(untyped, int | Decimal):
        message = "an amount must be a str, a Decimal or an int: a float cannot hold 0.10"
        raise TypeError(message)
    if isinstance(untyped, Decimal) and not untyped.is_finite():
        message = f"an amount must be a number, not {untyped}"
        raise ValueError(message)
    return format(untyped, "f") if isinstance(untyped, Decimal) else str(untyped)


def item_fields(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item for the API. Raises the errors of ``decimal_text``."""
    return {
        _camel(name): decimal_text(value) if name in _AMOUNTS and value is not None else value
        for name, value in item.items()
    }


def millis(moment: Moment | None) -> int | None:
    """Return Unix milliseconds. Raises ValueError for a datetime without a time zone."""
    if not isinstance(moment, dt.datetime):
        return moment
    if moment.tzinfo is None:
        message = "a datetime must have a time zone, as datetime.UTC gives it"
        raise ValueError(message)
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)


def _camel(name: str) -> str:
    """Return the name in the API: ``product_id`` is ``productId``."""
    first, *other_words = name.split("_")
    return first + "".join(word.capitalize() for word in other_words)


def _json(fields: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({_camel(name): value for name, value in fields.items()})
