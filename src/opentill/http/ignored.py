"""Fields of a body that nobody reads are named in a response header (contract.md#unknown-input).

Integrations bring along fields of other services, so they are no error; a field whose name is
misspelt looks the same, so the response names what was not understood, also a refusal and a replay.
Names are percent-encoded (RFC 3986) but for letters, digits, ``-``, ``.``, ``_`` and ``~``, those
of inner objects stand behind their object's with a dot; what does not fit is counted: ``a,b.c,+7``.
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
_HALF: Final = re.compile("%[0-9A-F]?$")
_COUNT_BYTES: Final = len(",+99999")  # a body has room for no more names than that
Fields: TypeAlias = "Mapping[str, Fields | None]"


def header(tree: Json, struct: type[msgspec.Struct]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header that names what of a body is no field of ``struct``; nothing if all is."""
    if not isinstance(tree, dict) or tree.keys() <= _flat(struct):
        return ()
    names = dict.fromkeys(_unknown(tree, _fields(struct), ""))
    return ((HEADER, _listed(list(names)).encode()),) if names else ()


def header_of(body: bytes, struct: type[msgspec.Struct]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the same of a body that may be no JSON: then there is nothing to name."""
    try:
        tree = strictjson.check(body)
    except Invalid:
        return ()
    return header(tree, struct)


def _listed(names: list[str]) -> str:
    """Write names down as far as there is room, and how many more there are."""
    shown: list[str] = []
    room = MAX_BYTES - _COUNT_BYTES
    for name in names:
        text = name or '""'
        room -= len(text) + 1
        if room < 0:
            break
        shown.append(text)
    left = len(names) - len(shown)
    return ",".join([*shown, f"+{left}"] if left else shown)


def _encoded(name: str) -> str:
    """Percent-encode a name and cut it where a letter ends: half of one could not be decoded."""
    whole = quote(name, safe="")
    if len(whole) <= _LONGEST_NAME:
        return whole
    cut = _HALF.sub("", whole[:_LONGEST_NAME])
    return quote(unquote_to_bytes(cut).decode(errors="ignore"), safe="")


def _unknown(value: Json, known: Fields, path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _unknown(item, known, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            place = path + _encoded(key)
            if key not in known:
                yield place
            elif inner := known[key]:
                yield from _unknown(item, inner, f"{place}.")


@lru_cache
def _fields(struct: type[msgspec.Struct]) -> Fields:
    """Return a struct's fields by their names on the wire, and those of what is inside them."""
    return _inside(msgspec.inspect.type_info(struct)) or {}


@lru_cache
def _flat(struct: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names alone if no field has any inside: then looking at them is enough."""
    known = _fields(struct)
    return frozenset() if any(known.values()) else frozenset(known)


def _inside(kind: msgspec.inspect.Type) -> "Fields | None":
    match kind:
        case msgspec.inspect.StructType():
            return {field.encode_name: _inside(field.type) for field in kind.fields}
        case msgspec.inspect.Metadata():
            return _inside(kind.type)
        case msgspec.inspect.ListType():
            return _inside(kind.item_type)
        case msgspec.inspect.UnionType():
            return next(filter(None, map(_inside, kind.types)), None)
        case _:
            return None
