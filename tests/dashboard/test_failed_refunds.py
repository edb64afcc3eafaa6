"""Refunds in the list of payments, on a payment's page and on the home page."""

import html
import re
from functools import partial

from dashboard.pages import new_form_id, text_of
from dashboard.test_payments_list import PaymentsList
from opentill import refunds
from portal.test_menu import menu_of
from support import world
from support.api_server import Shop
from support.people import create_person


def _refund(shop: Shop, order_id: str, amount: str, end: str | None, *, reason: str = "") -> str:
    """Refund a part of an order and report its end; return the id of the refund."""
    server = shop.api_server
    refund_id = shop.refund(order_id, amount=amount, reason=reason)["id"]
    refund = server.tx(partial(refunds.find, merchant_id=shop.id, refund_id=refund_id))
    if end is not None:
        server.tx(lambda tx: world.report_refund(tx, refund, end, server.app.clock()))
    return refund_id


def test_payments_are_listed_and_exported_by_the_progress_of_their_refunds(shop: Shop) -> None:
    product = shop.create_product(price="20")["id"]
    ids = {name: shop.create_paid_order(product)["id"] for name in ("part", "waits", "failed")}
    untouched = shop.create_paid_order(product)["id"]
    _refund(shop, ids["part"], "4.00", "SUCCEEDED")
    _refund(shop, ids["waits"], "3.00", None)
    _refund(shop, ids["failed"], "2.00", "REFUSED")
    payments = PaymentsList(shop)
    for name, status, text in (
        ("part", "PARTIALLY_REFUNDED", "Partially refunded"),
        ("waits", "REFUND_PENDING", "Refund pending"),
        ("failed", "REFUND_FAILED", "Refund failed"),
    ):
        page = payments.page(status=status, with_order="1", with_status="1")
        listed = {id_ for id_ in (*ids.values(), untouched) if f'id="{id_}"' in page}
        assert listed == {ids[name]}, name
        assert page.count(f">{text}</span>") == 1
        for query in ({}, {"product": product}, {"amount": "20"}, {"query": "20"}):
            rows = payments.export(status=status, **query)
            assert {row["id"] for row in rows} == {ids[name]}, (name, query)
            assert len(payments.rows(status=status, **query)) == 1
        assert not payments.export(status=status, amount="21")


