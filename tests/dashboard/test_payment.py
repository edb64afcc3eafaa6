"""The page of a payment: its timeline, refunds, receipt and forms."""

import itertools
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from typing import Any, Final

import httpx2
import msgspec
import pytest

from dashboard.pages import text_of
from opentill import adjustments, disputes, orders
from opentill.core.errors import Unavailable
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.gateways.model import RefundOutcome
from opentill.merchants import Actor
from opentill.orders import Order, PaymentAttempt
from opentill.people import MERCHANT_ROLES, MerchantRole, member_may
from opentill.portal import form_ids
from support import world
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of

MINUTE: Final = 60_000


def page_path(shop: Shop, order_id: str, *parts: str) -> str:
    """Return the path of a payment's page, or of a page below it."""
    return "/".join((f"/dashboard/{shop.id}/payments/{order_id}", *parts))


def find_order(shop: Shop, order_id: str) -> Order:
    """Read an order from the database."""
    return shop.api_server.tx(partial(orders.find, merchant_id=shop.id, order_id=order_id))


def hidden_fields(response: httpx2.Response, action: str) -> dict[str, str]:
    """Return the hidden fields of the form with this action."""
    for form in re.findall(r"<form [^>]*method=\"post\".*?</form>", response.text, re.DOTALL):
        if f'action="{action}"' in form:
            fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
            return dict(fields)
    raise AssertionError(response.text)


def refund_form(visitor: Visitor, shop: Shop, order_id: str, amount: str) -> dict[str, str]:
    """Enter the amount of a refund; return the values of the form that confirms it."""
    page = visitor.get(page_path(shop, order_id, "refund"), params={"amount": amount})
    assert page.status_code == 200, text_of(page)
    return hidden_fields(page, page_path(shop, order_id, "refund")) | {
        "amount": amount,
        "reason": "",
        "why": "",
    }


def list_refunds(shop: Shop, order_id: str) -> list[dict[str, Any]]:
    """Return the refunds of an order, newest first."""
    items: list[dict[str, Any]] = shop.data("GET", f"/v1/orders/{order_id}/refunds")["items"]
    return items


class EventfulOrder:
    """An order with every kind of event, each a minute after the one before."""

    def __init__(self, shop: Shop, clock: Callable[[int], None]) -> None:
        """Create the order, and its events in the following minutes."""
        self.shop, self.server, self._clock = shop, shop.api_server, clock
        self.now = now_ms()
        self.endpoint: str = shop.create_endpoint()["id"]
        product = shop.create_product(name="Blue <teapot>", price="20.00")["id"]
        self.id: str = shop.create_order(product, metadata={"cart": "A-7", "n": 2})["id"]
        declined = self._apply(world.submit_attempt)
        self._report(declined, "DECLINED", reason="insufficient_funds")
        self._apply(world.pay_order)
        self._refund("SUCCEEDED", amount="5.00", reason="one cup broken", refundNo="RMA-7")
        self._refund("REFUSED", amount="1.00")
        self._apply(world.settle_order)
        self._apply(partial(world.report_dispute, status="OPENED"))
        self._apply(partial(world.report_dispute, status="WON"))
        correction = adjustments.AdjustmentRequest(
            kind="correct", amount_minor=50, reason="charged twice", by="op",
            reference=world.new_reference(), order_id=self.id,
        )  # fmt: skip

        async def correct(tx: Tx, order: Order, now: int) -> None:
            del order
            await adjustments.request(tx, shop.id, correction, None, now)

        self._apply(correct)

    def _next_minute(self) -> int:
        self.now += MINUTE
        self._clock(self.now)
        return self.now

    def _apply(self, step: Callable[..., Awaitable[Any]]) -> Any:
        now, order = self._next_minute(), find_order(self.shop, self.id)
        return self.server.tx(lambda tx: step(tx, order=order, now=now))

    def _report(self, attempt: PaymentAttempt, status: str, **fields: Any) -> None:
        now = self._next_minute()
        self.server.tx(lambda tx: world.report_payment(tx, attempt, status, now, **fields))

    def _refund(self, outcome: str, **body: Any) -> None:
        self._next_minute()
        refund = self.shop.refund(self.id, **body)
        self._next_minute()
        self.shop.report_refund(refund["id"], outcome, "card closed")

    def fail_deliveries(self) -> None:
        """Store a failed attempt of each delivery, as the dispatcher does."""
        sql = (
            "update webhook_deliveries set status = 'FAILED', attempts = 1, step = 1, try_at = null"
        )
        attempt = """
            insert into delivery_attempts (merchant_id, endpoint_id, event_id, number, at,
                duration_ms, outcome, http_status, request, answer, error)
            select merchant_id, endpoint_id, event_id, 1, updated_at, 5, 'refused', 503, '', '', ''
            from webhook_deliveries where endpoint_id = $1
        """

        async def fail(tx: Tx) -> None:
            await tx.execute(f"{sql} where endpoint_id = $1", self.endpoint)
            await tx.execute(attempt, self.endpoint)

        self.server.tx(fail)


