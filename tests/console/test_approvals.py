"""Requests above the limit: a second person approves or rejects each once in the console."""

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from console.console_pages import hidden_fields, visible_text
from opentill import adjustments, approvals, ledger, merchants, payouts, people
from opentill.adjustments import AdjustmentRequest
from opentill.merchants import Actor
from opentill.payouts import PayoutRequest
from opentill.people import Browser, NewPassword
from support.api_server import ApiServer, Shop
from support.people import CHEAP_HASH, PASSWORD, TESTER, Visitor, create_person, new_address

LIMIT = Decimal(10)


def request_recharge(shop: Shop, requester: Visitor, reference: str = "R-1") -> str:
    """Request a recharge above the limit; return its id."""
    request = AdjustmentRequest(
        kind="recharge", amount_minor=5000, reference=reference, reason="<b>sent</b>",
        by=requester.audit_name,
    )  # fmt: skip
    now = shop.api_server.app.clock()
    recharge = shop.api_server.tx(lambda tx: adjustments.request(tx, shop.id, request, LIMIT, now))
    assert recharge.status == "WAITING"
    return recharge.id


def request_payout(shop: Shop, requester: Visitor, reference: str) -> str:
    """Request a payout above the limit; return its id."""
    request = PayoutRequest(
        amount_minor=4000, reference=reference, reason="weekly", by=requester.audit_name
    )
    now = shop.api_server.app.clock()
    return shop.api_server.tx(lambda tx: payouts.request(tx, shop.id, request, LIMIT, now)).id


def count_waiting_requests(visitor: Visitor) -> int:
    """Return the number of requests that the person can approve, from the console's home page."""
    count = re.search(r"Approvals to give: (\d+)", visitor.get("/console").text)
    return 0 if count is None else int(count[1])


def section_of(waiting: str, visitor: Visitor) -> str:
    """Return the heading above a waiting request on the page of approvals."""
    page = visitor.get("/console/approvals").text
    before = page.partition(f'id="reject-{waiting}"')[0]
    heading = before.rpartition("<h2 ")[2].partition("</h2>")[0]
    return heading.partition(">")[2]


def read_available(shop: Shop) -> int:
    balance = shop.api_server.tx(lambda tx: ledger.find_balance(tx, shop.id, "USD"))
    return balance.available if balance else 0


def test_only_another_person_approves_a_request_and_only_once(shop: Shop) -> None:
    requester = create_person(shop.api_server, None, staff_role="finance")
    approver = create_person(shop.api_server, None, staff_role="admin")
    before, own_before = count_waiting_requests(approver), count_waiting_requests(requester)
    waiting = request_recharge(shop, requester)
    assert count_waiting_requests(approver) == before + 1
    assert count_waiting_requests(requester) == own_before  # another person must approve it
    assert section_of(waiting, requester) == "Waiting for a colleague"
    assert section_of(waiting, approver) == "Waiting for your approval"
    page = requester.get("/console/approvals").text
    assert "&lt;b&gt;sent&lt;/b&gt;" in page
    assert "somebody else must approve it" in page
    approve = f"/console/approvals/{waiting}/approve"
    refusal = requester.post(approve)
    assert (refusal.status_code, "Somebody other than its requester" in refusal.text) == (400, True)
    assert read_available(shop) == 0
    assert approver.post(approve).headers["location"].endswith("/console/approvals?done=approved")
    second_approval = approver.post(approve)
    assert (second_approval.status_code, "already decided about this" in second_approval.text) == (
        400,
        True,
    )
    assert read_available(shop) == 5000
    assert count_waiting_requests(approver) == before
    assert waiting not in approver.get("/console/approvals").text


def test_decided_requests_are_listed_with_the_names_of_both_people(shop: Shop) -> None:
    requester = create_person(shop.api_server, None, staff_role="finance")
    approver = create_person(shop.api_server, None, staff_role="admin")
    request_recharge(shop, requester, "R-old")
    refused = request_recharge(shop, requester, "R-2")
    approved, rejected, withdrawn = (
        request_recharge(shop, requester),
        request_payout(shop, requester, "W-1"),
        request_payout(shop, requester, "W-2"),
    )
    approver.post(f"/console/approvals/{approved}/approve")
    approver.post(f"/console/approvals/{rejected}/reject", {"reason": "too <early>"})
    requester.post(f"/console/approvals/{withdrawn}/reject", {"reason": "my mistake"})
    approver.post(f"/console/approvals/{refused}/reject", {"reason": "no <money> came"})
    page = approver.get("/console/approvals").text
    rows = [visible_text(f"<main {row}") for row in page.partition('id="decided"')[2].split("<tr")]
    requester_email, approver_email = (
        person.audit_name.partition(" (")[0] for person in (requester, approver)
    )
    for reference, decision, email in (
        ("R-1", "Approved", approver_email),
        ("R-2", "Rejected no <money> came", approver_email),
        ("W-1", "Rejected too <early>", approver_email),
        ("W-2", "Rejected my mistake", requester_email),
    ):
        (row,) = [row for row in rows if f" {reference} " in row and requester_email in row]
        assert f" {decision} {email} " in row
    assert not [row for row in rows if " R-old " in row and requester_email in row]
    adjustments_page = requester.get(f"/console/merchants/{shop.id}/adjustments").text
    assert "Rejected no <money> came R-2" in visible_text(adjustments_page)
    assert ("no <money> came",) in [
        (row["reason"],)
        for row in shop.api_server.sql(
            "select reason from audit_log where action = 'balance reject' and merchant_id = $1",
            shop.id,
        )
    ]


