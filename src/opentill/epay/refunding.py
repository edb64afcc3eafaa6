"""``act=refund``: accepts a refund of an Epay order, once however often it is asked for.

A ``refund_no`` names one refund forever. Without it the same request within a day is the same
refund, whether a key or a sign proved it (decision 0040). What identifies a refund is written with
it in one transaction, under the order's lock.
"""

import hashlib
import re
from typing import Final

import msgspec

from opentill import merchants, orders, refunds
from opentill.context import App
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.epay import queries, service
from opentill.epay.model import BUSINESS, MISSING, PAID, PAYABLE, EpayOrder, Refused, trade_no
from opentill.epay.request import Request, without_zeros
from opentill.gateways.epay import signature
from opentill.orders import Order

SAME_FOR_MS: Final = 86_400_000  # so long the same request is the same refund
_NUMBER: Final = re.compile(r"[A-Za-z0-9._\-|]{1,64}", re.ASCII)
_OWN_NUMBER: Final = re.compile(r"re[0-9a-z]{26}", re.ASCII)
_PROOFS: Final = frozenset({"key", "sign", "sign_type"})
_TAKEN: Final = "refund_no 已用于另一笔退款，请换一个 refund_no"
_FAILED: Final = "这笔退款已失败，如需重新退款，请换一个 refund_no"


class RequestedRefund(msgspec.Struct, frozen=True):
    """The refund that is asked for: its number if it has one, otherwise what was asked."""

    money: str
    refund_no: str
    request: bytes  # the SHA-256 of the text that a sign covers, without the key

    @property
    def body(self) -> refunds.RefundBody:
        """The refund as ``refunds.create`` takes it."""
        return refunds.RefundBody(
            amount=self.money, reason="act=refund", refund_no=self.refund_no or None
        )


class AcceptedRefund(msgspec.Struct, frozen=True):
    """A refund that was accepted, now or before."""

    order: EpayOrder
    refund: refunds.Refund

    @property
    def refund_no(self) -> str:
        """The merchant's number of it, ours if it has none."""
        return self.refund.refund_no or trade_no(self.refund.id)


def read(request: Request) -> RequestedRefund:
    """Check what is asked for. Raises Refused."""
    if request.missing("money"):
        raise Refused(MISSING, "缺少参数：money")
    number = request.get("refund_no")
    if number and _NUMBER.fullmatch(number) is None:
        raise Refused(BUSINESS, "refund_no 须为 1 到 64 个字符，只能用字母、数字和 . _ - |")
    asked = {name: text for name, text in request.params.items() if name not in _PROOFS}
    text = signature.text_to_sign({**asked, "act": request.act})
    digest = hashlib.sha256(text.encode()).digest()
    return RequestedRefund(without_zeros(request.get("money")), number, digest)


async def refund(app: App, merchant_id: str, request: Request, now: int) -> AcceptedRefund:
    """Accept a refund; it runs like every other. Raises Refused."""
    wanted = read(request)

    async def work(tx: Tx) -> AcceptedRefund:
        kept = await service.find(tx, merchant_id, request)
        order = await orders.lock(tx, merchant_id, kept.order_id)
        earlier = await _earlier(tx, merchant_id, wanted, now)
        if earlier is not None:
            if earlier.order_id != order.id and not request.get("trade_no"):
                kept = await _refunded_before(tx, kept, earlier)
            return AcceptedRefund(kept, _same(earlier, kept, wanted, order.currency))
        _check(order, wanted)
        made = await refunds.create(tx, merchant_id, order.id, wanted.body, now, source="EPAY")
        await _keep(tx, made, wanted, now)
        return AcceptedRefund(kept, made)

    try:
        return await app.db.run(work)
    except merchants.CapabilityOff as problem:
        raise Refused(BUSINESS, f"商户暂时不能退款：{problem.why}") from None
    except Invalid as problem:
        raise Refused(BUSINESS, _REASONS.get(problem.field or "", "该订单暂时不能退款")) from None


async def _earlier(
    tx: Tx, merchant_id: str, wanted: RequestedRefund, now: int
) -> refunds.Refund | None:
    """Return the refund that was accepted for this before.

    The number that a response gave the refund names it too: clients may send it back.
    """
    number = wanted.refund_no
    if number:
        found = await refunds.find_by_number(tx, merchant_id, number)
        if found is not None or _OWN_NUMBER.fullmatch(number) is None:
            return found
        return await refunds.look_for(tx, merchant_id, f"re_{number.removeprefix('re')}")
    refund_id = await queries.REFUND_OF_REQUEST.get(
        tx, merchant_id=merchant_id, request=wanted.request, after=now - SAME_FOR_MS
    )
    return None if refund_id is None else await refunds.find(tx, merchant_id, refund_id)


async def _refunded_before(tx: Tx, kept: EpayOrder, earlier: refunds.Refund) -> EpayOrder:
    """Return the order of an earlier refund by the same out_trade_no.

    A number that was paid twice stands for its other order once the first is given back.
    """
    other_order = await queries.BY_ORDER.first(
        tx, merchant_id=kept.merchant_id, order_id=earlier.order_id
    )
    same_number = other_order is not None and other_order.out_trade_no == kept.out_trade_no
    return other_order if other_order is not None and same_number else kept


def _same(
    earlier: refunds.Refund, kept: EpayOrder, wanted: RequestedRefund, currency: str
) -> refunds.Refund:
    """Return the earlier refund if it is what is asked for, and did not fail. Raises Refused."""
    if earlier.order_id != kept.order_id or earlier.amount_minor != _minor(wanted, currency):
        raise Refused(BUSINESS, _TAKEN)
    if earlier.status == "FAILED":
        raise Refused(BUSINESS, _FAILED)
    return earlier


def _minor(wanted: RequestedRefund, currency: str) -> int | None:
    try:
        return money.parse(wanted.money, currency)
    except ValueError:
        return None


def _check(order: Order, wanted: RequestedRefund) -> None:
    """Refuse what cannot be refunded, in the words of the convention. Raises Refused."""
    if order.status not in PAID:
        how = _HOW.get(order.status, "未支付" if order.status in PAYABLE else "已关闭")
        raise Refused(BUSINESS, f"该订单{how}，不能退款")
    left = order.amount_minor - order.refund_held_minor
    if left <= 0:
        raise Refused(BUSINESS, "退款金额不正确：该订单已全部退款")
    minor = _minor(wanted, order.currency)
    if minor is None or not 0 < minor <= left:
        most = money.show(left, order.currency)
        raise Refused(
            BUSINESS, f"退款金额不正确：须为从 0.01 到 {most} {order.currency}，最多两位小数"
        )


_HOW: Final = {"DISPUTED": "有争议未决", "REFUNDED": "已全部退款", "CHARGEBACK": "已被拒付"}
# What is left to be refused once an order may be refunded by this amount, by field.
_REASONS: Final = {
    "amount": "商户余额不足，不能退款",
    "refundNo": _TAKEN,
}


async def _keep(tx: Tx, made: refunds.Refund, wanted: RequestedRefund, now: int) -> None:
    """Record which refund the request was for, unless its refund_no identifies it."""
    if wanted.refund_no:
        return
    kept = await queries.KEEP_REQUEST.get(
        tx,
        merchant_id=made.merchant_id,
        request=wanted.request,
        refund_id=made.id,
        now=now,
        stale_until=now - SAME_FOR_MS,
    )
    if kept is None:
        raise AssertionError  # the order is locked: nobody else records the same request
