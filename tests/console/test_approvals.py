"""What waits for a second person: shown, approved by somebody else, or rejected; never twice."""

import re
from decimal import Decimal

from opentill import adjustments, ledger, merchants, payouts, people
from opentill.adjustments import AdjustmentRequest
from opentill.payouts import PayoutRequest
from support.api_server import Shop
from support.people import TESTER, Visitor, person

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
    balance = shop.api_server.tx(lambda tx: ledger.balance(tx, shop.id, "USD"))
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
    server.tx(lambda tx: merchants.take(tx, shop.id, "suspended", TESTER, now))
    refused = other.post(f"/console/approvals/{made.id}/approve")
    assert (refused.status_code, "payouts are switched off" in refused.text) == (400, True)
    assert available(shop) == 5000
    (waits,) = server.tx(payouts.waiting)
    assert waits.id == made.id
