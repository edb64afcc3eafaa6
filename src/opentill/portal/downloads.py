"""Files as responses of pages. An error before the first chunk still gets a page."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opentill.http import csvfile
from opentill.http.responses import Download, send_download


async def file(download: Download) -> Response:
    """Stream a file. Raises the errors of its first chunk."""
    first = await anext(download.chunks, b"")
    return _File(msgspec.structs.replace(download, chunks=_prepend(first, download.chunks)))


async def table(name: str, chunks: AsyncGenerator[bytes, None]) -> Response:
    """Stream a table as CSV for spreadsheets. Raises the errors of its first chunk."""
    return await file(Download(csvfile.CONTENT_TYPE, name, csvfile.with_bom(chunks)))


async def _prepend(
    first: bytes, others: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(others):
        yield first
        async for chunk in others:
            yield chunk


class _File(Response):
    """A download. It sends all headers itself."""

    def __init__(self, download: Download) -> None:
        super().__init__(b"")
        self._download = download

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await send_download(receive, send, self._download)
