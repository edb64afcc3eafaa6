"""Payments of all merchants in the console: the search, a payment's page, and actions of staff."""

import re
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import httpx2
import pytest
from babel.dates import format_time

from console.console_pages import hidden_fields, visible_text
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
PATH: Final = "/console/payments"
FORM: Final = re.compile(r'<form [^>]*method="post" action="([^"]+)">(.*?)</form>', re.DOTALL)


def create_staff(shop: Shop, role: StaffRole = "finance") -> Visitor:
    return create_person(shop.api_server, None, staff_role=role)


def forms(page: httpx2.Response) -> dict[str, dict[str, str]]:
    """Return the hidden fields of each form of the page, by the last part of the form's path."""
    return {
        path.rpartition("/")[2]: hidden_fields(content) for path, content in FORM.findall(page.text)
    }


def read_status(shop: Shop, order_id: str) -> str:
    ids = {"merchant_id": shop.id, "order_id": order_id}
    return shop.api_server.tx(partial(orders.find, **ids)).status


def read_audit_rows(shop: Shop, visitor: Visitor) -> list[tuple[str, str]]:
    """Return a person's actions at the merchant with their reasons, without visits of pages."""
    rows = shop.api_server.sql(
        "select action, reason from audit_log where merchant_id = $1 and who = $2 order by number",
        shop.id,
        visitor.audit_name,
    )
    return [(row["action"], row["reason"]) for row in rows if row["action"] != "people visit"]


def test_searching_an_id_opens_the_payment_and_texts_are_searched_at_all_merchants(
    shop: Shop,
) -> None:
    agent, order = create_staff(shop, "auditor"), shop.create_order()
    unpaid = shop.api_server.tx(partial(orders.find, merchant_id=shop.id, order_id=order["id"]))
    shop.api_server.tx(lambda tx: world.pay_order(tx, unpaid))
    path = f"{PATH}/{order['id']}"
    for text in (order["id"], order["checkoutSessionId"], f" {order['id']} "):
        redirect = agent.get(PATH, params={"query": text})
        assert redirect.headers.get("location") == path, text
    assert f'href="{path}"' in agent.get(PATH, params={"query": "ann@example.com"}).text
    assert (
        "No payments match these filters."
        in agent.get(PATH, params={"query": "nobody@example.com"}).text
    )
    matches = agent.get(PATH, params={"query": "ann@example.com", "merchant": shop.id})
    assert f'href="{path}"' in matches.text
    assert read_audit_rows(shop, agent) == []
    unknown_merchant = agent.get(PATH, params={"merchant": "nobody of this name"}).text
    assert 'id="merchant-error"' in unknown_merchant
    filters = {"merchant": shop.id, "status": "PAID"}
    assert order["id"] in agent.get(PATH, params=filters).text
    assert order["id"] not in agent.get(PATH, params=filters | {"to": "2001-01-01"}).text


