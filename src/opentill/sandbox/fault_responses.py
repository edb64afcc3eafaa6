"""Applying a fault of ``faults.py`` to a response: it is late, truncated or an error."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opentill.sandbox import faults
from opentill.sandbox.http import error_response
from opentill.sandbox.model import DIALECT_FAULTS, Fault, FaultKind, Operation, Refusal
from opentill.sandbox.storage import Store, Tx

_HUGE: Final = 9 * 1024 * 1024  # more than a client should accept
_MALFORMED: Final = b'{"jsonrpc":"2.0","status_code":200,"data":[[[[{"'
_HALVES: Final = ("cut_half", "only_half")
_SKIPS_WORK: Final = ("timeout_before", "error_500", "reset")


async def respond(
    store: Store, operation: Operation, subject: str, work: Callable[[Tx], Response]
) -> Response:
    """Run ``work`` in a transaction and return its response; a fault may prevent or spoil it.

    ``subject`` is the id of the payment or refund, to which a fault may be limited.
    """
    return await respond_in_dialect(
        store, operation, subject, lambda tx, _fault: work(tx), dialect=False
    )


async def respond_in_dialect(
    store: Store,
    operation: Operation,
    subject: str,
    work: Callable[[Tx, FaultKind | None], Response],
    *,
    dialect: bool = True,
) -> Response:
    """Respond as ``respond`` does; ``work`` also gets a fault that is to be in its response."""

    def run(tx: Tx) -> tuple[Fault | None, Response | None]:
        fault = faults.take(tx, operation, subject, dialect=dialect)
        if fault is not None and fault.kind in _SKIPS_WORK:
            return fault, None
        return fault, work(tx, fault.kind if fault and fault.kind in DIALECT_FAULTS else None)

    fault, response = await store.do(run)
    if fault is not None:
        if fault.kind.startswith("timeout"):
            return _CutResponse(silent_s=fault.delay_s)
        if fault.kind.startswith("reset"):
            return _CutResponse(silent_s=0)
        if fault.kind == "slow":
            await asyncio.sleep(fault.delay_s)
        if fault.kind in ("malformed", "huge"):
            body = _MALFORMED if fault.kind == "malformed" else b'{"data":"' + b"x" * _HUGE + b'"}'
            return Response(body, media_type="application/json")
    if response is not None and fault is not None and fault.kind in _HALVES:
        return _HalfResponse(response, is_cut=fault.kind == "cut_half")
    if response is None or (fault is not None and fault.kind.startswith("error")):
        return error_response(Refusal(500, "internal", "The sandbox bank fails on demand."))
    return response


class _CutResponse(Response):
    """Waits for a while or until the caller disconnects, then sends a truncated response."""

    def __init__(self, silent_s: float) -> None:
        super().__init__(b"{}", media_type="application/json")
        self._silent_s = silent_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        """Send half a body; the server then closes the connection."""
        try:
            async with asyncio.timeout(self._silent_s or None):
                while self._silent_s and (await receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            pass
        await send(
            {"type": "http.response.start", "status": 200, "headers": self.raw_headers},
        )
        await send({"type": "http.response.body", "body": b"{", "more_body": True})


class _HalfResponse(Response):
    """Sends half of a response: as if it were whole, or cut off before the announced length."""

    def __init__(self, whole: Response, *, is_cut: bool) -> None:
        half = bytes(whole.body)[: len(whole.body) // 2]
        super().__init__(half, whole.status_code, media_type=whole.media_type)
        self._is_cut = is_cut
        if is_cut:
            self.headers["content-length"] = str(len(whole.body))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send half of the body; if it is to be cut off, the server then closes the connection."""
        if not self._is_cut:
            await super().__call__(scope, receive, send)
            return
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            },
        )
        await send({"type": "http.response.body", "body": bytes(self.body), "more_body": True})
