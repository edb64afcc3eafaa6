"""Faults on demand: the bank misbehaves a given number of times in a given way.

A fault is taken in the same transaction as what it spoils. "Before" and "after" say on which side
of the bank's doing the response is lost, which is what the shop cannot know:

=================== ========== ===========================================================
kind                 does it    what the caller sees
=================== ========== ===========================================================
timeout_before       no         no response, the connection hangs for ``delay_s``
timeout_after        yes        the same
error_500            no         500
error_500_after      yes        500
reset                no         the connection is cut in the middle of the response
reset_after          yes        the same
slow                 yes        the right response, ``delay_s`` late
=================== ========== ===========================================================

A callback can be a ``duplicate`` (delivered twice), ``out_of_order`` (held back until a later one
about the same payment arrived, at most ``delay_s``), ``slow`` (``delay_s`` late) or be dropped.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from opentill.sandbox.model import FAULTS, Fault, FaultKind, FaultOrder, Operation, Refusal
from opentill.sandbox.storage import Store, Tx
from opentill.sandbox.wire import json_response

_DELAYS_S: Final[dict[FaultKind, float]] = {
    "timeout_before": 60.0,
    "timeout_after": 60.0,
    "slow": 2.0,
    "out_of_order": 10.0,
}
_NOT_DONE: Final = ("timeout_before", "error_500", "reset")


def add(tx: Tx, order: FaultOrder) -> list[Fault]:
    """Store the fault and return all that wait. Raises Refusal if it fits not its operation."""
    if order.kind not in FAULTS[order.operation]:
        kinds = ", ".join(FAULTS[order.operation])
        raise Refusal(400, "invalid_request", f"{order.operation} can have the faults {kinds}.")
    delay_s = _DELAYS_S.get(order.kind, 0.0) if order.delay_s is None else order.delay_s
    tx.insert(
        "faults",
        {
            "operation": order.operation,
            "kind": order.kind,
            "times": order.times,
            "delay_s": delay_s,
            "match": order.match,
        },
    )
    return waiting(tx)


def waiting(tx: Tx) -> list[Fault]:
    """Return the faults that wait, oldest first."""
    return tx.all(Fault, "select * from faults order by id")


def clear(tx: Tx) -> None:
    """Forget all faults."""
    tx.run("delete from faults")


def take(tx: Tx, operation: Operation, *subjects: str) -> Fault | None:
    """Use up one time of the oldest fault for the operation and one of the subjects' ids, if any.

    A fault that names no id is for every one.
    """
    sql = "select * from faults where operation = :operation order by id"
    for fault in tx.all(Fault, sql, operation=operation):
        if fault.match is None or fault.match in subjects:
            tx.run("update faults set times = times - 1 where id = :id", id=fault.id)
            tx.run("delete from faults where id = :id and times <= 0", id=fault.id)
            return fault
    return None


async def respond(
    store: Store, operation: Operation, subject: str, work: Callable[[Tx], Response]
) -> Response:
    """Run ``work`` and return its response, unless a fault spoils the one or the other."""

    def spoilt(tx: Tx) -> tuple[Fault | None, Response | None]:
        fault = take(tx, operation, subject)
        if fault is not None and fault.kind in _NOT_DONE:
            return fault, None
        return fault, work(tx)

    fault, response = await store.do(spoilt)
    if fault is not None:
        if fault.kind.startswith("timeout"):
            return _Cut(silent_s=fault.delay_s)
        if fault.kind.startswith("reset"):
            return _Cut(silent_s=0)
        if fault.kind == "slow":
            await asyncio.sleep(fault.delay_s)
    if response is None or (fault is not None and fault.kind.startswith("error")):
        message = "The sandbox bank fails on demand."
        return json_response({"error": {"code": "internal", "message": message}}, 500)
    return response


class _Cut(Response):
    """Silence for a while or until the caller hangs up, then a response that is cut short."""

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
