"""A call is all of a request but its sending: what to ask, and the form of the answer."""

import datetime as dt
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET

from opentill.client.errors import NotFound

T = TypeVar("T")
Verb = Literal["GET", "POST", "PATCH", "DELETE"]
Amount = str | Decimal | int  # never a float, which cannot hold 0.10
Moment = int | dt.datetime  # Unix milliseconds, or an aware datetime

_ID: Final = re.compile(r"[a-z]{1,12}_[0-9A-Za-z]{1,64}", re.ASCII)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class File:
    """The type of an answer that is a file."""


class Call(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One request that is not sent yet; ``answer`` is the type of ``data``, None without data."""

    verb: Verb
    path: str
    answer: Any
    query: Mapping[str, str | int] = {}
    body: bytes | None = None
    key: str | None = None  # the Idempotency-Key that the caller chose

    def at(self, page: int) -> "Call[T]":
        """Return the same call for another page."""
        return msgspec.structs.replace(self, query={**self.query, "page": page})


def identified(text: str) -> str:
    """Return an id for a path. Raises NotFound for what cannot be one, without a request."""
    if _ID.fullmatch(text) is None:
        message = f"{text!r} is not an id"
        raise NotFound(message)
    return text


def camel(name: str) -> str:
    """Return the name on the wire: ``product_id`` is ``productId``."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def sent(**fields: Any) -> bytes:
    """Return the JSON body of what is given; what is UNSET is left out."""
    given = {camel(name): value for name, value in fields.items() if value is not UNSET}
    return msgspec.json.encode(given)


def given(**fields: Any) -> bytes:
    """Return the JSON body of what is not None."""
    return sent(**{name: UNSET if value is None else value for name, value in fields.items()})


def asked(**fields: str | int | None) -> dict[str, str | int]:
    """Return the query of what is not None."""
    return {camel(name): value for name, value in fields.items() if value is not None}


def decimal_text(value: Amount) -> str:
    """Return an amount as decimal text. Raises TypeError for a float, ValueError for no number."""
    untyped = cast("object", value)  # callers without a type checker
    if isinstance(untyped, str):
        return untyped
    if isinstance(untyped, bool) or not isinstance(untyped, int | Decimal):
        message = "an amount must be a str, a Decimal or an int: a float cannot hold 0.10"
        raise TypeError(message)
    if isinstance(untyped, Decimal) and not untyped.is_finite():
        message = f"an amount must be a number, not {untyped}"
        raise ValueError(message)
    return format(untyped, "f") if isinstance(untyped, Decimal) else str(untyped)


def millis(moment: Moment | None) -> int | None:
    """Return Unix milliseconds. Raises ValueError for a datetime without a time zone."""
    if not isinstance(moment, dt.datetime):
        return moment
    if moment.tzinfo is None:
        message = "a datetime must have a time zone, as datetime.UTC gives it"
        raise ValueError(message)
    return (moment - _EPOCH) // dt.timedelta(milliseconds=1)
