"""Failover over all pairs of accounts and faults."""

import itertools
from typing import Any

from gateways.test_failover import (
    PUBLIC,
    Provider,
    create,
    pay,
    read_order_and_attempts,
)
from opentill.db.database import Db
from opentill.gateways import PaymentOutcome, PaymentRequest
from opentill.orders import Order
from opentill.orders import jobs as order_jobs
from support.transactions import db
from support.world import DAY, NOW

__all__ = ["db"]


class Till(Provider):
    """A gateway with a fault, and the attempts that it has charged."""

    FAULTS = ("none", "declines", "unreachable", "lost response", "lost request")

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(name)
        self.fault, self.charged = fault, list[str]()

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        self.attempts.append(request.attempt_id)
        if self.fault in ("none", "lost response"):
            self.charged.append(request.attempt_id)
        statuses: dict[str, Any] = {
            "none": "SUCCEEDED",
            "declines": "DECLINED",
            "unreachable": "UNREACHABLE",
        }
        return PaymentOutcome(status=statuses.get(self.fault, "UNKNOWN"))

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        return PaymentOutcome(status="SUCCEEDED" if attempt_id in self.charged else "NOT_FOUND")


async def test_over_all_pairs_of_faults_no_charge_is_doubled_or_lost(db: Db) -> None:
    pairs = list(itertools.product(Till.FAULTS, Till.FAULTS))
    paid: list[tuple[Order, tuple[Till, Till]]] = []
    for first_fault, second_fault in pairs:
        tills = (Till("one", first_fault), Till("two", second_fault))
        order = await create(db)
        gateways: dict[str, Any] = dict(zip(("one", "two"), tills, strict=True))
        await pay(db, gateways, order)
        later = NOW + 600_000
        for step in range(3):  # the worker asks the gateways that have not answered
            await order_jobs.check_attempts(db, gateways, PUBLIC, later + step * DAY)
        paid.append((order, tills))
    results: dict[tuple[str, str], str] = {}
    for pair, (order, tills) in zip(pairs, paid, strict=True):
        current, attempts = await read_order_and_attempts(db, order)
        charges = [name for till in tills for name in till.charged]
        assert len(charges) <= 1, pair
        succeeded = [attempt.id for attempt in attempts if attempt.status == "SUCCEEDED"]
        assert succeeded == charges, pair
        assert (current.status == "PAID") is bool(charges), (pair, current.status)
        results[pair] = current.status
    assert results["unreachable", "none"] == results["lost response", "none"] == "PAID"
    assert [status for pair, status in results.items() if pair[0] == "none"] == ["PAID"] * 5