def test_the_newest_payments_of_all_merchants_are_listed_before_anything_is_searched(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentill.portal.lists.SIZE", 3)
    shops = [shop, shop.api_server.create_shop()]
    ids = [shops[number % 2].create_order()["id"] for number in range(8)][::-1]
    agent = create_staff(shop, "auditor")

    def list_ids(**filters: str) -> list[str]:
        page = agent.get(PATH, params=filters).text
        assert "Newest payments of all merchants" in page
        return re.findall(r'href="/console/payments/(order_\w+)"', page)

    # Other tests may have set the clock forward and left newer orders.
    sql = "select id from orders {} order by created_at desc, id desc limit 6"
    newest = [row["id"] for row in shop.api_server.sql(sql.format(""))]
    assert list_ids() == newest[:3]
    assert list_ids(before=newest[2]) == newest[3:6]
    assert list_ids(before=ids[2]) == ids[3:6]
    assert list_ids(status="PENDING", before=ids[5])[:2] == ids[6:]
    assert list_ids(to="2001-01-01") == []
    shop.create_paid_order()
    newest_paid = shop.api_server.sql(sql.format("where status = 'PAID'"))[0]["id"]
    assert list_ids(status="PAID")[0] == newest_paid


def test_searching_a_number_of_two_merchants_lists_both_payments(shop: Shop) -> None:
    other_shop, number = shop.api_server.create_shop(), world.new_reference()
    for merchant in (shop, other_shop):
        merchant.refund(merchant.create_paid_order()["id"], amount="1.00", refundNo=number)
    page = create_staff(shop).get(PATH, params={"query": number}).text
    assert len(set(re.findall(r"/console/payments/(order_\w+)", page))) == 2


def test_the_page_shows_the_merchants_view_marked_for_staff_and_records_the_visit(
    shop: Shop,
) -> None:
    order = shop.create_paid_order()
    auditor = create_staff(shop, "auditor")
    page = auditor.get(f"{PATH}/{order['id']}")
    assert "<code>order.paid</code>" in page.text
    assert "Your visit is in the audit log" in page.text
    merchants_page = f"/dashboard/{shop.id}/payments/{order['id']}"
    assert f'href="{merchants_page}"' in page.text
    assert f'href="{PATH}/{order["id"]}"' in auditor.get(merchants_page).text
    assert set(forms(page)) <= {"logout"}
    visits = "select count(*) from audit_log where action = 'people visit' and who like $1"
    assert shop.api_server.sql(visits, f"{auditor.email}%") == [{"count": 1}]
    assert auditor.post(f"{PATH}/{order['id']}/confirm", REASON).status_code == 403
    support = create_staff(shop, "support")
    assert support.post(f"{PATH}/{order['id']}/confirm", REASON).status_code == 403
    missing = auditor.get(f"{PATH}/order_0000000000000000000000000a")
    assert (missing.status_code, heading_of(missing)) == (404, "Payment not found")


def test_times_in_the_console_are_in_utc_also_on_the_page_of_a_payment(shop: Shop) -> None:
    shop.api_server.sql("update merchants set time_zone = 'Asia/Kathmandu' where id = $1", shop.id)
    order = shop.create_paid_order()
    staff = create_staff(shop, "support")
    page = staff.get(f"{PATH}/{order['id']}").text
    assert "Times are in UTC." in page
    paid_at = datetime.fromtimestamp(order["paidAt"] / 1000, UTC)
    assert f"{format_time(paid_at, 'short', locale='en_US')}</time>" in page
    assert "Asia/Kathmandu" not in page


def test_a_payment_is_confirmed_once_with_a_reason(shop: Shop) -> None:
    order, agent = shop.create_order(), create_staff(shop)
    path = f"{PATH}/{order['id']}"
    page = agent.get(path)
    assert "The merchant’s pending balance gains" in page.text
    form, revoke_form = forms(page)["confirm"], forms(agent.get(path))["revoke"]
    refusal = agent.post(f"{path}/confirm", form | {"reason": " "})
    assert (refusal.status_code, 'id="confirm-reason-error"' in refusal.text) == (400, True)
    assert read_status(shop, order["id"]) == "PENDING"
    for _ in range(2):  # a double click submits the form twice
        response = agent.post(f"{path}/confirm", form | REASON)
        assert response.headers["location"] == f"{path}?done=confirm"
    done = agent.get(f"{path}?done=confirm").text
    assert "The payment is marked as paid" in done
    marked_by = re.search(r"<dt>Marked as paid by</dt><dd>(.*?)</dd>", done)
    assert marked_by is not None
    assert agent.email in marked_by[1]
    conflict = agent.post(f"{path}/revoke", revoke_form | REASON)
    assert conflict.status_code == 409
    assert "Not paid yet → Paid" in conflict.text
    assert "seen on the &lt;bank&gt; statement" in conflict.text
    assert read_status(shop, order["id"]) == "PAID"
    assert read_audit_rows(shop, agent) == [("orders confirm", REASON["reason"])]


def test_an_unpaid_payment_is_revoked(shop: Shop) -> None:
    order, agent = shop.create_order(), create_staff(shop)
    path = f"{PATH}/{order['id']}"
    form = forms(agent.get(path))["revoke"]
    assert agent.post(f"{path}/revoke", form | REASON).status_code == 303
    assert read_status(shop, order["id"]) == "REVOKED"
    assert (
        agent.post(f"{path}/revoke", REASON).status_code == 409
    )  # the form lacks the hidden field with the order's state
    assert read_audit_rows(shop, agent) == [("orders revoke", REASON["reason"])]


def quote_refund(agent: Visitor, order_id: str, amount: str) -> dict[str, str]:
    """Read the quote of a refund; return the fields of the form that confirms it."""
    page = agent.get(f"{PATH}/{order_id}/refund", params={"amount": amount})
    return forms(page)["refund"] | {"amount": amount} | REASON


def test_a_refund_is_made_once_and_only_as_quoted(shop: Shop) -> None:
    order, agent = shop.create_paid_order(), create_staff(shop)
    path = f"{PATH}/{order['id']}"
    form, stale_form = (quote_refund(agent, order["id"], "1.00") for _ in range(2))
    for change, status, text in (
        ({"reason": ""}, 400, 'id="reason-error"'),
        ({"amount": "2.00"}, 409, "Check the figures of the new amount"),
    ):
        refusal = agent.post(f"{path}/refund", form | change)
        assert (refusal.status_code, text in refusal.text) == (status, True)
    for _ in range(2):
        assert agent.post(f"{path}/refund", form).headers["location"] == f"{path}?done=refund"
    conflict = agent.post(f"{path}/refund", stale_form)
    assert (conflict.status_code, "Something has changed" in conflict.text) == (409, True)
    (refund,) = shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]
    assert (refund["amount"], refund["reason"]) == ("1.00", REASON["reason"])
    assert read_audit_rows(shop, agent) == [("orders refund", REASON["reason"])]


