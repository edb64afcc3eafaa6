"""The inbox: each difference once, resolved once, and never by itself but where a report has it."""

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


async def _open(db: Db) -> list[OpenDifference]:
    return await db.read(lambda tx: reconciliation.list_differences(tx, "sandbox"))


async def test_a_difference_is_there_once_and_goes_when_a_report_has_it(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    attempt = order.paid_attempt_id
    for _ in range(2):  # the same file twice
        assert (await _compare(db, f"payment,att_x,5.00,USD,{NOW}")).found == 2
    found = await _open(db)
    assert [(one.what, one.reference, one.merchant_id) for one in found] == [
        ("missing in report", attempt, order.merchant_id), ("missing in ledger", "att_x", ""),
    ]  # fmt: skip
    assert len(await db.read(reconciliation.list_files)) == 1
    later = (f"payment,{attempt},9.99,USD,{NOW}", f"payment,att_x,5.00,USD,{NOW}")
    assert (await _compare(db, *later)).matched == 1
    (left,) = await _open(db)
    assert left.reference == "att_x"
    done = await db.read(lambda tx: reconciliation.list_differences(tx, resolved=True))
    assert [(one.reference, one.resolved_by) for one in done] == [(attempt, "opentill")]
    async with db.connection() as tx:
        assert await reconciliation.count_open(tx) == 1


async def test_each_of_several_equal_rows_is_in_the_inbox_once(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    rows = [f"payment,{order.paid_attempt_id},9.99,USD,{NOW}"] * 4
    rows += [f"payment,att_x,5.00,USD,{NOW}"] * 2
    for _ in range(2):  # the same file twice
        assert (await _compare(db, *rows)).found == 5
        assert len(await _open(db)) == 5


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
    balance = await db.read(lambda tx: ledger.find_balance(tx, shop.id, "USD"))
    assert balance is not None
    assert balance.available == 500
    assert await _open(db) == []
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}", "")  # it does not come back
    assert await _open(db) == []
    rows = await db.read(lambda tx: merchants.audit_log(tx, limit=3))
    assert "reconcile resolve" in [row.action for row in rows]
    with pytest.raises(NotFound):
        await db.run(lambda tx: reconciliation.resolve(tx, "dif_x", BOB, NOW))


async def test_a_difference_whose_adjustment_is_rejected_is_open_again(db: Db) -> None:
    shop = await db.run(world.merchant)
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
    (found,) = await _open(db)
    asked = AdjustmentRequest(
        kind="recharge", amount_minor=500, reason="lost", by="ann", reference=found.id
    )

    async def resolve(now: int, minor: int = 500) -> Adjustment | None:
        wanted = msgspec.structs.replace(asked, amount_minor=minor)
        return await db.run(
            lambda tx: reconciliation.resolve(tx, found.id, ANN, now, wanted, shop.id, Decimal(1))
        )

    async def reject(made: Adjustment | None, why: str) -> None:
        assert made is not None
        await db.run(lambda tx: reconciliation.reject_adjustment(tx, made.id, "bob", why, NOW + 9))

    for number, minor in ((1, 500), (2, 500), (3, 400)):  # the same again is another adjustment
        made = await resolve(NOW + number, minor)
        assert made is not None
        assert (made.status, await _open(db)) == ("WAITING", [])
        await reject(made, f"no {number}")
        (again,) = await _open(db)
        last = again.resolutions[-1]
        assert (last.at, last.by, last.resolution) == (NOW + number, ANN.who, ANN.reason)
        assert (last.adjustment_id, last.rejected_by, last.why) == (made.id, "bob", f"no {number}")
        assert len(again.resolutions) == number
    rows = [row.action for row in await db.read(lambda tx: merchants.audit_log(tx, limit=4))]
    assert rows[:2] == ["reconcile reopen", "balance reject"]
    # Resolved by words meanwhile: rejecting what is about something else opens nothing.
    await db.run(lambda tx: reconciliation.resolve(tx, found.id, BOB, NOW + 20))
    other = msgspec.structs.replace(asked, reference=f"{found.id}-9", by="ann")
    waits = await db.run(lambda tx: adjustments.request(tx, shop.id, other, Decimal(1), NOW + 20))
    await reject(waits, "no")
    assert await _open(db) == []


async def test_only_one_of_approving_and_rejecting_counts_for_a_difference(db: Db) -> None:
    shop = await db.run(world.merchant)
    await _compare(db, f"payment,att_x,5.00,USD,{NOW}")
    (found,) = await _open(db)
    asked = AdjustmentRequest(
        kind="recharge", amount_minor=500, reason="lost", by="ann", reference=found.id
    )
    made = await db.run(
        lambda tx: reconciliation.resolve(tx, found.id, ANN, NOW, asked, shop.id, Decimal(1))
    )
    assert made is not None
    ended = await asyncio.gather(
        db.run(lambda tx: adjustments.approve(tx, made.id, "bob", NOW + 1)),
        db.run(lambda tx: reconciliation.reject_adjustment(tx, made.id, "cid", "no", NOW + 1)),
        return_exceptions=True,
    )
    (done,) = [one for one in ended if isinstance(one, Adjustment)]
    assert len([one for one in ended if isinstance(one, Invalid)]) == 1
    assert (len(await _open(db)) == 1) == (done.status == "REJECTED")


async def test_what_earlier_reports_had_not_is_found_by_an_index(db: Db) -> None:
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
            from generate_series(1, 3000) as one (n)
            """
        )
    )
    async with db.connection() as tx:
        await tx.execute("analyze reconciliation_differences")
        given = {
            "source": "sandbox", "kind": ["payment"] * 3, "reference": ["att_1"] * 3, "who": "x",
            "now": NOW,
        }  # fmt: skip
        plan = await tx.fetch(
            f"explain {queries.ARRIVED.sql}", *queries.ARRIVED.values(None, given)
        )
        assert any("reconciliation_differences_missing" in row[0] for row in plan), plan
        await inbox.arrived(tx, "sandbox", [("payment", "att_7")], NOW)
        assert await reconciliation.count_open(tx) == 2999
        assert await inbox.has_missing(tx, "sandbox")
        assert not await inbox.has_missing(tx, "stripe")


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
async def test_a_row_of_stripe_without_a_source_waits_under_its_transaction(
    db: Db, text: str
) -> None:
    report = Report(gateway="stripe", file=io.BytesIO(text.encode()), name="balance.csv")
    result = await reconciliation.reconcile_file(db, report, ANN, NOW)
    (found,) = result.differences
    assert (result.rows, found.what, found.reference) == (1, "missing in ledger", "txn_8")


async def test_every_type_of_row_of_stripes_is_known_or_a_difference(db: Db) -> None:
    order = await db.run(world.opened)
    attempt = await db.run(lambda tx: world.submitted(tx, order, gateway="stripe"))
    paid = world.Money(order.amount_minor, order.currency)
    await db.run(lambda tx: world.said(tx, attempt, "SUCCEEDED", amount=paid, provider_ref="pi_7"))
    at = "2025-06-15 15:06:40"
    exported = [
        EXPORTED,
        f"txn_1,charge,pi_7,9.99,0,0,usd,{at},",
        f"txn_2,refund_failure,re_1,9.99,0,0,usd,{at},",
        f"txn_3,payment_failure_refund,py_1,-9.99,0,0,usd,{at},",
        f"txn_4,adjustment,pyr_1,9.99,0,0,usd,{at},Failed refund",
        f"txn_5,adjustment,,-1.00,0,0,usd,{at},A correction",
        f"txn_6,new_thing,x_1,-1.00,0,0,xxx,{at},",
        f"txn_7,payout_failure,po_1,9.99,0,0,usd,{at},",
    ]
    itemised = [
        ITEMISED,
        f"txn_1,{at},charge,ch_1,9.99,0,usd,9.99,usd,pi_7,",
        f"txn_2,{at},refund_failure,re_1,9.99,0,usd,9.99,usd,pi_7,",
        f"txn_3,{at},charge_failure,ch_1,-9.99,0,usd,9.99,usd,pi_7,",
        f"txn_4,{at},other_adjustment,,1.00,0,usd,,,,",
    ]
    for lines, expected in (
        (
            exported,
            [
                ("refund_failure", "re_1"),
                ("payment_failure", "py_1"),
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
        assert [(one.kind, one.reference) for one in result.differences] == expected
        assert {one.what for one in result.differences} == {"missing in ledger"}


async def test_money_that_stripe_takes_with_the_dispute_is_no_difference(db: Db) -> None:
    order = await db.run(lambda tx: world.in_status(tx, "PAID"))
    await db.run(lambda tx: world.dispute_said(tx, order, "OPENED", ref="du_1"))
    rows = f"{EXPORTED}\ntxn_1,adjustment,du_1,-9.99,0,0,usd,2025-06-15 15:06:40,Chargeback\n"
    file = io.BytesIO(rows.encode())
    report = Report(gateway="sandbox", file=file, name="x", since=NOW + 1)
    result = await reconciliation.reconcile_file(db, report, ANN, NOW)
    assert result.found == 0
