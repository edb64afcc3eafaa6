"""A bank's report is the word of whoever uploads it: above the limit it takes two persons."""

import asyncio
import io
from decimal import Decimal
from typing import Final

import pytest

from opentill import approvals, payouts, reconciliation
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.merchants import Actor
from opentill.payouts import Payout
from opentill.people import Approver
from opentill.reconciliation import WaitingLine
from reconciliation.test_bank import CSV, _now, _sent, apply, entry, statement
from support.payout_runs import payee
from support.world import NOW, fresh

ANN: Final = Actor("ann", "uploaded in the console")
RULES: Final = approvals.Rules(Decimal(5), True, frozenset())


async def paid_payout(db: Db) -> Payout:
    (payout,) = await _sent(db, 1)
    return await db.run(lambda tx: payouts.pay(tx, payout.id, "B-1", "sent", "ann", NOW))


async def waiting(db: Db) -> list[approvals.WaitingAction]:
    return await db.read(approvals.waiting_of_reports)


async def approve(db: Db, request_id: str, who: str = "bob") -> object:
    approver = Approver(who, lambda _account: False)
    return await db.run(lambda tx: approvals.approve(tx, request_id, approver, RULES, NOW + 20))


def returned(payout: Payout, ref: str = "B-2") -> bytes:
    return statement(entry(payout.id, credit=True, ref=ref))


async def test_a_line_above_the_limit_waits_and_is_performed_when_it_is_approved(db: Db) -> None:
    payout = await paid_payout(db)
    content = returned(payout)
    result = await apply(db, content, above=Decimal(5), actor=ANN)
    (request,) = await waiting(db)
    line = WaitingLine(line=1, payout_id=payout.id, request_id=request.id)
    assert (result.returned, result.found, result.waiting) == (0, 0, [line])
    assert (request.action, request.asked_by) == ("payout-returned", "ann")
    assert request.report == approvals.ReportLine(file_id=result.file_id, line=1)
    assert (await _now(db, [payout]))[0] == ("PAID", "B-1")
    # The same file, and another one that has the same booking, ask for nothing more.
    again = await apply(db, content, above=Decimal(5), actor=ANN)
    assert (again.is_new, again.waiting) == (False, [line])
    other = await apply(db, content + b"\n", above=Decimal(5), actor=ANN)
    assert (other.is_new, other.waiting) == (True, [line])
    assert await waiting(db) == [request]
    with pytest.raises(Invalid):
        await approve(db, request.id, "ann")
    await approve(db, request.id)
    assert (await _now(db, [payout]))[0][0] == "FAILED"
    afterwards = await apply(db, content + b" \n", above=Decimal(5), actor=ANN)
    assert (afterwards.known, afterwards.found, afterwards.waiting) == (1, 0, [])


async def test_a_payout_that_waits_for_the_bank_likewise(db: Db) -> None:
    (payout,) = await _sent(db, 1)
    line = f"{payout.id},failed,100.00,EUR,B-3,AC01\r\n"
    result = await apply(db, (CSV + line).encode(), above=Decimal(5), actor=ANN)
    assert result.returned == 0
    (request,) = await waiting(db)
    assert request.action == "payout-failed"
    # The bank has sent it meanwhile: the request cannot be performed any more.
    await db.run(lambda tx: payouts.pay(tx, payout.id, "B-4", "sent", "ann", NOW + 11))
    with pytest.raises(Invalid, match="must be PENDING"):
        await approve(db, request.id)
    assert await waiting(db) == [request]


async def test_up_to_the_limit_it_is_performed_and_counts(db: Db) -> None:
    shop = await db.run(payee)
    asked = [
        payouts.PayoutRequest(amount_minor=5_000, reference=fresh(), reason="weekly", by="ann")
        for _ in range(2)
    ]
    made = [
        await db.run(lambda tx, one=one: payouts.create(tx, shop.id, one, None, NOW))
        for one in asked
    ]
    lines = "".join(f"{one.id},failed,50.00,EUR,B-{one.id[-4:]},AC01\r\n" for one in made)
    result = await apply(db, (CSV + lines).encode(), above=Decimal(75), actor=ANN)
    assert (result.returned, len(result.waiting)) == (1, 1)


async def test_without_a_limit_nothing_waits(db: Db) -> None:
    payout = await paid_payout(db)
    result = await apply(db, returned(payout), actor=ANN)
    assert (result.returned, result.waiting) == (1, [])


async def test_uploads_at_once_ask_once_and_approvals_at_once_perform_once(db: Db) -> None:
    payout = await paid_payout(db)
    contents = [returned(payout) + b"\n" * number for number in (0, 0, 1, 2)]
    results = await asyncio.gather(
        *(apply(db, content, above=Decimal(5), actor=ANN) for content in contents)
    )
    (request,) = await waiting(db)
    assert {line.request_id for result in results for line in result.waiting} == {request.id}

    async def attempt(who: str) -> bool:
        try:
            await approve(db, request.id, who)
        except Invalid:
            return False
        return True

    done = await asyncio.gather(*(attempt(who) for who in ("bob", "cid", "bob", "dan")))
    assert sorted(done) == [False, False, False, True]
    assert (await _now(db, [payout]))[0][0] == "FAILED"


async def test_a_second_credit_in_one_file_goes_to_the_inbox(db: Db) -> None:
    payout = await paid_payout(db)
    content = statement(
        entry(payout.id, credit=True, ref="B-2"), entry(payout.id, credit=True, ref="B-5")
    )
    result = await apply(db, content, above=Decimal(5), actor=ANN)
    assert (len(result.waiting), result.found) == (1, 1)


async def test_whoever_cannot_ask_leaves_the_line_to_somebody_else(db: Db) -> None:
    payout = await paid_payout(db)

    class NotAllowed(Exception):
        pass

    def refuse() -> None:
        raise NotAllowed

    with pytest.raises(NotAllowed):
        await reconciliation.apply_bank_report(
            db, io.BytesIO(returned(payout)), "a.xml", ANN, NOW + 10,
            rules=approvals.Rules(Decimal(5), True, frozenset()), check_asker=refuse,
        )  # fmt: skip
    assert await waiting(db) == []
    result = await apply(db, returned(payout), above=Decimal(5), actor=ANN)
    assert (result.is_new, len(result.waiting)) == (True, 1)