def test_a_form_whose_commit_was_not_confirmed_can_be_submitted_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, agent = shop.create_paid_order(), create_staff(shop)
    form, path = quote_refund(agent, order["id"], "1.00"), f"{PATH}/{order['id']}/refund"
    run_once = form_ids.run_once

    async def lose_connection(request: Any, work: Any) -> str:
        await run_once(request, work)
        raise Unavailable  # as if the connection had ended before the commit was confirmed

    monkeypatch.setattr(form_ids, "run_once", lose_connection)
    response = agent.post(path, form)
    assert response.status_code == 503
    monkeypatch.undo()
    assert agent.post(path, forms(response)["refund"]).status_code == 303
    assert len(shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]) == 1


def test_a_refund_needs_an_override_while_the_capability_is_off(shop: Shop) -> None:
    order, agent, server = shop.create_paid_order(), create_staff(shop), shop.api_server
    switched_off: dict[str, Any] = {
        "on": False,
        "actor": Actor("op", "chargebacks"),
        "now": world.NOW,
    }
    server.tx(lambda tx: merchants.set_capability(tx, shop.id, "refund", **switched_off))
    form, path = quote_refund(agent, order["id"], "1.00"), f"{PATH}/{order['id']}/refund"
    refusal = agent.post(path, form)
    assert (refusal.status_code, 'id="force-error"' in refusal.text) == (403, True)
    assert "chargebacks" in refusal.text
    assert agent.post(path, form | {"force": "yes"}).status_code == 303
    (row,) = server.sql("select subject from audit_log where action = 'orders refund' and"
                        " merchant_id = $1", shop.id)  # fmt: skip
    assert row["subject"] == f"{order['id']}, forced: refund is off (chargebacks)"


@pytest.mark.parametrize(("result", "status"), [("done", "SUCCEEDED"), ("failed", "FAILED")])
def test_staff_end_a_refund_that_no_gateway_reports(shop: Shop, result: str, status: str) -> None:
    order, agent = shop.create_paid_order(), create_staff(shop)
    refund = shop.refund(order["id"], amount="1.00")
    path = f"{PATH}/{order['id']}"
    form = forms(agent.get(path))[f"refund-{result}"]
    form_of_another_order = (
        form | {"subject": shop.refund(shop.create_paid_order()["id"])["id"]} | REASON
    )
    assert agent.post(f"{path}/refund-{result}", form_of_another_order).status_code == 404
    for _ in range(2):
        assert agent.post(f"{path}/refund-{result}", form | REASON).status_code == 303
    ids = {"merchant_id": shop.id, "refund_id": refund["id"]}
    assert shop.api_server.tx(partial(refunds.find, **ids)).status == status
    action = "refund succeeded" if result == "done" else "refund refused"
    assert read_audit_rows(shop, agent) == [(action, REASON["reason"])]
    assert "refund-done" not in forms(agent.get(path))


