"""Strict parsing of JSON bodies: anything that two parsers could read differently is refused.

Refused are malformed JSON, duplicate keys, NUL and lone surrogates (which PostgreSQL and UTF-8
cannot store), ``NaN`` and ``Infinity``, and nesting deeper than 16 levels. Except for malformed
JSON, RFC 8259 §4, §8.2 and §9 leave the treatment to the implementation.
"""

import json
import re
from functools import lru_cache
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec

from opentill.core.errors import Invalid

MAX_DEPTH: Final = 16
_LONGEST_NAME: Final = 64  # the response repeats at most this many characters of a key
# The quantifier is possessive, and an unterminated string matches too: otherwise the time would be
# quadratic.
_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_PATH: Final = re.compile(r"`\$\.(\w+(?:\.\w+)*)")
_MISSING: Final = re.compile(r"missing required field `(\w+)`")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
T = TypeVar("T", bound=msgspec.Struct)
Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"


class _DuplicateKey(ValueError):
    """An object has the same key twice."""


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        earlier_keys: set[str] = set()
        for key, _ in pairs:
            if key in earlier_keys:
                raise _DuplicateKey(key)
            earlier_keys.add(key)
    return unique


def _refuse_constant(name: str) -> NoReturn:
    msg = f"{name} is no JSON"
    raise ValueError(msg)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique_pairs,
    parse_constant=_refuse_constant,
    parse_int=len,  # the numbers' values are not used, and converting huge ones is slow
    parse_float=len,
)


def _depth(body: bytes) -> int:
    deepest = depth = 0
    for byte in _TEXT.sub(b"", body):
        if byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest


def _is_storable(value: Json) -> bool:
    if isinstance(value, str):
        return _UNSTORABLE.search(value) is None
    if isinstance(value, dict):
        return all(_is_storable(key) and _is_storable(item) for key, item in value.items())
    return not isinstance(value, list) or all(_is_storable(item) for item in value)


def check(body: bytes) -> Json:
    """Parse a body; in the result every number is replaced by its length.

    Callers use only the names of fields. Raises Invalid, which names the field or ``body``, if the
    body is not strict JSON.
    """
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(body) > MAX_DEPTH:
        raise Invalid("body", f"body must not nest deeper than {MAX_DEPTH} levels")
    try:
        tree: Json = _DECODER.decode(body.decode())
    except _DuplicateKey as error:
        key = str(error)
        is_short = _UNSTORABLE.search(key) is None and 0 < len(key) <= _LONGEST_NAME
        field = key if is_short else "body"
        raise Invalid(field, "each key of an object must stand only once") from None
    except (ValueError, RecursionError):
        raise Invalid("body", "body must be valid JSON in UTF-8") from None
    if b"\\u" in body and isinstance(tree, dict):
        for key, value in tree.items():
            if not _is_storable(key):
                raise Invalid("body", "keys must be text without NUL and lone surrogates")
            if not _is_storable(value):
                field = key if 0 < len(key) <= _LONGEST_NAME else "body"
                raise Invalid(field, f"{field} must be text without NUL and lone surrogates")
    return tree


@lru_cache
def _decoder(struct: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(struct)


def decode(body: bytes, struct: type[T]) -> T:
    """Check a body and decode it into ``struct``. Raises Invalid, which names the field."""
    check(body)
    return read(body, struct)


def read(body: bytes, struct: type[T]) -> T:
    """Decode a checked body into ``struct``. Raises Invalid, which names the field.

    The reason is the ``description`` in the field's ``msgspec.Meta``, which says what is accepted.
    """
    try:
        decoded: T = _decoder(struct).decode(body)
    except msgspec.ValidationError as error:
        raise explain(error, struct) from None
    except msgspec.DecodeError:
        raise Invalid("body", "body must be valid JSON in UTF-8") from None
    return decoded


def explain(error: msgspec.ValidationError, struct: type) -> Invalid:
    """Turn msgspec's message into the field's name and the sentence that says what is accepted.

    A field of a nested struct is named with the outer one: ``item.price``. A value within a list or
    mapping is reported on the field that has the list or mapping.
    """
    text = str(error)
    path, missing = _PATH.search(text), _MISSING.search(text)
    names = [*(path[1].split(".") if path else ()), *([missing[1]] if missing else ())]
    if not names:
        return Invalid("body", "body must be a JSON object")
    read_names, accepted = list[str](), ""
    inner: type | None = struct
    for name in names:
        if inner is None:
            break
        read_names.append(name)
        accepted, inner = accepted_values(inner)[name], _nested_struct(inner, name)
    field = ".".join(read_names)
    if missing and len(read_names) == len(names):
        return Invalid(field, f"{field} is required: {accepted}")
    return Invalid(field, f"{field} must be {accepted}")


def _nested_struct(struct: type, name: str) -> type | None:
    """Return the struct that a field contains, None for any other value."""
    hints = get_type_hints(struct)
    field = next(one for one in msgspec.structs.fields(struct) if one.encode_name == name)
    hint = hints[field.name]
    types = (hint, *get_args(hint))
    structs = (one for one in types if isinstance(one, type) and issubclass(one, msgspec.Struct))
    return next(structs, None)


@lru_cache
def accepted_values(struct: type) -> dict[str, str]:
    """Return what each field of a struct accepts, by the field's name on the wire."""
    hints = get_type_hints(struct, include_extras=True)
    fields = msgspec.structs.fields(struct)
    return {field.encode_name: _description(hints[field.name]) for field in fields}


def _description(hint: Any) -> str:
    for part in getattr(hint, "__metadata__", ()):
        if isinstance(part, msgspec.Meta) and part.description:
            return part.description
    descriptions = [text for text in map(_description, get_args(hint)) if text]
    return descriptions[0] if descriptions else ""
