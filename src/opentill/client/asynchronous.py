"""``AsyncClient``: the API for asyncio. `make client` generates ``blocking.py`` from this file.

The fields and filters of operations are in ``operations.py``.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Generic, ParamSpec, Self, TypeVar

import httpx2

from . import operations
from .connection import (
    DEFAULT_RETRIES,
    TIMEOUT_S,
    Identified,
    Method,
    Resource,
    SeenItems,
    filename,
    http_options,
    partial_path,
)
from .pages import Page
from .request import File, Request
from .retries import RetriedRequest, Retries

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I", bound=Identified)  # noqa: E741 - an item


class Sender:
    """Sends requests, repeated as ``RetriedRequest`` decides. For one event loop."""

    def __init__(self, http: httpx2.AsyncClient, retries: Retries, timeout_s: float) -> None:
        """Created by ``AsyncClient``."""
        self.http = http
        self.retries = retries
        self.timeout_s = timeout_s

    async def send(self, request: Request[T]) -> T:
        """Return the data of the response. Raises OpenTillError."""
        retried, response, body = await self._send(request, whole=True)
        return retried.read(response, body)

    async def open(self, request: Request[File]) -> tuple[RetriedRequest[File], httpx2.Response]:
        """Return a response with an unread body. Raises OpenTillError."""
        retried, response, _ = await self._send(request, whole=False)
        return retried, response

    async def _send(
        self, request: Request[T], *, whole: bool
    ) -> tuple[RetriedRequest[T], httpx2.Response, bytes]:
        retried = RetriedRequest(request, self.retries, self.timeout_s)
        while True:
            try:
                response = await self.http.send(self._build(retried), stream=True)
                if response.is_success and not whole:
                    return retried, response, b""
                body = await _read_body(retried, response)
            except (httpx2.RequestError, httpx2.StreamError) as failure:
                delay_s = retried.delay_after_failure(failure)
            else:
                if retried.succeeded(response, body):
                    return retried, response, body
                delay_s = retried.delay_after_refusal(response, body)
            await asyncio.sleep(delay_s)

    def _build(self, retried: RetriedRequest[Any]) -> httpx2.Request:
        return self.http.build_request(
            retried.request.method,
            retried.request.path,
            params=retried.request.query or None,
            content=retried.request.body,
            headers=retried.headers,
            timeout=retried.timeout_s,
        )


async def _read_body(retried: RetriedRequest[Any], response: httpx2.Response) -> bytes:
    parts: list[bytes] = []
    try:
        async for chunk in response.aiter_bytes():
            parts.append(chunk)
            retried.check_time()
    finally:
        await response.aclose()
    return b"".join(parts)


class AsyncPages(Generic[I]):
    """A list, fetched page by page during iteration. Each loop starts again."""

    def __init__(self, sender: Sender, request: Request[Page[I]]) -> None:
        """Created by the ``list`` methods of a client."""
        self._sender = sender
        self._request = request

    async def __aiter__(self) -> AsyncIterator[I]:
        """Yield every item once, from the requested page to the last."""
        seen = SeenItems()
        async for page in self.pages():
            for item in filter(seen.add, page.items):
                yield item

    async def pages(self) -> AsyncIterator[Page[I]]:
        """Yield the pages, each with its pagination."""
        number = int(self._request.query["page"])
        while True:
            page = await self._sender.send(self._request.at(number))
            yield page
            if number >= page.pagination.total_pages:
                return
            number += 1

    async def page(self) -> Page[I]:
        """Return only the requested page."""
        return await self._sender.send(self._request)


class AsyncDownload:
    """A file, streamed in constant memory: iterate it in ``async with``, or ``save`` it."""

    def __init__(self, sender: Sender, request: Request[File]) -> None:
        """Created by the ``export`` methods of a client."""
        self._sender = sender
        self._request = request
        self._open: tuple[RetriedRequest[File], httpx2.Response] | None = None
        self.filename = ""  # the server's name for the file, "" until the file is open

    async def __aenter__(self) -> Self:
        """Request the file."""
        retried, response = await self._sender.open(self._request)
        if not response.headers.get("content-type", "").startswith("text/csv"):
            await response.aclose()
            raise retried.unexpected(response, "is not a CSV file")
        self._open = retried, response
        self.filename = filename(response)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the response."""
        if self._open is not None:
            await self._open[1].aclose()
            self._open = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the file in chunks. Raises ConnectionFailed if the connection breaks."""
        if self._open is None:
            async with self:
                async for chunk in self:
                    yield chunk
            return
        retried, response = self._open
        try:
            async for chunk in response.aiter_bytes():
                yield chunk
        except httpx2.RequestError as failure:
            raise retried.broke_off(failure) from failure

    async def save(self, target: str | os.PathLike[str] | IO[bytes]) -> int:
        """Write the file and return its size in bytes; a path gets the complete file or none."""
        if isinstance(target, str | os.PathLike):
            path = Path(target)
            part = partial_path(path)
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


def _data(operation: Callable[P, Request[T]]) -> Method[P, Coroutine[Any, Any, T]]:
    """Return a method that returns the data of its response."""
    return Method(operation, Sender.send)


def _list(operation: Callable[P, Request[Page[I]]]) -> Method[P, AsyncPages[I]]:
    """Return a method that returns the pages of a list."""
    return Method(operation, AsyncPages)


def _file(operation: Callable[P, Request[File]]) -> Method[P, AsyncDownload]:
    """Return a method that returns a file."""
    return Method(operation, AsyncDownload)


class Agreement(Resource):
    """The merchant services agreement."""

    get = _data(operations.get_agreement)


class Products(Resource):
    """The merchant's products."""

    create = _data(operations.create_product)
    list = _list(operations.list_products)
    get = _data(operations.get_product)
    update = _data(operations.update_product)
    archive = _data(operations.archive_product)


