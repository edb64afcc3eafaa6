"""The pages of lists."""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Pagination(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The position of a page in its list."""

    page: int
    size: int
    total: int
    total_pages: int


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list, newest first."""

    items: list[T]
    pagination: Pagination
