"""The card of a payment: kept with its confirmation, found by its last digits, never in the way."""

import pytest

from opentill import orders
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways.model import Card, GatewayPaymentEvent, PaymentOutcome
from opentill.orders import Order
from opentill.orders.search import filters
from opentill.orders.search import jobs as indexing
from opentill.orders.search import queries as search_queries
from opentill.orders.search.filters import OrdersQuery
from support import world
from support.list_connection import OneConnection

VISA = Card(brand="visa", last4="4242")


async def card_of(tx: Tx, order: Order) -> Card | None:
    return await orders.card_of(tx, await orders.find(tx, order.merchant_id, order.id))


async def paid_with(tx: Tx, order: Order, card: Card | None, *, together: bool) -> None:
    attempt = await world.submitted(tx, order)
    outcome = PaymentOutcome(status="SUCCEEDED", card=card)
    if together:
        event = GatewayPaymentEvent(attempt_id=attempt.id, outcome=outcome)
        report = orders.Report("sandbox", event)
        assert await orders.confirm_many(tx, [report], world.NOW) == {report.key}
    else:
        ids = (order.merchant_id, attempt.id)
        await orders.apply_outcome(tx, *ids, outcome, world.NOW, gateway="sandbox")


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        (VISA, VISA),
        (Card(brand="Mastercard", last4="0069"), Card(brand="mastercard", last4="0069")),
        (Card(brand="<b>\x00", last4="4242"), Card(brand="", last4="4242")),
        (Card(brand="visa", last4="4242424242424242"), None),  # never a whole number
        (Card(brand="visa", last4="٤٢٤٢"), None),
        (None, None),
    ],
)
async def test_a_card_is_kept_as_far_as_it_is_one_and_the_payment_counts(
    tx: Tx, reported: Card | None, kept: Card | None, together: bool
) -> None:
    order = await world.opened(tx)
    await paid_with(tx, order, reported, together=together)
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"
    assert await card_of(tx, order) == kept


async def test_a_later_report_adds_the_card_and_none_changes_it(tx: Tx) -> None:
    order = await world.opened(tx)
    attempt = await world.submitted(tx, order)
    amount = Money(order.amount_minor, order.currency)
    for card, kept in ((None, None), (VISA, VISA), (Card(brand="jcb", last4="1111"), VISA)):
        await world.said(tx, attempt, "SUCCEEDED", amount=amount, card=card)
        assert await card_of(tx, order) == kept
    assert [row.event for row in await orders.history(tx, order.merchant_id, order.id)] == [
        "opened", "submitted", "confirmed",
    ]  # fmt: skip


@pytest.mark.parametrize("indexed_first", [True, False])
async def test_an_order_is_found_by_the_last_digits_from_its_payment_on(
    tx: Tx, indexed_first: bool
) -> None:
    order = await world.opened(tx, price="4242.00")  # the amount is the same term
    other = await world.session(tx, order.merchant_id, order.product_id)
    cheap = await orders.find(tx, order.merchant_id, other.order_id)
    if indexed_first:
        await indexing._index(tx, order.merchant_id, 1000, 2)
    await paid_with(tx, order, VISA, together=True)
    await paid_with(tx, cheap, Card(brand="visa", last4="0069"), together=True)
    here = OneConnection(tx)
    for _ in range(3):
        for text, wanted in (("4242", {order.id, cheap.id}), ("0069", {cheap.id}), ("69", set())):
            found, total = await filters.page(here, order.merchant_id, OrdersQuery(query=text))
            assert {one.id for one in found} == wanted
            assert total == len(wanted)
        found, _ = await filters.page(here, order.merchant_id, OrdersQuery(amount="4242"))
        assert len(found) == 2  # a card is no amount, but this is the amount of both
        await indexing._index(tx, order.merchant_id, 1000, 2)
    assert not await search_queries.PENDING.all(tx, merchant_id=order.merchant_id)
    rows = await tx.fetch(
        "select place from search_terms where merchant_id = $1 and term = '4242.00'"
        " order by length(place)",
        order.merchant_id,
    )
    assert [row["place"] for row in rows] == ["amount", "amount\x1fcard"]


def test_cards_are_shown_as_people_know_them() -> None:
    for brand, shown in (
        ("visa", "Visa •••• 4242"),
        ("amex", "American Express •••• 4242"),
        ("", "•••• 4242"),
        ("unknown", "•••• 4242"),
        ("carte_rare", "Carte Rare •••• 4242"),
    ):
        assert orders.show_card(Card(brand=brand, last4="4242")) == shown
