"""Structs made of other objects that have fields of the same names."""

from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def convert(source: object, struct: type[S], /, **others: Any) -> S:
    """Make a struct: ``others`` as they are given, every other field as ``source`` has it.

    Fields go by their names in Python. Raises AttributeError for one that neither has.
    """
    same = {name: getattr(source, name) for name in struct.__struct_fields__ if name not in others}
    return struct(**same, **others)
