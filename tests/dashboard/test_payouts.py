"""The pages of payouts: the list, a payout with its entries, and the next available amount."""

import re
from typing import Any

from dashboard.pages import text_of
from opentill import adjustments, disputes, orders, payouts
from opentill.core.ids import new_id
from opentill.figures import jobs
from support.api_server import Shop
from support.payout_runs import ANN, IBAN, NATIONAL
from support.people import Visitor, create_person
from support.spreadsheets import csv_rows


def read_page(visitor: Visitor, shop: Shop, path: str = "payouts", **query: str) -> str:
    response = visitor.get(f"/dashboard/{shop.id}/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.text


def mark_as_paid(shop: Shop, payout: payouts.Payout, reference: str) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: payouts.pay(tx, payout.id, reference, "sent", "op", now))


def record_return(shop: Shop, payout: payouts.Payout) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: payouts.record_return(tx, payout.id, "AC04 closed", "op", now))


def test_each_payout_shows_its_status(shop: Shop) -> None:
    pending_payout, paid_payout, failed_payout = (
        shop.create_payout(1100),
        shop.create_payout(2200),
        shop.create_payout(3300),
    )
    mark_as_paid(shop, paid_payout, "TRN-<1>")
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: payouts.fail(tx, failed_payout.id, "account closed", "op", now))
    owner = create_person(shop.api_server, shop.id, "owner")
    text = text_of(read_page(owner, shop))
    assert "TRN-&lt;1&gt;" in text
    for line in ("On its way", "Paid", "Returned", "account closed", "$11.00", "$22.00"):
        assert line in text
    failed_list = read_page(owner, shop, status="FAILED")
    assert failed_payout.id in failed_list
    assert pending_payout.id not in failed_list
    assert paid_payout.id not in failed_list
    html = read_page(owner, shop, f"payouts/{failed_payout.id}")
    assert "Why it was returned account closed" in text_of(html)
    shown = re.findall(r"<li[^>]*>\s*<p><strong>(.*?)</strong>", html.partition("timeline")[2])
    assert shown == [
        "Returned, and available again", "Payout created, and taken from the available balance",
    ]  # fmt: skip
    assert "Paid out so far $22.00 Payouts that were paid: 1." in text
    assert "The last ones took at most 1 second to arrive." in text
    rows = csv_rows(owner.get(f"/dashboard/{shop.id}/payouts.csv"))
    assert [(row["status"], row["statusName"]) for row in rows] == [
        ("FAILED", "Returned"), ("PAID", "Paid"), ("PENDING", "On its way"),
    ]  # fmt: skip
    assert "TRN-" in read_page(owner, shop, f"payouts/{paid_payout.id}")
    assert "Your bank has not confirmed it yet" in read_page(
        owner, shop, f"payouts/{pending_payout.id}"
    )
    other_shop = shop.api_server.create_shop()
    stranger = create_person(shop.api_server, other_shop.id, "owner")
    for payout_id in (failed_payout.id, new_id("po")):
        assert stranger.get(f"/dashboard/{other_shop.id}/payouts/{payout_id}").status_code == 404


def settle(shop: Shop, order_id: str) -> None:
    now = shop.api_server.app.clock()
    shop.api_server.tx(lambda tx: orders.settle_one(tx, shop.id, order_id, now, "op"))


def test_a_payout_shows_the_payments_fees_and_refunds_that_it_contains(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "owner")
    first = shop.create_payout(1000)
    partly_refunded = shop.create_paid_order(customerEmail="ada@example.com")["id"]
    refund = shop.refund(partly_refunded, amount="2.00")
    shop.report_refund(refund["id"])
    settle(shop, partly_refunded)  # 9.99, less a fee of 0.40 and the refund
    refunded_later = shop.create_paid_order()["id"]
    settle(shop, refunded_later)
    shop.refund(refunded_later, amount="3.00")
    request = payouts.PayoutRequest(
        amount_minor=1400, fee_minor=10, reference="b", reason="weekly", by="op"
    )
    second = server.tx(lambda tx: payouts.create(tx, shop.id, request, None, server.app.clock()))
    html = read_page(owner, shop, f"payouts/{second.id}")
    text = text_of(html)
    for line in (
        "Payments (2) $19.98 Fees -$0.80 Refunds (2) -$5.00 Payout fee -$0.10",
        "Payout fee -$0.10 Left available -$0.08 Payout $14.00",
        f"ada@example.com {partly_refunded} Tea $9.99 -$0.40 -$2.00 $7.59",
        "-$3.00 – – -$3.00",
    ):  # fmt: skip
        assert line in text, line
    assert f"/payments/{partly_refunded}" in html
    payment = text_of(read_page(owner, shop, f"payments/{partly_refunded}"))
    assert "Payout $14.00 On its way" in payment
    assert f'/payouts/{second.id}">' not in html
    assert "Adjustments (1) $10.00 Payout $10.00" in text_of(
        read_page(owner, shop, f"payouts/{first.id}")
    )
    file = owner.get(f"/dashboard/{shop.id}/payouts/{second.id}/contents.csv")
    rows = csv_rows(file)
    assert [(row["type"], row["gross"], row["fee"], row["amount"]) for row in rows] == [
        ("SETTLEMENT", "9.99", "0.40", "7.59"),
        ("SETTLEMENT", "9.99", "0.40", "9.59"),
        ("FREEZE", "", "", "-3.00"),
    ]
    # A role without the balance does not see what a payout contains.
    shown = [
        role
        for role in ("finance", "support", "developer", "viewer")
        if "What this payout contains"
        in create_person(server, shop.id, role)
        .get(f"/dashboard/{shop.id}/payouts/{second.id}")
        .text
    ]
    assert shown == ["finance", "viewer"]


