"""The page of a payment in tests: its address, its sections, its forms and its orders."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

import httpx2

from dashboard.pages import text_of
from opentill import adjustments, orders
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.orders import Order, PaymentAttempt
from support import world
from support.api_server import Shop

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
