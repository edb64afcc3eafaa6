"""Strict parsing of query strings: known parameters only, each at most once, no NUL.

Unknown parameters are refused, because ignoring a filter would return other rows than requested.
Empty values are refused too: a shop whose variable is empty would list everybody's orders.
A mapping is written as ``name[key]=value``, once for each key.
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
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# The response repeats at most this many characters of an unknown parameter's name.
_LONGEST_NAME: Final = 64
_ENTRY: Final = re.compile(r"(\w+)\[([^\x00]*)\]", re.ASCII | re.DOTALL)
Q = TypeVar("Q", bound=msgspec.Struct)


def read(query_string: bytes, struct: type[Q]) -> Q:
    """Decode a query string into ``struct``.

    Raises Invalid, which names the parameter: for an invalid or empty value, for a repeated
    parameter, and for an unknown one, with the most similar known name.
    """
    if not query_string:
        return struct()
    accepted = strictjson.accepted_values(struct)
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
        if entry is not None and entry[1] in _mapping_names(struct):
            _add_entry(mappings.setdefault(entry[1], {}), entry, value, accepted[entry[1]])
            continue
        if name not in accepted:
            raise _unknown(name, list(accepted))
        if name in values:
            raise Invalid(name, f"{name} must stand only once")
        if not value:
            raise _empty(name, accepted[name])
        if "\0" in value:  # PostgreSQL cannot store a NUL character
            raise Invalid(name, f"{name} must be {accepted[name]}")
        is_whole = name in _integer_names(struct) and _INTEGER.fullmatch(value)
        flag = _FLAGS.get(value) if name in _boolean_names(struct) else None
        values[name] = int(value) if is_whole else value if flag is None else flag
    try:
        return msgspec.convert({**values, **mappings}, struct)
    except msgspec.ValidationError as error:
        raise strictjson.explain(error, struct) from None


def _add_entry(entries: dict[str, str], entry: re.Match[str], value: str, accepts: str) -> None:
    """Add an entry to a mapping. Raises Invalid for a repeated or empty key, and for NUL."""
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


def _unknown(name: str, parameters: list[str]) -> Invalid:
    """Build the refusal of an unknown parameter. Its unprintable characters are replaced."""
    printable_name = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    field = printable_name[:_LONGEST_NAME].strip() or "query"
    if not parameters:
        return Invalid(field, f"{field} must be left out: this operation has no query parameters")

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, field.lower(), other.lower()).ratio()

    nearest = max(parameters, key=likeness)
    all_of_them = ", ".join(parameters)
    reason = f"{field} must be a parameter of this operation: the nearest is {nearest}"
    return Invalid(field, f"{reason}, and all are {all_of_them}")


@lru_cache
def _integer_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the integer parameters. msgspec's lax mode would also accept 1e3 and null."""
    return _names_of_type(struct, msgspec.inspect.IntType)


@lru_cache
def _boolean_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the boolean parameters."""
    return _names_of_type(struct, msgspec.inspect.BoolType)


@lru_cache
def _mapping_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Names of the parameters that are mappings."""
    return _names_of_type(struct, msgspec.inspect.DictType)


def _names_of_type(struct: type[msgspec.Struct], field_type: type) -> frozenset[str]:
    info = msgspec.inspect.type_info(struct)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    return frozenset(field.encode_name for field in fields if _has_type(field.type, field_type))


def _has_type(kind: msgspec.inspect.Type, field_type: type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _has_type(kind.type, field_type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(_has_type(member, field_type) for member in kind.types)
    if isinstance(kind, msgspec.inspect.LiteralType) and field_type is msgspec.inspect.IntType:
        return all(isinstance(value, int) for value in kind.values)
    return isinstance(kind, field_type)
