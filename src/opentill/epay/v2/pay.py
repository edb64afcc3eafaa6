"""``pay/…``: place, query, close and refund orders, with the services of V1."""

from typing import Any, Final

from opentill import checkouts, refunds
from opentill.context import App
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.epay import forms, placing, queries, refunding, reports, service
from opentill.epay.model import BUSINESS, STATUSES, EpayOrder, Refused, Result, trade_no
from opentill.epay.refunding import RequestedRefund
from opentill.epay.request import Request, without_zeros
from opentill.epay.service import EpayCaller
from opentill.epay.v2.submissions import read_submission

SUCCESS: Final = 0
_UNKNOWN_ORDER: Final = "当前订单不存在！"
_UNKNOWN_REFUND: Final = "退款记录不存在"
_REFUND_STATUS: Final[dict[str, int]] = {"FAILED": 0, "SUCCEEDED": 1, "PROCESSING": 2}


async def submit(app: App, caller: EpayCaller, request: Request, now: int) -> Result:
    """``pay/submit``: place an order and send the customer's browser to the payment page."""
    forms.refuse_notifications(request)
    submission = read_submission(request, by_server=False)
    placed = await placing.place(app, caller, submission, now)
    return reports.page_url(app, placed.checkout_id)


async def create(app: App, caller: EpayCaller, request: Request, now: int) -> Result:
    """``pay/create``: place an order for a server, which shows the QR code or the address."""
    forms.refuse_notifications(request)
    submission = read_submission(request, by_server=True)
    placed = await placing.place(app, caller, submission, now)
    attempt = await service.start_attempt(app, caller, placed, submission, now)
    if attempt is None:
        way = {"pay_type": "jump", "pay_info": reports.page_url(app, placed.checkout_id)}
    else:
        way = {"pay_type": "qrcode", "pay_info": attempt.qr_text}
    return {"code": SUCCESS, "trade_no": trade_no(placed.order_id), **way}


def _require_order_number(request: Request) -> None:
    if not request.get("trade_no") and not request.get("out_trade_no"):
        raise Refused(BUSINESS, "订单号不能为空")


async def query(app: App, caller: EpayCaller, request: Request, _now: int) -> Result:
    """``pay/query``: one order."""
    _require_order_number(request)
    async with app.db.connection() as tx:
        order = await service.find(tx, caller.merchant.merchant_id, request, "订单号不存在")
    return {"code": SUCCESS, **order_row(order, caller, app)}


def order_row(order: EpayOrder, caller: EpayCaller, app: App) -> dict[str, Any]:
    """Return an order as ``pay/query`` and ``merchant/orders`` show it; empty fields are ``""``."""
    zone = app.settings.epay_time_zone
    refunded = order.refunded_minor
    return {
        "trade_no": order.trade_no,
        "out_trade_no": order.out_trade_no,
        "api_trade_no": order.provider_ref,
        "type": order.reported_type,
        "pid": caller.merchant.pid,
        "addtime": reports.format_time(order.created_at, zone),
        "endtime": reports.format_time(order.paid_at, zone),
        "name": order.name,
        "money": order.money,
        "param": order.param,
        "buyer": order.customer_email,
        "status": STATUSES[order.status].number,
        "refundmoney": money.show(refunded, order.money_type) if refunded else "",
    }


async def close(app: App, caller: EpayCaller, request: Request, now: int) -> Result:
    """``pay/close``: close an unpaid order, so that nobody can pay it. Idempotent."""
    _require_order_number(request)
    merchant_id = caller.merchant.merchant_id

    async def work(tx: Tx) -> None:
        order = await service.find(tx, merchant_id, request, _UNKNOWN_ORDER)
        if order.paid_at is not None:
            raise Refused(BUSINESS, "只能关闭未支付的订单")
        await checkouts.expire(tx, merchant_id, order.checkout_id, "pay/close", now)

    try:
        await app.db.run(work)
    except Invalid:
        raise Refused(BUSINESS, "该订单正在支付中，暂时不能关闭") from None
    return {"code": SUCCESS, "msg": "订单关闭成功"}


async def refund(app: App, caller: EpayCaller, request: Request, now: int) -> Result:
    """``pay/refund``: accept a refund, which is then processed like any other."""
    if not request.get("money"):
        raise Refused(BUSINESS, "金额输入错误")
    _require_order_number(request)
    requested = RequestedRefund(
        without_zeros(request.get("money")),
        request.get("out_refund_no"),
        _digest(request),
        refunding.V2,
    )
    accepted = await refunding.refund(app, caller.merchant.merchant_id, request, requested, now)
    shown = refund_row(accepted.refund, accepted.order)
    message = f"退款成功！退款金额¥{shown['money']}"
    return {"code": SUCCESS, "msg": message, **shown}


def _digest(request: Request) -> bytes:
    """Return the digest of a request without its timestamp: repeated later, it is the same."""
    params = dict(request.params)
    for name in ("timestamp", "sign", "sign_type"):
        params.pop(name, None)
    return refunding.digest_of({**params, "path": "pay/refund"})


def refund_row(refund: refunds.Refund, order: EpayOrder) -> dict[str, Any]:
    """Return a refund as ``pay/refund`` and ``pay/refundquery`` show it.

    ``reducemoney`` is what the refund takes from the merchant's balance, in its own currency.
    """
    own_number = trade_no(refund.id)
    return {
        "refund_no": own_number,
        "out_refund_no": refund.refund_no or own_number,
        "trade_no": order.trade_no,
        "out_trade_no": order.out_trade_no,
        "money": money.show(refund.amount_minor, refund.currency),
        "reducemoney": money.show(refund.debit_minor, refund.debit_currency),
    }


async def refundquery(app: App, caller: EpayCaller, request: Request, _now: int) -> Result:
    """``pay/refundquery``: one refund, found by our number of it or by the merchant's."""
    number = request.get("refund_no") or request.get("out_refund_no")
    if not number:
        raise Refused(BUSINESS, "商户退款单号不能为空")
    merchant_id = caller.merchant.merchant_id
    async with app.db.connection() as tx:
        refund = await refunding.find_by_number(tx, merchant_id, number)
        if refund is None:
            raise Refused(BUSINESS, _UNKNOWN_REFUND)
        order = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=refund.order_id)
    if order is None:  # it is a refund of another API
        raise Refused(BUSINESS, _UNKNOWN_REFUND)
    zone = app.settings.epay_time_zone
    return {
        "code": SUCCESS,
        **refund_row(refund, order),
        "status": _REFUND_STATUS[refund.status],
        "addtime": reports.format_time(refund.created_at, zone),
        "endtime": reports.format_time(refund.failed_at or refund.succeeded_at, zone),
    }