def test_a_returned_payout_is_shown_as_failed_since_its_return(shop: Shop, clock: Any) -> None:
    clock(1_798_761_000_000)
    payout = shop.create_payout(3300)
    mark_as_paid(shop, payout, "TRN-1")
    clock(1_798_761_000_000 + 40 * 86_400_000)
    record_return(shop, payout)
    owner = create_person(shop.api_server, shop.id, "owner")
    row = text_of(read_page(owner, shop)).partition("All payouts")[2]
    assert "Returned" in row
    assert "AC04 closed" in row
    text = text_of(read_page(owner, shop, f"payouts/{payout.id}"))
    assert "The bank paid it and returned it later." in text
    assert "TRN-1" in text
    assert "Why it was returned AC04 closed" in text
    assert payout.id in read_page(owner, shop, status="FAILED")
    home = text_of(owner.get(f"/dashboard/{shop.id}/"))
    assert "1 payout was returned in the last two weeks" in home


def test_the_next_available_amount_is_shown_with_its_day(shop: Shop, clock: Any) -> None:
    server = shop.api_server
    page = read_page(create_person(server, shop.id, "owner"), shop)
    assert page.count('class="empty') == 1
    assert "Add it to receive payouts." in page
    filtered = read_page(create_person(server, shop.id, "owner"), shop, status="FAILED")
    assert "No payouts match these filters." in filtered
    clock(1_798_761_000_000)
    order = shop.create_paid_order()
    server.run(jobs.count_all(server.app.db))
    due = server.sql("select due_at from orders where id = $1", order["id"])[0]["due_at"]

    def text_at(time_ms: int) -> str:
        clock(time_ms)
        return text_of(read_page(create_person(server, shop.id, "owner"), shop))

    day_before = text_at(due - 86_400_000)
    assert re.search(r"Becomes available next \$9\.59 On \w+, Jan \d+\.", day_before)
    # The order is due, but no job has settled it.
    assert "Held in pending $9.59 It is due, but not available" in text_at(due + 86_400_000)
    sentence = "Becomes available next $9.59 After more than two weeks."
    assert sentence in text_at(due - 40 * 86_400_000)


def test_after_a_returned_payout_the_merchant_is_told_to_change_the_bank_account(
    shop: Shop,
) -> None:
    server = shop.api_server
    now = server.app.clock()
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    server.tx(lambda tx: payouts.change_account(tx, shop.id, IBAN, ANN, rule, now - 1))
    payout = shop.create_payout(3300)
    owner = create_person(server, shop.id, "owner")
    assert "Payouts wait" not in read_page(owner, shop)
    mark_as_paid(shop, payout, "TRN-1")
    record_return(shop, payout)
    for path, text in (
        (
            "payouts",
            "The bank returned a payout, so the next one waits until the bank account is confirmed",
        ),
        ("payouts/account", "an owner of your team enters another one on this page"),
    ):
        page_text = text_of(read_page(owner, shop, path))
        assert "Payouts wait" in page_text
        assert text in page_text
    for language, title in (("zh-Hans", "打款等待中"), ("zh-Hant", "撥款等待中")):
        assert title in read_page(owner, shop, lang=language)
    no_hold, now = payouts.HoldRule(rule.secret_key, 0), server.app.clock() + 1
    server.tx(lambda tx: payouts.change_account(tx, shop.id, NATIONAL, ANN, no_hold, now))
    assert "Payouts wait" not in read_page(owner, shop, lang="en")


def test_after_a_change_of_the_account_each_page_says_until_when_payouts_wait(shop: Shop) -> None:
    server = shop.api_server
    now = server.app.clock()
    rule = payouts.HoldRule(server.app.settings.secret_key, 3)
    owner = create_person(server, shop.id, "owner")
    shop.create_payout(100)
    for account in (IBAN, NATIONAL):
        for path in ("", "balance", "payouts"):
            assert "Payouts wait" not in text_of(read_page(owner, shop, path))
        server.tx(lambda tx, one=account: payouts.change_account(tx, shop.id, one, ANN, rule, now))
    server.run(jobs.count_all(server.app.db))
    for path in ("", "balance", "payouts"):
        text = text_of(read_page(owner, shop, path))
        assert re.search(r"Payouts wait until \w+ \d+, .*since the bank account was changed", text)


