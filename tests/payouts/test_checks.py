"""The check of the books finds payouts and adjustments that contradict their entries."""

import pytest

from opentill import adjustments, payouts
from opentill.db.database import Tx
from opentill.integrity.rules import check_books
from opentill.payouts import PayoutRequest
from support.pooler import connect
from support.world import NOW, create_merchant, new_reference

PAYOUT = "a payout has left with its fee, and is back with it exactly when it failed"
ADJUSTMENT = "an adjustment has its one entry exactly when it is done"
UNFROZEN = "operators unfreeze only what operators froze"

RULES = {
    PAYOUT, ADJUSTMENT, UNFROZEN, "every entry of a payout has one",
    "every entry of an operator has its movement",
}  # fmt: skip

CORRUPTIONS = (
    # SQL that corrupts payouts                                          violated rules
    ("update payouts set amount_minor = amount_minor + 1", {PAYOUT}),
    ("update payouts set fee_minor = fee_minor - 1", {PAYOUT}),
    ("update payouts set currency = 'EUR'", {PAYOUT}),
    ("update payouts set status = 'FAILED', failed_at = 1, failure_reason = 'x'", {PAYOUT}),
    ("delete from payouts", {"every entry of a payout has one"}),
    ("update adjustments set amount_minor = amount_minor + 1", {ADJUSTMENT}),
    ("update adjustments set currency = 'EUR'", {ADJUSTMENT}),
    ("update adjustments set kind = 'fee' where kind = 'freeze'", {ADJUSTMENT, UNFROZEN}),
    (
        "update adjustments set status = 'WAITING', decided_at = null",
        {ADJUSTMENT},
    ),
    (
        "delete from adjustments where kind = 'unfreeze'",
        {"every entry of an operator has its movement"},
    ),
)


@pytest.mark.parametrize(("statement", "rules"), CORRUPTIONS)
async def test_the_check_of_the_books_names_the_rule_that_a_row_violates(
    rollback_database_url: str, statement, rules
) -> None:
    connection = await connect(rollback_database_url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await _create_movements(connection)
        assert (await check_books(connection))[1] == []
        await connection.execute(statement)
        assert {violation.rule for violation in (await check_books(connection))[1]} & RULES == rules
    finally:
        await transaction.rollback()
        await connection.close()


async def _create_movements(tx: Tx) -> None:
    shop = await create_merchant(tx)

    async def move(kind: adjustments.Kind, minor: int) -> None:
        request = adjustments.AdjustmentRequest(
            kind=kind, amount_minor=minor, reference=new_reference(), reason="why", by="ann"
        )
        await adjustments.request(tx, shop.id, request, None, NOW)

    await move("recharge", 10_000)
    await move("freeze", 3_000)
    await move("unfreeze", 1_000)
    request = PayoutRequest(
        amount_minor=2_500, fee_minor=150, reference=new_reference(), reason="weekly", by="ann"
    )
    await payouts.create(tx, shop.id, request, None, NOW)
