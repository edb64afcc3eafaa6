"""Calling Stripe: every way to fail becomes an answer that says what is known for sure."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

import msgspec
import stripe
import structlog

from opentill.outgoing.client import Forbidden, NoResponse, Unreachable

T = TypeVar("T")

PAGE: Final = 100
MOST_PAGES: Final = 50
_LONGEST_REASON: Final = 200
_NOT_FOUND: Final = 404

_log: Final = structlog.get_logger()


class Named(Protocol):
    """What Stripe gave a name."""

    @property
    def id(self) -> str:
        """Stripe's name of it."""
        ...


N = TypeVar("N", bound=Named)


class StripeResponse(msgspec.Struct, Generic[T], frozen=True):
    """What came of a call: Stripe's object, or why there is none.

    ``reason`` is a code of Stripe's; ``message`` its sentence, which may quote what we sent and so
    must not be logged.
    """

    found: T | None = None
    status: Literal["UNREACHABLE", "NOT_FOUND", "REFUSED", "UNKNOWN"] = "UNKNOWN"
    reason: str = ""
    message: str = ""


class Page(msgspec.Struct, Generic[N], frozen=True):
    """A page of a list, newest first."""

    data: tuple[N, ...]
    has_more: bool


async def call(
    kind: type[T], what: str, subject: str, send: Callable[[], Awaitable[Any]]
) -> StripeResponse[T]:
    """Send one request and read its answer as ``kind``; ``subject`` is our id, for the log."""
    answer = await _try(kind, send)
    if answer.found is None:
        _log.warning(
            "no object of stripe", call=what, subject=subject, status=answer.status,
            reason=answer.reason,
        )  # fmt: skip
    return answer


async def search(
    kind: type[N],
    our_id: str,
    listed: Callable[[dict[str, str]], Awaitable[Any]],
    id_of: Callable[[N], str],
) -> StripeResponse[N]:
    """Look through a list for what carries our id. NOT_FOUND only once all of it was seen.

    ``listed`` asks for one page, after the one that ends with ``starting_after``.
    """
    after: dict[str, str] = {}
    for _ in range(MOST_PAGES):
        page = await call(_page(kind), "list", our_id, functools.partial(listed, after))
        if page.found is None:
            lost = page.status != "UNREACHABLE"
            return StripeResponse(status="UNKNOWN" if lost else page.status, reason=page.reason)
        for one in page.found.data:
            if id_of(one) == our_id:
                return StripeResponse(found=one)
        if not page.found.has_more or not page.found.data:
            return StripeResponse(status="NOT_FOUND")
        after = {"starting_after": page.found.data[-1].id}
    return StripeResponse(reason="too many to look through")


def _page(kind: type[N]) -> type[Page[N]]:
    return Page[kind]  # type: ignore[valid-type]


async def _try(kind: type[T], send: Callable[[], Awaitable[Any]]) -> StripeResponse[T]:
    try:
        found = await send()
        return StripeResponse(found=msgspec.convert(found.to_dict(), kind))
    except (Unreachable, Forbidden) as error:
        return StripeResponse(status="UNREACHABLE", reason=_short(error))
    except NoResponse as error:
        return StripeResponse(reason=_short(error))
    except stripe.StripeError as error:
        return _refused(error)
    except Exception as error:  # noqa: BLE001 - what the library cannot read is no answer
        return StripeResponse(reason=f"an answer that makes no sense ({type(error).__name__})")


def _refused(error: stripe.StripeError) -> StripeResponse[Any]:
    """Tell a decision of Stripe's from an answer that decides nothing.

    Only a 400 and a 402 in Stripe's own words say that nothing was done. Of the rest:

    - a wrong or limited key (401, 403), and a name of Stripe's own that it does not know (404: of
      another account), say nothing about what was done with the right one;
    - 409, 429 and 5xx may have been done, or come from another request under the same key.
    """
    code = error.code or type(error).__name__
    decline = getattr(error.error, "decline_code", None) if error.error else None
    reason = decline if isinstance(decline, str) else code
    if isinstance(error, stripe.AuthenticationError | stripe.PermissionError):
        _log.error("stripe refuses our key", reason=reason, request=error.request_id)
        return StripeResponse(reason=reason)
    if isinstance(error, stripe.InvalidRequestError | stripe.CardError):
        if error.http_status == _NOT_FOUND:
            return StripeResponse(reason=reason)
        message = (error.user_message or reason)[:_LONGEST_REASON]
        return StripeResponse(status="REFUSED", reason=reason, message=message)
    return StripeResponse(reason=f"HTTP {error.http_status} {reason}")


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:_LONGEST_REASON]
