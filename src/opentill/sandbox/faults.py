"""Faults on demand: the bank fails a given number of times in a given way.

A fault is used up in the same transaction as its operation or callback. "Before" and "after" say
whether the operation is done before its response is lost, which the shop cannot know:

=================== ========== ===========================================================
kind                 done       what the caller sees
=================== ========== ===========================================================
timeout_before       no         no response, the connection hangs for ``delay_s``
timeout_after        yes        the same
error_500            no         500
error_500_after      yes        500
reset                no         the connection is cut in the middle of the response
reset_after          yes        the same
slow                 yes        the right response, ``delay_s`` late
malformed            yes        JSON that ends too early
huge                 yes        a response of nine megabytes
=================== ========== ===========================================================

A callback can be a ``duplicate`` (delivered twice), ``out_of_order`` (held back until a later one
about the same payment arrived, at most ``delay_s``), ``slow`` (``delay_s`` late) or be dropped.

Responses and callbacks of dialects can also have a ``wrong_amount``, be about an ``other_account``,
have a ``wrong_signature`` or be signed by an ``expired_certificate``. A refund can be
``unconfirmed``: it is accepted and not done.

The link to a bill can be ``not_ready``, or lead to the bill of an ``other_account`` or an
``other_day``. Its file can be a ``redirect``, have ``other_content`` than was announced, or be a
``bomb`` that unpacks to a multiple of its size; ``match`` limits both to a day.

The node of a chain can be ``behind`` by 100 blocks, be one of an ``other_chain``, refuse a request
because of too many results (``limit_exceeded``), or return logs twice, none of them, or with a
``wrong_amount``; ``match`` limits such a fault to a method, such as eth_getLogs.
"""

from typing import Final

from opentill.sandbox.model import (
    DIALECT_FAULTS,
    FAULTS,
    Fault,
    FaultKind,
    FaultOrder,
    Operation,
    Refusal,
)
from opentill.sandbox.storage import Tx

_DELAYS_S: Final[dict[FaultKind, float]] = {
    "timeout_before": 60.0,
    "timeout_after": 60.0,
    "slow": 2.0,
    "out_of_order": 10.0,
}


def add(tx: Tx, order: FaultOrder) -> list[Fault]:
    """Store a fault and return all pending ones. Raises Refusal if it does not fit."""
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
    return list_all(tx)


def list_all(tx: Tx) -> list[Fault]:
    """Return the pending faults, oldest first."""
    return tx.all(Fault, "select * from faults order by id")


def clear(tx: Tx) -> None:
    """Delete all faults."""
    tx.run("delete from faults")


def take(tx: Tx, operation: Operation, *subjects: str, dialect: bool = False) -> Fault | None:
    """Return and use up the oldest fault of an operation that applies; None if there is none.

    A fault applies if its ``match`` is None or one of ``subjects``, which are ids, and if it is not
    one of dialects' faults or ``dialect`` is true.
    """
    sql = "select * from faults where operation = :operation order by id"
    for fault in tx.all(Fault, sql, operation=operation):
        if fault.kind in DIALECT_FAULTS and not dialect:
            continue
        if fault.match is None or fault.match in subjects:
            tx.run("update faults set times = times - 1 where id = :id", id=fault.id)
            tx.run("delete from faults where id = :id and times <= 0", id=fault.id)
            return fault
    return None