def timeline_titles(response: httpx2.Response) -> list[str]:
    """Return the titles of the timeline's entries."""
    (timeline,) = re.findall(r'<ol class="timeline">.*?</ol>', response.text, re.DOTALL)
    titles = re.findall(r"<strong>(.*?)</strong>", timeline)
    return [re.sub(r"<[^>]+>", "", text) for text in titles]


def section_of(response: httpx2.Response, heading: str) -> str:
    """Return the HTML from a heading on, up to the next section; "" if the page lacks it."""
    section = re.search(
        rf"<h2[^>]*>{heading}</h2>(.*?)(?=<section|<details class=\"card more wide\"|</main>)",
        response.text,
        re.DOTALL,
    )
    return section[1] if section else ""


def ledger_rows(response: httpx2.Response) -> list[str]:
    """Return the texts of the rows of the ledger's table, without their times and ids."""
    rows = re.findall(
        r"<tr role=\"row\"><td(.*?)</tr>", section_of(response, "Balance movements"), re.DOTALL
    )
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", f"<td{row}", re.DOTALL) for row in rows]
    return [text_of(" ".join([name, *numbers])) for _, name, _, *numbers in cells]


def event_types(response: httpx2.Response) -> list[str]:
    """Return the types of the listed events."""
    events = section_of(response, "Events and webhooks")
    return re.findall(r"<strong>(?:<a [^>]*>)?<code>(.*?)</code>", events)


def test_the_timeline_shows_what_happened_newest_first_and_no_bookkeeping(
    shop: Shop, clock: Any
) -> None:
    eventful_order = EventfulOrder(shop, clock)
    eventful_order.fail_deliveries()
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, eventful_order.id))
    assert timeline_titles(page) == [
        "Correction by the operator: +$0.50",
        "Dispute won: $15.00",
        "Dispute of $15.00 opened",
        "Settled: the money is available",
        "The refund of $1.00 failed; the money is back on the balance",
        "Refund of $1.00",
        "The bank confirmed the refund of $5.00",
        "Refund of $5.00",
        "Paid: Card",
        "Payment attempt: Card",
        "The attempt was declined",
        "Payment attempt: Card",
        "Checkout session opened for $20.00",
    ]
    (timeline,) = re.findall(r'<ol class="timeline">.*?</ol>', page.text, re.DOTALL)
    assert not re.search(r"\b(txn|evt|att|re)_[0-9a-z]{14,}", timeline)
    assert ledger_rows(page) == [
        "Correction +$0.50 Available $14.70",
        "Released +$15.00 Available $14.20 Frozen $0.00",
        "Held for dispute -$15.00 Available -$0.80 Frozen $15.00",
        "Settlement +$14.20 Pending $0.00 Available $14.20",
        "Released +$1.00 Pending $14.20 Frozen $0.00",
        "Held for refund -$1.00 Pending $13.20 Frozen $1.00",
        "Refund -$5.00 Frozen $0.00",
        "Held for refund -$5.00 Pending $14.20 Frozen $5.00",
        "Fee -$0.80 Pending $19.20",
        "Payment +$20.00 Pending $20.00",
    ]
    assert event_types(page) == [
        "dispute.closed",
        "dispute.created",
        "order.settled",
        "refund.failed",
        "order.refunded",
        "checkout.completed",
        "order.paid",
    ]
    references = section_of(page, "IDs and references")
    assert all(
        f'data-value="{one["id"]}"' in references for one in list_refunds(shop, eventful_order.id)
    )
    page_text = text_of(page)
    for text in (
        "There was not enough money on the account or card.", "insufficient_funds",
        "one cup broken", "RMA-7", "card closed", "cart A-7", "n 2", "Blue &lt;teapot&gt;",
        "ann@example.com", "HTTP 503", "Send again", "https://shop.example.com/hook",
        "Times are in UTC.", "Fee (4%) -$0.80", "Arrives Usually",
        "Net $19.20", "Net after refunds $14.20",
    ):  # fmt: skip
        assert text in page_text, text
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", page.text)