class Checkouts(Resource):
    """Checkout sessions, in which customers pay."""

    create = _data(operations.create_checkout)
    list = _list(operations.list_checkouts)
    get = _data(operations.get_checkout)
    expire = _data(operations.expire_checkout)


class PaymentLinks(Resource):
    """URLs at which any number of customers can pay."""

    create = _data(operations.create_payment_link)
    list = _list(operations.list_payment_links)
    get = _data(operations.get_payment_link)
    update = _data(operations.update_payment_link)


class Orders(Resource):
    """Orders: pending, paid or closed."""

    list = _list(operations.list_orders)
    get = _data(operations.get_order)
    export = _file(operations.export_orders)


class Refunds(Resource):
    """Refunds to customers."""

    create = _data(operations.create_refund)
    list = _list(operations.list_refunds)
    get = _data(operations.get_refund)


class Disputes(Resource):
    """Payments that customers dispute through their banks."""

    list = _list(operations.list_disputes)
    get = _data(operations.get_dispute)


class Payouts(Resource):
    """Payouts to the merchant's bank."""

    list = _list(operations.list_payouts)
    get = _data(operations.get_payout)


class Balance(Resource):
    """The pending, available and frozen balance."""

    get = _data(operations.get_balance)
    export_statement = _file(operations.export_statement)


class BalanceTransactions(Resource):
    """The entries of the balance."""

    list = _list(operations.list_balance_transactions)


class WebhookEndpoints(Resource):
    """The endpoints to which events are sent."""

    create = _data(operations.create_endpoint)
    list = _list(operations.list_endpoints)
    get = _data(operations.get_endpoint)
    update = _data(operations.update_endpoint)
    delete = _data(operations.delete_endpoint)
    rotate_secret = _data(operations.rotate_secret)
    resend_events = _data(operations.resend_events)
    send_test_event = _data(operations.send_test_event)


class WebhookDeliveries(Resource):
    """The deliveries of events to an endpoint."""

    list = _list(operations.list_deliveries)


class Events(Resource):
    """Events, in order."""

    list = _data(operations.list_events)
    get = _data(operations.get_event)


class AsyncClient:
    """The API of one OpenTill server with one key. For one event loop.

    ``base_url`` is the server's URL without ``/v1``. ``transport``, ``event_hooks`` and
    ``trust_env`` are those of httpx2.
    """

    def __init__(  # noqa: PLR0913 - most have defaults
        self,
        base_url: str,
        api_key: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        retries: Retries = DEFAULT_RETRIES,
        headers: Mapping[str, str] | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
        event_hooks: Mapping[str, list[Callable[..., Any]]] | None = None,
        trust_env: bool = True,
    ) -> None:
        """``timeout_s`` is the longest time without data from the server. Raises ValueError."""
        self._http = httpx2.AsyncClient(
            **http_options(base_url, api_key, headers, timeout_s),
            transport=transport,
            event_hooks=event_hooks,
            trust_env=trust_env,
        )
        sender = Sender(self._http, retries, timeout_s)
        self.agreement = Agreement(sender)
        self.products = Products(sender)
        self.checkouts = Checkouts(sender)
        self.payment_links = PaymentLinks(sender)
        self.orders = Orders(sender)
        self.refunds = Refunds(sender)
        self.disputes = Disputes(sender)
        self.payouts = Payouts(sender)
        self.balance = Balance(sender)
        self.balance_transactions = BalanceTransactions(sender)
        self.webhook_endpoints = WebhookEndpoints(sender)
        self.webhook_deliveries = WebhookDeliveries(sender)
        self.events = Events(sender)

    def __repr__(self) -> str:
        """Return the server's URL, without the key."""
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        """Return the client, whose connections are closed at the end of the block."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close connections."""
        await self.close()

    async def close(self) -> None:
        """Close connections."""
        await self._http.aclose()
