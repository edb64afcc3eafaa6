"""Files as responses of pages: what goes wrong at the beginning of one still gets a page."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opentill.http import csvfile
from opentill.http.responses import Download, send_download


async def file(download: Download) -> Response:
    """Return a file that is streamed. Raises what making its first chunk raises."""
    first = await anext(download.chunks, b"")
    return _File(msgspec.structs.replace(download, chunks=_whole(first, download.chunks)))


async def table(name: str, chunks: AsyncGenerator[bytes, None]) -> Response:
    """Return a table as CSV, for spreadsheets. Raises what making its first chunk raises."""
    return await file(Download(csvfile.CONTENT_TYPE, name, csvfile.with_bom(chunks)))


async def _whole(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for chunk in rest:
            yield chunk


class _File(Response):
    """A download; it takes no other headers than its own."""

    def __init__(self, download: Download) -> None:
        super().__init__(b"")
        self._download = download

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await send_download(receive, send, self._download)