def test_a_payment_refunded_in_full_before_it_settled_shows_its_amounts(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "owner")
    paid, refunded = shop.create_paid_order()["id"], shop.create_paid_order()["id"]
    shop.report_refund(shop.refund(refunded)["id"])
    for order_id in (paid, refunded):
        settle(shop, order_id)
    request = payouts.PayoutRequest(amount_minor=None, reference="b", reason="weekly", by="op")
    payout = server.tx(lambda tx: payouts.create(tx, shop.id, request, None, server.app.clock()))
    text = text_of(read_page(owner, shop, f"payouts/{payout.id}"))
    assert "Payments (2) $19.98 Fees -$0.80 Refunds (1) -$9.99 Payout $9.19" in text
    assert "Refunded payment" in text
    assert "$9.99 -$0.40 -$9.99 -$0.40" in text


def test_a_lost_dispute_is_no_refund_in_a_payout_and_on_the_statement(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "owner")
    shop.create_payout(5000)
    server.sql("update merchants set dispute_fee_minor = 1500 where id = $1", shop.id)
    lost_early, lost_late, paid = (shop.create_paid_order()["id"] for _ in range(3))
    settle(shop, lost_late)
    for order_id in (lost_early, lost_late):
        dispute_id, now = shop.open_dispute(order_id).id, server.app.clock()
        server.tx(
            lambda tx, dispute_id=dispute_id, now=now: disputes.decide(
                tx, shop.id, dispute_id, "lost", who="bo", reason="x", now=now
            )
        )
    for order_id in (lost_early, paid):
        settle(shop, order_id)
    adjustment = adjustments.AdjustmentRequest(
        kind="recharge", amount_minor=10_000, reference="r", reason="debt", by="op"
    )
    server.tx(lambda tx: adjustments.request(tx, shop.id, adjustment, None, server.app.clock()))
    request = payouts.PayoutRequest(amount_minor=None, reference="b", reason="weekly", by="op")
    payout = server.tx(lambda tx: payouts.create(tx, shop.id, request, None, server.app.clock()))
    text = text_of(read_page(owner, shop, f"payouts/{payout.id}"))
    # Of the settled one: held, released and taken.
    assert (
        "Payments (3) $29.97 Fees -$1.20 Disputes (4) -$19.98 Dispute fees (2) -$30.00 "
        "Adjustments (1) $100.00 Payout $78.79" in text
    )
    assert "Refunds (" not in text
    assert "$9.99 -$0.40 -$24.99 -$15.40" in text
    assert text.count("Dispute lost") == 3  # the other row has it in place of a customer too
    html = read_page(owner, shop, "balance/statement")
    summary = html.partition("Statement in")[2].partition("</dl>")[0]
    for reason, amount, kind in (
        ("Disputes", "-$19.98", "CHARGEBACK"),
        ("Fees", "-$1.20", "FEE"),
        ("Dispute fees", "-$30.00", "CHARGEBACK_FEE"),
    ):
        assert re.search(rf"type={kind}&[^>]*>{reason}</a></dt><dd>{re.escape(amount)}<", summary)


def test_money_on_its_way_has_its_sum_and_expected_day_on_each_page(shop: Shop, clock: Any) -> None:
    now, day = 1_798_500_000_000, 86_400_000
    clock(now - 10 * day)
    paid_payout = shop.create_payout(500)
    clock(now - 8 * day)
    mark_as_paid(shop, paid_payout, "TRN-1")
    owner = create_person(shop.api_server, shop.id, "owner")
    for path in ("payouts", ""):
        assert "On its way to your bank" not in read_page(owner, shop, path)
    assert "On its way to your bank $0.00" in text_of(read_page(owner, shop, "balance"))
    clock(now - day)
    shop.create_payout(1100)
    clock(now)
    newest = shop.create_payout(2200)  # the last one took two days
    owner = create_person(shop.api_server, shop.id, "owner")
    for path in ("balance", "payouts"):
        text = text_of(read_page(owner, shop, path))
        tile = "On its way to your bank $33.00 Expected by Dec 30. See 2 payouts"
        assert tile in text, path
    home = text_of(read_page(owner, shop, ""))
    assert "On its way to your bank Expected by Dec 30 $22.00 Expected by Dec 29 $11.00" in home
    steps = text_of(read_page(owner, shop, f"payouts/{newest.id}")).partition("Timeline")[2]
    assert steps.strip().startswith("Paid by your bank Expected by Dec 30 Payout created")
    clock(now + 3 * day)  # late: no day in the past is promised
    owner = create_person(shop.api_server, shop.id, "owner")
    text = text_of(read_page(owner, shop, "balance"))
    assert "On its way to your bank $33.00 Your bank has not confirmed it yet." in text