def test_a_waiting_request_says_how_it_exceeds_the_limit(shop: Shop) -> None:
    server = shop.api_server
    settings = server.app.settings
    requester = create_person(server, None, staff_role="finance")
    request_recharge(shop, requester)
    for limit, reason in (
        ("49.99", "Above the limit of $49.99"),
        ("50", "Above the limit of $50.00 within 24 hours"),
    ):
        server.app.settings = msgspec.structs.replace(settings, approval_above=Decimal(limit))
        page = visible_text(requester.get("/console/approvals").text)
        server.app.settings = settings
        (row,) = [
            row for row in page.split("Reject ") if requester.audit_name.partition(" (")[0] in row
        ]
        assert reason in row
        assert requester.person_id not in row


def test_an_approval_needs_a_role_a_login_and_a_recent_proof_of_identity(shop: Shop) -> None:
    server = shop.api_server
    requester = create_person(server, None, staff_role="finance")
    approve = f"/console/approvals/{request_recharge(shop, requester)}/approve"
    for role in ("support", "auditor"):
        assert create_person(server, None, staff_role=role).post(approve).status_code == 403
    assert create_person(server, shop.id, "owner").post(approve).status_code == 404
    unproven = create_person(server, None, staff_role="admin")
    server.tx(
        lambda tx: tx.execute(
            "update logins set proved_at = proved_at - 660000 where person_id = $1",
            unproven.person_id,
        )
    )
    proof_page = unproven.post(approve)
    assert 'name="proof_password"' in proof_page.text
    assert 'name="kept_file.file"' not in proof_page.text
    file = {"file": ("report.csv", b"kind", "text/csv")}
    proof_page = unproven.http.post(
        "/console/reconciliation/compare", data={"gateway": "sandbox"}, files=file
    )
    assert 'name="kept_file.file" value="report.csv:' in proof_page.text
    removed = create_person(server, None, staff_role="admin")
    now = server.app.clock()
    server.tx(lambda tx: people.remove_staff(tx, removed.person_id, now, actor=TESTER))
    assert removed.post(approve).status_code == 404
    admin = create_person(server, None, staff_role="admin")
    assert admin.post(approve, headers={"origin": "https://evil.example"}).status_code == 403
    assert read_available(shop) == 0


def test_a_payout_waits_and_is_rejected_with_a_reason(shop: Shop) -> None:
    server = shop.api_server
    requester = create_person(server, None, staff_role="finance")
    approver = create_person(server, None, staff_role="finance")
    approver.post(f"/console/approvals/{request_recharge(shop, requester)}/approve")
    path = f"/console/approvals/{request_payout(shop, requester, 'W-1')}"
    no_reason = approver.post(f"{path}/reject", {"reason": " "})
    assert (no_reason.status_code, "Say why" in no_reason.text) == (400, True)
    assert approver.post(f"{path}/reject", {"reason": "not yet"}).status_code == 303
    assert approver.post(f"{path}/approve").status_code == 400
    assert read_available(shop) == 5000
    new_request_id = request_payout(shop, requester, "W-2")
    assert approver.post(f"/console/approvals/{new_request_id}/approve").status_code == 303
    (payout,) = server.tx(lambda tx: payouts.search(tx, shop.id))
    assert (payout.created_by, payout.approved_by) == (requester.audit_name, approver.audit_name)
    assert read_available(shop) == 1000


def test_a_payout_of_a_suspended_merchant_keeps_waiting(shop: Shop) -> None:
    server = shop.api_server
    requester = create_person(server, None, staff_role="finance")
    approver = create_person(server, None, staff_role="finance")
    approver.post(f"/console/approvals/{request_recharge(shop, requester)}/approve")
    now = server.app.clock()
    payout_id = request_payout(shop, requester, "W-1")
    server.tx(lambda tx: merchants.change_status(tx, shop.id, "suspended", TESTER, now))
    refusal = approver.post(f"/console/approvals/{payout_id}/approve")
    assert (refusal.status_code, "payouts are switched off" in refusal.text) == (400, True)
    assert read_available(shop) == 5000
    (waiting,) = server.tx(payouts.list_requests)
    assert waiting.id == payout_id


