"""Payments of all merchants in the console: the search, the page, and the actions of staff."""

import re
from functools import partial
from typing import Any, Final

import httpx2
import pytest

from console.console_pages import hidden_fields
from opentill import disputes, merchants, orders, refunds
from opentill.console.labels import (
    ABOUT_PAYMENT_ACTION,
    PAYMENT_ACTION,
    PAYMENT_ACTION_RESULT,
)
from opentill.console.payment_actions import ACTIONS
from opentill.core.errors import Unavailable
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.people import StaffRole
from opentill.portal import form_ids
from support import world
from support.api_server import Shop
from support.epay_shop import EpayShop, Inbox
from support.people import Visitor, create_person, heading_of

REASON: Final = {"reason": "seen on the <bank> statement"}
PLACE: Final = "/console/payments"
FORM: Final = re.compile(r'<form [^>]*method="post" action="([^"]+)">(.*?)</form>', re.DOTALL)


def staff(shop: Shop, role: StaffRole = "finance") -> Visitor:
    return create_person(shop.api_server, None, staff_role=role)


def forms(page: httpx2.Response) -> dict[str, dict[str, str]]:
    """Return the hidden fields of the page's forms, by the last part of their paths."""
    return {
        path.rpartition("/")[2]: hidden_fields(inner) for path, inner in FORM.findall(page.text)
    }


def status_of(shop: Shop, order_id: str) -> str:
    ids = {"merchant_id": shop.id, "order_id": order_id}
    return shop.api_server.tx(partial(orders.find, **ids)).status


def audited(shop: Shop, visitor: Visitor) -> list[tuple[str, str]]:
    """Return a person's actions at the merchant except visits, with their reasons."""
    rows = shop.api_server.sql(
        "select action, reason from audit_log where merchant_id = $1 and who = $2 order by number",
        shop.id,
        visitor.audit_name,
    )
    return [(row["action"], row["reason"]) for row in rows if row["action"] != "people visit"]


def test_any_id_leads_to_the_payment_and_texts_are_searched_within_a_merchant(shop: Shop) -> None:
    agent, order = staff(shop, "auditor"), shop.create_order()
    unpaid = shop.api_server.tx(partial(orders.find, merchant_id=shop.id, order_id=order["id"]))
    shop.api_server.tx(lambda tx: world.pay_order(tx, unpaid))
    place = f"{PLACE}/{order['id']}"
    for text in (order["id"], order["checkoutSessionId"], f" {order['id']} "):
        redirect = agent.get(PLACE, params={"query": text})
        assert redirect.headers.get("location") == place, text
    no_merchant = agent.get(PLACE, params={"query": "ann@example.com"}).text
    assert "choose a merchant too" in no_merchant
    assert 'href="/console/merchants"' in no_merchant
    by_text = agent.get(PLACE, params={"query": "ann@example.com", "merchant": shop.id})
    assert f'href="{place}"' in by_text.text
    assert audited(shop, agent) == []
    wrong = agent.get(PLACE, params={"merchant": "nobody of this name"}).text
    assert 'id="merchant-error"' in wrong
    paid = {"merchant": shop.id, "status": "PAID"}
    assert order["id"] in agent.get(PLACE, params=paid).text
    assert order["id"] not in agent.get(PLACE, params=paid | {"to": "2001-01-01"}).text


def test_a_number_that_two_merchants_use_lists_both_payments(shop: Shop) -> None:
    other, number = shop.api_server.create_shop(), world.new_reference()
    for merchant in (shop, other):
        merchant.refund(merchant.create_paid_order()["id"], amount="1.00", refundNo=number)
    page = staff(shop).get(PLACE, params={"query": number}).text
    assert len(set(re.findall(r"/console/payments/(order_\w+)", page))) == 2


def test_the_page_shows_the_merchants_view_with_a_mark_and_records_the_visit(shop: Shop) -> None:
    order = shop.create_paid_order()
    auditor = staff(shop, "auditor")
    page = auditor.get(f"{PLACE}/{order['id']}")
    assert "Event order.paid" in page.text
    assert "You see this as staff" in page.text
    merchants_page = f"/dashboard/{shop.id}/payments/{order['id']}"
    assert f'href="{merchants_page}"' in page.text
    assert f'href="{PLACE}/{order["id"]}"' in auditor.get(merchants_page).text
    assert set(forms(page)) <= {"logout"}
    visits = "select count(*) from audit_log where action = 'people visit' and who like $1"
    assert shop.api_server.sql(visits, f"{auditor.email}%") == [{"count": 1}]
    assert auditor.post(f"{PLACE}/{order['id']}/confirm", REASON).status_code == 403
    support = staff(shop, "support")
    assert support.post(f"{PLACE}/{order['id']}/confirm", REASON).status_code == 403
    missing = auditor.get(f"{PLACE}/order_0000000000000000000000000a")
    assert (missing.status_code, heading_of(missing)) == (404, "We cannot find this page")


