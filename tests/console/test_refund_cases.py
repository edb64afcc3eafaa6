"""Refund cases in the console: staff see, dismiss and reverse them."""

from functools import partial
from html import unescape
from typing import Final

from console.console_pages import audit_rows, hidden_fields
from opentill import orders, refunds
from opentill.console import needs
from opentill.core.money import Money
from opentill.gateways import RefundOutcome
from opentill.gateways.model import GatewayRefundEvent
from support.api_server import Shop
from support.people import create_person

PATH: Final = "/console/needs/refund-cases"


def report_refund(
    shop: Shop, order_id: str, minor: int, currency: str = "USD", ref: str = "rf_1"
) -> None:
    """Apply the gateway's report of a refund that was made at the provider."""
    server = shop.api_server
    order = server.tx(partial(orders.find, merchant_id=shop.id, order_id=order_id))
    attempt_id = order.paid_attempt_id or ""
    attempt = server.tx(partial(orders.find_attempt, merchant_id=shop.id, attempt_id=attempt_id))
    outcome = RefundOutcome(status="SUCCEEDED", provider_ref=ref, reason="account closed")
    refund_report = GatewayRefundEvent(
        attempt_id=attempt_id, refund_id="", outcome=outcome, amount=Money(minor, currency)
    )
    apply_report = partial(
        refunds.apply_report,
        merchant_id=shop.id,
        report=refund_report,
        now=server.app.clock(),
        gateway=attempt.gateway,
    )
    server.tx(apply_report)


def test_a_refund_that_its_order_cannot_have_is_listed_until_it_is_dismissed_with_a_reason(
    shop: Shop,
) -> None:
    server, agent = shop.api_server, create_person(shop.api_server, None, staff_role="finance")
    order = shop.create_paid_order()
    for currency, minor in {"USD": 12345, "KWD": 9991, "ANG": 7771}.items():
        report_refund(shop, order["id"], minor, currency, ref=f"ref {currency}")
    page = agent.get(PATH).text
    for text in ("$123.45", "9991 minor units of KWD", "7771 minor units of ANG"):
        assert text in page, text
    assert "at most what is left to refund" in page
    need = next(need for need in needs.NEEDS if need.name == "refund_cases")
    count = server.tx(lambda tx: need.count(tx, 0))
    assert count >= 3

    forms = [hidden_fields(form) for form in page.split("<form ")[1:]]
    form = next(f for f in forms if f.get("ref") == "ref USD" and f["merchant"] == shop.id)
    refusal = agent.post(PATH, form | {"reason": " "})
    assert (refusal.status_code, "Say why" in refusal.text) == (400, True)
    conflict = agent.post(PATH, form | {"reason": "corrected", "seen": "REFUSED"})
    assert (conflict.status_code, "has changed since" in conflict.text) == (409, True)
    response = agent.post(PATH, form | {"reason": "corrected"})
    assert response.headers["location"].endswith(f"{PATH}?done=1")
    assert "ref USD" not in agent.get(PATH).text
    assert server.tx(lambda tx: need.count(tx, 0)) == count - 1
    assert audit_rows(shop, "refunds dismiss") == [(agent.audit_name, "corrected")]
    auditor = create_person(server, None, staff_role="auditor")
    assert "<form " not in auditor.get(PATH).text.partition("<main")[2]


def test_staff_reverse_a_refund_whose_money_came_back(shop: Shop) -> None:
    agent = create_person(shop.api_server, None, staff_role="finance")
    order = shop.create_paid_order()
    report_refund(shop, order["id"], 400)
    (refund,) = shop.data("GET", f"/v1/orders/{order['id']}/refunds")["items"]
    page = agent.get(f"/console/payments/{order['id']}").text
    assert "Refund of $4.00 at the payment provider" in unescape(page)
    form = hidden_fields(page.split('/refund-reversed">')[1].split("</form>")[0])
    assert form["subject"] == refund["id"]
    path = f"/console/payments/{order['id']}/refund-reversed"
    response = agent.post(path, form | {"reason": "the transfer came back"})
    assert response.status_code == 303
    page = unescape(agent.get(f"/console/payments/{order['id']}").text)
    assert "The refund of $4.00 was reversed; the money is back in the balance" in page
    assert "the transfer came back" in page
    after = shop.data("GET", f"/v1/refunds/{refund['id']}")
    assert (after["status"], after["errorMessage"]) == ("FAILED", "the transfer came back")
    assert audit_rows(shop, "refunds reversed") == [(agent.audit_name, "the transfer came back")]
    cases = agent.get(PATH).text
    assert refund["id"] in cases
    assert "Reversed" in cases
