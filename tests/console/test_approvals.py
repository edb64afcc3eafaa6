"""What waits for a second person: shown, approved by somebody else, or rejected; never twice."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from opentill import adjustments, approvals, ledger, merchants, payouts, people
from opentill.adjustments import AdjustmentRequest
from opentill.merchants import Actor
from opentill.payouts import PayoutRequest
from opentill.people import Browser, NewPassword
from support.api_server import ApiServer, Shop
from support.people import CHEAP, PASSWORD, TESTER, Visitor, address, person

LIMIT = Decimal(10)


def who(visitor: Visitor) -> str:
    return f"{visitor.email} ({visitor.person_id})"


def asked(shop: Shop, by: Visitor, minor: int = 5000, reference: str = "R-1") -> str:
    """Have somebody ask for a recharge above the limit; return its id."""
    wanted = AdjustmentRequest(
        kind="recharge", amount_minor=minor, reference=reference, reason="<b>sent</b>", by=who(by)
    )
    now = shop.api_server.app.clock()
    made = shop.api_server.tx(lambda tx: adjustments.request(tx, shop.id, wanted, LIMIT, now))
    assert made.status == "WAITING"
    return made.id


def all_waiting(visitor: Visitor) -> int:
    """Return how many requests of all merchants wait, by the console's home."""
    found = re.search(r"Waiting for a second person: (\d+)", visitor.get("/console").text)
    return 0 if found is None else int(found[1])


def available(shop: Shop) -> int:
    balance = shop.api_server.tx(lambda tx: ledger.find_balance(tx, shop.id, "USD"))
    return balance.available if balance else 0


def test_only_somebody_else_approves_and_once(shop: Shop) -> None:
    maker = person(shop.api_server, None, staff_role="finance")
    other = person(shop.api_server, None, staff_role="admin")
    before = all_waiting(maker)
    waiting = asked(shop, maker)
    assert all_waiting(maker) == before + 1
    page = maker.get("/console/approvals").text
    assert "&lt;b&gt;sent&lt;/b&gt;" in page
    assert "somebody else approves it" in page
    approve = f"/console/approvals/{waiting}/approve"
    refused = maker.post(approve)
    assert (refused.status_code, "Somebody else than who asked" in refused.text) == (400, True)
    assert available(shop) == 0
    assert other.post(approve).headers["location"].endswith("/console/approvals?done=approved")
    again = other.post(approve)
    assert (again.status_code, "decided about this already" in again.text) == (400, True)
    assert available(shop) == 5000
    assert all_waiting(other) == before
    assert waiting not in other.get("/console/approvals").text


def test_nobody_without_the_role_the_session_or_a_fresh_proof_approves(shop: Shop) -> None:
    server = shop.api_server
    maker = person(server, None, staff_role="finance")
    approve = f"/console/approvals/{asked(shop, maker)}/approve"
    for role in ("support", "auditor"):
        assert person(server, None, staff_role=role).post(approve).status_code == 403
    assert person(server, shop.id, "owner").post(approve).status_code == 404
    old = person(server, None, staff_role="admin")
    server.tx(
        lambda tx: tx.execute(
            "update logins set proved_at = proved_at - 660000 where person_id = $1", old.person_id
        )
    )
    asks = old.post(approve)
    assert 'name="proof_password"' in asks.text
    file = {"file": ("report.csv", b"kind", "text/csv")}
    asks_too = old.http.post("/console/reconciliation/compare", files=file)
    kept = ['name="kept_file.file" value="report.csv:' in page.text for page in (asks, asks_too)]
    assert kept == [False, True]
    gone = person(server, None, staff_role="admin")
    server.tx(lambda tx: people.remove_staff(tx, gone.person_id, server.app.clock(), actor=TESTER))
    assert gone.post(approve).status_code == 404
    foreign = person(server, None, staff_role="admin")
    assert foreign.post(approve, headers={"origin": "https://evil.example"}).status_code == 403
    assert available(shop) == 0