def test_staff_with_the_permission_open_lose_and_recover_a_dispute(shop: Shop) -> None:
    order, agent, finance = (
        shop.create_paid_order(),
        create_staff(shop, "support"),
        create_staff(shop),
    )
    path = f"{PATH}/{order['id']}"
    assert "dispute-open" not in forms(finance.get(path))
    assert finance.post(f"{path}/dispute-open", REASON).status_code == 403
    form = forms(agent.get(path))["dispute-open"] | REASON
    for amount in ("", "1000000"):
        refusal = agent.post(f"{path}/dispute-open", form | {"amount": amount})
        assert refusal.status_code == 400
        assert 'id="dispute-open-amount-error"' in refusal.text
    assert agent.post(f"{path}/dispute-open", form | {"amount": "5.00"}).status_code == 303
    # A decision moves money, so it requires a step-up.
    sql = "update logins set proved_at = proved_at + $1 where person_id = $2 returning 1"
    shop.api_server.sql(sql, -660_000, agent.person_id)
    ids = {"merchant_id": shop.id, "order_id": order["id"]}
    (dispute,) = shop.api_server.tx(partial(disputes.list_for_order, **ids))
    page = agent.get(path).text
    assert f'href="/console/disputes/{dispute.id}">View dispute' in page
    dispute_path = f"/console/disputes/{dispute.id}"

    def read_form(decision: str) -> dict[str, str]:
        reason = {f"dispute-{decision}-reason": REASON["reason"]}
        return forms(agent.get(dispute_path))[f"dispute-{decision}"] | reason

    form = read_form("lost")
    assert 'name="proof_password"' in agent.post(f"{dispute_path}/dispute-lost", form).text
    shop.api_server.sql(sql, 660_000, agent.person_id)
    won_form = read_form("won")
    for decision in ("lost", "recovered"):
        form = read_form(decision)
        assert agent.post(f"{dispute_path}/dispute-{decision}", form).status_code == 303
        refusal = agent.post(f"{dispute_path}/dispute-won", won_form | {"form_id": ""})
        assert (refusal.status_code, "Nothing was done" in refusal.text) == (409, True)
    ids = {"merchant_id": shop.id, "order_id": order["id"]}
    (dispute,) = shop.api_server.tx(partial(disputes.list_for_order, **ids))
    assert (dispute.status, dispute.amount_minor) == ("RECOVERED", 500)
    actions = [action for action, _ in read_audit_rows(shop, agent)]
    assert actions == ["disputes open", "disputes lose", "disputes recover"]


def test_the_notification_of_an_epay_shop_is_sent_again(shop: Shop) -> None:
    inbox, server = Inbox(), shop.api_server
    try:
        epay_shop = EpayShop(server, inbox)
        epay_order = epay_shop.place_paid_order(
            money_type="USD", notify_url="https://127.0.0.1/notify"
        )
    finally:
        inbox.close()
    order_id, agent = epay_shop.order_id(epay_order), create_staff(shop)
    path = f"{PATH}/{order_id}"
    by_number = agent.get(PATH, params={"query": epay_order["trade_no"]})
    assert by_number.headers["location"] == path
    give_up = "update epay_notifications set state = 'FAILED', due_at = null where order_id = $1"
    server.sql(give_up, order_id)
    form = forms(agent.get(path))["notify"] | REASON
    for _ in range(2):
        assert agent.post(f"{path}/notify", form).status_code == 303
    select_state = "select state from epay_notifications where order_id = $1"
    assert server.sql(select_state, order_id) == [{"state": "WAITING"}]
    server.sql(give_up, order_id)
    select_actions = "select action, reason from audit_log where merchant_id = $1 and who like $2"
    actions = server.sql(select_actions, epay_shop.id, f"{agent.email}%")
    assert [row for row in actions if row["action"] != "people visit"] == [
        {"action": "epay resend", "reason": REASON["reason"]}
    ]


def test_adding_a_note_and_resending_an_event_are_in_the_audit_log(shop: Shop) -> None:
    shop.create_endpoint()
    order, agent = shop.create_paid_order(), create_staff(shop)
    path = f"{PATH}/{order['id']}"
    page = agent.get(path)
    note_form = forms(page)["notes"]
    refusal = agent.post(f"{path}/notes", note_form | {"note": " "})
    assert (refusal.status_code, 'id="note-note-error"' in refusal.text) == (400, True)
    for _ in range(2):
        assert agent.post(f"{path}/notes", note_form | {"note": "called <b>"}).status_code == 303
    shop.api_server.sql(
        "update webhook_deliveries set status = 'FAILED', attempts = 1, try_at = null"
        " where merchant_id = $1", shop.id,
    )  # fmt: skip
    resend_form = forms(agent.get(path))["resend"]
    for _ in range(2):
        assert agent.post(f"{path}/resend", resend_form).status_code == 303
    assert "called &lt;b&gt;" in agent.get(path).text
    assert read_audit_rows(shop, agent)[:2] == [
        ("orders note", "called <b>"),
        ("webhooks resend", "on the page of a payment"),
    ]
    unknown_event = resend_form | {"event": "evt_0000000000000000000000000a"}
    assert agent.post(f"{path}/resend", unknown_event).status_code == 404


