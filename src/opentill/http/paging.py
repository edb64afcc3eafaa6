"""Paginated lists: the query parameters ``page`` and ``size``, and the response."""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import Meta

from opentill.http.fields import meaning

T = TypeVar("T")
Page = Annotated[int, Meta(ge=1, le=2**53 - 1, description="a whole number from 1")]
Size = Annotated[int, Meta(ge=1, le=100, description="a whole number from 1 to 100")]
Millis = Annotated[
    int,
    Meta(ge=0, le=253_402_300_799_999, description="a time in Unix milliseconds"),
]


class PageQuery(msgspec.Struct, frozen=True, rename="camel"):
    """Which page of a list. Each field that a subclass adds is a filter, named as its column."""

    page: Annotated[Page, meaning("The page number, from 1.")] = 1
    size: Annotated[Size, meaning("Entries per page, from 1 to 100.")] = 20


class PeriodQuery(PageQuery, frozen=True, rename="camel"):
    """Which page of the rows that were created in a period; both ends are inclusive."""

    start_date: Annotated[
        Millis | None, meaning("Only objects created at or after this time, in Unix ms.")
    ] = None
    end_date: Annotated[
        Millis | None, meaning("Only objects created at or before this time, in Unix ms.")
    ] = None


def filters(query: type[PageQuery]) -> tuple[str, ...]:
    """Return the names of the filters of a list."""
    other_fields = PeriodQuery.__struct_fields__
    return tuple(name for name in query.__struct_fields__ if name not in other_fields)


def active_filters(query: PageQuery) -> dict[str, Any]:
    """Return the filters that are set in a query, with their values."""
    values = {name: getattr(query, name) for name in filters(type(query))}
    return {name: value for name, value in values.items() if value is not None}


class Pagination(msgspec.Struct, frozen=True, rename="camel"):
    """Where a page stands in its list (contract.md#lists)."""

    page: Annotated[int, Meta(description="The number of this page. The first is 1.")]
    size: Size
    total: Annotated[
        int,
        Meta(description="How many entries the whole list has, with these filters. It is exact."),
    ]
    total_pages: Annotated[
        int,
        Meta(
            description="How many pages the list has: `total` divided by `size`, rounded up. 0 if"
            " it is empty."
        ),
    ]


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list."""

    items: Annotated[list[T], Meta(description="The entries of this page, newest first.")]
    pagination: Pagination


def page_example(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an example of a list with one item, for the API document."""
    return {
        "items": [item],
        "pagination": {"page": 1, "size": 20, "total": 1, "totalPages": 1},
    }


def listing(items: list[T], page: int, size: int, total: int) -> Listing[T]:
    """Build the page of a list; an empty list has no pages."""
    return Listing(items, Pagination(page, size, total, -(-total // size)))
