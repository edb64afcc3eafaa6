"""Requests to Stripe. A failure becomes a ``ProviderResponse`` that claims only what is certain."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import stripe
import structlog

from opentill.gateways.failures import FAILURES, ProviderResponse, status_of

T = TypeVar("T")
# Requests a page of a list; ``starting_after`` in the argument is the last id of the page before.
FetchPage = Callable[[dict[str, str]], Awaitable[Any]]

PAGE: Final = 100
TOO_MANY: Final = "too many to look through in time"
_MAX_REASON: Final = 200
_NOT_FOUND: Final = 404
_TRIES: Final = 4  # of a page of a long list
_PAUSE_S: Final = 0.5  # before the second try; doubled before each further one

_log: Final = structlog.get_logger()


class ListingFailed(Exception):
    """A list is incomplete; the message says why."""


class HasId(Protocol):
    """An object of Stripe that has an id."""

    @property
    def id(self) -> str:
        """Stripe's id of the object."""
        ...


N = TypeVar("N", bound=HasId)


class Page(msgspec.Struct, Generic[N], frozen=True):
    """A page of a list, newest first."""

    data: tuple[N, ...]
    has_more: bool


async def call(
    kind: type[T], operation: str, subject: str, send: Callable[[], Awaitable[Any]]
) -> ProviderResponse[T]:
    """Send one request and decode its response as ``kind``; ``subject`` is our id, for the log."""
    response = await _send(kind, send)
    if response.value is None:
        _log.warning(
            "no object of stripe", call=operation, subject=subject, status=response.status,
            reason=response.reason,
        )  # fmt: skip
    return response


async def search(
    kind: type[N],
    our_id: str,
    lists: Sequence[FetchPage],
    id_of: Callable[[N], str],
    timeout_s: float,
) -> ProviderResponse[N]:
    """Search lists, one after the other, for the object with our id.

    NOT_FOUND only after the last page of the last list. If time runs out before, the status is
    UNKNOWN and the reason ``TOO_MANY``.
    """
    response: ProviderResponse[N] = ProviderResponse(status="NOT_FOUND")
    try:
        async with asyncio.timeout(timeout_s):
            for fetch_page in lists:
                response = await _search_list(kind, our_id, fetch_page, id_of)
                if response.status != "NOT_FOUND":
                    break
    except TimeoutError:
        return ProviderResponse(reason=TOO_MANY)
    return response


async def list_all(
    kind: type[N],
    our_id: str,
    fetch_page: FetchPage,
    convert: Callable[[N], T],
    timeout_s: float,
) -> tuple[T, ...] | None:
    """Return all items of a list; None on a failure or if time runs out."""
    items: list[T] = []
    after: dict[str, str] = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                page = await call(_page(kind), "list", our_id, functools.partial(fetch_page, after))
                if page.value is None:
                    return None
                items += [convert(item) for item in page.value.data]
                if not page.value.has_more or not page.value.data:
                    return tuple(items)
                after = {"starting_after": page.value.data[-1].id}
    except TimeoutError:
        return None


async def list_repeatedly(kind: type[N], fetch_page: FetchPage) -> AsyncIterator[tuple[N, ...]]:
    """Yield all pages of a long list; a page that fails is requested again.

    Raises ListingFailed if a page fails several times, or if Stripe repeats an item.
    """
    seen: set[str] = set()
    after: dict[str, str] = {}
    while True:
        page = await _fetch_repeatedly(kind, functools.partial(fetch_page, after))
        names = {item.id for item in page.data}
        if len(names) < len(page.data) or not names.isdisjoint(seen):
            msg = "it repeats movements"
            raise ListingFailed(msg)
        seen |= names
        yield page.data
        if not page.has_more:
            return
        if not page.data:
            msg = "it says that more follow an empty page"
            raise ListingFailed(msg)
        after = {"starting_after": page.data[-1].id}


async def _fetch_repeatedly(kind: type[N], fetch: Callable[[], Awaitable[Any]]) -> Page[N]:
    reason = ""
    for number in range(_TRIES):
        page = await call(_page(kind), "list", "balance transactions", fetch)
        if page.value is not None:
            return page.value
        reason = page.reason
        if page.status == "REFUSED" or number == _TRIES - 1:
            break
        await asyncio.sleep(_PAUSE_S * 2**number)
    raise ListingFailed(reason)


async def _search_list(
    kind: type[N], our_id: str, fetch_page: FetchPage, id_of: Callable[[N], str]
) -> ProviderResponse[N]:
    after: dict[str, str] = {}
    while True:
        page = await call(_page(kind), "list", our_id, functools.partial(fetch_page, after))
        if page.value is None:
            is_uncertain = page.status != "UNREACHABLE"
            return ProviderResponse(
                status="UNKNOWN" if is_uncertain else page.status, reason=page.reason
            )
        for item in page.value.data:
            if id_of(item) == our_id:
                return ProviderResponse(value=item)
        if not page.value.has_more or not page.value.data:
            return ProviderResponse(status="NOT_FOUND")
        after = {"starting_after": page.value.data[-1].id}


def _page(kind: type[N]) -> type[Page[N]]:
    return Page[kind]  # type: ignore[valid-type]


async def _send(kind: type[T], send: Callable[[], Awaitable[Any]]) -> ProviderResponse[T]:
    try:
        response = await send()
        return ProviderResponse(value=msgspec.convert(response.to_dict(), kind))
    except FAILURES as error:
        return ProviderResponse(status=status_of(error), reason=_short(error))
    except stripe.StripeError as error:
        return _error_response(error)
    except Exception as error:  # noqa: BLE001 - the library cannot decode the response
        return ProviderResponse(reason=f"a response that makes no sense ({type(error).__name__})")


def _error_response(error: stripe.StripeError) -> ProviderResponse[Any]:
    """Return REFUSED if an error proves that nothing was done, otherwise UNKNOWN.

    Only a 400 or 402 of Stripe itself proves it. The other statuses do not:

    - 401, 403 (a wrong or restricted key) and 404 (an id of another account): an earlier request
      with the right key may have been done;
    - 409, 429 and 5xx: this request, or another one with the same idempotency key, may have been
      done.
    """
    code = error.code or type(error).__name__
    decline = getattr(error.error, "decline_code", None) if error.error else None
    reason = decline if isinstance(decline, str) else code
    if isinstance(error, stripe.AuthenticationError | stripe.PermissionError):
        _log.error("stripe refuses our key", reason=reason, request=error.request_id)
        return ProviderResponse(reason=reason)
    if isinstance(error, stripe.InvalidRequestError | stripe.CardError):
        if error.http_status == _NOT_FOUND:
            return ProviderResponse(reason=reason)
        message = (error.user_message or reason)[:_MAX_REASON]
        return ProviderResponse(status="REFUSED", reason=reason, message=message)
    return ProviderResponse(reason=f"HTTP {error.http_status} {reason}")


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:_MAX_REASON]
