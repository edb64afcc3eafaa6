"""Lists: page and size as the contract asks for them, and the pagination of the response."""

from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")
Page = Annotated[int, Meta(ge=1, le=2**53 - 1, description="a whole number from 1")]
Size = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Millis = Annotated[
    int,
    Meta(ge=0, le=253_402_300_799_999, description="a time in Unix milliseconds"),
]


class Pagination(msgspec.Struct, frozen=True, rename="camel"):
    """Where a page stands in its list (contract.md#lists)."""

    page: int
    size: Size
    total: int
    total_pages: int


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list."""

    items: list[T]
    pagination: Pagination


def listing(items: list[T], page: int, size: int, total: int) -> Listing[T]:
    """Put a page together; an empty list has no pages."""
    return Listing(items, Pagination(page, size, total, -(-total // size)))
