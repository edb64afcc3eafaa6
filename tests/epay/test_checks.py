"""The check of the books sees orders of the Epay door that nobody can be told of rightly."""

from decimal import Decimal

import pytest

from opentill import checkouts
from opentill.db.database import Tx
from opentill.integrity.rules import check_books
from opentill.ledger import Violation
from support.api_server import ApiServer
from support.epay_shop import EpayShop

TOLD = "an Epay order has a notification exactly when it was paid"
SUBMITTED = "an Epay order is what was submitted, and what was submitted an Epay order"
AGAIN = "orders under one Epay number ask for the same, and only the last can still be paid"

# What is done behind the services' back, to a paid order of the door ($1 merchant, $2 order), and
# which rules say so.
BROKEN = [
    ("delete from epay_notifications where merchant_id = $1 and order_id = $2", {TOLD}),
    ("update orders set source = 'API' where merchant_id = $1 and id = $2", {TOLD, SUBMITTED}),
    ("delete from epay_orders where merchant_id = $1 and order_id = $2", {SUBMITTED}),
    ("update epay_orders set money = '10.51' where merchant_id = $1 and order_id = $2",
     {SUBMITTED}),
    ("update epay_orders set money_type = 'USD' where merchant_id = $1 and order_id = $2",
     {SUBMITTED}),
    ("update epay_orders set checkout_id = 'cs_other' where merchant_id = $1 and order_id = $2",
     {SUBMITTED}),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "rules"), BROKEN)
def test_what_was_changed_behind_its_back_is_found(epay_shop: EpayShop, statement, rules) -> None:
    order_id = epay_shop.order_id(epay_shop.paid())
    found = _found_after(epay_shop.api_server, statement, epay_shop.id, order_id)
    assert {violation.rule for violation in found} == rules
    assert {violation.subject for violation in found} == {order_id}
    assert {violation.merchant_id for violation in found} == {epay_shop.id}


# What is done behind the services' back to the second order under a number ($1 merchant, $2 order).
BROKEN_AGAIN = [
    "update epay_orders set submission = 3 where merchant_id = $1 and order_id = $2",
    "update epay_orders set name = 'other' where merchant_id = $1 and order_id = $2",
    "update epay_orders set param = 'other' where merchant_id = $1 and order_id = $2",
    # the first is now the last
    "update epay_orders set submission = 4 - submission where merchant_id = $1 and $2 <> ''",
]


@pytest.mark.parametrize("statement", BROKEN_AGAIN)
def test_an_order_that_does_not_follow_the_one_before_under_its_number_is_found(
    epay_shop: EpayShop, statement: str
) -> None:
    form = epay_shop.signed(epay_shop.form())
    first = epay_shop.post("mapi", form).json()
    session_id, now = first["payurl"].rpartition("/")[2], epay_shop.api_server.app.clock()
    epay_shop.api_server.tx(lambda tx: checkouts.expire(tx, epay_shop.id, session_id, "test", now))
    second = epay_shop.post("mapi", form).json()
    assert first["trade_no"] != second["trade_no"]
    order_id = epay_shop.order_id(second)
    found = _found_after(epay_shop.api_server, statement, epay_shop.id, order_id)
    assert {violation.rule for violation in found} == {AGAIN}
    assert {violation.merchant_id for violation in found} == {epay_shop.id}


def test_an_order_that_nobody_paid_is_not_told(epay_shop: EpayShop) -> None:
    order_id = epay_shop.order_id(epay_shop.placed())
    insert = "insert into epay_notifications values ($1, $2, 'FAILED', null, 8, '', 1, 1)"
    (violation,) = _found_after(epay_shop.api_server, insert, epay_shop.id, order_id)
    assert (violation.rule, violation.subject) == (TOLD, order_id)


def test_any_currency_and_any_decimals_are_right(epay_shop: EpayShop) -> None:
    for money, currency in (("10", "CNY"), ("10.5", "USD"), ("500", "JPY"), ("0.15", "KWD")):
        if currency not in {"CNY", "USD"}:
            epay_shop.api_server.rate(currency, "USD", Decimal("0.5"))
        epay_shop.placed(money=money, money_type=currency, type="creditcard")
    epay_shop.api_server.check_books()


def _found_after(api_server: ApiServer, statement: str, *values: str) -> list[Violation]:
    async def work(tx: Tx) -> list[Violation]:
        undone = tx.transaction()
        await undone.start()
        await tx.execute(statement, *values)
        _, found = await check_books(tx)
        await undone.rollback()
        return found

    return api_server.tx(work)
