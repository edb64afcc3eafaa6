"""The page of one payment: its timeline, its refund, its receipt, and what can be done with it."""

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
from support.people import PASSWORD, Visitor, person, title

MINUTE: Final = 60_000


def words(response: httpx2.Response) -> str:
    """Return what a page says, without markup."""
    text = re.sub(r"<[^>]+>", " ", response.text)
    return " ".join(re.sub(r"[\u2068\u2069]", "", text).split())


def path(shop: Shop, order_id: str, *more: str) -> str:
    """Return the path of a payment, or of what is below it."""
    return "/".join((f"/dashboard/{shop.id}/payments/{order_id}", *more))


def found(shop: Shop, order_id: str) -> Order:
    """Read an order as it is stored."""
    return shop.api_server.tx(partial(orders.find, merchant_id=shop.id, order_id=order_id))


def hidden(response: httpx2.Response, action: str) -> dict[str, str]:
    """Return the hidden fields of the form of a page that is sent to an address."""
    for form in re.findall(r"<form [^>]*method=\"post\".*?</form>", response.text, re.DOTALL):
        if f'action="{action}"' in form:
            fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form)
            return dict(fields)
    raise AssertionError(response.text)


def ask(visitor: Visitor, shop: Shop, order_id: str, amount: str) -> dict[str, str]:
    """Go the first step of a refund; return the form of the second, confirmed."""
    page = visitor.get(path(shop, order_id, "refund"), params={"amount": amount})
    assert page.status_code == 200, words(page)
    return hidden(page, path(shop, order_id, "refund")) | {"confirm": amount, "reason": ""}


def refunds_of(shop: Shop, order_id: str) -> list[dict[str, Any]]:
    """Return the refunds of an order, newest first."""
    items: list[dict[str, Any]] = shop.data("GET", f"/v1/orders/{order_id}/refunds")["items"]
    return items


class Rich:
    """An order that has everything, each thing a minute after the one before."""

    def __init__(self, shop: Shop, clock: Callable[[int], None]) -> None:
        """Make it, from now on."""
        self.shop, self.server, self._clock = shop, shop.api_server, clock
        self.now = now_ms()
        self.endpoint: str = shop.endpoint()["id"]
        product = shop.product(name="Blue <teapot>", price="20.00")["id"]
        self.id: str = shop.order(product, metadata={"cart": "A-7", "n": 2})["id"]
        declined = self._step(world.submitted)
        self._say(declined, "DECLINED", reason="insufficient_funds")
        self._step(world.paid)
        self._refund("SUCCEEDED", amount="5.00", reason="one cup broken", refundNo="RMA-7")
        self._refund("REFUSED", amount="1.00")
        self._step(world.settled)
        self._step(partial(world.dispute_said, status="OPENED"))
        self._step(partial(world.dispute_said, status="WON"))
        correction = adjustments.AdjustmentRequest(
            kind="correct", amount_minor=50, reason="twice", by="op", reference=world.fresh(),
            order_id=self.id,
        )  # fmt: skip
        self._step(lambda tx, order, now: adjustments.request(tx, shop.id, correction, None, now))

    def _later(self) -> int:
        self.now += MINUTE
        self._clock(self.now)
        return self.now

    def _step(self, step: Callable[..., Awaitable[Any]]) -> Any:
        now, order = self._later(), found(self.shop, self.id)
        return self.server.tx(lambda tx: step(tx, order=order, now=now))

    def _say(self, attempt: PaymentAttempt, status: str, **what: Any) -> None:
        now = self._later()
        self.server.tx(lambda tx: world.said(tx, attempt, status, now, **what))

    def _refund(self, end: str, **body: Any) -> None:
        self._later()
        made = self.shop.refund(self.id, **body)
        self._later()
        self.shop.end_refund(made["id"], end, "card closed")

    def fail_deliveries(self) -> None:
        """Let all deliveries have failed once, as the dispatcher writes it."""
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


def lines(response: httpx2.Response) -> list[str]:
    """Return what happened, as the timeline has it."""
    (timeline,) = re.findall(r'<ol class="timeline">.*?</ol>', response.text, re.DOTALL)
    return [re.sub(r"<[^>]+>", "", one) for one in re.findall(r"<strong>(.*?)</strong>", timeline)]