def test_late_reports_are_in_the_timeline_at_the_time_of_their_arrival(
    shop: Shop, clock: Any
) -> None:
    order = find_order(shop, shop.create_order(shop.create_product(price="20.00")["id"])["id"])
    start = now_ms()

    async def pay_refund_and_dispute(tx: Tx) -> None:
        times = (start + number * MINUTE for number in itertools.count(1))
        declined = await world.submit_attempt(tx, order, next(times))
        await world.report_payment(tx, declined, "DECLINED", next(times))
        duplicate = await world.pay_order_twice(tx, order, next(times))
        await world.report_payment(tx, declined, "SUCCEEDED", next(times), amount=Money(1, "USD"))
        outcome = RefundOutcome(status="REFUSED")
        await orders.apply_duplicate_return(tx, duplicate, outcome, next(times))
        await world.report_dispute(tx, order, "LOST", next(times))
        await world.report_dispute(tx, order, "RECOVERED", next(times))
        await orders.add_note(tx, order.merchant_id, order.id, "good", "ann", next(times))
        (dispute,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
        await disputes.add_note(tx, dispute.merchant_id, dispute.id, "done", "ann", next(times))
        clock(next(times))

    shop.api_server.tx(pay_refund_and_dispute)
    timeline = timeline_titles(
        create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order.id))
    )
    expected = [
        "Note of the operator",
        "Recovered after the loss: $20.00",
        "Dispute lost: $20.00",
        "The second payment could not be refunded; the operator takes care of it",
        "The bank reports another amount than the one due",
        "A second payment arrived and will be refunded",
        "The attempt was declined",
    ]
    assert [line for line in timeline if line in expected] == expected, timeline


def test_the_timeline_shows_a_duplicate_payment_that_was_returned_manually(
    shop: Shop, clock: Any
) -> None:
    order = find_order(shop, shop.create_order(shop.create_product(price="20.00")["id"])["id"])
    start = now_ms()

    async def return_duplicate_payment(tx: Tx) -> None:
        times = (start + number * MINUTE for number in itertools.count(1))
        duplicate = await world.pay_order_twice(tx, order, next(times))
        for outcome in (RefundOutcome(status="SUCCEEDED"), RefundOutcome(status="REFUSED")):
            await orders.apply_duplicate_return(tx, duplicate, outcome, next(times))
        ids, actor = (order.merchant_id, order.id, duplicate.id), Actor("ann", "by a transfer")
        await orders.record_duplicate_return(tx, *ids, actor, next(times), reporting=())
        clock(next(times))

    shop.api_server.tx(return_duplicate_payment)
    timeline = timeline_titles(
        create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order.id))
    )
    expected = [
        "The second payment was refunded",
        "The second payment could not be refunded; the operator takes care of it",
    ]
    assert [line for line in timeline if line in expected] == expected, timeline


