"""Structs made of other objects that have fields of the same names."""

from functools import cache
from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def convert(source: object, struct: type[S], /, **others: Any) -> S:
    """Make a struct: ``others`` as they are given, every other field as ``source`` has it.

    Fields go by their names in Python. Raises AttributeError for one that neither has.
    """
    for name in _same(struct, tuple(others)):
        others[name] = getattr(source, name)
    return struct(**others)


@cache
def _same(struct: type[msgspec.Struct], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in struct.__struct_fields__ if name not in others)
