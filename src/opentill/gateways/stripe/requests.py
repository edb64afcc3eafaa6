"""Requests to Stripe: every failure becomes a ``ProviderResponse`` that says what is certain."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
import stripe
import structlog

from opentill.gateways.failures import FAILURES, ProviderResponse, status_of

T = TypeVar("T")
# Requests the page of a list after the object ``starting_after``.
Listed = Callable[[dict[str, str]], Awaitable[Any]]

PAGE: Final = 100
TOO_MANY: Final = "too many to look through in time"
_LONGEST_REASON: Final = 200
_NOT_FOUND: Final = 404

_log: Final = structlog.get_logger()


class Named(Protocol):
    """An object of Stripe's."""

    @property
    def id(self) -> str:
        """Stripe's id of it."""
        ...


N = TypeVar("N", bound=Named)


class Page(msgspec.Struct, Generic[N], frozen=True):
    """A page of a list, newest first."""

    data: tuple[N, ...]
    has_more: bool


async def call(
    kind: type[T], what: str, subject: str, send: Callable[[], Awaitable[Any]]
) -> ProviderResponse[T]:
    """Send one request and read its response as ``kind``; ``subject`` is our id, for the log."""
    response = await _try(kind, send)
    if response.found is None:
        _log.warning(
            "no object of stripe", call=what, subject=subject, status=response.status,
            reason=response.reason,
        )  # fmt: skip
    return response


async def search(
    kind: type[N],
    our_id: str,
    lists: Sequence[Listed],
    id_of: Callable[[N], str],
    timeout_s: float,
) -> ProviderResponse[N]:
    """Look through lists, one after the other, for the object with our id.

    NOT_FOUND only after the last page of the last list, ``TOO_MANY`` if that is not reached in
    time.
    """
    response: ProviderResponse[N] = ProviderResponse(status="NOT_FOUND")
    try:
        async with asyncio.timeout(timeout_s):
            for listed in lists:
                response = await _look_through(kind, our_id, listed, id_of)
                if response.status != "NOT_FOUND":
                    break
    except TimeoutError:
        return ProviderResponse(reason=TOO_MANY)
    return response


async def list_all(
    kind: type[N],
    our_id: str,
    listed: Listed,
    convert: Callable[[N], T],
    timeout_s: float,
) -> tuple[T, ...] | None:
    """Return everything in a list; None if Stripe does not give all of it in time."""
    items: list[T] = []
    after: dict[str, str] = {}
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                page = await call(_page(kind), "list", our_id, functools.partial(listed, after))
                if page.found is None:
                    return None
                items += [convert(item) for item in page.found.data]
                if not page.found.has_more or not page.found.data:
                    return tuple(items)
                after = {"starting_after": page.found.data[-1].id}
    except TimeoutError:
        return None


async def _look_through(
    kind: type[N], our_id: str, listed: Listed, id_of: Callable[[N], str]
) -> ProviderResponse[N]:
    after: dict[str, str] = {}
    while True:
        page = await call(_page(kind), "list", our_id, functools.partial(listed, after))
        if page.found is None:
            lost = page.status != "UNREACHABLE"
            return ProviderResponse(status="UNKNOWN" if lost else page.status, reason=page.reason)
        for one in page.found.data:
            if id_of(one) == our_id:
                return ProviderResponse(found=one)
        if not page.found.has_more or not page.found.data:
            return ProviderResponse(status="NOT_FOUND")
        after = {"starting_after": page.found.data[-1].id}


def _page(kind: type[N]) -> type[Page[N]]:
    return Page[kind]  # type: ignore[valid-type]


async def _try(kind: type[T], send: Callable[[], Awaitable[Any]]) -> ProviderResponse[T]:
    try:
        found = await send()
        return ProviderResponse(found=msgspec.convert(found.to_dict(), kind))
    except FAILURES as error:
        return ProviderResponse(status=status_of(error), reason=_short(error))
    except stripe.StripeError as error:
        return _refused(error)
    except Exception as error:  # noqa: BLE001 - what the library cannot read is no response
        return ProviderResponse(reason=f"a response that makes no sense ({type(error).__name__})")


def _refused(error: stripe.StripeError) -> ProviderResponse[Any]:
    """Return REFUSED where an error says that nothing was done, else UNKNOWN.

    Only a 400 or 402 of Stripe's own says so. Of the others:

    - a wrong or restricted key (401, 403) and an unknown id of Stripe's (404: of another account)
      say nothing about what was done with the right one;
    - a request with 409, 429 or 5xx may have been done, or another one under the same key.
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
        message = (error.user_message or reason)[:_LONGEST_REASON]
        return ProviderResponse(status="REFUSED", reason=reason, message=message)
    return ProviderResponse(reason=f"HTTP {error.http_status} {reason}")


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:_LONGEST_REASON]