def test_the_timeline_shows_events_although_the_clock_was_moved_ahead(
    shop: Shop, clock: Any
) -> None:
    start = now_ms()
    order = shop.create_paid_order()
    clock(start + 400 * world.DAY)
    shop.refund(order["id"], amount="1.00")
    clock(start + 900 * world.DAY)
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order["id"]))
    assert "order.paid" in event_types(page)
    other_order = shop.create_paid_order()
    assert other_order["id"] not in page.text


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_each_role_sees_the_parts_of_a_payment_that_it_may_read(
    shop: Shop, clock: Any, role: MerchantRole
) -> None:
    eventful_order = EventfulOrder(shop, clock)
    member = create_person(shop.api_server, shop.id, role)
    page = member.get(page_path(shop, eventful_order.id))
    timeline = timeline_titles(page)
    assert any("Settlement" in row for row in ledger_rows(page)) == member_may(role, "balance.read")
    assert ("order.paid" in event_types(page)) == member_may(role, "events.read")
    assert ("Dispute won: $15.00" in timeline) == member_may(role, "disputes.read")
    may_refund = member_may(role, "payments.refund")
    assert (f'href="{page_path(shop, eventful_order.id, "refund")}"' in page.text) == may_refund
    confirmation = member.get(page_path(shop, eventful_order.id, "refund"), params={"amount": "1"})
    assert confirmation.status_code == (200 if may_refund else 403)
    if may_refund:
        assert ("Available balance" in confirmation.text) == member_may(role, "balance.read")
    assert member.get(page_path(shop, eventful_order.id, "receipt")).status_code == 200


def test_another_merchants_payment_is_not_found(shop: Shop) -> None:
    other_shop = shop.api_server.create_shop()
    other_order = other_shop.create_paid_order()["id"]
    owner = create_person(shop.api_server, shop.id, "owner")
    for order_id in (other_order, new_id("order"), shop.create_session()["id"]):
        for parts in ((), ("receipt",), ("refund",)):
            assert owner.get(page_path(shop, order_id, *parts)).status_code == 404, parts
        for action in ("refund", "expire", "resend"):
            assert (
                owner.post(page_path(shop, order_id, action), {"amount": "1"}).status_code == 404
            ), action
    assert list_refunds(other_shop, other_order) == []


