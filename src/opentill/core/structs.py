"""Conversion of objects to structs with fields of the same names."""

from functools import cache
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def convert(source: object, struct: type[S], /, **others: Any) -> S:
    """Build a struct from ``others`` and, for all other fields, the attributes of ``source``.

    Fields are matched by their Python names. Raises AttributeError for a missing attribute.
    """
    for name in _copied_fields(struct, tuple(others)):
        others[name] = getattr(source, name)
    return struct(**others)


@cache
def _copied_fields(struct: type[msgspec.Struct], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in struct.__struct_fields__ if name not in others)
