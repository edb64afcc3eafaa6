"""Attempts that the provider does not know before the customer opens them, as with Alipay."""

import pytest
from structlog.testing import capture_logs

from gateways.test_failover import Provider, create, pay
from opentill.db.database import Db
from opentill.gateways import PaymentOutcome
from opentill.orders.payments.outcomes import apply_outcome
from support.world import NOW


@pytest.mark.parametrize(
    ("first_status", "reported", "warns"),
    [
        ("ACTION_REQUIRED", "NOT_FOUND", False),  # the customer has not opened it yet
        ("ACTION_REQUIRED", "UNKNOWN", True),
        ("PENDING", "NOT_FOUND", True),  # the provider has known it
    ],
)
async def test_only_unexpected_outcomes_of_a_query_are_logged(
    db: Db, first_status: str, reported: str, *, warns: bool
) -> None:
    order = await create(db)
    attempt = await pay(db, {"one": Provider("one", first_status)}, order)
    outcome = PaymentOutcome(status=reported, reason="40004 ACQ.TRADE_NOT_EXIST")
    with capture_logs() as lines:
        async with db.connection() as tx:
            after = await apply_outcome(
                tx, order.merchant_id, attempt.id, outcome, NOW + 60_000, gateway="one"
            )
    assert after.status == attempt.status
    assert ([line["event"] for line in lines] == ["attempt unknown"]) == warns