def test_a_refund_is_quoted_confirmed_and_created_once(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    confirmation = text_of(
        owner.get(page_path(shop, order["id"], "refund"), params={"amount": "4"})
    )
    for text in (
        "Refund to customer $4.00", "Still refundable $6.00", "From your balance $4.00",
        "The platform fee is not refunded.", "Pending balance $9.60 before, $5.60 after",
    ):  # fmt: skip
        assert text in confirmation, text
    assert list_refunds(shop, order["id"]) == []
    form = refund_form(owner, shop, order["id"], "4") | {"reason": " late "}
    with ThreadPoolExecutor(2) as pool:
        path = page_path(shop, order["id"], "refund")
        responses = list(pool.map(owner.post, [path] * 2, [form] * 2))
    # The same form is sent again.
    responses.append(owner.post(page_path(shop, order["id"], "refund"), form))
    (refund,) = list_refunds(shop, order["id"])
    location = f"{page_path(shop, order['id'])}?refund={refund['id']}"
    assert [(response.status_code, response.headers["location"]) for response in responses] == [
        (303, location)
    ] * 3
    assert (refund["amount"], refund["reason"], refund["status"]) == ("4.00", "late", "PROCESSING")
    page = owner.get(location)
    assert "The refund of $4.00 is on its way." in text_of(page)
    assert "Refund of $4.00: the bank has not confirmed it yet" in timeline_titles(page)
    shop.report_refund(refund["id"])
    assert "The refund of $4.00 is done." in text_of(owner.get(location))
    rows = shop.api_server.sql(
        "select who, subject, reason from audit_log where merchant_id = $1 and action = $2",
        shop.id,
        "orders refund",
    )
    assert rows == [{
        "who": f"{owner.email} ({owner.person_id})", "subject": order["id"],
        "reason": "on the page of a refund",
    }]  # fmt: skip


def test_the_reason_of_a_refund_is_chosen_and_explained(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    path = page_path(shop, order["id"], "refund")
    for why, details, reason in (
        ("duplicate", " order 7 ", "Duplicate: order 7"),
        ("requested", "", "Requested by customer"),
        ("other", "broken lid", "broken lid"),
        ("nonsense", "", ""),
    ):
        form = refund_form(owner, shop, order["id"], "1") | {"why": why, "reason": details}
        assert owner.post(path, form).status_code == 303, why
        assert list_refunds(shop, order["id"])[0]["reason"] == reason
    form = refund_form(owner, shop, order["id"], "1") | {"why": "fraudulent", "reason": "x" * 250}
    refusal = owner.post(path, form)
    assert refusal.status_code == 400
    assert '<option value="fraudulent" selected>' in refusal.text


def test_the_dialog_of_a_refund_begins_with_all_that_is_left(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    shop.refund(order["id"], amount="4.01")
    owner = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, order["id"], "refund")
    page = owner.get(path)
    assert re.search(r'<input id="amount"[^>]* value="5.99"', page.text)
    text = text_of(page)
    for sentence in (
        "Up to $5.99", "Refund to customer $5.99", "Still refundable $0.00",
        "Arrives Usually within 3 business days, in the bank account",
    ):  # fmt: skip
        assert sentence in text, sentence
    # The payment is behind the dialog, and cannot be used meanwhile.
    assert '<main id="main" tabindex="-1" inert>' in page.text
    form = hidden_fields(page, path) | {"amount": "$5,99"}  # as people write it
    assert owner.post(path, form).status_code == 303
    assert [refund["amount"] for refund in list_refunds(shop, order["id"])] == ["5.99", "4.01"]


def test_a_refund_in_another_tab_makes_the_form_stale(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    path = page_path(shop, order["id"], "refund")
    form, stale_form = (refund_form(owner, shop, order["id"], "3.00") for _ in range(2))
    assert owner.post(path, form).status_code == 303
    conflict = owner.post(path, stale_form | {"reason": "broken lid"})
    assert conflict.status_code == 409
    assert "Something has changed since this was shown" in text_of(conflict)
    assert "Still refundable $4.00" in text_of(conflict)
    assert 'value="broken lid"' in conflict.text
    assert len(list_refunds(shop, order["id"])) == 1
    # A form that has created a refund cannot create another one, even with changed input.
    assert owner.post(path, form | {"reason": "another"}).status_code == 409
    assert len(list_refunds(shop, order["id"])) == 1
    assert owner.post(path, hidden_fields(conflict, path) | {"amount": "3.00"}).status_code == 303
    assert len(list_refunds(shop, order["id"])) == 2


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"amount": "10.01"}, 400, "You can refund at most $10.00"),
        ({"amount": "0"}, 400, "Enter an amount such as 1.00"),
        ({"amount": "€4.00"}, 400, "This sign or code is of another currency"),
        ({"amount": "4.000"}, 400, "The separator may stand for thousands"),
        ({"amount": "ten"}, 400, "Enter an amount such as 1.00"),
        ({"amount": "4.01"}, 409, "Check the figures of the new amount, then confirm the refund."),
        ({"quoted": ""}, 409, "Check the figures of the new amount, then confirm the refund."),
        ({"reason": "x" * 256}, 400, "Enter a reason of at most 255 characters"),
        ({"seen": "400.600.300.pending"}, 409, "Something has changed"),
        ({"form_id": ""}, 409, "Something has changed"),
    ],
)
def test_each_field_of_a_refund_shows_its_error(
    shop: Shop, changes: dict[str, str], status: int, error: str
) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    form = refund_form(owner, shop, order["id"], "4.00") | {"reason": "kept"} | changes
    refusal = owner.post(page_path(shop, order["id"], "refund"), form)
    assert refusal.status_code == status
    assert error in text_of(refusal)
    assert f'value="{form["amount"]}"' in refusal.text
    assert f'value="{form["reason"]}"' in refusal.text
    assert list_refunds(shop, order["id"]) == []


def test_the_figures_of_another_amount_keep_the_reason(shop: Shop) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    for amount in ("4.00", "40.00"):
        page = owner.get(
            page_path(shop, order["id"], "refund"),
            params={"amount": amount, "reason": "broken lid"},
        )
        assert 'value="broken lid"' in page.text


def test_a_refund_that_is_not_possible_shows_the_reason(shop: Shop) -> None:
    server = shop.api_server
    shop = server.create_shop(overdraft_minor=0)
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(server, shop.id, "owner")
    too_much = owner.get(page_path(shop, order["id"], "refund"), params={"amount": "10.00"})
    assert too_much.status_code == 400
    assert "The balance is too low for this refund: it may fall to $0.00." in text_of(too_much)
    form = refund_form(owner, shop, order["id"], "9.00")
    shop.refund(order["id"], amount="9.00")
    conflict = owner.post(page_path(shop, order["id"], "refund"), form)
    assert "You can refund at most $1.00" in text_of(conflict)
    unpaid = shop.create_order()["id"]
    page = owner.get(page_path(shop, unpaid, "refund"), params={"amount": "1"})
    assert page.status_code == 409
    assert "This payment cannot be refunded as it stands now" in text_of(page)
    assert "/refund" not in owner.get(page_path(shop, unpaid)).text
    assert owner.get(page_path(shop, unpaid, "receipt")).status_code == 404


