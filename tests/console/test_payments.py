"""Payments of all merchants in the console: found, looked at, and what staff do to them."""

import re
from functools import partial
from html import unescape
from typing import Any, Final

import httpx2
import pytest

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
from support.people import Visitor, person, title

REASON: Final = {"reason": "seen on the <bank> statement"}
PLACE: Final = "/console/payments"
FORM: Final = re.compile(r'<form [^>]*method="post" action="([^"]+)">(.*?)</form>', re.DOTALL)
HIDDEN: Final = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')


def staff(shop: Shop, role: StaffRole = "finance") -> Visitor:
    return person(shop.api_server, None, staff_role=role)


def forms(page: httpx2.Response) -> dict[str, dict[str, str]]:
    """Return the hidden fields of the page's forms, by the last part of their addresses."""
    return {
        path.rpartition("/")[2]: {name: unescape(value) for name, value in HIDDEN.findall(inner)}
        for path, inner in FORM.findall(page.text)
    }


def status_of(shop: Shop, order_id: str) -> str:
    ids = {"merchant_id": shop.id, "order_id": order_id}
    return shop.api_server.tx(partial(orders.find, **ids)).status


def audited(shop: Shop, visitor: Visitor) -> list[tuple[str, str]]:
    """Return what a person did at the merchant, and why; the visits aside."""
    rows = shop.api_server.sql(
        "select action, reason from audit_log where merchant_id = $1 and who = $2 order by number",
        shop.id,
        f"{visitor.email} ({visitor.person_id})",
    )
    return [(one["action"], one["reason"]) for one in rows if one["action"] != "people visit"]


def test_any_id_leads_to_the_payment_and_texts_are_searched_within_a_merchant(shop: Shop) -> None:
    agent, order = staff(shop, "auditor"), shop.order()
    found = shop.api_server.tx(partial(orders.find, merchant_id=shop.id, order_id=order["id"]))
    shop.api_server.tx(lambda tx: world.paid(tx, found))
    place = f"{PLACE}/{order['id']}"
    for text in (order["id"], order["checkoutSessionId"], f" {order['id']} "):
        led = agent.get(PLACE, params={"query": text})
        assert led.headers.get("location") == place, text
    nothing = agent.get(PLACE, params={"query": "ann@example.com"}).text
    assert "choose a merchant too" in nothing
    assert 'href="/console/merchants"' in nothing
    by_text = agent.get(PLACE, params={"query": "ann@example.com", "merchant": shop.id})
    assert f'href="{place}"' in by_text.text
    assert audited(shop, agent) == []
    wrong = agent.get(PLACE, params={"merchant": "nobody of this name"}).text
    assert 'id="merchant-error"' in wrong
    paid = {"merchant": shop.id, "status": "PAID"}
    assert order["id"] in agent.get(PLACE, params=paid).text
    none = agent.get(PLACE, params=paid | {"to": "2001-01-01"}).text
    assert order["id"] not in none


def test_an_id_of_two_merchants_shows_both(shop: Shop) -> None:
    other, number = shop.api_server.shop(), world.fresh()
    for one in (shop, other):
        one.refund(one.paid()["id"], amount="1.00", refundNo=number)
    page = staff(shop).get(PLACE, params={"query": number}).text
    assert len(set(re.findall(r"/console/payments/(order_\w+)", page))) == 2


def test_the_page_is_the_merchants_with_a_mark_and_the_visit_is_audited(shop: Shop) -> None:
    order = shop.paid()
    auditor = staff(shop, "auditor")
    page = auditor.get(f"{PLACE}/{order['id']}")
    assert "Event order.paid" in page.text
    assert "You see this as staff" in page.text
    own = f"/dashboard/{shop.id}/payments/{order['id']}"
    assert f'href="{own}"' in page.text
    assert f'href="{PLACE}/{order["id"]}"' in auditor.get(own).text
    assert set(forms(page)) <= {"logout"}
    visits = "select count(*) from audit_log where action = 'people visit' and who like $1"
    assert shop.api_server.sql(visits, f"{auditor.email}%") == [{"count": 1}]
    assert auditor.post(f"{PLACE}/{order['id']}/confirm", REASON).status_code == 403
    support = staff(shop, "support")
    assert support.post(f"{PLACE}/{order['id']}/confirm", REASON).status_code == 403
    nowhere = auditor.get(f"{PLACE}/order_0000000000000000000000000a")
    assert (nowhere.status_code, title(nowhere)) == (404, "We cannot find this page")