def test_confirming_shows_the_amounts_needs_a_reason_and_happens_once(shop: Shop) -> None:
    order, agent = shop.create_order(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    page = agent.get(place)
    assert "The merchant’s pending balance gains" in page.text
    form, other = forms(page)["confirm"], forms(agent.get(place))["revoke"]
    refused = agent.post(f"{place}/confirm", form | {"reason": " "})
    assert (refused.status_code, 'id="confirm-reason-error"' in refused.text) == (400, True)
    assert status_of(shop, order["id"]) == "PENDING"
    for _ in range(2):  # a double click
        done = agent.post(f"{place}/confirm", form | REASON)
        assert done.headers["location"] == f"{place}?done=confirm"
    assert "The payment is confirmed" in agent.get(done.headers["location"]).text
    stale = agent.post(f"{place}/revoke", other | REASON)
    assert stale.status_code == 409
    assert "Not paid yet → Paid" in stale.text
    assert "seen on the &lt;bank&gt; statement" in stale.text
    assert status_of(shop, order["id"]) == "PAID"
    assert audited(shop, agent) == [("orders confirm", REASON["reason"])]


def test_an_unpaid_payment_is_revoked(shop: Shop) -> None:
    order, agent = shop.create_order(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    form = forms(agent.get(place))["revoke"]
    assert agent.post(f"{place}/revoke", form | REASON).status_code == 303
    assert status_of(shop, order["id"]) == "REVOKED"
    assert agent.post(f"{place}/revoke", REASON).status_code == 409  # a form without a state
    assert audited(shop, agent) == [("orders revoke", REASON["reason"])]


def quote_refund(agent: Visitor, order_id: str, amount: str) -> dict[str, str]:
    """Quote a refund; return the fields of the form that confirms it."""
    page = agent.get(f"{PLACE}/{order_id}/refund", params={"amount": amount})
    return forms(page)["refund"] | {"confirm": amount} | REASON


def test_a_refund_is_made_once_and_only_as_quoted(shop: Shop) -> None:
    order, agent = shop.create_paid_order(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    form, late = (quote_refund(agent, order["id"], "1.00") for _ in range(2))
    for change, field in (({"reason": ""}, "reason"), ({"confirm": "2.00"}, "confirm")):
        refused = agent.post(f"{place}/refund", form | change)
        assert (refused.status_code, f'id="{field}-error"' in refused.text) == (400, True)
    for _ in range(2):
        assert agent.post(f"{place}/refund", form).headers["location"] == f"{place}?done=refund"
    stale = agent.post(f"{place}/refund", late)
    assert (stale.status_code, "Something has changed" in stale.text) == (409, True)
    (refund,) = shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]
    assert (refund["amount"], refund["reason"]) == ("1.00", REASON["reason"])
    assert audited(shop, agent) == [("orders refund", REASON["reason"])]


def test_a_form_whose_commit_was_not_confirmed_can_be_sent_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, agent = shop.create_paid_order(), staff(shop)
    form, place = quote_refund(agent, order["id"], "1.00"), f"{PLACE}/{order['id']}/refund"
    run_once = form_ids.run_once

    async def lose_connection(request: Any, work: Any) -> str:
        await run_once(request, work)
        raise Unavailable  # the connection ended before the commit was confirmed

    monkeypatch.setattr(form_ids, "run_once", lose_connection)
    unknown = agent.post(place, form)
    assert unknown.status_code == 503
    monkeypatch.undo()
    assert agent.post(place, forms(unknown)["refund"]).status_code == 303
    assert len(shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]) == 1


def test_a_refund_needs_an_override_while_the_capability_is_off(shop: Shop) -> None:
    order, agent, server = shop.create_paid_order(), staff(shop), shop.api_server
    off: dict[str, Any] = {"on": False, "actor": Actor("op", "chargebacks"), "now": world.NOW}
    server.tx(lambda tx: merchants.set_capability(tx, shop.id, "refund", **off))
    form, place = quote_refund(agent, order["id"], "1.00"), f"{PLACE}/{order['id']}/refund"
    refused = agent.post(place, form)
    assert (refused.status_code, 'id="force-error"' in refused.text) == (403, True)
    assert "chargebacks" in refused.text
    assert agent.post(place, form | {"force": "yes"}).status_code == 303
    (row,) = server.sql("select subject from audit_log where action = 'orders refund' and"
                        " merchant_id = $1", shop.id)  # fmt: skip
    assert row["subject"] == f"{order['id']}, forced: refund is off (chargebacks)"


@pytest.mark.parametrize(("result", "status"), [("done", "SUCCEEDED"), ("failed", "FAILED")])
def test_a_refund_that_no_gateway_reports_is_ended(shop: Shop, result: str, status: str) -> None:
    order, agent = shop.create_paid_order(), staff(shop)
    refund = shop.refund(order["id"], amount="1.00")
    place = f"{PLACE}/{order['id']}"
    form = forms(agent.get(place))[f"refund-{result}"]
    other_order = form | {"subject": shop.refund(shop.create_paid_order()["id"])["id"]} | REASON
    assert agent.post(f"{place}/refund-{result}", other_order).status_code == 404
    for _ in range(2):
        assert agent.post(f"{place}/refund-{result}", form | REASON).status_code == 303
    ids = {"merchant_id": shop.id, "refund_id": refund["id"]}
    assert shop.api_server.tx(partial(refunds.find, **ids)).status == status
    action = "refund succeeded" if result == "done" else "refund refused"
    assert audited(shop, agent) == [(action, REASON["reason"])]
    assert "refund-done" not in forms(agent.get(place))


def test_a_dispute_is_opened_lost_and_recovered_with_the_permission(shop: Shop) -> None:
    order, agent, finance = shop.create_paid_order(), staff(shop, "support"), staff(shop)
    place = f"{PLACE}/{order['id']}"
    assert "dispute-open" not in forms(finance.get(place))
    assert finance.post(f"{place}/dispute-open", REASON).status_code == 403
    form = forms(agent.get(place))["dispute-open"] | REASON
    for amount in ("", "1000000"):
        refused = agent.post(f"{place}/dispute-open", form | {"amount": amount})
        assert refused.status_code == 400
        assert 'id="dispute-open-amount-error"' in refused.text
    assert agent.post(f"{place}/dispute-open", form | {"amount": "5.00"}).status_code == 303
    # A decision moves money, so it requires a step-up.
    sql = "update logins set proved_at = proved_at + $1 where person_id = $2 returning 1"
    shop.api_server.sql(sql, -660_000, agent.person_id)
    form = forms(agent.get(place))["dispute-lost"] | REASON
    assert 'name="proof_password"' in agent.post(f"{place}/dispute-lost", form).text
    shop.api_server.sql(sql, 660_000, agent.person_id)
    won = forms(agent.get(place))["dispute-won"] | REASON
    for decision in ("lost", "recovered"):
        form = forms(agent.get(place))[f"dispute-{decision}"] | REASON
        assert agent.post(f"{place}/dispute-{decision}", form).status_code == 303
        late = agent.post(f"{place}/dispute-won", won | {"form_id": ""})
        assert (late.status_code, "Nothing was done" in late.text) == (409, True)
    ids = {"merchant_id": shop.id, "order_id": order["id"]}
    (dispute,) = shop.api_server.tx(partial(disputes.list_for_order, **ids))
    assert (dispute.status, dispute.amount_minor) == ("RECOVERED", 500)
    actions = [action for action, _ in audited(shop, agent)]
    assert actions == ["disputes open", "disputes lose", "disputes recover"]


def test_the_notification_of_an_epay_shop_is_sent_again(shop: Shop) -> None:
    inbox, server = Inbox(), shop.api_server
    try:
        epay_shop = EpayShop(server, inbox)
        placed = epay_shop.place_paid_order(money_type="USD", notify_url="https://127.0.0.1/notify")
    finally:
        inbox.close()
    order_id, agent = epay_shop.order_id(placed), staff(shop)
    place = f"{PLACE}/{order_id}"
    by_number = agent.get(PLACE, params={"query": placed["trade_no"]})
    assert by_number.headers["location"] == place
    ended = "update epay_notifications set state = 'FAILED', due_at = null where order_id = $1"
    server.sql(ended, order_id)
    form = forms(agent.get(place))["notify"] | REASON
    for _ in range(2):
        assert agent.post(f"{place}/notify", form).status_code == 303
    state = "select state from epay_notifications where order_id = $1"
    assert server.sql(state, order_id) == [{"state": "WAITING"}]
    server.sql(ended, order_id)
    rows = "select action, reason from audit_log where merchant_id = $1 and who like $2"
    actions = server.sql(rows, epay_shop.id, f"{agent.email}%")
    assert [row for row in actions if row["action"] != "people visit"] == [
        {"action": "epay resend", "reason": REASON["reason"]}
    ]


def test_adding_a_note_and_resending_an_event_are_in_the_audit_log(shop: Shop) -> None:
    shop.create_endpoint()
    order, agent = shop.create_paid_order(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    page = agent.get(place)
    note = forms(page)["notes"]
    empty = agent.post(f"{place}/notes", note | {"note": " "})
    assert (empty.status_code, 'id="note-note-error"' in empty.text) == (400, True)
    for _ in range(2):
        assert agent.post(f"{place}/notes", note | {"note": "called <b>"}).status_code == 303
    shop.api_server.sql(
        "update webhook_deliveries set status = 'FAILED', attempts = 1, try_at = null"
        " where merchant_id = $1", shop.id,
    )  # fmt: skip
    again = forms(agent.get(place))["resend"]
    first, second = (agent.post(f"{place}/resend", again) for _ in range(2))
    assert (first.status_code, second.status_code) == (303, 303)
    assert "called &lt;b&gt;" in agent.get(place).text
    assert audited(shop, agent)[:2] == [
        ("orders note", "called <b>"),
        ("webhooks resend", "on the page of a payment"),
    ]
    unknown = again | {"event": "evt_0000000000000000000000000a"}
    assert agent.post(f"{place}/resend", unknown).status_code == 404


def test_a_member_who_is_staff_too_acts_in_the_console_as_staff(shop: Shop) -> None:
    """A developer may not see fees in the dashboard; an auditor sees them in the console."""
    both = create_person(shop.api_server, shop.id, "developer")
    shop.api_server.sql(
        "insert into staff (person_id, role, created_at) values ($1, 'auditor', 0)", both.person_id
    )
    order = shop.create_paid_order()
    assert "Freeze" not in both.get(f"/dashboard/{shop.id}/payments/{order['id']}").text
    assert ">Fee<" in both.get(f"{PLACE}/{order['id']}").text.replace("</strong>", "<")


def test_a_second_payment_that_a_gateway_keeps_is_recorded_as_given_back(shop: Shop) -> None:
    server, visitor = shop.api_server, staff(shop)
    order_id, now = shop.create_order()["id"], server.app.clock()

    async def pay_twice(tx: Tx) -> orders.PaymentAttempt:
        return await world.pay_order_twice(tx, await orders.find(tx, shop.id, order_id))

    second = server.tx(pay_twice)
    place = f"{PLACE}/{order_id}"
    assert second.status == "DUPLICATE"
    assert "given-back" not in forms(visitor.get(place))  # the worker gives it back first
    refusal = RefundOutcome(status="REFUSED", reason="closed account")
    server.tx(lambda tx: orders.apply_duplicate_return(tx, second, refusal, now))
    form = forms(visitor.get(place))["given-back"]
    assert form["subject"] == second.id
    other = shop.create_order()["id"]
    other_form = forms(visitor.get(f"{PLACE}/{other}"))["revoke"] | REASON
    refused = visitor.post(f"{PLACE}/{other}/given-back", other_form | {"subject": second.id})
    assert refused.status_code == 404
    for _ in range(2):  # a double click
        done = visitor.post(f"{place}/given-back", form | REASON)
        assert done.headers["location"].endswith("?done=given-back")
    after = server.tx(lambda tx: orders.find_attempt(tx, shop.id, second.id))
    assert after.status == "GIVEN_BACK"
    assert ("orders given-back", REASON["reason"]) in audited(shop, visitor)
    assert status_of(shop, order_id) == "PAID"


def test_a_form_that_has_added_another_note_is_refused_with_its_input(shop: Shop) -> None:
    visitor, order_id = staff(shop, "support"), shop.create_paid_order()["id"]
    form = forms(visitor.get(f"{PLACE}/{order_id}"))["notes"]
    visitor.post(f"{PLACE}/{order_id}/notes", form | {"note": "One."})
    again = visitor.post(f"{PLACE}/{order_id}/notes", form | {"note": "Another."})
    assert (again.status_code, "was sent before" in again.text) == (422, True)
    assert "Another.</textarea>" in again.text


def test_every_action_has_its_texts() -> None:
    for table in (PAYMENT_ACTION, ABOUT_PAYMENT_ACTION, PAYMENT_ACTION_RESULT):
        assert {action.name for action in ACTIONS} <= set(table)
