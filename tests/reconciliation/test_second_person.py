"""Payouts above the limit that came back, in a report by one person, need a second person."""

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
from reconciliation.bank_statements import (
    CSV,
    apply,
    create_sent_payouts,
    entry,
    read_results,
    statement,
)
from support.payout_runs import create_payee
from support.world import NOW, new_reference

ANN: Final = Actor("ann", "uploaded in the console")
RULES: Final = approvals.Rules(Decimal(5), True, frozenset())


async def create_paid_payout(db: Db) -> Payout:
    (payout,) = await create_sent_payouts(db, 1)
    return await db.run(lambda tx: payouts.pay(tx, payout.id, "B-1", "sent", "ann", NOW))


async def list_requests(db: Db) -> list[approvals.WaitingAction]:
    return await db.read(approvals.waiting_of_reports)


async def approve(db: Db, request_id: str, person: str = "bob") -> object:
    approver = Approver(person, lambda _account: False)
    return await db.run(lambda tx: approvals.approve(tx, request_id, approver, RULES, NOW + 20))


def return_statement(payout: Payout, ref: str = "B-2") -> bytes:
    return statement(entry(payout.id, credit=True, ref=ref))


async def test_a_return_above_the_limit_waits_for_an_approval(db: Db) -> None:
    payout = await create_paid_payout(db)
    content = return_statement(payout)
    result = await apply(db, content, above=Decimal(5), actor=ANN)
    (request,) = await list_requests(db)
    line = WaitingLine(line=1, payout_id=payout.id, request_id=request.id)
    assert (result.returned, result.in_inbox, result.waiting) == (0, 0, [line])
    assert (request.action, request.asked_by) == ("payout-returned", "ann")
    assert request.report == approvals.ReportLine(file_id=result.file_id, line=1)
    assert (await read_results(db, [payout]))[0] == ("PAID", "B-1")
    # Neither the same file nor another file with the same booking creates a second request.
    repeated = await apply(db, content, above=Decimal(5), actor=ANN)
    assert (repeated.is_new, repeated.waiting) == (False, [line])
    other = await apply(db, content + b"\n", above=Decimal(5), actor=ANN)
    assert (other.is_new, other.waiting) == (True, [line])
    assert await list_requests(db) == [request]
    with pytest.raises(Invalid):
        await approve(db, request.id, "ann")
    await approve(db, request.id)
    assert (await read_results(db, [payout]))[0][0] == "FAILED"
    afterwards = await apply(db, content + b" \n", above=Decimal(5), actor=ANN)
    assert (afterwards.repeated, afterwards.in_inbox, afterwards.waiting) == (1, 0, [])


async def test_a_failure_of_a_pending_payout_above_the_limit_waits_for_an_approval(db: Db) -> None:
    (payout,) = await create_sent_payouts(db, 1)
    line = f"{payout.id},failed,100.00,EUR,B-3,AC01\r\n"
    result = await apply(db, (CSV + line).encode(), above=Decimal(5), actor=ANN)
    assert result.returned == 0
    (request,) = await list_requests(db)
    assert request.action == "payout-failed"
    # The bank has sent the payout meanwhile, so nobody can approve that it failed.
    await db.run(lambda tx: payouts.pay(tx, payout.id, "B-4", "sent", "ann", NOW + 11))
    with pytest.raises(Invalid, match="must be PENDING"):
        await approve(db, request.id)
    assert await list_requests(db) == [request]


async def test_a_return_up_to_the_limit_is_performed_and_counts_towards_it(db: Db) -> None:
    shop = await db.run(create_payee)
    lines = ""
    for number in range(2):
        request = payouts.PayoutRequest(
            amount_minor=5_000, reference=new_reference(), reason="weekly", by="ann"
        )
        payout = await db.run(
            lambda tx, request=request: payouts.create(tx, shop.id, request, None, NOW)
        )
        lines += f"{payout.id},failed,50.00,EUR,B-{number},AC01\r\n"
    result = await apply(db, (CSV + lines).encode(), above=Decimal(75), actor=ANN)
    assert (result.returned, len(result.waiting)) == (1, 1)


async def test_without_a_limit_nothing_waits(db: Db) -> None:
    payout = await create_paid_payout(db)
    result = await apply(db, return_statement(payout), actor=ANN)
    assert (result.returned, result.waiting) == (1, [])


async def test_concurrent_uploads_and_approvals_count_once(db: Db) -> None:
    payout = await create_paid_payout(db)
    contents = [return_statement(payout) + b"\n" * number for number in (0, 0, 1, 2)]
    results = await asyncio.gather(
        *(apply(db, content, above=Decimal(5), actor=ANN) for content in contents)
    )
    (request,) = await list_requests(db)
    assert {line.request_id for result in results for line in result.waiting} == {request.id}

    async def attempt(person: str) -> bool:
        try:
            await approve(db, request.id, person)
        except Invalid:
            return False
        return True

    approved = await asyncio.gather(*(attempt(name) for name in ("bob", "cid", "bob", "dan")))
    assert sorted(approved) == [False, False, False, True]
    assert (await read_results(db, [payout]))[0][0] == "FAILED"


async def test_a_second_credit_in_one_file_goes_to_the_inbox(db: Db) -> None:
    payout = await create_paid_payout(db)
    content = statement(
        entry(payout.id, credit=True, ref="B-2"), entry(payout.id, credit=True, ref="B-5")
    )
    result = await apply(db, content, above=Decimal(5), actor=ANN)
    assert (len(result.waiting), result.in_inbox) == (1, 1)


async def test_an_uploader_who_may_not_request_leaves_the_line_to_another_person(db: Db) -> None:
    payout = await create_paid_payout(db)

    class NotAllowed(Exception):
        pass

    def refuse() -> None:
        raise NotAllowed

    with pytest.raises(NotAllowed):
        await reconciliation.apply_bank_report(
            db, io.BytesIO(return_statement(payout)), "a.xml", ANN, NOW + 10,
            rules=approvals.Rules(Decimal(5), True, frozenset()), check_requester=refuse,
        )  # fmt: skip
    assert await list_requests(db) == []
    result = await apply(db, return_statement(payout), above=Decimal(5), actor=ANN)
    assert (result.is_new, len(result.waiting)) == (True, 1)
