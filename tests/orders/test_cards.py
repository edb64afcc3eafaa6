"""The card of a payment is stored with its confirmation and found by its last digits."""

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
from support.list_connection import SingleTransactionDb

VISA = Card(brand="visa", last4="4242")


async def find_card(tx: Tx, order: Order) -> Card | None:
    return await orders.card_of(tx, await orders.find(tx, order.merchant_id, order.id))


async def pay_with(tx: Tx, order: Order, card: Card | None, *, in_batch: bool) -> None:
    attempt = await world.submit_attempt(tx, order)
    outcome = PaymentOutcome(status="SUCCEEDED", card=card)
    if in_batch:
        event = GatewayPaymentEvent(attempt_id=attempt.id, outcome=outcome)
        report = orders.Report("sandbox", event)
        assert await orders.confirm_many(tx, [report], world.NOW) == {report.key}
    else:
        ids = (order.merchant_id, attempt.id)
        await orders.apply_outcome(tx, *ids, outcome, world.NOW, gateway="sandbox")


@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize(
    ("reported", "stored"),
    [
        (VISA, VISA),
        (Card(brand="Mastercard", last4="0069"), Card(brand="mastercard", last4="0069")),
        (Card(brand="<b>\x00", last4="4242"), Card(brand="", last4="4242")),
        # The digits of a full card number are never stored.
        (Card(brand="visa", last4="4242424242424242"), None),
        (Card(brand="visa", last4="٤٢٤٢"), None),
        (None, None),
    ],
)
async def test_only_valid_card_data_is_stored_and_the_order_is_paid_in_any_case(
    tx: Tx, reported: Card | None, stored: Card | None, in_batch: bool
) -> None:
    order = await world.create_order(tx)
    await pay_with(tx, order, reported, in_batch=in_batch)
    assert (await orders.find(tx, order.merchant_id, order.id)).status == "PAID"
    assert await find_card(tx, order) == stored


async def test_a_later_report_adds_a_missing_card_but_changes_none(tx: Tx) -> None:
    order = await world.create_order(tx)
    attempt = await world.submit_attempt(tx, order)
    amount = Money(order.amount_minor, order.currency)
    for card, stored in ((None, None), (VISA, VISA), (Card(brand="jcb", last4="1111"), VISA)):
        await world.report_payment(tx, attempt, "SUCCEEDED", amount=amount, card=card)
        assert await find_card(tx, order) == stored
    assert [row.event for row in await orders.history(tx, order.merchant_id, order.id)] == [
        "opened", "submitted", "confirmed",
    ]  # fmt: skip


@pytest.mark.parametrize("is_indexed", [True, False])
async def test_an_order_is_found_by_its_cards_digits_as_soon_as_it_is_paid(
    tx: Tx, is_indexed: bool
) -> None:
    # The amount has the same digits as the card.
    order = await world.create_order(tx, price="4242.00")
    cheap_session = await world.create_session(tx, order.merchant_id, order.product_id)
    cheap_order = await orders.find(tx, order.merchant_id, cheap_session.order_id)
    if is_indexed:
        await indexing._index(tx, order.merchant_id, 1000, 2)
    await pay_with(tx, order, VISA, in_batch=True)
    await pay_with(tx, cheap_order, Card(brand="visa", last4="0069"), in_batch=True)
    db = SingleTransactionDb(tx)
    for _ in range(3):
        for text, ids in (
            ("4242", {order.id, cheap_order.id}),
            ("0069", {cheap_order.id}),
            ("69", set()),
        ):
            page, total = await filters.list_page(db, order.merchant_id, OrdersQuery(query=text))
            assert {row.id for row in page} == ids
            assert total == len(ids)
        page, _ = await filters.list_page(db, order.merchant_id, OrdersQuery(amount="4242"))
        assert len(page) == 2  # the amount of both orders is 4242.00
        await indexing._index(tx, order.merchant_id, 1000, 2)
    assert not await search_queries.PENDING.all(tx, merchant_id=order.merchant_id)
    rows = await tx.fetch(
        "select place from search_terms where merchant_id = $1 and term = '4242.00'"
        " order by length(place)",
        order.merchant_id,
    )
    assert [row["place"] for row in rows] == [
        "amount\x1famount.USD",
        "amount\x1famount.USD\x1fcard",
    ]


def test_cards_are_displayed_with_the_usual_names_of_brands() -> None:
    for brand, text in (
        ("visa", "Visa ••••\N{NO-BREAK SPACE}4242"),
        ("amex", "American Express ••••\N{NO-BREAK SPACE}4242"),
        ("", "••••\N{NO-BREAK SPACE}4242"),
        ("unknown", "••••\N{NO-BREAK SPACE}4242"),
        ("carte_rare", "Carte Rare ••••\N{NO-BREAK SPACE}4242"),
    ):
        assert orders.format_card(Card(brand=brand, last4="4242")) == text