def test_a_refund_whose_commit_was_not_confirmed_can_be_submitted_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = shop.create_paid_order(shop.create_product(price="10.00")["id"])
    owner = create_person(shop.api_server, shop.id, "owner")
    form = refund_form(owner, shop, order["id"], "4.00")
    run_once = form_ids.run_once

    async def lose_connection(request: Any, work: Any) -> str:
        await run_once(request, work)
        raise Unavailable  # as if the connection had ended before the commit was confirmed

    monkeypatch.setattr(form_ids, "run_once", lose_connection)
    response = owner.post(page_path(shop, order["id"], "refund"), form)
    assert response.status_code == 503
    assert heading_of(response) == "It is not known yet whether the refund was made"
    monkeypatch.undo()
    form = hidden_fields(response, page_path(shop, order["id"], "refund"))
    assert owner.post(page_path(shop, order["id"], "refund"), form).status_code == 303
    assert len(list_refunds(shop, order["id"])) == 1


def test_the_receipt_shows_what_was_paid_less_the_refunds(shop: Shop, clock: Any) -> None:
    eventful_order = EventfulOrder(shop, clock)
    page = create_person(shop.api_server, shop.id, "support").get(
        page_path(shop, eventful_order.id, "receipt")
    )
    page_text = text_of(page)
    number = orders.receipt_number(eventful_order.id)
    for text in ("Harbour Books", number, "Blue &lt;teapot&gt; $20.00", "-$5.00",
                 "Paid after refunds $15.00", "Test payment"):  # fmt: skip
        assert text in page_text, text
    assert "-$1.00" not in page_text


def test_an_unpaid_payment_has_no_fee_and_no_net(shop: Shop) -> None:
    owner, order = create_person(shop.api_server, shop.id, "owner"), shop.create_order()
    page = text_of(owner.get(page_path(shop, order["id"])))
    assert "Payment breakdown" not in page
    owner.post(page_path(shop, order["id"], "expire"))
    page = text_of(owner.get(page_path(shop, order["id"])))
    assert "Payment breakdown" not in page


def test_a_payment_and_its_session_lead_to_the_customer(shop: Shop) -> None:
    order = shop.create_order(customerEmail="ada@example.com")
    session = f"/dashboard/{shop.id}/sessions/{find_order(shop, order['id']).checkout_id}"
    customer = f'href="/dashboard/{shop.id}/customers/one?email=ada%40example.com"'
    for role in ("support", "developer"):
        member = create_person(shop.api_server, shop.id, role)
        may_read = role == "support"
        for path in (page_path(shop, order["id"]), session):
            assert (customer in member.get(path).text) == may_read, (role, path)


def test_an_unpaid_payment_is_canceled_once(shop: Shop) -> None:
    server, owner = shop.api_server, create_person(shop.api_server, shop.id, "support")
    order = shop.create_order()
    page = owner.get(page_path(shop, order["id"]))
    assert "Cancel this payment?" in text_of(page)
    assert "Receipt" not in text_of(page)
    for _ in range(2):
        response = owner.post(page_path(shop, order["id"], "expire"))
        assert response.status_code == 303
        assert "The payment is canceled." in text_of(owner.get(response.headers["location"]))
    assert shop.read_order(order["id"])["status"] == "CLOSED"
    page = owner.get(page_path(shop, order["id"]))
    assert timeline_titles(page)[0] == "Canceled: it can no longer be paid"
    assert event_types(page) == ["checkout.expired", "order.closed"]
    rows = server.sql("select reason from audit_log where action = 'sessions end'"
                      " and merchant_id = $1", shop.id)  # fmt: skip
    assert len(rows) == 1
    paid_order_id = shop.create_paid_order()["id"]
    refusal = owner.post(page_path(shop, paid_order_id, "expire"))
    assert refusal.status_code == 409
    assert "This payment cannot be canceled" in text_of(refusal)
    assert shop.read_order(paid_order_id)["status"] == "PAID"


