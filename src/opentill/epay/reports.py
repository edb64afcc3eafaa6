"""The responses of api.php: the merchant, its payouts, its orders.

Numbers are ``code``, ``status``, ``pid``, ``count``, the ``id`` of a payout, and ``active``,
``orders`` and ``type`` of ``act=query``; everything else is text. Times and days are in the
deployment's Epay time zone, which clients assume to be their own.
"""

from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from opentill import ledger, list_counts, payouts
from opentill.context import App
from opentill.core import money, times
from opentill.core.ids import number_of
from opentill.db.database import Tx
from opentill.epay import queries, service
from opentill.epay.model import STATUSES, SUCCESS, EpayOrder, Result
from opentill.epay.request import Request
from opentill.epay.service import EpayCaller
from opentill.orders.model import PAYABLE

_MAX_ROWS: Final = 50
_MAX_OFFSET_DIGITS: Final = 9
_BANK_PAYOUT: Final = 4  # the convention's number for payouts to a bank account
_PAYOUT_STATUS: Final = {"PENDING": 0, "PAID": 1, "FAILED": 3}


def format_time(millis: int | None, zone: str) -> str:
    """Write Unix ms as ``YYYY-MM-DD HH:MM:SS`` in a time zone, and None as ""."""
    return "" if millis is None else f"{_local(millis, zone):%F %T}"


def _local(millis: int, zone: str) -> datetime:
    return times.moment(millis, ZoneInfo(zone))


def day_starts(now: int, zone: str) -> tuple[int, int]:
    """Return the starts of yesterday and today in a time zone, Unix ms."""
    today = _local(now, zone).replace(hour=0, minute=0, second=0)
    yesterday = today - timedelta(days=1)  # a calendar day, of 23 or 25 hours when clocks change
    return int(yesterday.timestamp()) * 1000, int(today.timestamp()) * 1000


def _parse_int(text: str, default: int) -> int:
    plain = text.isascii() and text.isdigit() and len(text) <= _MAX_OFFSET_DIGITS
    return int(text) if plain else default


def limit(request: Request, default: int) -> int:
    """Return the number of rows that a request wants."""
    return min(_parse_int(request.get("limit"), default) or default, _MAX_ROWS)


async def merchant(app: App, caller: EpayCaller, request: Request, now: int) -> Result:
    """``act=query``: the merchant, its available balance and its numbers of orders.

    The response contains the key only if the request did: anyone can replay a signed request.
    """
    merchant = caller.merchant
    yesterday, today = day_starts(now, app.settings.epay_time_zone)
    async with app.db.connection() as tx:
        balance = await ledger.find_balance(tx, merchant.merchant_id, merchant.settlement_currency)
        total = await count_orders(tx, merchant.merchant_id)
        counts = await queries.COUNTS.one(
            tx, merchant_id=merchant.merchant_id, yesterday=yesterday, today=today
        )
    available = 0 if balance is None else balance.available
    return {
        "code": SUCCESS,
        "msg": "success",
        "pid": merchant.pid,
        "key": caller.key if request.get("key") else "",
        "active": 1,
        "money": money.show(available, merchant.settlement_currency),
        "type": _BANK_PAYOUT,
        "account": "",
        "username": merchant.name,
        "orders": total,
        "order_today": str(counts.paid_today),
        "order_lastday": str(counts.paid_yesterday),
        "orders_today": str(counts.paid_today),
        "orders_lastday": str(counts.paid_yesterday),
    }


async def count_orders(tx: Tx, merchant_id: str) -> int:
    """Count all Epay orders, which are all the orders of the Epay products."""
    total = 0
    for product in await queries.PRODUCTS.all(tx, merchant_id=merchant_id):
        key = list_counts.ListKey(merchant_id, "orders", part=product.product_id)
        total += await list_counts.count_all(tx, key)
    return total


async def settlements(app: App, caller: EpayCaller, request: Request, _now: int) -> Result:
    """``act=settle``: payouts, newest first."""
    most, offset = limit(request, 10), _parse_int(request.get("offset"), 0)
    async with app.db.connection() as tx:
        rows = await payouts.list_newest(tx, caller.merchant.merchant_id, most, offset)
    return {
        "code": SUCCESS,
        "msg": "查询结算记录成功！",
        "data": [_payout_row(row, caller, app.settings.epay_time_zone) for row in rows],
    }


def _payout_row(row: payouts.Payout, caller: EpayCaller, zone: str) -> dict[str, Any]:
    amount = money.show(row.amount_minor, row.currency)
    return {
        "id": number_of(row.id),
        "pid": caller.merchant.pid,
        "type": str(_BANK_PAYOUT),
        "account": "",
        "username": caller.merchant.name,
        "money": money.show(row.amount_minor + row.fee_minor, row.currency),
        "realmoney": amount,
        "currency": row.currency,
        "addtime": format_time(row.created_at, zone),
        "endtime": format_time(row.failed_at or row.paid_at, zone),
        "status": _PAYOUT_STATUS[row.status],
        "result": row.failure_reason or row.bank_reference,
    }


async def order(app: App, caller: EpayCaller, request: Request, _now: int) -> Result:
    """``act=order``: one order. Raises Refused."""
    async with app.db.connection() as tx:
        epay_order = await service.find(tx, caller.merchant.merchant_id, request)
    return {"code": SUCCESS, "msg": "查询订单号成功！", **_order_row(epay_order, caller, app)}


async def orders(app: App, caller: EpayCaller, request: Request, _now: int) -> Result:
    """``act=orders``: orders, newest first; ``count`` is the number of orders in the response."""
    most, offset = limit(request, 20), _parse_int(request.get("offset"), 0)
    page = _parse_int(request.get("page"), 0)
    if page:
        offset = (page - 1) * most
    async with app.db.connection() as tx:
        rows = await list_orders(
            tx, caller.merchant.merchant_id, request.get("status"), most, offset
        )
    data = [_order_row(row, caller, app) for row in rows]
    result = {"code": SUCCESS, "msg": "查询订单记录成功！", "count": len(data)}
    return result | {"data": data, "orders": data}


async def list_orders(
    tx: Tx, merchant_id: str, status: str, limit: int, offset: int
) -> list[EpayOrder]:
    """Return a merchant's Epay orders with a status of the convention, "" for all; newest first."""
    if not status:
        return await queries.LIST.all(tx, merchant_id=merchant_id, limit=limit, offset=offset)
    names = [name for name, epay in STATUSES.items() if str(epay.number) == status]
    return await queries.LIST_BY_STATUS.all(
        tx, merchant_id=merchant_id, limit=limit, offset=offset, statuses=names
    )


def _order_row(epay_order: EpayOrder, caller: EpayCaller, app: App) -> dict[str, Any]:
    status = STATUSES[epay_order.status]
    zone = app.settings.epay_time_zone
    return {
        "trade_no": epay_order.trade_no,
        "out_trade_no": epay_order.out_trade_no,
        "api_trade_no": epay_order.provider_ref,
        "type": epay_order.reported_type,
        "pid": caller.merchant.pid,
        "addtime": format_time(epay_order.created_at, zone),
        "endtime": format_time(epay_order.paid_at, zone),
        "name": epay_order.name,
        "money": epay_order.money,
        "param": epay_order.param,
        "buyer": epay_order.customer_email,
        "status": status.number,
        "trade_status": status.trade_status,
        "payurl": page_url(app, epay_order.checkout_id) if epay_order.status in PAYABLE else "",
    }


def page_url(app: App, checkout_id: str) -> str:
    """Return the address of the payment page of an order."""
    return f"{app.settings.public_url}/checkout/{checkout_id}"
