"""Test payments through a gateway, opened in the console."""

import re
from typing import Final

import pytest

from console.console_pages import visible_text
from opentill import merchants
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways import Gateways
from support.api_server import Shop
from support.people import TESTER, create_person
from support.sandbox_accounts import start_payment

PATH: Final = "/console/gateways/test"


def form_values(shop: Shop, **changes: str) -> dict[str, str]:
    return {
        "gateway": "sandbox",
        "merchant": shop.id,
        "amount": "1.50",
        "currency": "usd",
        "method": "CREDIT_CARD",
        "form_id": "",
    } | changes


def test_a_test_payment_is_an_ordinary_session_that_is_opened_once(shop: Shop) -> None:
    server, finance = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    assert f'href="{PATH}?gateway=sandbox"' in finance.get("/console/gateways").text
    (form_id,) = re.findall(r'name="form_id" value="(\w+)"', finance.get(PATH).text)
    form = form_values(shop, form_id=form_id)
    # A double click submits the form twice.
    result_urls = [finance.post(PATH, form).headers["location"] for _ in range(2)]
    assert result_urls[0] == result_urls[1]
    page = finance.get(result_urls[0])
    (session_id,) = re.findall(r'href="[^"]*/checkout/(cs_\w+)"', page.text)
    session = shop.data("GET", f"/v1/checkouts/{session_id}")
    assert (session["amount"], session["paymentMethods"]) == ("1.50", ["CREDIT_CARD"])
    order = shop.read_order(session["orderId"])
    assert (order["status"], order["metadata"]) == ("PENDING", {"testPayment": "sandbox"})
    rows = server.sql("select who, subject from audit_log where action = 'gateways test'"
                      " and merchant_id = $1", shop.id)  # fmt: skip
    assert rows == [{"who": finance.audit_name, "subject": f"{order['id']}: sandbox"}]
    refusal = finance.post(PATH, form | {"amount": "2.00"})
    assert (refusal.status_code, 'value="2.00"' in refusal.text) == (422, True)
    shop.confirm(order["id"])
    text = visible_text(finance.get(PATH).text)
    assert re.search(r"Sandbox bank (→ Manual payments )?Harbour Books \$1\.50 Paid", text), text
    merchants_session = shop.create_session(metadata={"testPayment": "sandbox"})
    page = finance.get(f"{PATH}?opened={merchants_session['id']}")
    # The page hides this session, because a merchant opened it.
    assert "/checkout/cs_" not in page.text


@pytest.mark.parametrize("entry", ["$1,200.50", "1200,50", "USD 1 200.50"])
def test_the_amount_of_a_test_payment_is_entered_as_people_write_it(shop: Shop, entry: str) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    result_url = finance.post(PATH, form_values(shop, amount=entry)).headers["location"]
    (session_id,) = re.findall(r"opened=(cs_\w+)", result_url)
    assert shop.data("GET", f"/v1/checkouts/{session_id}")["amount"] == "1200.50"


def test_test_payments_are_listed_even_if_the_audit_log_has_many_other_rows(shop: Shop) -> None:
    server, finance = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    (form_id,) = re.findall(r'name="form_id" value="(\w+)"', finance.get(PATH).text)
    finance.post(PATH, form_values(shop, form_id=form_id))
    (row,) = server.sql("select order_id from gateway_tests where merchant_id = $1", shop.id)
    order_id, payment_path = row["order_id"], f"/console/payments/{row['order_id']}"

    async def record_notes(tx: Tx) -> None:
        for _ in range(200):
            now = server.app.clock()
            await merchants.record_audit(tx, TESTER, "orders note", shop.id, "gateways test", now)

    server.tx(record_notes)
    assert f'href="{payment_path}"' in finance.get(PATH).text
    older_payments = finance.get(f"{PATH}?gateway=sandbox&before={order_id}").text
    assert f'href="{payment_path}"' not in older_payments


def test_a_test_payment_goes_to_its_account_whatever_routing_would_choose(shop: Shop) -> None:
    server, finance = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    before = server.app.gateways
    gateways = {"sandbox": before["sandbox"], "second": before["sandbox"]}
    try:
        server.app.gateways = Gateways(gateways, {}, {})
        result_url = finance.post(PATH, form_values(shop, gateway="second")).headers["location"]
        (session_id,) = re.findall(r"opened=(cs_\w+)", result_url)
        attempt = start_payment(server, session_id)
        assert attempt.gateway == "second"
        payment_page = finance.get(f"/console/payments/{attempt.order_id}").text
        assert "Test payment of this account" in visible_text(payment_page)
        # The same metadata of a merchant's own session binds it to no account.
        own_session = shop.create_session(metadata={"testPayment": "second"})
        own_attempt = start_payment(server, own_session["id"])
        (first, *_) = server.sql(
            "select gateway from payment_attempts where order_id = $1 order by id",
            own_attempt.order_id,
        )
        assert first == {"gateway": "sandbox"}
        # No other account takes the payment if this one no longer does.
        result_url = finance.post(PATH, form_values(shop, gateway="second")).headers["location"]
        (session_id,) = re.findall(r"opened=(cs_\w+)", result_url)
        server.app.gateways = Gateways({"sandbox": before["sandbox"]}, {}, {})
        with pytest.raises(Invalid, match="method"):
            start_payment(server, session_id)
    finally:
        server.app.gateways = before


def test_an_invalid_test_payment_is_refused_at_its_field(shop: Shop) -> None:
    server, finance = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    for field, changes in (
        ("merchant", {"merchant": "mer_00000000000000000000000"}),
        ("merchant", {"merchant": "Harbour Books"}),
        ("amount", {"amount": "0"}),
        ("amount", {"amount": "1.005"}),
        ("amount", {"amount": "€1.50"}),
        ("currency", {"currency": "XYZ"}),
        ("currency", {"currency": "MAD"}),  # MAD has no exchange rate
        ("method", {"method": "CASH"}),
    ):
        refusal = finance.post(PATH, form_values(shop, **changes))
        assert refusal.status_code == 400, changes
        assert re.findall(r'id="(\w+)-error"', refusal.text) == [field], changes
    assert finance.post(PATH, form_values(shop, gateway="x")).status_code == 400
    now = server.app.clock()
    server.tx(
        lambda tx: merchants.set_capability(
            tx, shop.id, "charge", on=False, actor=TESTER, now=now, notes=""
        )
    )
    refusal = finance.post(PATH, form_values(shop))
    assert (refusal.status_code, TESTER.reason in visible_text(refusal.text)) == (403, True)
    assert server.sql("select 1 from orders where merchant_id = $1", shop.id) == []
    reader = create_person(server, None, staff_role="support")
    assert reader.post(PATH, form_values(shop)).status_code == 403
    assert 'name="merchant"' not in reader.get(PATH).text