def test_a_form_resends_an_event_unless_it_is_stale(shop: Shop, clock: Any) -> None:
    eventful_order = EventfulOrder(shop, clock)
    eventful_order.fail_deliveries()
    developer = create_person(shop.api_server, shop.id, "developer")
    action = page_path(shop, eventful_order.id, "resend")
    form = hidden_fields(developer.get(page_path(shop, eventful_order.id)), action)
    sql = "select status, attempts from webhook_deliveries where event_id = $1"
    response = developer.post(action, form)
    assert (
        response.headers["location"]
        == f"{page_path(shop, eventful_order.id)}?resent=1#{form['event']}"
    )
    assert shop.api_server.sql(sql, form["event"]) == [{"status": "PENDING", "attempts": 1}]
    conflict = developer.post(action, form | {"attempts": "0"})
    assert "resent=0" in conflict.headers["location"]
    other_endpoint = shop.api_server.create_shop().create_endpoint()["id"]
    assert (
        developer.post(action, form | {"endpoint": other_endpoint, "attempts": "0"}).status_code
        == 404
    )
    assert developer.post(action, form | {"event": new_id("evt")}).status_code == 404
    shop.data(
        "PATCH", f"/v1/webhook-endpoints/{eventful_order.endpoint}", json={"status": "DISABLED"}
    )
    disabled = developer.post(action, form)
    assert disabled.status_code == 409
    assert "This endpoint is disabled" in text_of(disabled)


def test_the_timeline_offers_no_event_to_an_endpoint_that_was_created_later(shop: Shop) -> None:
    order = shop.create_paid_order()
    endpoint = shop.create_endpoint()
    shop.api_server.sql(
        "update webhook_endpoints set created_at = created_at + 1000 where id = $1", endpoint["id"]
    )
    developer = create_person(shop.api_server, shop.id, "developer")
    page = developer.get(page_path(shop, order["id"])).text
    assert "No endpoint was notified of it." in page
    assert endpoint["url"] not in page
    (event,) = shop.data("GET", "/v1/events", params={"type": "order.paid"})["items"]
    page = developer.get(f"/dashboard/{shop.id}/developers/events/{event['id']}").text
    assert "Created after this event" in page
    assert "Not sent" not in page


def test_a_refund_above_the_setting_needs_a_step_up(
    shop: Shop, clock: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    app, order = shop.api_server.app, shop.create_paid_order()
    visitor, path = (
        create_person(shop.api_server, shop.id, "support"),
        page_path(shop, order["id"], "refund"),
    )
    clock(app.clock() + 10 * 60_000)  # a login is proof for ten minutes only
    settings = msgspec.structs.replace(app.settings, refund_proof_above=Decimal("2.00"))
    monkeypatch.setattr(app, "settings", settings)
    form = refund_form(visitor, shop, order["id"], "2.00")
    assert visitor.post(path, form).status_code == 303
    form = refund_form(visitor, shop, order["id"], "2.01")
    assert heading_of(visitor.post(path, form)) == "Confirm that it is you"
    assert len(list_refunds(shop, order["id"])) == 1
    assert visitor.post(path, form | {"proof_password": "wrong"}).status_code == 403
    assert visitor.post(path, form | {"proof_password": PASSWORD}).status_code == 303
    # Repeated after its refund, the form needs no proof.
    assert visitor.post(path, form).status_code == 303
    assert len(list_refunds(shop, order["id"])) == 2


def test_the_id_of_a_payment_is_short_and_offers_its_whole_text_to_the_copy_button(
    shop: Shop,
) -> None:
    order_id = shop.create_order()["id"]
    page = create_person(shop.api_server, shop.id, "owner").get(page_path(shop, order_id)).text
    assert (
        f'<span class="object-id" data-copy="Copy the ID" data-copied="Copied" '
        f'data-value="{order_id}"><code class="id" title="{order_id}">order_…{order_id[-6:]}</code>'
    ) in page
    assert re.search(r'<script src="[^"]*/copy\.js[^"]*" defer>', page)
    assert 'class="copy"' not in page  # only the script adds the button
