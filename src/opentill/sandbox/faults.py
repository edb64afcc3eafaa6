"""Faults on demand: the bank misbehaves a given number of times in a given way.

A fault is taken in the same transaction as what it spoils. "Before" and "after" say on which side
of the bank's doing the answer is lost, which is what the shop cannot know:

=================== ========== ===========================================================
kind                 does it    what the caller sees
=================== ========== ===========================================================
timeout_before       no         no answer at all, the connection hangs for ``delay_s``
timeout_after        yes        the same
error_500            no         500
error_500_after      yes        500
reset                no         the connection is cut in the middle of the answer
reset_after          yes        the same
slow                 yes        the right answer, ``delay_s`` late
=================== ========== ===========================================================

A callback can be a ``duplicate`` (delivered twice), ``out_of_order`` (held back until a later one
about the same payment arrived, at most ``delay_s``), ``slow`` (``delay_s`` late) or be dropped.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from opentill.sandbox.model import FAULTS, Fault, FaultKind, FaultOrder, Operation, Refusal
from opentill.sandbox.storage import Store, Tx

T = TypeVar("T")

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


async def answer(
    store: Store, operation: Operation, subject: str, work: Callable[[Tx], Response[Any]]
) -> Response[Any]:
    """Run the step and answer with what it returns, unless a fault spoils the one or the other."""

    def step(tx: Tx) -> tuple[Fault | None, Response[Any] | None]:
        fault = take(tx, operation, subject)
        if fault is not None and fault.kind in _NOT_DONE:
            return fault, None
        return fault, work(tx)

    fault, response = await store.do(step)
    if fault is not None:
        if fault.kind.startswith("timeout"):
            return _Cut(silent_s=fault.delay_s)
        if fault.kind.startswith("reset"):
            return _Cut(silent_s=0)
        if fault.kind == "slow":
            await asyncio.sleep(fault.delay_s)
    if response is None or (fault is not None and fault.kind.startswith("error")):
        message = "The sandbox bank fails on demand."
        return Response({"error": {"code": "internal", "message": message}}, status_code=500)
    return response


class _Cut(Response[None]):
    """No answer: silence for a while or until the caller hangs up, then a connection cut short."""

    def __init__(self, silent_s: float) -> None:
        super().__init__(None)
        self._silent_s = silent_s

    def to_asgi_response(self, *_: object, **__: object) -> ASGIResponse:
        """Answer so that nothing useful arrives."""
        return _CutResponse(self._silent_s)


class _CutResponse(ASGIResponse):
    __slots__ = ("_silent_s",)

    def __init__(self, silent_s: float) -> None:
        super().__init__(body=b"{}")
        self._silent_s = silent_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI
        try:
            async with asyncio.timeout(self._silent_s or None):
                while self._silent_s and (await receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            pass
        # Half a body and then nothing: the server closes the connection for us.
        await self.start_response(send)
        await send({"type": "http.response.body", "body": b"{", "more_body": True})
