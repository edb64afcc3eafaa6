"""The home page of the console: what needs attention, the volume and where the money is."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from console.console_pages import visible_text
from opentill import adjustments, disputes, orders, payouts, webhooks
from opentill.adjustments import AdjustmentRequest
from opentill.console import needs, open_needs
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.figures import jobs
from opentill.figures.model import millis
from opentill.gateways.model import RefundOutcome
from opentill.orders import Order
from opentill.payouts import Payout, PayoutRequest
from opentill.refunds import queries as refund_queries
from support import world
from support.api_server import Shop
from support.people import create_person, heading_of
from support.world import DAY, NOW


def test_login_redirects_staff_to_the_console_and_members_to_the_dashboard(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="support")
    owner = create_person(shop.api_server, shop.id, "owner")
    assert staff.log_in().headers["location"] == "/console"
    assert owner.log_in().headers["location"] == "/dashboard"
    assert staff.log_in(next="/console/merchants").headers["location"] == "/console/merchants"
    page = staff.get("/console/").text
    assert 'href="/dashboard"' not in page
    assert "Test mode" in page
    join = "insert into members values ($1, $2, 'viewer', 0)"
    shop.api_server.tx(lambda tx: tx.execute(join, shop.id, staff.person_id))
    assert 'href="/dashboard"' in staff.get("/console/").text
    assert 'href="/console/"' in staff.get(f"/dashboard/{shop.id}/").text


async def _pay_twice(tx: Tx, order: Order) -> None:
    """Let two payment attempts of an order succeed."""
    first_attempt = await world.submit_attempt(tx, order)
    await world.report_payment(
        tx, first_attempt, "ACTION_REQUIRED", action_url="https://bank.example"
    )
    second_attempt = await world.submit_attempt(
        tx, await orders.find(tx, order.merchant_id, order.id)
    )
    for attempt in (first_attempt, second_attempt):
        amount = Money(order.amount_minor, order.currency)
        await world.report_payment(tx, attempt, "SUCCEEDED", amount=amount)


async def test_every_kind_that_needs_attention_is_counted_and_listed(  # noqa: PLR0915 - one story
    tx: Tx,
) -> None:
    now = NOW + 2 * DAY
    order = await world.create_order_in(tx, "PAID")
    refund = await world.create_refund(tx, order, "1")
    sent_refund = await world.create_refund(tx, order, "1")
    await refund_queries.SENDING.get(tx, merchant_id=sent_refund.merchant_id, id=sent_refund.id)
    failed_refund = await world.create_refund(tx, order, "1")
    await world.report_refund(tx, failed_refund, "REFUSED")
    disputed_order = await world.create_order_in(tx, "PAID")
    dispute = await disputes.open_manually(
        tx, disputed_order.merchant_id, disputed_order.id, who="ann", reason="letter", now=NOW
    )
    await disputes.set_deadline(tx, dispute.merchant_id, dispute.id, now + DAY, NOW)
    order_with_later_deadline = await world.create_order_in(tx, "PAID")
    not_urgent = await disputes.open_manually(
        tx,
        order_with_later_deadline.merchant_id,
        order_with_later_deadline.id,
        who="ann",
        reason="letter",
        now=NOW,
    )
    await disputes.set_deadline(tx, not_urgent.merchant_id, not_urgent.id, now + 4 * DAY, NOW)
    await world.report_dispute(tx, disputed_order, "OPENED", NOW, ref="another dispute")
    order_paid_twice = await world.create_order(tx)
    await _pay_twice(tx, order_paid_twice)
    stuck_order = await world.create_order(tx)
    await world.submit_attempt(tx, stuck_order)
    endpoint = webhooks.EndpointFields(url="https://shop.example/hook")
    check = webhooks.UrlCheck(lambda _: None)
    hook, _ = await webhooks.create(tx, order.merchant_id, endpoint, check, "k" * 40, NOW)
    await tx.execute(
        "update webhook_endpoints set status = 'DISABLED', disabled_reason = 'gone'"
        " where merchant_id = $1 and id = $2",
        order.merchant_id,
        hook.id,
    )
    await tx.execute(
        "insert into epay_notifications values ($1, $2, 'FAILED', null, 9, 'HTTP 500', $3, $3)",
        order.merchant_id,
        order.id,
        NOW,
    )
    session = await world.create_session(tx, order.merchant_id, order.product_id)
    same_number = await world.pay_order(
        tx, await orders.find(tx, order.merchant_id, session.order_id)
    )
    for number, epay_order in enumerate((order, same_number), start=1):
        await tx.execute(
            "insert into epay_orders values ($1, 'INV-1', $2, $3, '', null, 'VIP', '9.99', 'USD',"
            " 'https://shop.example/n', '', '', $4, $5)",
            epay_order.merchant_id,
            epay_order.id,
            epay_order.checkout_id,
            NOW,
            number,
        )
    returned_payout = await _returned_payout(tx, order.merchant_id)
    await tx.execute(
        "insert into ledger_checks"
        " values ($1, 'USD', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, $2)"
        " on conflict (merchant_id, currency) do update set violations = 3",
        order.merchant_id,
        NOW,
    )
    await disputes.respond(tx, dispute.merchant_id, dispute.id, "CONTESTED", who="ann", now=NOW + 1)
    expected = {
        "responses": (dispute.merchant_id, dispute.id),
        "disputes": (dispute.merchant_id, dispute.id),
        "duplicates": (
            order_paid_twice.merchant_id,
            (await world.read_attempts(tx, order_paid_twice))[1].id,
        ),
        "failed_refunds": (failed_refund.merchant_id, failed_refund.id),
        "refunds": (refund.merchant_id, refund.id),
        "stuck": (stuck_order.merchant_id, stuck_order.id),
        "endpoints": (order.merchant_id, "https://shop.example/hook"),
        "notices": (order.merchant_id, order.id),
        "paid_twice": (order.merchant_id, "INV-1"),
        "returned": (returned_payout.merchant_id, returned_payout.id),
    }
    books = next(need for need in needs.NEEDS if need.name == "books")
    assert (await books.count(tx, now), books.place) == (1, "/books")
    open_disputes = next(need for need in needs.NEEDS if need.name == "open_disputes")
    near_deadline = next(need for need in needs.NEEDS if need.name == "disputes")
    # A dispute is open, whether its deadline is near or not.
    assert open_disputes.listed is not None
    assert near_deadline.items is not None
    long_ago = NOW - 300 * needs.SOON_MS
    opened, near = await open_disputes.listed(tx, now), await near_deadline.items(tx, now)
    assert len(opened) >= len(near) > 0
    assert not await near_deadline.items(tx, long_ago)
    assert await open_disputes.listed(tx, long_ago)
    assert open_disputes.place == "/disputes?status=OPEN"
    unmatched = next(need for need in needs.NEEDS if need.name == "unmatched")
    assert (await unmatched.count(tx, now), unmatched.place) == (1, "/needs/unmatched")
    # tests/console/test_deposits.py has the transfers of tokens
    assert set(expected) == {
        need.name for need in needs.NEEDS if need.items is not None and need.name != "deposits"
    }
    for need in needs.NEEDS:
        if need.items is not None and need.name in expected:
            items = await need.items(tx, now)
            # A single item has no list in between.
            path = items[0].path if len(items) == 1 else f"/console/needs/{need.name}"
            assert await open_needs.find_path(tx, need, len(items), items, now) == path
            subjects = [(item.merchant_id, item.subject) for item in items]
            assert expected[need.name] in subjects, need.name
            assert (not_urgent.merchant_id, not_urgent.id) not in subjects
            assert need.name != "refunds" or (sent_refund.merchant_id, sent_refund.id) in subjects
    # No Epay shop has placed these orders, so the integrity rules of later tests would report them.
    await tx.execute("delete from epay_notifications where order_id = $1", order.id)
    await tx.execute("delete from epay_orders where merchant_id = $1", order.merchant_id)


async def _returned_payout(tx: Tx, merchant_id: str) -> Payout:
    """Create a payout that was paid and that the bank then returned."""
    recharge = AdjustmentRequest(
        kind="recharge",
        amount_minor=5_000,
        reference=world.new_reference(),
        reason="start",
        by="ann",
    )
    await adjustments.request(tx, merchant_id, recharge, None, NOW)
    request = PayoutRequest(
        amount_minor=2_500, fee_minor=0, reference=world.new_reference(), reason="why", by="ann"
    )
    payout = await payouts.create(tx, merchant_id, request, None, NOW)
    await payouts.pay(tx, payout.id, "TRN", "why", "ann", NOW)
    return await payouts.record_return(tx, payout.id, "account closed", "ann", NOW)


async def test_a_duplicate_payment_that_is_not_returned_is_listed_with_its_time_of_payment(
    tx: Tx,
) -> None:
    later = NOW + 2 * needs.GIVE_BACK_MS
    duplicate = await world.pay_order_twice(tx, await world.create_order(tx))
    await orders.apply_duplicate_return(tx, duplicate, RefundOutcome(status="REFUSED"), later)
    duplicates = next(need for need in needs.NEEDS if need.name == "duplicates")
    assert duplicates.items is not None
    times = {item.subject: item.at for item in await duplicates.items(tx, later)}
    assert times.get(duplicate.id) == NOW


def _deadline_of(page: str, dispute_id: str) -> str:
    (row,) = [row for row in page.split("<tr")[1:] if dispute_id in row]
    (cell,) = [cell for cell in row.split("<td")[1:] if 'data-label="Respond by"' in cell]
    return visible_text(f"<main {cell.partition('</td>')[0]}").strip()


def test_an_entry_that_needs_attention_links_to_its_page(shop: Shop) -> None:
    auditor, server = create_person(shop.api_server, None, staff_role="auditor"), shop.api_server
    dispute, now = shop.open_dispute(shop.create_paid_order()["id"]), server.app.clock()
    server.tx(lambda tx: disputes.set_deadline(tx, shop.id, dispute.id, now + 3_600_000, now))
    home = auditor.get("/console/").text
    assert "Disputes near their deadline: " in home
    number = len(re.findall("<tr", auditor.get("/console/needs/disputes").text)) - 1
    below = f"disputes/{dispute.id}" if number == 1 else "needs/disputes"
    assert f'href="/console/{below}">Disputes near their deadline: {number}<' in home
    text = visible_text(home)
    assert re.search(
        r"Disputes near their deadline: \d+ · [^·]*\d\.\d\d · .*? · respond by ", text
    ), text
    assert 'href="/console/disputes"' in home
    assert re.search(r'/console/disputes"[^>]*>Disputes<span class="waiting"', home), home
    page = auditor.get("/console/needs/disputes").text
    assert _deadline_of(page, dispute.id).endswith(" left")
    server.tx(lambda tx: disputes.set_deadline(tx, shop.id, dispute.id, now + 1, now))
    page = auditor.get("/console/needs/disputes").text
    assert re.search(r"passed .* ago$", _deadline_of(page, dispute.id))
    assert f'href="/console/disputes/{dispute.id}"' in page
    assert auditor.get(f"/console/disputes/{dispute.id}").status_code == 200


def test_the_home_page_shows_the_volume_and_the_balances(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    shop.create_paid_order()
    server.run(jobs.count_all(server.app.db))
    page = auditor.get("/console/")
    assert (page.status_code, heading_of(page)) == (200, "Home")
    text = visible_text(page.text)
    assert re.search(r"USD [0-9,]+( \$[0-9,.]+){5} By gateway", text)
    assert re.search(
        r"Manual payments Bank transfer USD [0-9,]+ [0-9,]+ [0-9.]+% \$[0-9,.]+", text
    ), text
    assert re.search(r"Disputes this month Disputes [0-9]+ Won [0-9]+ Lost ", text), text
    recharge = AdjustmentRequest(
        kind="recharge", amount_minor=7500, reference="R", reason="start", by="ann"
    )
    merchant = server.tx(lambda tx: world.create_merchant(tx, settlement_currency="NOK"))
    server.tx(lambda tx: adjustments.request(tx, merchant.id, recharge, None, NOW))
    payout = PayoutRequest(amount_minor=6000, reference="W", reason="weekly", by="ann")
    server.tx(lambda tx: payouts.create(tx, merchant.id, payout, None, NOW))
    money = visible_text(auditor.get("/console/").text).partition("Norwegian Krone")[2]
    assert (
        "Paid out or on its way NOK 60.00 Earned NOK 0.00 Recharged by merchants NOK 75.00" in money
    )
    empty_days = auditor.get("/console/?from=2001-01-01&to=2001-01-02").text
    assert "There are no payments on these days. Choose other days above." in empty_days
    reversed_days = auditor.get("/console/?from=2026-01-02&to=2026-01-01").text
    assert "The last day must not be before" in reversed_days
    all_days = auditor.get("/console/?from=&to=").text
    assert "By gateway" in visible_text(all_days)
    assert 'type="date" value=""' in all_days
    assert 'type="date" value=""' not in page.text


def test_the_home_page_compares_days_with_those_before_and_draws_them(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, product = shop.api_server, shop.create_product(price="1234.50", currency="USD")["id"]
    for day, number in ((3, 1), (4, 2)):
        clock(millis(datetime(2031, 3, day, 9, tzinfo=UTC)))
        for _ in range(number):
            shop.create_paid_order(product)
    clock(millis(datetime(2031, 3, 4, 10, tzinfo=UTC)))
    server.run(jobs.count_all(server.app.db))
    auditor = create_person(server, None, staff_role="auditor")
    text = visible_text(auditor.get("/console/?from=2031-03-04&to=2031-03-04").text)
    assert "vs. Mar 3, until 10:00 AM: $1,234.50 Payments 2 vs." in text
    page = auditor.get("/console/?from=2031-03-02&to=2031-03-04").text
    # The range of the line leaves out today, which is not over.
    assert 'aria-label="Volume by day: from $0.00 to $1,234.50' in page
    page = auditor.get("/console/?from=2031-03-03&to=2031-03-04").text
    assert 'Tue, Mar 4</th><td class="number" data-value="2469.00">' in page
    assert "vs. Mar 1 – Mar 2, until 10:00 AM: $0.00" in visible_text(page)
    whole = auditor.get("/console/?from=2031-03-03&to=2031-03-03").text
    assert "vs. Mar 2: $0.00" in visible_text(whole)
    page = auditor.get("/console/?from=2031-03-03&to=2031-03-04&chart=attempts").text
    assert "3 payments in 2 days; 100.0% of the attempts succeeded." in page
    assert 'id="volume-USD"' not in page
    long = auditor.get("/console/?from=&to=").text
    charts = re.findall(r'id="volume-[A-Z]{3}"', long)  # other tests may have other currencies
    assert charts
    assert long.count('data-short="') == 92 * len(charts)
    assert "vs. " not in long


def test_a_count_that_reaches_the_limit_of_its_query_is_shown_with_a_plus(shop: Shop) -> None:
    server, auditor = shop.api_server, create_person(shop.api_server, None, staff_role="auditor")
    order = shop.create_paid_order()

    async def insert_rows(tx: Tx) -> None:
        await tx.execute(
            "insert into reconciliation_files (id, source, sha256, name, status, rows, matched,"
            " found, who, created_at)"
            " values ('rec_plus', 'plus', repeat('b', 64), 'b', 'OPEN', 0, 0, 0, 'ann', 1)"
        )
        await tx.execute(
            "insert into reconciliation_differences (id, file_id, source, what, kind, reference,"
            " merchant_id, ours, theirs, created_at)"
            " select 'dif_plus' || n, 'rec_plus', 'plus', 'missing in report', 'payment', n::text,"
            " '', '9.99', '', 1 from generate_series(1, 1250) as numbers (n)"
        )
        await tx.execute(
            "insert into unmatched_disputes (merchant_id, gateway, gateway_ref, order_id,"
            " attempt_id, status, amount_minor, currency, reason, refusal, try_at, tries,"
            " created_at, updated_at)"
            " select $1, 'sandbox', 'plus' || n, $2, '', 'OPENED', 999, 'USD', '', '', 1, 0, 1, 1"
            " from generate_series(1, 250) as numbers (n)",
            shop.id, order["id"],
        )  # fmt: skip

    async def delete_rows(tx: Tx) -> None:
        await tx.execute("delete from unmatched_disputes where merchant_id = $1", shop.id)
        await tx.execute("delete from reconciliation_differences where source = 'plus'")
        await tx.execute("delete from reconciliation_files where source = 'plus'")

    server.tx(insert_rows)
    try:
        text = visible_text(auditor.get("/console/").text)
    finally:
        server.tx(delete_rows)
    assert re.search(r"Differences between reports and books: 1,2\d\d ", text), text
    assert "Disputes without an order: 200+ " in text


def test_only_a_dispute_that_waits_for_its_merchant_has_a_deadline_on_home() -> None:
    # At ``at`` an accepted dispute without a deadline was opened, which nobody must respond to.
    item = needs.Item(merchant_id="mer_1", subject="dp_1", page="/disputes/dp_1", at=NOW)
    need = next(need for need in needs.NEEDS if need.name == "open_disputes")
    later = msgspec.structs.replace(item, due=NOW + 2 * DAY)
    sooner = msgspec.structs.replace(item, due=NOW + DAY)
    assert open_needs.OpenNeed(need, 3, "/disputes", [item, later, sooner]).deadline == NOW + DAY
    assert open_needs.OpenNeed(need, 1, "/disputes", [item]).deadline is None
    assert open_needs.OpenNeed(need, 0, "/disputes").deadline is None