def test_a_payment_is_confirmed_once_with_what_it_moves_and_why(shop: Shop) -> None:
    order, agent = shop.order(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    page = agent.get(place)
    assert "The merchant’s pending balance gains" in page.text
    form, other = forms(page)["confirm"], forms(agent.get(place))["revoke"]
    silent = agent.post(f"{place}/confirm", form | {"reason": " "})
    assert (silent.status_code, 'id="confirm-reason-error"' in silent.text) == (400, True)
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
    order, agent = shop.order(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    form = forms(agent.get(place))["revoke"]
    assert agent.post(f"{place}/revoke", form | REASON).status_code == 303
    assert status_of(shop, order["id"]) == "REVOKED"
    assert agent.post(f"{place}/revoke", REASON).status_code == 409  # made of nothing
    assert audited(shop, agent) == [("orders revoke", REASON["reason"])]


def ask(agent: Visitor, order_id: str, amount: str) -> dict[str, str]:
    """Go the first step of a refund; return the form of the second, confirmed."""
    page = agent.get(f"{PLACE}/{order_id}/refund", params={"amount": amount})
    return forms(page)["refund"] | {"confirm": amount} | REASON


def test_a_refund_is_made_once_and_only_as_it_was_shown(shop: Shop) -> None:
    order, agent = shop.paid(), staff(shop)
    place = f"{PLACE}/{order['id']}"
    form, late = (ask(agent, order["id"], "1.00") for _ in range(2))
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


def test_while_the_outcome_of_a_refund_is_unknown_its_form_asks_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, agent = shop.paid(), staff(shop)
    form, place = ask(agent, order["id"], "1.00"), f"{PLACE}/{order['id']}/refund"
    made = form_ids.run_once

    async def lost(request: Any, step: Any) -> str:
        await made(request, step)
        raise Unavailable  # the connection ended before the commit was confirmed

    monkeypatch.setattr(form_ids, "run_once", lost)
    unknown = agent.post(place, form)
    assert unknown.status_code == 503
    monkeypatch.undo()
    assert agent.post(place, forms(unknown)["refund"]).status_code == 303
    assert len(shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]) == 1


def test_a_refund_that_is_switched_off_has_to_be_forced(shop: Shop) -> None:
    order, agent, server = shop.paid(), staff(shop), shop.api_server
    off: dict[str, Any] = {"on": False, "actor": Actor("op", "chargebacks"), "now": world.NOW}
    server.tx(lambda tx: merchants.set_capability(tx, shop.id, "refund", **off))
    form, place = ask(agent, order["id"], "1.00"), f"{PLACE}/{order['id']}/refund"
    refused = agent.post(place, form)
    assert (refused.status_code, 'id="force-error"' in refused.text) == (403, True)
    assert "chargebacks" in refused.text
    assert agent.post(place, form | {"force": "yes"}).status_code == 303
    (row,) = server.sql("select subject from audit_log where action = 'orders refund' and"
                        " merchant_id = $1", shop.id)  # fmt: skip
    assert row["subject"] == f"{order['id']}, forced: refund is off (chargebacks)"


@pytest.mark.parametrize(("end", "status"), [("done", "SUCCEEDED"), ("failed", "FAILED")])
def test_a_refund_that_no_gateway_reports_is_ended(shop: Shop, end: str, status: str) -> None:
    order, agent = shop.paid(), staff(shop)
    refund = shop.refund(order["id"], amount="1.00")
    place = f"{PLACE}/{order['id']}"
    form = forms(agent.get(place))[f"refund-{end}"]
    elsewhere = form | {"subject": shop.refund(shop.paid()["id"])["id"]} | REASON
    assert agent.post(f"{place}/refund-{end}", elsewhere).status_code == 404
    for _ in range(2):
        assert agent.post(f"{place}/refund-{end}", form | REASON).status_code == 303
    ids = {"merchant_id": shop.id, "refund_id": refund["id"]}
    assert shop.api_server.tx(partial(refunds.find, **ids)).status == status
    action = "refund succeeded" if end == "done" else "refund refused"
    assert audited(shop, agent) == [(action, REASON["reason"])]
    assert "refund-done" not in forms(agent.get(place))


def test_a_dispute_is_opened_lost_and_recovered_by_whoever_may(shop: Shop) -> None:
    order, agent, finance = shop.paid(), staff(shop, "support"), staff(shop)
    place = f"{PLACE}/{order['id']}"
    assert "dispute-open" not in forms(finance.get(place))
    assert finance.post(f"{place}/dispute-open", REASON).status_code == 403
    form = forms(agent.get(place))["dispute-open"] | REASON
    for amount in ("", "1000000"):
        refused = agent.post(f"{place}/dispute-open", form | {"amount": amount})
        assert (refused.status_code, 'id="dispute-open-amount-error"' in refused.text) == (
            400,
            True,
        )
    assert agent.post(f"{place}/dispute-open", form | {"amount": "5.00"}).status_code == 303
    # Deciding moves money: it takes a step-up.
    sql = "update logins set proved_at = proved_at + $1 where person_id = $2 returning 1"
    shop.api_server.sql(sql, -660_000, agent.person_id)
    form = forms(agent.get(place))["dispute-lost"] | REASON
    assert 'name="proof_password"' in agent.post(f"{place}/dispute-lost", form).text
    shop.api_server.sql(sql, 660_000, agent.person_id)
    won = forms(agent.get(place))["dispute-won"] | REASON
    for end in ("lost", "recovered"):
        form = forms(agent.get(place))[f"dispute-{end}"] | REASON
        assert agent.post(f"{place}/dispute-{end}", form).status_code == 303
        late = agent.post(f"{place}/dispute-won", won | {"form_id": ""})
        assert (late.status_code, "Nothing was done" in late.text) == (409, True)
    ids = {"merchant_id": shop.id, "order_id": order["id"]}
    (dispute,) = shop.api_server.tx(partial(disputes.of_order, **ids))
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
    now = "select state from epay_notifications where order_id = $1"
    assert server.sql(now, order_id) == [{"state": "WAITING"}]
    server.sql(ended, order_id)
    rows = "select action, reason from audit_log where merchant_id = $1 and who like $2"
    found = server.sql(rows, epay_shop.id, f"{agent.email}%")
    assert [one for one in found if one["action"] != "people visit"] == [
        {"action": "epay resend", "reason": REASON["reason"]}
    ]


def test_a_note_and_an_event_sent_again_are_in_the_audit_log(shop: Shop) -> None:
    shop.endpoint()
    order, agent = shop.paid(), staff(shop)
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
    elsewhere = again | {"event": "evt_0000000000000000000000000a"}
    assert agent.post(f"{place}/resend", elsewhere).status_code == 404


def test_a_member_who_is_staff_too_acts_in_the_console_as_staff(shop: Shop) -> None:
    """What they may not see as a developer, they see there."""
    both = person(shop.api_server, shop.id, "developer")
    shop.api_server.sql(
        "insert into staff (person_id, role, created_at) values ($1, 'auditor', 0)", both.person_id
    )
    order = shop.paid()
    assert "Freeze" not in both.get(f"/dashboard/{shop.id}/payments/{order['id']}").text
    assert ">Fee<" in both.get(f"{PLACE}/{order['id']}").text.replace("</strong>", "<")


def test_a_second_payment_that_a_gateway_keeps_is_recorded_as_given_back(shop: Shop) -> None:
    server, visitor = shop.api_server, staff(shop)
    order_id, now = shop.order()["id"], server.app.clock()

    async def twice(tx: Tx) -> orders.PaymentAttempt:
        return await world.paid_twice(tx, await orders.find(tx, shop.id, order_id))

    second = server.tx(twice)
    place = f"{PLACE}/{order_id}"
    assert second.status == "DUPLICATE"
    assert "given-back" not in forms(visitor.get(place))  # the worker tries by itself
    refusal = RefundOutcome(status="REFUSED", reason="closed account")
    server.tx(lambda tx: orders.apply_duplicate_return(tx, second, refusal, now))
    form = forms(visitor.get(place))["given-back"]
    assert form["subject"] == second.id
    other = shop.order()["id"]
    elsewhere = forms(visitor.get(f"{PLACE}/{other}"))["revoke"] | REASON
    wrong = visitor.post(f"{PLACE}/{other}/given-back", elsewhere | {"subject": second.id})
    assert wrong.status_code == 404
    for _ in range(2):  # a double click
        done = visitor.post(f"{place}/given-back", form | REASON)
        assert done.headers["location"].endswith("?done=given-back")
    after = server.tx(lambda tx: orders.find_attempt(tx, shop.id, second.id))
    assert after.status == "GIVEN_BACK"
    assert ("orders given-back", REASON["reason"]) in audited(shop, visitor)
    assert status_of(shop, order_id) == "PAID"


def test_a_note_that_was_sent_with_other_words_before_is_refused_with_them(shop: Shop) -> None:
    visitor, order_id = staff(shop, "support"), shop.paid()["id"]
    form = forms(visitor.get(f"{PLACE}/{order_id}"))["notes"]
    visitor.post(f"{PLACE}/{order_id}/notes", form | {"note": "One."})
    again = visitor.post(f"{PLACE}/{order_id}/notes", form | {"note": "Another."})
    assert (again.status_code, "was sent before" in again.text) == (422, True)
    assert "Another.</textarea>" in again.text


def test_no_sentence_of_an_action_is_missing() -> None:
    for table in (PAYMENT_ACTION, ABOUT_PAYMENT_ACTION, PAYMENT_ACTION_RESULT):
        assert {one.name for one in ACTIONS} <= set(table)
