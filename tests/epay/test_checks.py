"""The integrity rules find Epay orders and notices that contradict other rows."""

from decimal import Decimal

import pytest

from opentill import checkouts
from opentill.db.database import Tx
from opentill.integrity.rules import check_books
from opentill.ledger import Violation
from support.api_server import ApiServer
from support.epay_shop import EpayShop

NOTIFIED = "an Epay order has a notification exactly when it was paid"
SUBMITTED = "an Epay order is what was submitted, and what was submitted an Epay order"
SAME_NUMBER = "orders under one Epay number ask for the same, and only the last can still be paid"

# Each row: SQL that corrupts a paid Epay order ($1 merchant, $2 order), and the violated rules.
BROKEN = [
    ("delete from epay_notifications where merchant_id = $1 and order_id = $2", {NOTIFIED}),
    ("update orders set source = 'API' where merchant_id = $1 and id = $2", {NOTIFIED, SUBMITTED}),
    ("delete from epay_orders where merchant_id = $1 and order_id = $2", {SUBMITTED}),
    ("update epay_orders set money = '10.51' where merchant_id = $1 and order_id = $2",
     {SUBMITTED}),
    ("update epay_orders set money_type = 'USD' where merchant_id = $1 and order_id = $2",
     {SUBMITTED}),
    ("update epay_orders set checkout_id = 'cs_other' where merchant_id = $1 and order_id = $2",
     {SUBMITTED}),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "rules"), BROKEN)
def test_corrupted_epay_orders_are_reported(epay_shop: EpayShop, statement, rules) -> None:
    order_id = epay_shop.order_id(epay_shop.place_paid_order())
    violations = _violations_after(epay_shop.api_server, statement, epay_shop.id, order_id)
    assert {violation.rule for violation in violations} == rules
    assert {violation.subject for violation in violations} == {order_id}
    assert {violation.merchant_id for violation in violations} == {epay_shop.id}


# SQL that corrupts the second order of a number ($1 merchant, $2 order).
BROKEN_SECOND_ORDERS = [
    "update epay_orders set submission = 3 where merchant_id = $1 and order_id = $2",
    "update epay_orders set name = 'other' where merchant_id = $1 and order_id = $2",
    "update epay_orders set param = 'other' where merchant_id = $1 and order_id = $2",
    # This statement swaps the two orders.
    "update epay_orders set submission = 4 - submission where merchant_id = $1 and $2 <> ''",
]


@pytest.mark.parametrize("statement", BROKEN_SECOND_ORDERS)
def test_an_order_that_contradicts_its_predecessor_is_reported(
    epay_shop: EpayShop, statement: str
) -> None:
    form = epay_shop.sign(epay_shop.form())
    first_order = epay_shop.post("mapi", form).json()
    session_id, now = first_order["payurl"].rpartition("/")[2], epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(lambda tx: checkouts.expire(tx, epay_shop.id, session_id, "test", now))
    second_order = epay_shop.post("mapi", form).json()
    assert first_order["trade_no"] != second_order["trade_no"]
    order_id = epay_shop.order_id(second_order)
    violations = _violations_after(epay_shop.api_server, statement, epay_shop.id, order_id)
    assert {violation.rule for violation in violations} == {SAME_NUMBER}
    assert {violation.merchant_id for violation in violations} == {epay_shop.id}


def test_a_notice_of_an_unpaid_order_is_reported(epay_shop: EpayShop) -> None:
    order_id = epay_shop.order_id(epay_shop.place_order())
    insert = "insert into epay_notifications values ($1, $2, 'FAILED', null, 8, '', 1, 1)"
    (violation,) = _violations_after(epay_shop.api_server, insert, epay_shop.id, order_id)
    assert (violation.rule, violation.subject) == (NOTIFIED, order_id)


def test_amounts_of_any_currency_satisfy_the_rules(epay_shop: EpayShop) -> None:
    for money, currency in (("10", "CNY"), ("10.5", "USD"), ("500", "JPY"), ("0.15", "KWD")):
        if currency not in {"CNY", "USD"}:
            epay_shop.api_server.set_rate(currency, "USD", Decimal("0.5"))
        epay_shop.place_order(money=money, money_type=currency, type="creditcard")
    epay_shop.api_server.check_books()


def _violations_after(api_server: ApiServer, statement: str, *values: str) -> list[Violation]:
    """Return the violations that a statement causes; roll it back."""

    async def work(tx: Tx) -> list[Violation]:
        savepoint = tx.transaction()
        await savepoint.start()
        await tx.execute(statement, *values)
        _, violations = await check_books(tx)
        await savepoint.rollback()
        return violations

    return api_server.tx(work)
