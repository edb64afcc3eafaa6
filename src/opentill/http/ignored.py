"""The response header that names ignored fields of the body (contract.md#unknown-input).

Unknown fields are no error, because integrations send fields of other services. A misspelt field
looks the same, so every response names them, including errors and replays. Names are
percent-encoded except the unreserved characters of RFC 3986; a dot separates nested names; names
that do not fit are counted: ``a,b.c,+7``.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec

from opentill.core.errors import Invalid
from opentill.http import strictjson
from opentill.http.strictjson import Json

HEADER: Final = b"opentill-ignored-fields"
MAX_BYTES: Final = 1024
_LONGEST_NAME: Final = 64
_CUT_ESCAPE: Final = re.compile("%[0-9A-F]?$")
# Space for the number of names that do not fit; a body of 64 KiB cannot have more than 99,999.
_COUNT_BYTES: Final = len(",+99999")
Fields: TypeAlias = "Mapping[str, Fields | None]"


def build_header(tree: Json, struct: type[msgspec.Struct]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header that names unknown fields of a body, () if ``struct`` has them all."""
    if not isinstance(tree, dict) or tree.keys() <= _flat_names(struct):
        return ()
    names = dict.fromkeys(_unknown_names(tree, _fields(struct), ""))
    return ((HEADER, _join_names(list(names)).encode()),) if names else ()


def parse_header(body: bytes, struct: type[msgspec.Struct]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the same header for raw bytes, () if they are not JSON."""
    try:
        tree = strictjson.check(body)
    except Invalid:
        return ()
    return build_header(tree, struct)


def _join_names(names: list[str]) -> str:
    """Join the names that fit, and the number of those that do not."""
    fitting_names: list[str] = []
    room = MAX_BYTES - _COUNT_BYTES
    for name in names:
        text = name or '""'
        room -= len(text) + 1
        if room < 0:
            break
        fitting_names.append(text)
    omitted = len(names) - len(fitting_names)
    return ",".join([*fitting_names, f"+{omitted}"] if omitted else fitting_names)


def _encode_name(name: str) -> str:
    """Percent-encode a name and cut it between characters, so that it can be decoded."""
    encoded = quote(name, safe="")
    if len(encoded) <= _LONGEST_NAME:
        return encoded
    cut = _CUT_ESCAPE.sub("", encoded[:_LONGEST_NAME])
    return quote(unquote_to_bytes(cut).decode(errors="ignore"), safe="")


def _unknown_names(value: Json, fields: Fields, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _unknown_names(item, fields, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            place = path + _encode_name(key)
            if key not in fields:
                yield place
            elif inner := fields[key]:
                yield from _unknown_names(item, inner, f"{place}.")


@lru_cache
def _fields(struct: type[msgspec.Struct]) -> Fields:
    """Return a struct's fields by their names on the wire, with the fields of nested structs."""
    return _nested_fields(msgspec.inspect.type_info(struct)) or {}


@lru_cache
def _flat_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Return a struct's field names if none contains a struct; comparing names then suffices."""
    fields = _fields(struct)
    return frozenset() if any(fields.values()) else frozenset(fields)


def _nested_fields(kind: msgspec.inspect.Type) -> "Fields | None":
    match kind:
        case msgspec.inspect.StructType():
            return {field.encode_name: _nested_fields(field.type) for field in kind.fields}
        case msgspec.inspect.Metadata():
            return _nested_fields(kind.type)
        case msgspec.inspect.ListType():
            return _nested_fields(kind.item_type)
        case msgspec.inspect.UnionType():
            return next(filter(None, map(_nested_fields, kind.types)), None)
        case _:
            return None
