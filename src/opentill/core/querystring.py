"""Query strings, taken strictly: each parameter once, whole numbers in digits, no NUL."""

import re
from functools import lru_cache
from typing import Final, TypeVar
from urllib.parse import parse_qsl

import msgspec

from opentill.core import strictjson
from opentill.core.errors import Invalid

_WHOLE: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
Q = TypeVar("Q", bound=msgspec.Struct)


def read(query_string: bytes, struct: type[Q]) -> Q:
    """Turn a query string into ``struct``; unknown parameters are ignored.

    Raises Invalid that names the parameter: for a wrong value, and for one that stands twice.
    """
    if not query_string:
        return struct()
    accepted = strictjson.sentences(struct)
    values: dict[str, str | int] = {}
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
        if name in accepted:
            if name in values:
                raise Invalid(name, f"{name} must stand only once")
            if "\0" in value:  # PostgreSQL cannot hold it
                raise Invalid(name, f"{name} must be {accepted[name]}")
            whole = name in _whole_numbers(struct) and _WHOLE.fullmatch(value)
            values[name] = int(value) if whole else value
    try:
        return msgspec.convert(values, struct)
    except msgspec.ValidationError as error:
        raise strictjson.explain(error, struct) from None


@lru_cache
def _whole_numbers(struct: type[msgspec.Struct]) -> frozenset[str]:
    """The parameters that are whole numbers. msgspec's own lax reading takes 1e3 and null too."""
    info = msgspec.inspect.type_info(struct)
    fields = info.fields if isinstance(info, msgspec.inspect.StructType) else ()
    return frozenset(field.encode_name for field in fields if _is_whole(field.type))


def _is_whole(kind: msgspec.inspect.Type) -> bool:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _is_whole(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        return any(map(_is_whole, kind.types))
    return isinstance(kind, msgspec.inspect.IntType)