def test_one_timeline_has_all_that_happened_in_its_order(shop: Shop, clock: Any) -> None:
    rich = Rich(shop, clock)
    rich.fail_deliveries()
    page = person(shop.api_server, shop.id, "owner").get(path(shop, rich.id))
    assert lines(page) == [
        "Checkout session opened for $20.00",
        "Payment attempt: Card",
        "The attempt was declined",
        "Payment attempt: Card",
        "Paid: Card",
        "Payment",
        "Fee",
        "Event order.paid",
        "Event checkout.completed",
        "Refund of $5.00",
        "Freeze",
        "The customer has the refund of $5.00",
        "Refund",
        "Event order.refunded",
        "Refund of $1.00",
        "Freeze",
        "The refund of $1.00 failed; the money is back on the balance",
        "Unfreeze",
        "Event refund.failed",
        "Settled: the money is available",
        "Settlement",
        "Event order.settled",
        "Dispute of $15.00 opened",
        "Freeze",
        "Event dispute.created",
        "Dispute won: $15.00",
        "Unfreeze",
        "Event dispute.closed",
        "Correction",
    ]
    said = words(page)
    for text in (
        "There was not enough money on the account or card.", "insufficient_funds",
        "one cup broken", "RMA-7", "card closed", "cart A-7", "n 2", "Blue &lt;teapot&gt;",
        "ann@example.com", "HTTP 503", "Send again", "https://shop.example.com/hook",
        "Days and times are those of UTC.", "Fee (4%) $0.80",
    ):  # fmt: skip
        assert text in said, text
    assert "unsafe" not in page.headers["content-security-policy"]
    assert not re.search(r"<script|\sstyle=|\son\w+=", page.text)


def test_what_comes_later_does_not_move_what_has_happened(shop: Shop, clock: Any) -> None:
    order = found(shop, shop.order(shop.product(price="20.00")["id"])["id"])
    start = now_ms()

    async def live(tx: Tx) -> None:
        times = (start + number * MINUTE for number in itertools.count(1))
        declined = await world.submitted(tx, order, next(times))
        await world.said(tx, declined, "DECLINED", next(times))
        again = await world.paid_twice(tx, order, next(times))
        await world.said(tx, declined, "SUCCEEDED", next(times), amount=Money(1, "USD"))
        outcome = RefundOutcome(status="REFUSED")
        await orders.apply_duplicate_return(tx, again, outcome, next(times))
        await world.dispute_said(tx, order, "LOST", next(times))
        await world.dispute_said(tx, order, "RECOVERED", next(times))
        await orders.add_note(tx, order.merchant_id, order.id, "good", "ann", next(times))
        (dispute,) = await disputes.list_for_order(tx, order.merchant_id, order.id)
        await disputes.add_note(tx, dispute.merchant_id, dispute.id, "done", "ann", next(times))
        clock(next(times))

    shop.api_server.tx(live)
    shown = lines(person(shop.api_server, shop.id, "owner").get(path(shop, order.id)))
    told = (
        "The attempt was declined",
        "A second payment came in and is to be given back",
        "The bank reports another amount than the one due",
        "The second payment could not be given back; the operator takes care of it",
        "Dispute lost: $20.00",
        "Recovered after the loss: $20.00",
        "Note of the operator",
    )
    assert [one for one in shown if one in told] == list(told), shown


def test_what_went_back_after_all_stands_where_it_did(shop: Shop, clock: Any) -> None:
    order = found(shop, shop.order(shop.product(price="20.00")["id"])["id"])
    start = now_ms()

    async def live(tx: Tx) -> None:
        times = (start + number * MINUTE for number in itertools.count(1))
        again = await world.paid_twice(tx, order, next(times))
        for outcome in (RefundOutcome(status="SUCCEEDED"), RefundOutcome(status="REFUSED")):
            await orders.apply_duplicate_return(tx, again, outcome, next(times))
        of = order.merchant_id, order.id, again.id, Actor(who="ann", reason="by a transfer")
        await orders.record_duplicate_return(tx, *of, next(times), reporting=())
        clock(next(times))

    shop.api_server.tx(live)
    shown = lines(person(shop.api_server, shop.id, "owner").get(path(shop, order.id)))
    told = (
        "The second payment could not be given back; the operator takes care of it",
        "The second payment was given back",
    )
    assert [one for one in shown if one in told] == list(told), shown