# ── manual actions on payments ──


@pytest.fixture
def limited_shop(shop: Shop) -> Iterator[Shop]:
    """The shop of a deployment in which manual actions above 5 need a second person."""
    server, before = shop.api_server, shop.api_server.app.settings
    server.app.settings = msgspec.structs.replace(before, approval_above=Decimal(5))
    try:
        yield shop
    finally:
        server.app.settings = before


def form_fields(page: str, action: str) -> dict[str, str]:
    """Return the hidden fields of the form of an action on a payment's page."""
    form = re.search(rf'method="post" action="[^"]*/{action}">(.*?)</form>', page, re.DOTALL)
    assert form is not None, page
    return hidden_fields(form[1])


def test_the_page_of_a_payout_says_that_its_failure_needs_a_second_person(
    limited_shop: Shop,
) -> None:
    shop, server = limited_shop, limited_shop.api_server
    requester, approver = (create_person(server, None, staff_role="finance") for _ in range(2))
    approver.post(f"/console/approvals/{request_recharge(shop, requester)}/approve")
    request_id = request_payout(shop, requester, "W-1")
    approver.post(f"/console/approvals/{request_id}/approve")
    (payout,) = server.tx(lambda tx: payouts.search(tx, shop.id))
    path = f"/console/payouts/{payout.id}"
    page = requester.get(path).text
    paid, failed = (
        re.findall(rf'name="event" value="{event}">(.*?)</form>', page, re.DOTALL)[0]
        for event in ("paid", "failed")
    )
    assert ("second person" in paid, "Mark as paid</button>" in paid) == (False, True)
    assert "Needs a second person’s approval" in failed
    assert "Request approval</button>" in failed
    response = requester.post(path, {"event": "failed", "reason": "account closed"})
    assert "?waits=" in response.headers["location"]
    server.app.settings = msgspec.structs.replace(server.app.settings, approval_above=None)
    assert "second person" not in requester.get(path).text


def test_confirming_an_order_without_an_attempt_waits_for_a_second_person(
    limited_shop: Shop,
) -> None:
    server, order = limited_shop.api_server, limited_shop.create_order()
    requester, approver = (
        create_person(server, None, staff_role=role) for role in ("finance", "admin")
    )
    path = f"/console/payments/{order['id']}"
    page = requester.get(path).text
    confirmation = page.partition('id="confirm"')[2].partition("</form>")[0]
    assert "Needs a second person’s approval" in confirmation
    assert "Request approval</button>" in confirmation
    revocation = page.partition('id="revoke"')[2].partition("</form>")[0]
    assert "second person" not in revocation
    form = form_fields(page, "confirm") | {"reason": "seen at the bank"}
    response = requester.post(f"{path}/confirm", form)
    assert response.status_code == 303, response.text
    request_id = response.headers["location"].rpartition("?waits=")[2]
    assert request_id.startswith("areq_")
    assert requester.post(f"{path}/confirm", form).headers["location"].endswith(request_id)
    assert "waits for a second person now" in requester.get(f"{path}?waits={request_id}").text
    assert limited_shop.read_order(order["id"])["status"] == "PENDING"
    page = approver.get("/console/approvals").text
    assert "Confirmation of a payment" in page
    assert order["id"] in page
    approve = f"/console/approvals/{request_id}/approve"
    assert requester.post(approve).status_code == 400
    assert approver.post(approve).status_code == 303
    assert limited_shop.read_order(order["id"])["status"] == "PAID"
    assert approver.post(approve).status_code == 400