def test_a_payout_waits_and_is_rejected_with_a_reason(shop: Shop) -> None:
    server = shop.api_server
    maker = person(server, None, staff_role="finance")
    other = person(server, None, staff_role="finance")
    other.post(f"/console/approvals/{asked(shop, maker)}/approve")
    now = server.app.clock()
    wanted = PayoutRequest(amount_minor=4000, reference="W-1", reason="weekly", by=who(maker))
    made = server.tx(lambda tx: payouts.request(tx, shop.id, wanted, LIMIT, now))
    place = f"/console/approvals/{made.id}"
    empty = other.post(f"{place}/reject", {"reason": " "})
    assert (empty.status_code, "Say why" in empty.text) == (400, True)
    assert other.post(f"{place}/reject", {"reason": "not yet"}).status_code == 303
    assert other.post(f"{place}/approve").status_code == 400
    assert available(shop) == 5000
    again = PayoutRequest(amount_minor=4000, reference="W-2", reason="weekly", by=who(maker))
    second = server.tx(lambda tx: payouts.request(tx, shop.id, again, LIMIT, now))
    assert other.post(f"/console/approvals/{second.id}/approve").status_code == 303
    (payout,) = server.tx(lambda tx: payouts.search(tx, shop.id))
    assert (payout.created_by, payout.approved_by) == (who(maker), who(other))
    assert available(shop) == 1000


def test_a_payout_of_a_merchant_that_is_suspended_goes_on_waiting(shop: Shop) -> None:
    server = shop.api_server
    maker = person(server, None, staff_role="finance")
    other = person(server, None, staff_role="finance")
    other.post(f"/console/approvals/{asked(shop, maker)}/approve")
    now = server.app.clock()
    wanted = PayoutRequest(amount_minor=4000, reference="W-1", reason="weekly", by=who(maker))
    made = server.tx(lambda tx: payouts.request(tx, shop.id, wanted, LIMIT, now))
    server.tx(lambda tx: merchants.change_status(tx, shop.id, "suspended", TESTER, now))
    refused = other.post(f"/console/approvals/{made.id}/approve")
    assert (refused.status_code, "payouts are switched off" in refused.text) == (400, True)
    assert available(shop) == 5000
    (waits,) = server.tx(payouts.waiting)
    assert waits.id == made.id


# ── what staff do by hand ──


@pytest.fixture
def limited(shop: Shop) -> Iterator[Shop]:
    """A shop of a deployment whose limit is five."""
    server, before = shop.api_server, shop.api_server.app.settings
    server.app.settings = msgspec.structs.replace(before, approval_above=Decimal(5))
    try:
        yield shop
    finally:
        server.app.settings = before