def test_a_failed_refund_needs_attention_until_it_is_marked_as_handled(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    order = shop.create_paid_order()["id"]
    refund_id = _refund(shop, order, "4.00", "REFUSED")
    home, path = f"/dashboard/{shop.id}/", f"/dashboard/{shop.id}/payments/{order}"
    assert "1 refund failed: the customer has not got the money" in text_of(ada.get(home))
    # A notice of one leads to its payment.
    assert f'<a href="{path}">1 refund failed' in ada.get(home).text
    assert "Payments 1 Failed refunds" in text_of(ada.get(path))  # in the menu
    viewer = create_person(shop.api_server, shop.id, "viewer")
    assert "Failed refunds" not in menu_of(viewer.get(path).text)  # who can do nothing about it
    page = text_of(ada.get(path))
    assert "The refund of $4.00 failed" in page
    assert "The customer did not get the money." in page
    form = {"how": " ", "form_id": new_form_id(ada, path)}
    refusal = ada.post(f"{path}/refunds/{refund_id}/handled", form)
    assert (refusal.status_code, "Describe how it was handled" in refusal.text) == (400, True)
    incomplete, missing = ada.post(f"{path}/notes", {}), ada.get(f"{home}payments/order_0")
    assert (incomplete.status_code, missing.status_code) == (400, 404)
    for response in (refusal, incomplete, missing, ada.get("/security")):
        assert "Payments 1 Failed refunds" in text_of(menu_of(response.text)), response.url
    for _ in range(2):  # a double click
        response = ada.post(f"{path}/refunds/{refund_id}/handled", form | {"how": "bank transfer"})
        assert response.headers["location"] == f"{path}?handled=1"
    page = text_of(ada.get(f"{path}?handled=1"))
    assert "The failed refund is marked as handled." in page
    assert "A failed refund was marked as handled" in page
    assert "Mark as handled" not in page
    assert "Failed refunds" not in text_of(ada.get(home))
    rows = shop.api_server.sql(
        "select who, subject, reason from audit_log where merchant_id = $1 and action = $2",
        shop.id,
        "refunds handled",
    )
    who = f"{ada.email} ({ada.person_id})"
    assert rows == [{"who": who, "subject": refund_id, "reason": "bank transfer"}]
    # Somebody else had the page open: nothing changes, and the page is shown as it is now.
    late = ada.post(f"{path}/refunds/{refund_id}/handled", {"how": "again"})
    assert late.headers["location"] == path


def test_a_failed_refund_is_repeated_with_its_own_amount_and_reason(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "support")
    agent = create_person(shop.api_server, None, staff_role="support")
    order = shop.create_paid_order(shop.create_product(price="17.50")["id"])["id"]
    refund_id = _refund(shop, order, "5.00", "REFUSED", reason="Duplicate: ordered twice")
    path, console = f"/dashboard/{shop.id}/payments/{order}", f"/console/payments/{order}"
    for person, place in ((ada, path), (agent, console)):
        link = re.search(r'href="([^"]*/refund\?[^"]*)">Refund again', person.get(place).text)
        assert link, place
        dialog = person.get(html.unescape(link[1])).text
        amount = re.search(r'<input id="amount"[^>]*? value="([^"]*)"', dialog)
        assert amount, place
        assert amount[1] == "5.00", place
        assert 'name="quoted" value="5.00"' in dialog
        assert ">Refund $5.00</button>" in dialog or person is agent
    assert "reason=Duplicate%3A+ordered+twice" in agent.get(console).text
    dialog = ada.get(f"{path}/refund?amount=5.00&why=duplicate&reason=ordered+twice").text
    assert '<option value="duplicate" selected>' in dialog
    assert 'value="ordered twice"' in dialog
    # The plain refund of the page is still of all that is left.
    page = ada.get(path).text
    assert f'href="{path}/refund"' in page
    assert 'name="quoted" value="17.50"' in ada.get(f"{path}/refund").text
    # Less than the failed amount is left: the dialog suggests what is left.
    _refund(shop, order, "14.00", "SUCCEEDED")
    page = ada.get(path).text
    assert f"{path}/refund?amount=3.50&amp;why=duplicate&amp;reason=ordered+twice" in page
    assert f"handled-{refund_id}" in page


def test_roles_that_may_not_refund_cannot_mark_a_refund_as_handled(shop: Shop) -> None:
    viewer = create_person(shop.api_server, shop.id, "viewer")
    order = shop.create_paid_order()["id"]
    refund_id = _refund(shop, order, "4.00", "REFUSED")
    path = f"/dashboard/{shop.id}/payments/{order}"
    assert "Mark as handled" not in viewer.get(path).text
    assert viewer.post(f"{path}/refunds/{refund_id}/handled", {"how": "x"}).status_code == 403


def test_staff_mark_a_failed_refund_as_handled(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="support")
    order = shop.create_paid_order()["id"]
    refund_id = _refund(shop, order, "4.00", "REFUSED")
    assert refund_id in agent.get("/console/needs/failed_refunds").text
    page = agent.get(f"/console/payments/{order}").text
    anchor = f'id="refund-handled-{refund_id}"'
    assert anchor in page
    fields = page.split(anchor)[1].split("</form>")[0]
    seen = fields.split('name="seen" value="')[1].split('"')[0]
    form = {"seen": seen, "subject": refund_id, "reason": "paid in cash"}
    assert agent.post(f"/console/payments/{order}/refund-handled", form).status_code == 303
    assert refund_id not in agent.get("/console/needs/failed_refunds").text
    listed = agent.get("/console/payments", params={"merchant": shop.id, "status": "REFUND_FAILED"})
    assert order not in listed.text
