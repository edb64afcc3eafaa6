"""Repeated submissions of one out_trade_no, and payments of its orders."""

from collections.abc import Callable
from typing import Any, Final

from opentill import orders
from opentill.checkouts import jobs as checkout_jobs
from opentill.db.database import Tx
from support.epay_shop import EpayShop

DAY_MS: Final = 86_400_000
Clock = Callable[[int], None]


def advance_days(epay_shop: EpayShop, clock: Clock, days: float, *, expire: bool = True) -> None:
    """Move the business clock ahead and let the worker expire sessions."""
    now = epay_shop.api_server.app.clock() + int(days * DAY_MS)
    clock(now)
    if expire:
        epay_shop.api_server.run(checkout_jobs.expire_due(epay_shop.api_server.app.db, now))


def submit(epay_shop: EpayShop, form: dict[str, str]) -> dict[str, Any]:
    """Submit an order by mapi.php, and return the response."""
    body: dict[str, Any] = epay_shop.post("mapi", form).json()
    return body


def reopen_number(
    epay_shop: EpayShop, clock: Clock, form: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Submit an invoice on day 0 and on day 2; return both responses."""
    first = submit(epay_shop, form)
    advance_days(epay_shop, clock, 2)
    second = submit(epay_shop, form)
    assert (first["code"], second["code"]) == (1, 1), second
    assert first["trade_no"] != second["trade_no"]
    return first, second


def order_statuses(epay_shop: EpayShop, *placed: dict[str, Any]) -> list[str]:
    """Return the statuses of placed orders."""
    ids = [epay_shop.order_id(answer) for answer in placed]
    return [epay_shop.shop.read_order(order_id)["status"] for order_id in ids]


def start_attempt(epay_shop: EpayShop, placed: dict[str, Any]) -> orders.PaymentAttempt:
    """Start a payment attempt at the sandbox bank, whose outcome is still unknown."""
    app, order_id = epay_shop.api_server.app, epay_shop.order_id(placed)

    async def begin(tx: Tx) -> orders.PaymentAttempt:
        order = await orders.lock(tx, epay_shop.id, order_id)
        payer = orders.Payer(email="", name=None, ip="203.0.113.7", locale="zh")
        return await orders.start_attempt(tx, order, "sandbox", "CREDIT_CARD", payer, app.clock())

    return epay_shop.api_server.tx(begin)