def test_events_are_found_when_the_clock_was_moved_in_between(shop: Shop, clock: Any) -> None:
    start = now_ms()
    order = shop.paid()
    clock(start + 400 * world.DAY)
    shop.refund(order["id"], amount="1.00")
    clock(start + 900 * world.DAY)
    page = person(shop.api_server, shop.id, "owner").get(path(shop, order["id"]))
    assert "Event order.paid" in lines(page)
    other = shop.paid()
    assert all(other["id"] not in one for one in lines(page))


@pytest.mark.parametrize("role", MERCHANT_ROLES)
def test_a_role_sees_of_a_payment_what_it_may(shop: Shop, clock: Any, role: MerchantRole) -> None:
    rich = Rich(shop, clock)
    member = person(shop.api_server, shop.id, role)
    page = member.get(path(shop, rich.id))
    shown = lines(page)
    assert ("Settlement" in shown) == member_may(role, "balance.read")
    assert ("Event order.paid" in shown) == member_may(role, "events.read")
    assert ("Dispute won: $15.00" in shown) == member_may(role, "disputes.read")
    refunds = member_may(role, "payments.refund")
    assert (f'href="{path(shop, rich.id, "refund")}"' in page.text) == refunds
    first = member.get(path(shop, rich.id, "refund"), params={"amount": "1"})
    assert first.status_code == (200 if refunds else 403)
    if refunds:
        assert ("Available balance" in words(first)) == member_may(role, "balance.read")
    assert member.get(path(shop, rich.id, "receipt")).status_code == 200


def test_a_payment_of_another_merchant_is_not_found(shop: Shop) -> None:
    other = shop.api_server.shop()
    theirs = other.paid()["id"]
    owner = person(shop.api_server, shop.id, "owner")
    for order_id in (theirs, new_id("order"), shop.session()["id"]):
        for more in ((), ("receipt",), ("refund",)):
            assert owner.get(path(shop, order_id, *more)).status_code == 404, more
        for more in ("refund", "expire", "resend"):
            assert owner.post(path(shop, order_id, more), {"amount": "1"}).status_code == 404, more
    assert refunds_of(other, theirs) == []


def test_a_refund_is_shown_confirmed_and_made_once(shop: Shop) -> None:
    order = shop.paid(shop.product(price="10.00")["id"])
    owner = person(shop.api_server, shop.id, "owner")
    first = words(owner.get(path(shop, order["id"], "refund"), params={"amount": "4"}))
    for text in (
        "The customer gets $4.00", "Left to refund after it $6.00", "Your balance loses $4.00",
        "The platform fee is not given back.", "Pending balance $9.60 before, $5.60 after",
    ):  # fmt: skip
        assert text in first, text
    assert refunds_of(shop, order["id"]) == []
    form = ask(owner, shop, order["id"], "4") | {"reason": " late "}
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda _: owner.post(path(shop, order["id"], "refund"), form), range(2))
        )
    answers.append(owner.post(path(shop, order["id"], "refund"), form))  # the back button
    (made,) = refunds_of(shop, order["id"])
    goal = f"{path(shop, order['id'])}?refund={made['id']}"
    assert [(one.status_code, one.headers["location"]) for one in answers] == [(303, goal)] * 3
    assert (made["amount"], made["reason"], made["status"]) == ("4.00", "late", "PROCESSING")
    page = owner.get(goal)
    assert "The refund of $4.00 is on its way." in words(page)
    assert "Refund of $4.00: the bank has not confirmed it yet" in lines(page)
    shop.end_refund(made["id"])
    assert "The refund of $4.00 is done." in words(owner.get(goal))
    rows = shop.api_server.sql(
        "select who, subject, reason from audit_log where merchant_id = $1 and action = $2",
        shop.id,
        "orders refund",
    )
    assert rows == [{
        "who": f"{owner.email} ({owner.person_id})", "subject": order["id"],
        "reason": "on the page of a refund",
    }]  # fmt: skip


