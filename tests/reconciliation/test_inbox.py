"""The inbox: each difference once, resolved once, and never by itself but where a report has it."""

import io

import pytest

from opentill import ledger, merchants, reconciliation
from opentill.adjustments import AdjustmentRequest
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db
from opentill.reconciliation import OpenDifference, Report, Result
from support import world
from support.payout_runs import ANN, BOB
from support.world import NOW

HEAD = "kind,reference,amount,currency,settled_at\n"


async def _compare(db: Db, *rows: str) -> Result:
    file = io.BytesIO((HEAD + "".join(f"{row}\n" for row in rows)).encode())
    report = Report(gateway="sandbox", file=file, name="november.csv", whole=True)
    return await reconciliation.reconcile_file(db, report, ANN, NOW)


async def _open(db: Db) -> list[OpenDifference]:
    return await db.read(lambda tx: reconciliation.opened(tx, "sandbox"))


async def test_a_difference_is_there_once_and_goes_when_a_report_has_it(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    attempt = order.paid_attempt_id
    for _ in range(2):  # the same file twice
        assert (await _compare(db, f"payment,att_x,5.00,USD,{NOW}")).found == 2
    found = await _open(db)
    assert [(one.what, one.reference, one.merchant_id) for one in found] == [
        ("missing in report", attempt, order.merchant_id), ("missing in ledger", "att_x", ""),
    ]  # fmt: skip
    assert len(await db.read(reconciliation.files)) == 1
    later = (f"payment,{attempt},9.99,USD,{NOW}", f"payment,att_x,5.00,USD,{NOW}")
    assert (await _compare(db, *later)).matched == 1
    (left,) = await _open(db)
    assert left.reference == "att_x"
    done = await db.read(lambda tx: reconciliation.opened(tx, resolved=True))
    assert [(one.reference, one.resolved_by) for one in done] == [(attempt, "opentill")]
    async with db.connection() as tx:
        assert await reconciliation.count_open(tx) == 1


async def test_a_difference_is_resolved_once_with_what_it_moves(db: Db) -> None:
    shop = await db.run(world.merchant)
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
    (found,) = await _open(db)
    asked = AdjustmentRequest(
        kind="recharge", amount_minor=500, reason="lost", by="ann", reference=found.id
    )

    async def resolve(whose: str) -> object:
        return await db.run(lambda tx: reconciliation.resolve(tx, found.id, BOB, NOW, asked, whose))

    with pytest.raises(Invalid, match="merchant must be the one"):
        await resolve("")
    assert await resolve(shop.id) is not None
    with pytest.raises(Invalid, match="bob has resolved it"):
        await resolve(shop.id)
    balance = await db.read(lambda tx: ledger.balance(tx, shop.id, "USD"))
    assert balance is not None
    assert balance.available == 500
    assert await _open(db) == []
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}", "")  # it does not come back
    assert await _open(db) == []
    rows = await db.read(lambda tx: merchants.audit_log(tx, limit=3))
    assert "reconcile resolve" in [row.action for row in rows]
    with pytest.raises(NotFound):
        await db.run(lambda tx: reconciliation.resolve(tx, "dif_x", BOB, NOW))


ITEMISED = (
    "balance_transaction_id,created_utc,reporting_category,source_id,gross,fee,currency,"
    "customer_facing_amount,customer_facing_currency,payment_intent_id,payment_metadata[attempt_id]"
)
EXPORTED = "id,Type,Source,Amount,Fee,Net,Currency,Created (UTC),Description"


async def test_stripes_own_reports_are_read_as_they_are(db: Db) -> None:
    order = await db.run(world.opened)
    attempt = await db.run(lambda tx: world.submitted(tx, order, gateway="stripe"))
    paid = world.Money(order.amount_minor, order.currency)
    await db.run(lambda tx: world.said(tx, attempt, "SUCCEEDED", amount=paid, provider_ref="pi_7"))
    for text in (
        (
            f"{ITEMISED}\n"
            "txn_1,2025-06-15 15:06:40,charge,ch_1,78.00,1.00,hkd,9.99,usd,pi_7,\n"
            "txn_2,2025-06-15 15:06:41,fee,,-1.00,0,hkd,,,,\n"
            "txn_3,2025-06-15 15:06:41,payout,po_1,-77.00,0,hkd,,,,\n"
        ),
        (
            f"{EXPORTED}\n"
            f"txn_1,charge,pi_7,9.99,0.30,9.69,usd,2025-06-15 15:06:40,\n"
            "txn_2,stripe_fee,,-1.00,0,-1.00,usd,2025-06-15 15:06:41,\n"
        ),
    ):
        file = io.BytesIO(text.encode())
        report = Report(gateway="stripe", file=file, name="balance.csv")
        result = await reconciliation.reconcile_file(db, report, ANN, NOW)
        assert (result.rows, result.matched, result.found) == (1, 1, 0), text
    wrong = f"{EXPORTED}\ntxn_1,charge,pi_7,9.999,0,0,usd,2025-06-15 15:06:40,\n"
    with pytest.raises(Invalid, match="line 2: must have a source and an amount of USD"):
        await reconciliation.reconcile_file(
            db, Report(gateway="stripe", file=io.BytesIO(wrong.encode()), name="x"), ANN, NOW
        )


async def test_money_that_stripe_takes_with_the_dispute_is_no_difference(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    await db.run(lambda tx: world.dispute_said(tx, order, "OPENED", ref="du_1"))
    rows = f"{EXPORTED}\ntxn_1,adjustment,du_1,-9.99,0,0,usd,2025-06-15 15:06:40,Chargeback\n"
    file = io.BytesIO(rows.encode())
    report = Report(gateway="sandbox", file=file, name="x", since=NOW + 1)
    result = await reconciliation.reconcile_file(db, report, ANN, NOW)
    assert result.found == 0
