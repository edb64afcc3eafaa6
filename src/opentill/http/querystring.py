"""Query strings, taken strictly: known parameters only, each once, whole numbers in digits, no NUL.

A query that is not understood is refused: without its unknown parameter it would be another query.
So is a parameter without a value: a shop whose variable is empty would list everybody's orders. A
parameter that is a mapping stands as ``name[key]=value``, once for each key.
"""

import difflib
import re
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from opentill.core.errors import Invalid
from opentill.http import strictjson

_FLAGS: Final = {"true": True, "false": False}
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_LONGEST_NAME: Final = 64  # of a parameter that a response repeats
_ENTRY: Final = re.compile(r"(\w+)\[([^\x00]*)\]", re.ASCII | re.DOTALL)
Q = TypeVar("Q", bound=msgspec.Struct)


def read(query_string: bytes, struct: type[Q]) -> Q:
    """Turn a query string into ``struct``.

    Raises Invalid that names the parameter: for a wrong or an empty value, for one that stands
    twice, and for one that is unknown, with the nearest that is known.
    """
    if not query_string:
        return struct()
    accepted = strictjson.sentences(struct)
    values: dict[str, str | int | bool] = {}
    mappings: dict[str, dict[str, str]] = {}
    try:
        pairs = parse_qsl(
            query_string.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=100,
        )
    except ValueError:
        raise Invalid("query", "the query string must be URL-encoded UTF-8") from None
    for name, value in pairs:
        entry = _ENTRY.fullmatch(name)
        if entry is not None and entry[1] in _mappings(struct):
            _put(mappings.setdefault(entry[1], {}), entry, value, accepted[entry[1]])
            continue
        if name not in accepted:
            raise _unknown(name, list(accepted))
        if name in values:
            raise Invalid(name, f"{name} must stand only once")
        if not value:
            raise _empty(name, accepted[name])
        if "\0" in value:  # PostgreSQL cannot hold it
            raise Invalid(name, f"{name} must be {accepted[name]}")
        whole = name in _whole_numbers(struct) and _WHOLE.fullmatch(value)
        flag = _FLAGS.get(value) if name in _flags(struct) else None
        values[name] = int(value) if whole else value if flag is None else flag
    try:
        return msgspec.convert({**values, **mappings}, struct)
    except msgspec.ValidationError as error:
        raise strictjson.explain(error, struct) from None


def _put(entries: dict[str, str], entry: re.Match[str], value: str, accepts: str) -> None:
    """Add an entry of a mapping. Raises Invalid for a key that stands twice, and for NUL."""
    name, key = entry.groups()
    if key in entries:
        raise Invalid(name, f"{name} must have each key only once")
    if "\0" in value or not key:
        raise Invalid(name, f"{name} must be {accepts}")
    if not value:
        raise _empty(name, accepts)
    entries[key] = value


def _empty(name: str, accepts: str) -> Invalid:
    return Invalid(name, f"{name} must be {accepts}; it is empty: leave it out instead")


def _unknown(name: str, known: list[str]) -> Invalid:
    """Name an unknown parameter, so that nothing in its name acts on who reads it."""
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    field = shown[:_LONGEST_NAME].strip() or "query"
    if not known:
        return Invalid(field, f"{field} must be left out: this operation has no query parameters")

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, field.lower(), other.lower()).ratio()

    nearest = max(known, key=likeness)
    all_of_them = ", ".join(known)
    reason = f"{field} must be a parameter of this operation: the nearest is {nearest}"
    return Invalid(field, f"{reason}, and all are {all_of_them}")


@lru_cache
def _whole_numbers(struct: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that are whole numbers. msgspec's own lax reading takes 1e3 and null too."""
    return _of_type(struct, msgspec.inspect.IntType)


@lru_cache
def _flags(struct: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that are true or false."""
    return _of_type(struct, msgspec.inspect.BoolType)


@lru_cache
def _mappings(struct: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that are mappings."""
    return _of_type(struct, msgspec.inspect.DictType)


def _of_type(struct: type[msgspec.Struct], wanted: type) -> frozenset[str]:
    info = msgspec.inspect.type_info(struct)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    return frozenset(field.encode_name for field in fields if _is(field.type, wanted))


def _is(kind: msgspec.inspect.Type, wanted: type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _is(kind.type, wanted)
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_is(one, wanted) for one in kind.types)
    return isinstance(kind, wanted)