def test_a_member_who_is_also_staff_has_the_permissions_of_staff_in_the_console(shop: Shop) -> None:
    """A developer may not see fees in the dashboard; an auditor sees them in the console."""
    member_and_staff = create_person(shop.api_server, shop.id, "developer")
    shop.api_server.sql(
        "insert into staff (person_id, role, created_at) values ($1, 'auditor', 0)",
        member_and_staff.person_id,
    )
    order = shop.create_paid_order()
    assert "Held" not in member_and_staff.get(f"/dashboard/{shop.id}/payments/{order['id']}").text
    assert ">Fee<" in member_and_staff.get(f"{PATH}/{order['id']}").text.replace("</strong>", "<")


def test_staff_record_the_return_of_a_duplicate_payment_that_the_gateway_refused(
    shop: Shop,
) -> None:
    server, visitor = shop.api_server, create_staff(shop)
    order_id, now = shop.create_order()["id"], server.app.clock()

    async def pay_twice(tx: Tx) -> orders.PaymentAttempt:
        return await world.pay_order_twice(tx, await orders.find(tx, shop.id, order_id))

    duplicate = server.tx(pay_twice)
    path = f"{PATH}/{order_id}"
    assert duplicate.status == "DUPLICATE"
    # Until the worker has tried to send the money back, there is no form.
    assert "given-back" not in forms(visitor.get(path))
    outcome = RefundOutcome(status="REFUSED", reason="closed account")
    server.tx(lambda tx: orders.apply_duplicate_return(tx, duplicate, outcome, now))
    form = forms(visitor.get(path))["given-back"]
    assert form["subject"] == duplicate.id
    other_order_id = shop.create_order()["id"]
    form_of_another_order = forms(visitor.get(f"{PATH}/{other_order_id}"))["revoke"] | REASON
    refusal = visitor.post(
        f"{PATH}/{other_order_id}/given-back", form_of_another_order | {"subject": duplicate.id}
    )
    assert refusal.status_code == 404
    for _ in range(2):  # a double click submits the form twice
        response = visitor.post(f"{path}/given-back", form | REASON)
        assert response.headers["location"].endswith("?done=given-back")
    after = server.tx(lambda tx: orders.find_attempt(tx, shop.id, duplicate.id))
    assert after.status == "GIVEN_BACK"
    page = re.sub(r"<[^>]+>", "", visitor.get(path).text)
    amount = f"${duplicate.amount_minor / 100:.2f}"
    assert f"A second payment of {amount} arrived" in page
    assert f"The second payment of {amount} was refunded" in page
    assert ("orders given-back", REASON["reason"]) in read_audit_rows(shop, visitor)
    assert read_status(shop, order_id) == "PAID"


def test_a_form_that_has_already_added_a_note_keeps_the_new_input(shop: Shop) -> None:
    visitor, order_id = create_staff(shop, "support"), shop.create_paid_order()["id"]
    form = forms(visitor.get(f"{PATH}/{order_id}"))["notes"]
    visitor.post(f"{PATH}/{order_id}/notes", form | {"note": "One."})
    refusal = visitor.post(f"{PATH}/{order_id}/notes", form | {"note": "Another."})
    assert (refusal.status_code, "was already sent" in refusal.text) == (422, True)
    assert "Another.</textarea>" in refusal.text


def test_every_action_on_a_payment_has_its_texts() -> None:
    for table in (PAYMENT_ACTION, ABOUT_PAYMENT_ACTION, PAYMENT_ACTION_RESULT):
        assert {action.name for action in ACTIONS} <= set(table)


def test_a_settled_payment_leads_to_the_payout_that_sent_it(shop: Shop) -> None:
    server, auditor = shop.api_server, create_staff(shop, "auditor")
    order_id, now = shop.create_paid_order()["id"], server.app.clock()
    server.tx(lambda tx: orders.settle_one(tx, shop.id, order_id, now, "op"))
    assert "Payout Part of the next one" in visible_text(auditor.get(f"{PATH}/{order_id}").text)
    payout = shop.create_payout(100)
    page = auditor.get(f"{PATH}/{order_id}").text
    assert f'<a href="/console/payouts/{payout.id}">$1.00</a>' in page
