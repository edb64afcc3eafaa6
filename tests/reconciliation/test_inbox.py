"""The inbox: each difference is stored and resolved once, by a person or a later report."""

import asyncio
import io
from decimal import Decimal

import msgspec
import pytest

from opentill import adjustments, ledger, merchants, reconciliation
from opentill.adjustments import Adjustment, AdjustmentRequest
from opentill.core.errors import Invalid, NotFound
from opentill.db.database import Db
from opentill.reconciliation import OpenDifference, Report, Result, inbox, queries
from support import world
from support.payout_runs import ANN, BOB
from support.world import NOW

HEAD = "kind,reference,amount,currency,settled_at\n"


async def _compare(db: Db, *rows: str) -> Result:
    file = io.BytesIO((HEAD + "".join(f"{row}\n" for row in rows)).encode())
    report = Report(gateway="sandbox", file=file, name="november.csv", whole=True)
    return await reconciliation.reconcile_file(db, report, ANN, NOW)


async def _list_open(db: Db) -> list[OpenDifference]:
    return await db.read(lambda tx: reconciliation.list_differences(tx, "sandbox"))


async def test_a_missing_item_is_stored_once_and_resolved_by_a_later_report(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    attempt = order.paid_attempt_id
    for _ in range(2):  # the same file is compared twice
        result = await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
        assert result.difference_count == 2
    differences = await _list_open(db)
    assert [(row.what, row.reference, row.merchant_id) for row in differences] == [
        ("missing in report", attempt, order.merchant_id), ("missing in ledger", "att_x", ""),
    ]  # fmt: skip
    assert len(await db.read(reconciliation.list_files)) == 1
    later = (f"payment,{attempt},9.99,USD,{NOW}", f"payment,att_x,5.00,USD,{NOW}")
    assert (await _compare(db, *later)).matched == 1
    (remaining,) = await _list_open(db)
    assert remaining.reference == "att_x"
    resolved = await db.read(lambda tx: reconciliation.list_differences(tx, resolved=True))
    assert [(row.reference, row.resolved_by) for row in resolved] == [(attempt, "opentill")]
    async with db.connection() as tx:
        assert await reconciliation.count_open(tx) == 1


async def test_equal_rows_are_separate_differences(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    rows = [f"payment,{order.paid_attempt_id},9.99,USD,{NOW}"] * 4
    rows += [f"payment,att_x,5.00,USD,{NOW}"] * 2
    for _ in range(2):  # the same file is compared twice
        assert (await _compare(db, *rows)).difference_count == 5
        assert len(await _list_open(db)) == 5


async def test_a_difference_is_resolved_once_by_an_adjustment(db: Db) -> None:
    shop = await db.run(world.create_merchant)
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
    (difference,) = await _list_open(db)
    adjust = AdjustmentRequest(
        kind="recharge", amount_minor=500, reason="lost", by="ann", reference=difference.id
    )

    async def resolve(merchant_id: str) -> object:
        return await db.run(
            lambda tx: reconciliation.resolve(tx, difference.id, BOB, NOW, adjust, merchant_id)
        )

    with pytest.raises(Invalid, match="merchant must be the one"):
        await resolve("")
    assert await resolve(shop.id) is not None
    with pytest.raises(Invalid, match="bob has resolved it"):
        await resolve(shop.id)
    balance = await db.read(lambda tx: ledger.find_balance(tx, shop.id, "USD"))
    assert balance is not None
    assert balance.available == 500
    assert await _list_open(db) == []
    # Another file contains the same difference.
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}", "")
    assert await _list_open(db) == []
    rows = await db.read(lambda tx: merchants.audit_log(tx, limit=3))
    assert "reconcile resolve" in [row.action for row in rows]
    with pytest.raises(NotFound):
        await db.run(lambda tx: reconciliation.resolve(tx, "dif_x", BOB, NOW))


async def test_a_difference_is_reopened_when_its_adjustment_is_rejected(db: Db) -> None:
    shop = await db.run(world.create_merchant)
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
    (difference,) = await _list_open(db)
    adjust = AdjustmentRequest(
        kind="recharge", amount_minor=500, reason="lost", by="ann", reference=difference.id
    )

    async def resolve(now: int, minor: int = 500) -> Adjustment | None:
        request = msgspec.structs.replace(adjust, amount_minor=minor)
        return await db.run(
            lambda tx: reconciliation.resolve(
                tx, difference.id, ANN, now, request, shop.id, Decimal(1)
            )
        )

    async def reject(adjustment: Adjustment | None, reason: str) -> None:
        assert adjustment is not None
        ids = (adjustment.id, "bob", reason, NOW + 9)
        await db.run(lambda tx: reconciliation.reject_adjustment(tx, *ids))

    # After a rejection, the next resolution requests a new adjustment.
    for number, minor in ((1, 500), (2, 500), (3, 400)):
        adjustment = await resolve(NOW + number, minor)
        assert adjustment is not None
        assert (adjustment.status, await _list_open(db)) == ("WAITING", [])
        await reject(adjustment, f"no {number}")
        (reopened,) = await _list_open(db)
        last = reopened.resolutions[-1]
        assert (last.at, last.by, last.resolution) == (NOW + number, ANN.who, ANN.reason)
        assert (last.adjustment_id, last.rejected_by) == (adjustment.id, "bob")
        assert last.why == f"no {number}"
        assert len(reopened.resolutions) == number
    rows = [row.action for row in await db.read(lambda tx: merchants.audit_log(tx, limit=4))]
    assert rows[:2] == ["reconcile reopen", "balance reject"]
    # If an adjustment has not resolved the difference, its rejection does not reopen it.
    await db.run(lambda tx: reconciliation.resolve(tx, difference.id, BOB, NOW + 20))
    other = msgspec.structs.replace(adjust, reference=f"{difference.id}-9", by="ann")
    waiting = await db.run(lambda tx: adjustments.request(tx, shop.id, other, Decimal(1), NOW + 20))
    await reject(waiting, "no")
    assert await _list_open(db) == []


async def test_a_concurrent_approval_and_rejection_decide_once(db: Db) -> None:
    shop = await db.run(world.create_merchant)
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
    (difference,) = await _list_open(db)
    adjust = AdjustmentRequest(
        kind="recharge", amount_minor=500, reason="lost", by="ann", reference=difference.id
    )
    adjustment = await db.run(
        lambda tx: reconciliation.resolve(tx, difference.id, ANN, NOW, adjust, shop.id, Decimal(1))
    )
    assert adjustment is not None
    results = await asyncio.gather(
        db.run(lambda tx: adjustments.approve(tx, adjustment.id, "bob", NOW + 1)),
        db.run(
            lambda tx: reconciliation.reject_adjustment(tx, adjustment.id, "cid", "no", NOW + 1)
        ),
        return_exceptions=True,
    )
    (decided,) = [result for result in results if isinstance(result, Adjustment)]
    assert len([result for result in results if isinstance(result, Invalid)]) == 1
    assert (len(await _list_open(db)) == 1) == (decided.status == "REJECTED")


async def test_resolving_missing_items_uses_an_index(db: Db) -> None:
    await db.run(
        lambda tx: tx.execute(
            """
            insert into reconciliation_files (id, source, sha256, name, status, rows, matched,
                found, who, created_at)
            values ('rec_1', 'sandbox', repeat('a', 64), 'a', 'OPEN', 0, 0, 0, 'ann', 1)
            """
        )
    )
    await db.run(
        lambda tx: tx.execute(
            """
            insert into reconciliation_differences (id, file_id, source, what, kind, reference,
                merchant_id, ours, theirs, created_at)
            select 'dif_' || n, 'rec_1', 'sandbox', 'missing in report', 'payment', 'att_' || n,
                '', '9.99', '', 1
            from generate_series(1, 3000) as numbers (n)
            """
        )
    )
    async with db.connection() as tx:
        await tx.execute("analyze reconciliation_differences")
        parameters = {
            "source": "sandbox", "kind": ["payment"] * 3, "reference": ["att_1"] * 3, "who": "x",
            "now": NOW,
        }  # fmt: skip
        plan = await tx.fetch(
            f"explain {queries.RESOLVE_MISSING.sql}",
            *queries.RESOLVE_MISSING.values(None, parameters),
        )
        assert any("using reconciliation_differences_" in row[0] for row in plan), plan
        await inbox.resolve_missing(tx, "sandbox", [("payment", "att_7")], NOW)
        assert await reconciliation.count_open(tx) == 2999
        assert await inbox.has_missing(tx, "sandbox")
        assert not await inbox.has_missing(tx, "stripe")


ITEMISED = (
    "balance_transaction_id,created_utc,reporting_category,source_id,gross,fee,currency,"
    "customer_facing_amount,customer_facing_currency,payment_intent_id,payment_metadata[attempt_id]"
)
EXPORTED = "id,Type,Source,Amount,Fee,Net,Currency,Created (UTC),Description"


async def test_reports_of_stripe_are_read(db: Db) -> None:
    order = await db.run(world.create_order)
    attempt = await db.run(lambda tx: world.submit_attempt(tx, order, gateway="stripe"))
    paid = world.Money(order.amount_minor, order.currency)
    await db.run(
        lambda tx: world.report_payment(tx, attempt, "SUCCEEDED", amount=paid, provider_ref="pi_7")
    )
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
        assert (result.rows, result.matched, result.difference_count) == (1, 1, 0), text
    invalid = f"{EXPORTED}\ntxn_1,charge,pi_7,9.999,0,0,usd,2025-06-15 15:06:40,\n"
    with pytest.raises(Invalid, match="line 2: must have a source and an amount of USD"):
        await reconciliation.reconcile_file(
            db, Report(gateway="stripe", file=io.BytesIO(invalid.encode()), name="x"), ANN, NOW
        )


async def test_a_report_of_stripe_that_names_payments_by_charges_only_is_refused(db: Db) -> None:
    """Each payment would be missing on both sides."""
    text = f"{EXPORTED}\ntxn_1,charge,ch_7,9.99,0.30,9.69,usd,2025-06-15 15:06:40,\n"
    report = Report(gateway="stripe", file=io.BytesIO(text.encode()), name="balance.csv")
    with pytest.raises(Invalid, match=r"line 2: the report must have the column attempt_id \(meta"):
        await reconciliation.reconcile_file(db, report, ANN, NOW)
    # A charge of somebody else has no id of ours in that column.
    header, row = text.splitlines()
    text = f"{header},attempt_id (metadata)\n{row},\n"
    report = Report(gateway="stripe", file=io.BytesIO(text.encode()), name="balance.csv")
    result = await reconciliation.reconcile_file(db, report, ANN, NOW)
    assert [row.reference for row in result.differences] == ["ch_7"]


SOURCELESS = (
    "balance_transaction_id,created_utc,reporting_category,gross,currency\n"
    "txn_8,2025-06-15 15:06:40,charge,5.00,usd\n"
)


@pytest.mark.parametrize(
    "text",
    [
        f"{ITEMISED}\ntxn_8,2025-06-15 15:06:40,charge,,5.00,0,usd,,,,\n",
        f"{EXPORTED}\ntxn_8,charge,,5.00,0,5.00,usd,2025-06-15 15:06:40,\n",
        SOURCELESS,
    ],
)
async def test_a_row_of_stripe_without_a_source_is_a_difference_named_by_its_transaction(
    db: Db, text: str
) -> None:
    report = Report(gateway="stripe", file=io.BytesIO(text.encode()), name="balance.csv")
    result = await reconciliation.reconcile_file(db, report, ANN, NOW)
    (difference,) = result.differences
    assert result.rows == 1
    assert (difference.what, difference.reference) == ("missing in ledger", "txn_8")


async def test_a_row_of_stripe_with_an_unknown_type_is_a_difference(db: Db) -> None:
    order = await db.run(world.create_order)
    attempt = await db.run(lambda tx: world.submit_attempt(tx, order, gateway="stripe"))
    paid = world.Money(order.amount_minor, order.currency)
    await db.run(
        lambda tx: world.report_payment(tx, attempt, "SUCCEEDED", amount=paid, provider_ref="pi_7")
    )
    time = "2025-06-15 15:06:40"
    exported = [
        EXPORTED,
        f"txn_1,charge,pi_7,9.99,0,0,usd,{time},",
        f"txn_2,refund_failure,re_1,9.99,0,0,usd,{time},",
        f"txn_3,payment_failure_refund,pi_8,-9.99,0,0,usd,{time},",
        f"txn_4,adjustment,pyr_1,9.99,0,0,usd,{time},Failed refund",
        f"txn_5,adjustment,,-1.00,0,0,usd,{time},A correction",
        f"txn_6,new_thing,x_1,-1.00,0,0,xxx,{time},",
        f"txn_7,payout_failure,po_1,9.99,0,0,usd,{time},",
    ]
    itemised = [
        ITEMISED,
        f"txn_1,{time},charge,ch_1,9.99,0,usd,9.99,usd,pi_7,",
        f"txn_2,{time},refund_failure,re_1,9.99,0,usd,9.99,usd,pi_7,",
        f"txn_3,{time},charge_failure,ch_1,-9.99,0,usd,9.99,usd,pi_7,",
        f"txn_4,{time},other_adjustment,,1.00,0,usd,,,,",
    ]
    for lines, expected in (
        (
            exported,
            [
                ("refund_failure", "re_1"),
                ("payment_failure", "pi_8"),
                ("refund_failure", "pyr_1"),
                ("unknown", "adjustment txn_5"),
                ("unknown", "new_thing x_1"),
            ],
        ),
        (
            itemised,
            [
                ("refund_failure", "re_1"),
                ("payment_failure", "pi_7"),
                ("unknown", "other_adjustment txn_4"),
            ],
        ),
    ):
        file = io.BytesIO("\n".join(lines).encode())
        report = Report(gateway="stripe", file=file, name="balance.csv")
        result = await reconciliation.reconcile_file(db, report, ANN, NOW)
        assert result.matched == 1
        assert [(row.kind, row.reference) for row in result.differences] == expected
        assert {row.what for row in result.differences} == {"missing in ledger"}


async def test_money_that_stripe_takes_when_a_dispute_opens_is_no_difference(db: Db) -> None:
    order = await db.run(lambda tx: world.create_order_in(tx, "PAID"))
    await db.run(lambda tx: world.report_dispute(tx, order, "OPENED", ref="du_1"))
    rows = f"{EXPORTED}\ntxn_1,adjustment,du_1,-9.99,0,0,usd,2025-06-15 15:06:40,Chargeback\n"
    file = io.BytesIO(rows.encode())
    report = Report(gateway="sandbox", file=file, name="x", since=NOW + 1)
    result = await reconciliation.reconcile_file(db, report, ANN, NOW)
    assert result.difference_count == 0
