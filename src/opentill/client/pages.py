"""Pages of lists, as every list of the API returns them."""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Pagination(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a page stands in its list."""

    page: int
    size: int
    total: int
    total_pages: int


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list, newest first."""

    items: list[T]
    pagination: Pagination
