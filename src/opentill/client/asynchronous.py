"""``AsyncClient``: the same for asyncio; what it says stands in ``operations.py`` too."""

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Generic, ParamSpec, Self, TypeVar, overload

import httpx2

from opentill.client import operations, webhook_operations
from opentill.client.calls import Call, File
from opentill.client.connection import (
    TIMEOUT_S,
    USUAL,
    Identified,
    Recent,
    filename,
    options,
    unfinished,
)
from opentill.client.model import Page
from opentill.client.series import Retries, Series

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I", bound=Identified)  # noqa: E741 - an item


class Sender:
    """Sends calls, and sends them again as ``Series`` says. For one event loop."""

    def __init__(self, http: httpx2.AsyncClient, retries: Retries, timeout_s: float) -> None:
        """Use ``Client``."""
        self.http = http
        self.retries = retries
        self.timeout_s = timeout_s

    async def send(self, call: Call[T]) -> T:
        """Return the answer to a call. Raises OpenTillError."""
        series = Series(call, self.retries, self.timeout_s)
        while True:
            try:
                response = await self.http.send(self._request(series), stream=True)
                body = await _whole(series, response)
            except (httpx2.RequestError, httpx2.StreamError) as failure:
                wait = series.lost(failure)
            else:
                if response.is_success:
                    return series.read(response, body)
                wait = series.refused(response, body)
            await asyncio.sleep(wait)

    async def open(self, call: Call[File]) -> tuple[Series[File], httpx2.Response]:
        """Return an answer whose body is still to come. Raises OpenTillError."""
        series = Series(call, self.retries, self.timeout_s)
        while True:
            try:
                response = await self.http.send(self._request(series), stream=True)
                if response.is_success:
                    return series, response
                body = await _whole(series, response)
            except (httpx2.RequestError, httpx2.StreamError) as failure:
                wait = series.lost(failure)
            else:
                wait = series.refused(response, body)
            await asyncio.sleep(wait)

    def _request(self, series: Series[Any]) -> httpx2.Request:
        call = series.call
        return self.http.build_request(
            call.verb,
            call.path,
            params=call.query or None,
            content=call.body,
            headers=series.headers,
            timeout=series.timeout_s,
        )


async def _whole(series: Series[Any], response: httpx2.Response) -> bytes:
    """Read an answer to its end."""
    parts: list[bytes] = []
    try:
        async for chunk in response.aiter_bytes():
            parts.append(chunk)
            series.in_time()
    finally:
        await response.aclose()
    return b"".join(parts)


class AsyncPages(Generic[I]):
    """A list that is read page by page, as far as somebody walks. Each loop begins anew."""

    def __init__(self, sender: Sender, call: Call[Page[I]]) -> None:
        """Use a client's ``list`` methods."""
        self._sender = sender
        self._call = call

    async def __aiter__(self) -> AsyncIterator[I]:
        """Give every item once, from the page that was asked for to the last."""
        recent = Recent()
        async for page in self.pages():
            for item in filter(recent.is_new, page.items):
                yield item

    async def pages(self) -> AsyncIterator[Page[I]]:
        """Give page after page, with the pagination that the server tells."""
        number = int(self._call.query["page"])
        while True:
            page = await self._sender.send(self._call.at(number))
            yield page
            if number >= page.pagination.total_pages:
                return
            number += 1

    async def page(self) -> Page[I]:
        """Return the one page that was asked for."""
        return await self._sender.send(self._call)


class AsyncDownload:
    """A file that is read as it comes, in constant memory: ``with`` and iterate, or ``save``."""

    def __init__(self, sender: Sender, call: Call[File]) -> None:
        """Use a client's ``export`` methods."""
        self._sender = sender
        self._call = call
        self._open: tuple[Series[File], httpx2.Response] | None = None
        self.filename = ""  # as the server names it, once it is open

    async def __aenter__(self) -> Self:
        """Ask for the file."""
        series, response = await self._sender.open(self._call)
        if not response.headers.get("content-type", "").startswith("text/csv"):
            await response.aclose()
            raise series.unexpected(response, "is not a CSV file")
        self._open = series, response
        self.filename = filename(response)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leave the rest."""
        if self._open is not None:
            await self._open[1].aclose()
            self._open = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Give the file chunk by chunk. Raises ConnectionFailed if it breaks off."""
        if self._open is None:
            async with self:
                async for chunk in self:
                    yield chunk
            return
        series, response = self._open
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx2.RequestError as failure:
            raise series.broke_off(failure) from failure

    async def save(self, target: str | os.PathLike[str] | IO[bytes]) -> int:
        """Write the file and return its size in bytes; under its name it is whole or not there."""
        if isinstance(target, str | os.PathLike):
            path = Path(target)
            part = unfinished(path)
            try:
                with part.open("wb") as stream:
                    size = await self.save(stream)
                part.replace(path)
            except BaseException:
                with suppress(FileNotFoundError):
                    part.unlink()
                raise
            return size
        size = 0
        async for chunk in self:
            size += await asyncio.to_thread(target.write, chunk)
        return size


class Group:
    """Operations on one kind of thing."""

    def __init__(self, sender: Sender) -> None:
        """Use ``Client``."""
        self.sender = sender