def test_of_two_tabs_the_second_sees_what_the_first_has_done(shop: Shop) -> None:
    order = shop.paid(shop.product(price="10.00")["id"])
    owner = person(shop.api_server, shop.id, "owner")
    one, other = (ask(owner, shop, order["id"], "3.00") for _ in range(2))
    assert owner.post(path(shop, order["id"], "refund"), one).status_code == 303
    stale = owner.post(path(shop, order["id"], "refund"), other | {"reason": "broken lid"})
    assert stale.status_code == 409
    assert "Something has changed since this was shown" in words(stale)
    assert "Left to refund after it $4.00" in words(stale)
    assert 'value="broken lid"' in stale.text
    assert len(refunds_of(shop, order["id"])) == 1
    # The form of a refund that was made, changed and sent again, makes none either.
    changed = owner.post(path(shop, order["id"], "refund"), one | {"reason": "another"})
    assert changed.status_code == 409
    assert len(refunds_of(shop, order["id"])) == 1
    again = hidden(stale, path(shop, order["id"], "refund")) | {"confirm": "3.00"}
    assert owner.post(path(shop, order["id"], "refund"), again).status_code == 303
    assert len(refunds_of(shop, order["id"])) == 2


@pytest.mark.parametrize(
    ("changes", "status", "sentence"),
    [
        ({"amount": "10.01", "confirm": "10.01"}, 400, "Enter an amount up to $10.00"),
        ({"amount": "0", "confirm": "0"}, 400, "Enter an amount up to $10.00"),
        ({"amount": "ten", "confirm": "ten"}, 400, "Enter an amount such as 1.00"),
        ({"confirm": "4.01"}, 400, "Enter 4.00 to confirm this refund"),
        ({"confirm": ""}, 400, "Enter 4.00 to confirm this refund"),
        ({"reason": "x" * 256}, 400, "Enter a reason of at most 255 characters"),
        ({"seen": "400.600.300.pending"}, 409, "Something has changed"),
        ({"form_id": ""}, 409, "Something has changed"),
    ],
)
def test_what_is_wrong_with_a_refund_stands_at_its_field(
    shop: Shop, changes: dict[str, str], status: int, sentence: str
) -> None:
    order = shop.paid(shop.product(price="10.00")["id"])
    owner = person(shop.api_server, shop.id, "owner")
    form = ask(owner, shop, order["id"], "4.00") | {"reason": "kept"} | changes
    refused = owner.post(path(shop, order["id"], "refund"), form)
    assert refused.status_code == status
    assert sentence in words(refused)
    assert f'value="{form["amount"]}"' in refused.text
    if "ten" not in changes.values() and status == 400 and "amount" not in changes:
        assert f'value="{form["reason"]}"' in refused.text
    assert refunds_of(shop, order["id"]) == []


def test_a_refund_that_cannot_be_says_why(shop: Shop) -> None:
    server = shop.api_server
    poor = server.shop(overdraft_minor=0)
    order = poor.paid(poor.product(price="10.00")["id"])
    owner = person(server, poor.id, "owner")
    first = owner.get(path(poor, order["id"], "refund"), params={"amount": "10.00"})
    assert first.status_code == 400
    assert "The balance is too low for this refund: it may fall to $0.00." in words(first)
    form = ask(owner, poor, order["id"], "9.00")
    poor.refund(order["id"], amount="9.00")
    late = owner.post(path(poor, order["id"], "refund"), form)
    assert "Enter an amount up to $1.00" in words(late)
    unpaid = poor.order()["id"]
    page = owner.get(path(poor, unpaid, "refund"), params={"amount": "1"})
    assert page.status_code == 409
    assert "This payment cannot be refunded as it stands now" in words(page)
    assert "/refund" not in owner.get(path(poor, unpaid)).text
    assert owner.get(path(poor, unpaid, "receipt")).status_code == 404


def test_while_the_outcome_is_unknown_the_form_is_kept_and_asks_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = shop.paid(shop.product(price="10.00")["id"])
    owner = person(shop.api_server, shop.id, "owner")
    form = ask(owner, shop, order["id"], "4.00")
    made = form_ids.run_once

    async def lost(request: Any, step: Any) -> str:
        await made(request, step)
        raise Unavailable  # the connection ended before the commit was confirmed

    monkeypatch.setattr(form_ids, "run_once", lost)
    unknown = owner.post(path(shop, order["id"], "refund"), form)
    assert unknown.status_code == 503
    assert title(unknown) == "It is not known yet whether the refund was made"
    monkeypatch.undo()
    kept = hidden(unknown, path(shop, order["id"], "refund"))
    assert owner.post(path(shop, order["id"], "refund"), kept).status_code == 303
    assert len(refunds_of(shop, order["id"])) == 1


