"""Approving an application invites its owner; only a merchant with settled books can be closed."""

import asyncio
from decimal import Decimal

import pytest

from opentill import adjustments, ledger, merchants, onboarding, payouts, people, webhooks
from opentill.adjustments import AdjustmentRequest
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.db.database import Db, Tx
from opentill.merchants import Actor
from opentill.onboarding import NotClosable
from opentill.payouts import PayoutRequest
from opentill.webhooks import EndpointFields, UrlCheck
from support import world
from support.api_server import Shop
from support.people import create_person
from support.world import NOW

ANN = Actor("ann", "as agreed")
LIMIT = Decimal(50)
SETTINGS = Settings(
    smtp_url="smtp://127.0.0.1:25", mail_from="till@example.com", secret_key="s" * 32
)


async def _suspend(tx: Tx, merchant_id: str) -> None:
    await merchants.change_status(tx, merchant_id, "suspended", ANN, NOW)


async def test_approving_an_application_invites_the_applicant_as_owner(tx: Tx) -> None:
    form = merchants.ApplicationForm(
        merchant="Quay", currency="USD", name="Ada", email="ada@example.com", website="",
        business="tea",
    )  # fmt: skip
    merchant_id = await merchants.apply(tx, form, NOW)
    assert await people.invitations(tx, merchant_id, NOW) == []
    approved = await onboarding.approve(tx, SETTINGS, merchant_id, ANN, NOW, language="zh-Hans")
    assert approved.merchant.status == "ACTIVE"
    assert approved.mailed
    topics = await tx.fetch("select topic, recipient, language from mails")
    assert [tuple(row) for row in topics] == [("invitation", "ada@example.com", "zh-Hans")]
    (link,) = await people.invitations(tx, merchant_id, NOW)
    assert (link.email, link.role) == ("ada@example.com", "owner")
    assert approved.invitation.link.id == link.id
    with pytest.raises(Invalid, match="must be APPLIED"):
        await onboarding.decline(tx, merchant_id, ANN, NOW)


async def test_outstanding_money_and_work_prevent_closing_and_are_named(tx: Tx) -> None:
    order = await world.pay_order(tx, await world.create_order(tx))
    shop = order.merchant_id
    unpaid = await world.create_session(tx, shop, order.product_id)
    await world.submit_attempt(tx, await world.orders.find(tx, shop, unpaid.order_id))
    await world.create_session(tx, shop, order.product_id)
    await world.create_refund(tx, order, "1.00")
    await _suspend(tx, shop)
    with pytest.raises(NotClosable) as refused:
        async with tx.transaction():
            await onboarding.close(tx, shop, ANN, NOW)
    assert refused.value.left.blockers == {
        "pending": 859, "frozen": 100, "payments": 1, "refunds": 1,
    }  # fmt: skip
    assert "8.59 USD pending, 1.00 USD frozen, 1 payments under way, 1 refunds under way" in str(
        refused.value
    )
    assert (await merchants.find(tx, shop)).status == "SUSPENDED"


async def test_closing_an_active_merchant_suspends_it_in_the_same_act(tx: Tx) -> None:
    shop = (await world.create_merchant(tx)).id
    await onboarding.close(tx, shop, ANN, NOW, notes="moved away")
    history = await merchants.status_history(tx, shop)
    assert [(change.event, change.notes) for change in history] == [
        ("closed", "moved away"), ("suspended", ""), ("created", ""),
    ]  # fmt: skip


async def test_an_active_merchant_that_cannot_be_closed_stays_active(tx: Tx) -> None:
    order = await world.pay_order(tx, await world.create_order(tx))
    with pytest.raises(NotClosable):
        async with tx.transaction():
            await onboarding.close(tx, order.merchant_id, ANN, NOW)
    assert (await merchants.find(tx, order.merchant_id)).status == "ACTIVE"


async def test_a_debt_prevents_closing(tx: Tx) -> None:
    order = await world.settle_order(tx, await world.pay_order(tx, await world.create_order(tx)))
    lost = await world.report_dispute(tx, order, "LOST")
    assert lost is not None
    await _suspend(tx, order.merchant_id)
    with pytest.raises(NotClosable, match=r"-15\.40 USD available"):
        async with tx.transaction():
            await onboarding.close(tx, order.merchant_id, ANN, NOW)


def _recharge(minor: int = 6_000) -> AdjustmentRequest:
    return AdjustmentRequest(
        kind="recharge",
        amount_minor=minor,
        reference=world.new_reference(),
        reason="sent",
        by="ann",
    )