class Does(Generic[P, T]):
    """A method that sends an operation's call and returns its answer."""

    def __init__(self, make: Callable[P, Call[T]]) -> None:
        """``make`` is of ``operations.py``."""
        self.make = make

    @overload
    def __get__(self, group: None, owner: type[Group]) -> Self: ...
    @overload
    def __get__(self, group: Group, owner: type[Group]) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(
        self, group: Group | None, owner: type[Group]
    ) -> Self | Callable[P, Coroutine[Any, Any, T]]:
        """Return the method of a group."""
        if group is None:
            return self
        sender = group.sender

        @functools.wraps(self.make)
        async def method(*args: P.args, **options: P.kwargs) -> T:
            return await sender.send(self.make(*args, **options))

        return method


class Lists(Generic[P, I]):
    """A method that returns the pages of a list."""

    def __init__(self, make: Callable[P, Call[Page[I]]]) -> None:
        """``make`` is of ``operations.py``."""
        self.make = make

    @overload
    def __get__(self, group: None, owner: type[Group]) -> Self: ...
    @overload
    def __get__(self, group: Group, owner: type[Group]) -> Callable[P, AsyncPages[I]]: ...
    def __get__(self, group: Group | None, owner: type[Group]) -> Self | Callable[P, AsyncPages[I]]:
        """Return the method of a group."""
        if group is None:
            return self
        sender = group.sender

        @functools.wraps(self.make)
        def method(*args: P.args, **options: P.kwargs) -> AsyncPages[I]:
            return AsyncPages(sender, self.make(*args, **options))

        return method


class Downloads(Generic[P]):
    """A method that returns a file."""

    def __init__(self, make: Callable[P, Call[File]]) -> None:
        """``make`` is of ``operations.py``."""
        self.make = make

    @overload
    def __get__(self, group: None, owner: type[Group]) -> Self: ...
    @overload
    def __get__(self, group: Group, owner: type[Group]) -> Callable[P, AsyncDownload]: ...
    def __get__(self, group: Group | None, owner: type[Group]) -> Self | Callable[P, AsyncDownload]:
        """Return the method of a group."""
        if group is None:
            return self
        sender = group.sender

        @functools.wraps(self.make)
        def method(*args: P.args, **options: P.kwargs) -> AsyncDownload:
            return AsyncDownload(sender, self.make(*args, **options))

        return method


class Agreement(Group):
    """The merchant services agreement."""

    read = Does(operations.read_agreement)


class Products(Group):
    """What is sold."""

    create = Does(operations.create_product)
    list = Lists(operations.list_products)
    read = Does(operations.read_product)
    change = Does(operations.change_product)
    archive = Does(operations.archive_product)


class Checkouts(Group):
    """Sessions that customers pay in."""

    create = Does(operations.open_checkout)
    read = Does(operations.read_checkout)
    expire = Does(operations.expire_checkout)


class Orders(Group):
    """What was and will be paid."""

    list = Lists(operations.list_orders)
    read = Does(operations.read_order)
    export = Downloads(operations.export_orders)


class Refunds(Group):
    """Money given back."""

    create = Does(operations.refund_order)
    list = Lists(operations.list_refunds)
    read = Does(operations.read_refund)


class Disputes(Group):
    """What customers took back through their banks."""

    list = Lists(operations.list_disputes)
    read = Does(operations.read_dispute)


class Payouts(Group):
    """What was and will be sent to your bank."""

    list = Lists(operations.list_payouts)
    read = Does(operations.read_payout)


class Balance(Group):
    """Your balance and every movement on it."""

    read = Does(operations.read_balance)
    transactions = Lists(operations.list_transactions)
    statement = Downloads(operations.export_statement)


class WebhookEndpoints(Group):
    """Where events are sent to."""

    create = Does(webhook_operations.create_endpoint)
    list = Lists(webhook_operations.list_endpoints)
    read = Does(webhook_operations.read_endpoint)
    change = Does(webhook_operations.change_endpoint)
    delete = Does(webhook_operations.delete_endpoint)
    rotate_secret = Does(webhook_operations.rotate_secret)
    deliveries = Lists(webhook_operations.list_deliveries)
    resend = Does(webhook_operations.resend_events)


class Events(Group):
    """What happened."""

    list = Does(webhook_operations.list_events)
    read = Does(webhook_operations.read_event)


class AsyncClient:
    """The API of one OpenTill server with one key. For one event loop.

    ``base_url`` is the server's address without ``/v1``. ``transport``, ``event_hooks`` and
    ``trust_env`` are httpx2's own.
    """

    def __init__(  # noqa: PLR0913 - the address, and what differs from the usual
        self,
        base_url: str,
        api_key: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries = USUAL,
        headers: Mapping[str, str] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        event_hooks: Mapping[str, list[Callable[..., Any]]] | None = None,
        trust_env: bool = True,
    ) -> None:
        """``timeout_s`` is how long the server may be silent. Raises ValueError."""
        self._http = httpx2.AsyncClient(
            **options(base_url, api_key, headers, timeout_s),
            transport=transport,
            event_hooks=event_hooks,
            trust_env=trust_env,
        )
        sender = Sender(self._http, retries, timeout_s)
        self.agreement = Agreement(sender)
        self.products = Products(sender)
        self.checkouts = Checkouts(sender)
        self.orders = Orders(sender)
        self.refunds = Refunds(sender)
        self.disputes = Disputes(sender)
        self.payouts = Payouts(sender)
        self.balance = Balance(sender)
        self.webhook_endpoints = WebhookEndpoints(sender)
        self.events = Events(sender)

    def __repr__(self) -> str:
        """Name the server, and not the key."""
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        """Use it in a block; connections are closed after it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()