def test_the_receipt_adds_up(shop: Shop, clock: Any) -> None:
    rich = Rich(shop, clock)
    page = person(shop.api_server, shop.id, "support").get(path(shop, rich.id, "receipt"))
    said = words(page)
    for text in ("Harbour Books", rich.id, "Blue &lt;teapot&gt; $20.00", "-$5.00",
                 "Paid after refunds $15.00", "Test payment"):  # fmt: skip
        assert text in said, text
    assert "-$1.00" not in said


def test_an_unpaid_payment_is_closed_once(shop: Shop) -> None:
    server, owner = shop.api_server, person(shop.api_server, shop.id, "support")
    order = shop.order()
    page = owner.get(path(shop, order["id"]))
    assert "Close it for good" in words(page)
    assert "Receipt" not in words(page)
    for _ in range(2):
        assert owner.post(path(shop, order["id"], "expire")).status_code == 303
    assert shop.read_order(order["id"])["status"] == "CLOSED"
    assert lines(owner.get(path(shop, order["id"])))[-3:] == [
        "Closed: it can no longer be paid", "Event order.closed", "Event checkout.expired",
    ]  # fmt: skip
    rows = server.sql("select reason from audit_log where action = 'sessions end'"
                      " and merchant_id = $1", shop.id)  # fmt: skip
    assert len(rows) == 1
    paid = shop.paid()["id"]
    refused = owner.post(path(shop, paid, "expire"))
    assert refused.status_code == 409
    assert "This payment cannot be closed" in words(refused)
    assert shop.read_order(paid)["status"] == "PAID"


def test_an_event_is_sent_again_but_not_by_an_old_form(shop: Shop, clock: Any) -> None:
    rich = Rich(shop, clock)
    rich.fail_deliveries()
    developer = person(shop.api_server, shop.id, "developer")
    action = path(shop, rich.id, "resend")
    form = hidden(developer.get(path(shop, rich.id)), action)
    sql = "select status, attempts from webhook_deliveries where event_id = $1"
    sent = developer.post(action, form)
    assert sent.headers["location"] == f"{path(shop, rich.id)}?resent=1#{form['event']}"
    assert shop.api_server.sql(sql, form["event"]) == [{"status": "PENDING", "attempts": 1}]
    old = developer.post(action, form | {"attempts": "0"})
    assert "resent=0" in old.headers["location"]
    foreign = shop.api_server.shop().endpoint()["id"]
    assert developer.post(action, form | {"endpoint": foreign, "attempts": "0"}).status_code == 404
    assert developer.post(action, form | {"event": new_id("evt")}).status_code == 404
    shop.data("PATCH", f"/v1/webhook-endpoints/{rich.endpoint}", json={"status": "DISABLED"})
    disabled = developer.post(action, form)
    assert disabled.status_code == 409
    assert "This endpoint is disabled" in words(disabled)


def test_a_refund_above_the_setting_asks_for_the_password_again(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server, before = shop.api_server, shop.api_server.app.settings
    visitor, order = person(server, shop.id, "support"), shop.paid()
    place = path(shop, order["id"], "refund")
    clock(server.app.clock() + 10 * 60_000)  # the login is older than proof counts
    server.app.settings = msgspec.structs.replace(before, refund_proof_above=Decimal("2.00"))
    try:
        assert visitor.post(place, ask(visitor, shop, order["id"], "2.00")).status_code == 303
        form = ask(visitor, shop, order["id"], "2.01")
        asked = visitor.post(place, form)
        assert title(asked) == "Please confirm that it is you"
        assert len(refunds_of(shop, order["id"])) == 1
        wrong = visitor.post(place, form | {"proof_password": "wrong"})
        assert wrong.status_code == 403
        done = visitor.post(place, form | {"proof_password": PASSWORD})
        assert done.status_code == 303
        assert visitor.post(place, form).status_code == 303  # the same form again
    finally:
        server.app.settings = before
    assert len(refunds_of(shop, order["id"])) == 2
