"""``merchant/…``: the merchant's balance, numbers and orders; and ``transfer/…``, which is off."""

from typing import Final, NoReturn

from opentill import ledger, merchants
from opentill.context import App
from opentill.core import money
from opentill.epay import forms, queries, reports
from opentill.epay.model import BUSINESS, Refused, Result
from opentill.epay.request import Request
from opentill.epay.service import EpayCaller
from opentill.epay.v2.pay import SUCCESS, order_row

_BANK_PAYOUT: Final = 4  # the convention's number for payouts to a bank account


async def info(app: App, caller: EpayCaller, _request: Request, now: int) -> Result:
    """``merchant/info``: the available balance, and the numbers and sums of paid orders.

    Sums are of the orders in the convention's currency: it knows only one.
    """
    merchant = caller.merchant
    merchant_id = merchant.merchant_id
    yesterday, today = reports.day_starts(now, app.settings.epay_time_zone)
    currency = forms.DEFAULT_CURRENCY
    async with app.db.connection() as tx:
        balance = await ledger.find_balance(tx, merchant_id, merchant.settlement_currency)
        total = await reports.count_orders(tx, merchant_id)
        standing = await merchants.find(tx, merchant_id)
        sums = await queries.COUNTS_AND_SUMS.one(
            tx, merchant_id=merchant_id, yesterday=yesterday, today=today, currency=currency
        )
    available = 0 if balance is None else balance.available
    return {
        "code": SUCCESS,
        "pid": merchant.pid,
        "status": 1,
        "pay_status": int(standing.charge_off is None),
        "settle_status": int(standing.payout_off is None),
        "money": money.show(available, merchant.settlement_currency),
        "settle_type": _BANK_PAYOUT,
        "settle_name": merchant.name,
        "order_num": total,
        "order_num_today": sums.paid_today,
        "order_num_lastday": sums.paid_yesterday,
        "order_money_today": money.show(sums.money_today, currency),
        "order_money_lastday": money.show(sums.money_yesterday, currency),
    }


async def orders(app: App, caller: EpayCaller, request: Request, _now: int) -> Result:
    """``merchant/orders``: orders, newest first. The convention does not sign the rows."""
    merchant_id, status = caller.merchant.merchant_id, request.get("status")
    limit, offset = reports.limit(request, 10), int(request.get("offset") or 0)
    async with app.db.connection() as tx:
        rows = await reports.list_orders(tx, merchant_id, status, limit, offset)
    return {"code": SUCCESS, "data": [order_row(row, caller, app) for row in rows]}


async def transfer(_app: App, _caller: EpayCaller, _request: Request, _now: int) -> NoReturn:
    """``transfer/…``: payouts to third parties, which OpenTill does not make."""
    raise Refused(BUSINESS, "商户未开启代付API接口")