def form_of(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form of a payment's page that does something."""
    found = re.search(rf'method="post" action="[^"]*/{action}">(.*?)</form>', page, re.DOTALL)
    assert found is not None, page
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', found[1]))


def test_confirming_what_nobody_tried_to_pay_waits_for_a_second_person(limited: Shop) -> None:
    server, order = limited.api_server, limited.order()
    maker, other = (person(server, None, staff_role=role) for role in ("finance", "admin"))
    place = f"/console/payments/{order['id']}"
    form = form_of(maker.get(place).text, "confirm") | {"reason": "seen at the bank"}
    made = maker.post(f"{place}/confirm", form)
    assert made.status_code == 303, made.text
    request_id = made.headers["location"].rpartition("?waits=")[2]
    assert request_id.startswith("areq_")
    assert maker.post(f"{place}/confirm", form).headers["location"].endswith(request_id)
    assert "waits for a second person now" in maker.get(f"{place}?waits={request_id}").text
    assert limited.read_order(order["id"])["status"] == "PENDING"
    page = other.get("/console/approvals").text
    assert "Confirmation of a payment" in page
    assert order["id"] in page
    approve = f"/console/approvals/{request_id}/approve"
    assert maker.post(approve).status_code == 400
    assert other.post(approve).status_code == 303
    assert limited.read_order(order["id"])["status"] == "PAID"
    assert other.post(approve).status_code == 400


def test_a_refund_by_staff_above_the_limit_waits_and_can_be_rejected(limited: Shop) -> None:
    server, order = limited.api_server, limited.paid()
    maker, other = (person(server, None, staff_role=role) for role in ("support", "finance"))
    place = f"/console/payments/{order['id']}/refund"

    def refund(amount: str) -> str:
        page = maker.get(place, params={"amount": amount}).text
        form = form_of(page, "refund") | {"confirm": amount, "reason": "torn"}
        response = maker.post(place, form)
        assert response.status_code == 303, response.text
        return response.headers["location"]

    assert refund("3.00").endswith("?done=refund")
    request_id = refund("3.00").rpartition("?waits=")[2]  # together more than five
    assert limited.read_order(order["id"])["refundStatus"] == "NONE"
    refunds_of = f"/v1/orders/{order['id']}/refunds"
    assert len(limited.data("GET", refunds_of)["items"]) == 1
    rejected = other.post(f"/console/approvals/{request_id}/reject", {"reason": "no"})
    assert rejected.status_code == 303
    again = refund("3.00").rpartition("?waits=")[2]
    assert other.post(f"/console/approvals/{again}/approve").status_code == 303
    assert len(limited.data("GET", refunds_of)["items"]) == 2


# ── who is no second person ──


def let_in(server: ApiServer, by: Visitor) -> Visitor:
    """Have somebody invite a colleague, who joins."""
    email = address()
    now = server.app.clock()
    actor = Actor(who(by), "new")
    link = server.tx(lambda tx: people.invite(tx, email, now, staff_role="admin", actor=actor))
    browser = Browser("192.0.2.9", "Testfox/1.0")
    login = server.run(
        people.join(server.app.db, link.token, "Eve", PASSWORD, browser, now, cost=CHEAP)
    )
    visitor = Visitor(server, email, login.person.id)
    visitor.keep(login.token)
    return visitor


def test_whoever_was_let_in_by_the_maker_lately_is_no_second_person(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    maker = person(server, None, staff_role="admin")
    puppet = let_in(server, maker)
    puppet_of_puppet = let_in(server, puppet)
    known = person(server, None, staff_role="finance")
    actor = Actor(who(maker), "forgotten")
    reset = server.tx(lambda tx: people.offer_new_password(tx, known.email, now, actor=actor))
    given = NewPassword(password=PASSWORD, browser=Browser("192.0.2.9", "Testfox/1.0"))
    key = server.app.settings.secret_key
    server.run(people.choose_password(server.app.db, reset.token, given, key, now, cost=CHEAP))
    known.log_in()
    waiting = asked(shop, maker)
    approve = f"/console/approvals/{waiting}/approve"
    for visitor in (puppet, puppet_of_puppet, known):
        refusal = visitor.post(approve)
        assert refusal.status_code == 400
        assert "within the last 72 hours" in refusal.text
    assert available(shop) == 0
    # Who invited somebody may approve for them, and after three days everybody.
    other = asked(shop, puppet, reference="R-2")
    assert maker.post(f"/console/approvals/{other}/approve").status_code == 303
    clock(now + 72 * 3_600_000)
    puppet.log_in()
    assert puppet.post(approve).status_code == 303
    assert available(shop) == 10_000


def test_nobody_approves_in_a_browser_in_which_the_maker_has_logged_in(shop: Shop) -> None:
    server = shop.api_server
    maker = person(server, None, staff_role="finance")
    other = person(server, None, staff_role="finance")
    approve = f"/console/approvals/{asked(shop, maker)}/approve"
    browser = Visitor(server, maker.email)
    assert browser.log_in().status_code == 303
    browser.post("/logout")
    browser.email = other.email
    assert browser.log_in().status_code == 303
    refusal = browser.post(approve)
    assert refusal.status_code == 400
    assert "in a browser of your own" in refusal.text
    assert available(shop) == 0
    assert other.post(approve).status_code == 303  # from the same address
    assert available(shop) == 5000


def test_every_approval_goes_through_the_rules_about_the_second_person() -> None:
    """What approves is called by ``approvals`` alone, which checks who does it."""
    source = Path(approvals.__file__).parents[1]
    found = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if re.search(r"\b(adjustments|payouts|requests|service)\.approve\(", path.read_text())
    }
    assert found == {"approvals"}
