"""Approving invites the owner; closing needs settled books, and then shuts every door."""

import pytest

from opentill import merchants, onboarding, people
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.onboarding import NotClosable
from support import world
from support.api_server import Shop
from support.people import person
from support.world import NOW

ANN = Actor("ann", "as agreed")
SETTINGS = Settings(
    smtp_url="smtp://127.0.0.1:25", mail_from="till@example.com", secret_key="s" * 32
)


async def _suspended(tx: Tx, merchant_id: str) -> None:
    await merchants.take(tx, merchant_id, "suspended", ANN, NOW)


async def test_whoever_applied_is_invited_as_the_owner_once_approved(tx: Tx) -> None:
    form = merchants.ApplicationForm(
        merchant="Quay", currency="USD", name="Ada", email="ada@example.com", website="",
        business="tea",
    )  # fmt: skip
    made = await merchants.apply(tx, form, NOW)
    assert await people.invitations(tx, made, NOW) == []
    approved = await onboarding.approve(tx, SETTINGS, made, ANN, NOW, language="zh-Hans")
    assert approved.merchant.status == "ACTIVE"
    assert approved.mailed
    topics = await tx.fetch("select topic, recipient, language from mails")
    assert [tuple(row) for row in topics] == [("invitation", "ada@example.com", "zh-Hans")]
    (link,) = await people.invitations(tx, made, NOW)
    assert (link.email, link.role) == ("ada@example.com", "owner")
    assert approved.invitation.link.id == link.id
    with pytest.raises(Invalid, match="must be APPLIED"):
        await onboarding.decline(tx, made, ANN, NOW)


async def test_money_and_work_under_way_stand_in_the_way_and_are_named(tx: Tx) -> None:
    order = await world.paid(tx, await world.opened(tx))
    shop = order.merchant_id
    other = await world.session(tx, shop, order.product_id)
    await world.submitted(tx, await world.orders.find(tx, shop, other.order_id))
    await world.session(tx, shop, order.product_id)
    await world.refunded(tx, order, "1.00")
    await _suspended(tx, shop)
    with pytest.raises(NotClosable) as refused:
        async with tx.transaction():
            await onboarding.close(tx, shop, ANN, NOW)
    assert refused.value.left.in_the_way == {
        "pending": 859, "frozen": 100, "payments": 1, "refunds": 1,
    }  # fmt: skip
    assert "8.59 USD pending, 1.00 USD frozen, 1 payments under way, 1 refunds under way" in str(
        refused.value
    )
    assert (await merchants.find(tx, shop)).status == "SUSPENDED"


async def test_a_debt_stands_in_the_way(tx: Tx) -> None:
    order = await world.settled(tx, await world.paid(tx, await world.opened(tx)))
    lost = await world.dispute_said(tx, order, "LOST")
    assert lost is not None
    await _suspended(tx, order.merchant_id)
    with pytest.raises(NotClosable, match=r"-15\.40 USD available"):
        async with tx.transaction():
            await onboarding.close(tx, order.merchant_id, ANN, NOW)


def test_a_closed_merchant_is_shut_everywhere_and_its_books_are_read_by_staff(shop: Shop) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    ada, staff = person(server, shop.id, "owner"), person(server, None, staff_role="auditor")
    endpoint, left = shop.endpoint(), shop.session()
    home = f"/dashboard/{shop.id}/"
    assert (ada.get(home).status_code, shop.get("/v1/orders").status_code) == (200, 200)
    with pytest.raises(Invalid, match="must be SUSPENDED"):
        server.tx(lambda tx: onboarding.close(tx, shop.id, ANN, now))
    server.tx(lambda tx: merchants.take(tx, shop.id, "suspended", ANN, now))
    closed, unfinished = server.tx(lambda tx: onboarding.close(tx, shop.id, ANN, now))
    assert (closed.status, unfinished.sessions) == ("CLOSED", 1)
    assert shop.get("/v1/orders").status_code == 401
    assert ada.get(home).status_code == 404
    assert ada.get("/dashboard").text.count(shop.id) == 0
    seen = staff.get(f"/dashboard/{shop.id}/balance")
    assert seen.status_code == 200
    assert "This account is closed" in staff.get(home).text
    sql = "select status from webhook_endpoints where merchant_id = $1 and id = $2"
    assert server.sql(sql, shop.id, endpoint["id"]) == [{"status": "DISABLED"}]
    assert "cannot take payments" in server.http.get(f"/checkout/{left['id']}").text