def test_a_refund_by_staff_above_the_limit_waits_and_can_be_rejected(limited_shop: Shop) -> None:
    server, order = limited_shop.api_server, limited_shop.create_paid_order()
    requester, approver = (
        create_person(server, None, staff_role=role) for role in ("support", "finance")
    )
    path = f"/console/payments/{order['id']}/refund"

    def refund(amount: str) -> str:
        page = requester.get(path, params={"amount": amount}).text
        form = form_fields(page, "refund") | {"amount": amount, "reason": "torn"}
        response = requester.post(path, form)
        assert response.status_code == 303, response.text
        return response.headers["location"]

    assert "Needs a second person’s approval" not in requester.get(path + "?amount=3.00").text
    assert refund("3.00").endswith("?done=refund")
    page = requester.get(path + "?amount=3.00").text
    assert "Needs a second person’s approval" in page
    assert "Request approval</button>" in page
    assert "Refund $3.00</button>" not in page
    request_id = refund("3.00").rpartition("?waits=")[
        2
    ]  # the two refunds together exceed the limit
    assert limited_shop.read_order(order["id"])["refundStatus"] == "NONE"
    refunds_path = f"/v1/orders/{order['id']}/refunds"
    assert len(limited_shop.data("GET", refunds_path)["items"]) == 1
    rejected = approver.post(f"/console/approvals/{request_id}/reject", {"reason": "no"})
    assert rejected.status_code == 303
    new_request_id = refund("3.00").rpartition("?waits=")[2]
    assert approver.post(f"/console/approvals/{new_request_id}/approve").status_code == 303
    assert len(limited_shop.data("GET", refunds_path)["items"]) == 2


# ── people who must not be the second person ──


def invite_admin(server: ApiServer, inviter: Visitor) -> Visitor:
    """Let ``inviter`` invite a person who joins the staff; return the new administrator."""
    email = new_address()
    now = server.app.clock()
    actor = Actor(inviter.audit_name, "new")
    link = server.tx(lambda tx: people.invite(tx, email, now, staff_role="admin", actor=actor))
    browser = Browser("192.0.2.9", "Testfox/1.0")
    login = server.run(
        people.join(server.app.db, link.token, "Eve", PASSWORD, browser, now, cost=CHEAP_HASH)
    )
    visitor = Visitor(server, email, login.person.id)
    visitor.set_token(login.token)
    return visitor


def test_a_person_whom_the_requester_invited_or_reset_lately_cannot_approve(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, now = shop.api_server, shop.api_server.app.clock()
    clock(now)
    requester = create_person(server, None, staff_role="admin")
    invitee = invite_admin(server, requester)
    invitee_of_invitee = invite_admin(server, invitee)
    colleague = create_person(server, None, staff_role="finance")
    actor = Actor(requester.audit_name, "forgotten")
    reset = server.tx(lambda tx: people.offer_new_password(tx, colleague.email, now, actor=actor))
    password = NewPassword(password=PASSWORD, browser=Browser("192.0.2.9", "Testfox/1.0"))
    key = server.app.settings.secret_key
    server.run(
        people.choose_password(server.app.db, reset.token, password, key, now, cost=CHEAP_HASH)
    )
    colleague.log_in()
    waiting = request_recharge(shop, requester)
    approve = f"/console/approvals/{waiting}/approve"
    for visitor in (invitee, invitee_of_invitee, colleague):
        refusal = visitor.post(approve)
        assert refusal.status_code == 400
        assert "within the last 72 hours" in refusal.text
        assert section_of(waiting, visitor) == "Waiting for a colleague"
        count = count_waiting_requests(visitor)
        later = request_recharge(shop, requester, reference=f"R-{visitor.email}")
        assert count_waiting_requests(visitor) == count
        requester.post(f"/console/approvals/{later}/reject", {"reason": "not needed"})
    assert read_available(shop) == 0
    # Inviters may approve their invitees' requests, and after 72 hours invitees may approve theirs.
    request_id = request_recharge(shop, invitee, reference="R-2")
    assert requester.post(f"/console/approvals/{request_id}/approve").status_code == 303
    clock(now + 72 * 3_600_000)
    invitee.log_in()
    assert invitee.post(approve).status_code == 303
    assert read_available(shop) == 10_000


def test_nobody_approves_in_a_browser_in_which_the_requester_has_logged_in(shop: Shop) -> None:
    server = shop.api_server
    requester = create_person(server, None, staff_role="finance")
    approver = create_person(server, None, staff_role="finance")
    approve = f"/console/approvals/{request_recharge(shop, requester)}/approve"
    browser = Visitor(server, requester.email)
    assert browser.log_in().status_code == 303
    browser.post("/logout")
    browser.email = approver.email
    assert browser.log_in().status_code == 303
    refusal = browser.post(approve)
    assert refusal.status_code == 400
    assert "Use another browser." in refusal.text
    assert read_available(shop) == 0
    assert approver.post(approve).status_code == 303  # the same IP address does not matter
    assert read_available(shop) == 5000


def test_every_approval_goes_through_the_rules_about_the_second_person() -> None:
    """Only the package ``approvals``, which checks the second person, calls ``approve``."""
    source = Path(approvals.__file__).parents[1]
    callers = {
        path.relative_to(source).parts[0]
        for path in source.rglob("*.py")
        if re.search(r"\b(adjustments|payouts|requests|service)\.approve\(", path.read_text())
    }
    assert callers == {"approvals"}