async def test_a_request_that_waits_for_approval_prevents_closing(tx: Tx) -> None:
    shop = (await world.create_merchant(tx)).id
    recharge = await adjustments.request(tx, shop, _recharge(), None, NOW)
    assert recharge.status == "DONE"
    request = PayoutRequest(amount_minor=6_000, reference="W", reason="weekly", by="ann")
    payout = await payouts.request(tx, shop, request, LIMIT, NOW)
    await adjustments.request(tx, shop, _recharge(), LIMIT, NOW)
    await _suspend(tx, shop)
    with pytest.raises(NotClosable, match="2 requests that wait for a second per"):
        async with tx.transaction():
            await onboarding.close(tx, shop, ANN, NOW)
    with pytest.raises(merchants.CapabilityOff):
        async with tx.transaction():
            await payouts.approve(tx, payout.id, "bob", NOW)


async def test_a_request_from_before_closing_can_only_be_rejected(tx: Tx) -> None:
    order = await world.create_order_in(tx, "PAID")
    shop = order.merchant_id
    earlier_request = await adjustments.request(tx, shop, _recharge(), LIMIT, NOW)
    await _suspend(tx, shop)
    # Earlier versions closed merchants with pending requests, so such rows exist.
    await merchants.change_status(tx, shop, "closed", ANN, NOW + 1)
    with pytest.raises(Invalid, match="merchant must not be CLOSED"):
        async with tx.transaction():
            await adjustments.approve(tx, earlier_request.id, "bob", NOW + 2)
    rejected = await adjustments.reject(tx, earlier_request.id, "bob", "closed", NOW + 2)
    assert rejected.status == "REJECTED"
    balance = await ledger.find_balance(tx, shop, "USD")
    assert balance is not None
    loss = AdjustmentRequest(
        kind="correct", amount_minor=-100 - balance.pending, reference="late", reason="late loss",
        by="ann", order_id=order.id,
    )  # fmt: skip
    assert (await adjustments.request(tx, shop, loss, None, NOW + 3)).status == "DONE"
    with pytest.raises(adjustments.ClosedMerchant, match=r"debt of a CLOSED merchant: 1\.00 USD"):
        await adjustments.request(tx, shop, _recharge(), LIMIT, NOW + 3)
    later_request = await adjustments.request(tx, shop, _recharge(100), Decimal(0), NOW + 3)
    approved = await adjustments.approve(tx, later_request.id, "bob", NOW + 4)
    assert approved.status == "DONE", "a closed merchant can still pay a debt"


@pytest.mark.parametrize("first", ["request", "close"])
async def test_closing_and_a_concurrent_request_are_serialized(db: Db, first: str) -> None:
    shop = (await db.run(world.create_merchant)).id
    await db.run(lambda tx: _suspend(tx, shop))

    async def close(tx: Tx) -> object:
        return await onboarding.close(tx, shop, ANN, NOW)

    async def request(tx: Tx) -> object:
        return await adjustments.request(tx, shop, _recharge(), LIMIT, NOW + 1)

    earlier, later = (request, close) if first == "request" else (close, request)
    async with db.transaction() as tx:
        await earlier(tx)
        waiting_task = asyncio.create_task(db.run(later))
        await asyncio.sleep(0.1)
        assert not waiting_task.done()
    if first == "request":
        with pytest.raises(NotClosable):
            await waiting_task
    else:
        with pytest.raises(adjustments.ClosedMerchant):
            await waiting_task


def test_a_closed_merchants_keys_and_members_are_refused_and_staff_can_read_its_books(
    shop: Shop,
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    ada = create_person(server, shop.id, "owner")
    staff = create_person(server, None, staff_role="auditor")
    endpoint, session = shop.create_endpoint(), shop.create_session()
    home = f"/dashboard/{shop.id}/"
    assert (ada.get(home).status_code, shop.get("/v1/orders").status_code) == (200, 200)
    closed, unfinished = server.tx(lambda tx: onboarding.close(tx, shop.id, ANN, now))
    assert (closed.status, unfinished.sessions) == ("CLOSED", 1)
    assert shop.get("/v1/orders").status_code == 401
    assert ada.get(home).status_code == 404
    assert ada.get("/dashboard").text.count(shop.id) == 0
    assert staff.get(f"/dashboard/{shop.id}/balance").status_code == 200
    assert "This account is closed" in staff.get(home).text
    sql = "select status from webhook_endpoints where merchant_id = $1 and id = $2"
    assert server.sql(sql, shop.id, endpoint["id"]) == [{"status": "DISABLED"}]
    check = UrlCheck(server.app.outgoing.check)
    for change in (
        lambda tx: webhooks.update(
            tx, shop.id, endpoint["id"], EndpointFields(status="ENABLED"), check, now
        ),
        lambda tx: webhooks.create(
            tx, shop.id, EndpointFields(url=endpoint["url"]), check, "k" * 32, now
        ),
    ):
        with pytest.raises(Invalid, match="must not be CLOSED"):
            server.tx(change)
    assert server.sql(sql, shop.id, endpoint["id"]) == [{"status": "DISABLED"}]
    assert "cannot accept payments" in server.http.get(f"/checkout/{session['id']}").text
