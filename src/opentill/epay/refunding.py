"""``act=refund``: accept a refund of an Epay order, idempotently.

A ``refund_no`` identifies a refund forever. Without it, identical requests within a day are the
same refund, whether authenticated by key or signature (decision 0040). The identity is written in
the transaction of the refund, under the order's lock.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import merchants, orders, refunds
from opentill.context import App
from opentill.core import money
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.epay import queries, service
from opentill.epay.model import BUSINESS, MISSING, EpayOrder, Refused, trade_no
from opentill.epay.request import Request, without_zeros
from opentill.gateways.epay import signature
from opentill.orders import Order
from opentill.orders.model import PAYABLE
from opentill.orders.statuses import PAID_STATUSES, Status

# An identical request within this time means the same refund.
REPEATABLE_MS: Final = 86_400_000
_NUMBER: Final = re.compile(r"[A-Za-z0-9._\-|]{1,64}", re.ASCII)
_OWN_NUMBER: Final = re.compile(r"re[0-9a-z]{26}", re.ASCII)
_PROOFS: Final = frozenset({"key", "sign", "sign_type"})


class Wording(msgspec.Struct, frozen=True):
    """How a version of the Epay API names an operation and its fields."""

    operation: str
    number: str  # the field with the merchant's number of a refund
    unknown_order: str

    @property
    def number_taken(self) -> str:
        """The message for a number that another refund has."""
        return f"{self.number} 已用于另一笔退款，请换一个 {self.number}"

    @property
    def refund_failed(self) -> str:
        """The message for a repetition of a refund that failed."""
        return f"这笔退款已失败，如需重新退款，请换一个 {self.number}"


V1: Final = Wording("act=refund", "refund_no", service.NO_SUCH_ORDER)
V2: Final = Wording("pay/refund", "out_refund_no", "当前订单不存在！")


class RequestedRefund(msgspec.Struct, frozen=True):
    """A requested refund, identified by ``refund_no`` or, if that is "", by ``request``."""

    money: str
    refund_no: str
    request: bytes  # SHA-256 of the signed text, without the key
    wording: Wording

    @property
    def body(self) -> refunds.RefundBody:
        """The body for ``refunds.create``."""
        return refunds.RefundBody(
            amount=self.money, reason=self.wording.operation, refund_no=self.refund_no or None
        )


class AcceptedRefund(msgspec.Struct, frozen=True):
    """A refund that was accepted by this request or an identical earlier one."""

    order: EpayOrder
    refund: refunds.Refund

    @property
    def refund_no(self) -> str:
        """The merchant's number of the refund; our own if the merchant sent none."""
        return self.refund.refund_no or self.own_number

    @property
    def own_number(self) -> str:
        """Our own number of the refund: letters and digits only."""
        return trade_no(self.refund.id)


def read_refund(request: Request) -> RequestedRefund:
    """Validate a refund request. Raises Refused."""
    if request.missing("money"):
        raise Refused(MISSING, "缺少参数：money")
    number = request.get("refund_no")
    if number and _NUMBER.fullmatch(number) is None:
        raise Refused(BUSINESS, "refund_no 须为 1 到 64 个字符，只能用字母、数字和 . _ - |")
    params = {name: text for name, text in request.params.items() if name not in _PROOFS}
    digest = digest_of({**params, "act": request.act})
    return RequestedRefund(without_zeros(request.get("money")), number, digest, V1)


def digest_of(params: Mapping[str, str]) -> bytes:
    """Return the digest by which a repetition of a request without a refund_no is found."""
    return hashlib.sha256(signature.text_to_sign(params).encode()).digest()


async def refund(
    app: App, merchant_id: str, request: Request, requested: RequestedRefund, now: int
) -> AcceptedRefund:
    """Accept a refund, which is then processed like any other. Raises Refused."""
    wording = requested.wording

    async def work(tx: Tx) -> AcceptedRefund:
        epay_order = await service.find(tx, merchant_id, request, wording.unknown_order)
        order = await orders.lock(tx, merchant_id, epay_order.order_id)
        earlier = await _find_earlier(tx, merchant_id, requested, now)
        if earlier is not None:
            if earlier.order_id != order.id and not request.get("trade_no"):
                epay_order = await _find_refunded_order(tx, epay_order, earlier)
            return AcceptedRefund(
                epay_order, _check_repeated(earlier, epay_order, requested, order.currency)
            )
        _check(order, requested)
        new_refund = await refunds.create(
            tx, merchant_id, order.id, requested.body, now, source="EPAY"
        )
        await _record_request(tx, new_refund, requested, now)
        return AcceptedRefund(epay_order, new_refund)

    try:
        return await app.db.run(work)
    except merchants.CapabilityOff as problem:
        raise Refused(BUSINESS, f"商户暂时不能退款：{problem.why}") from None
    except Invalid as problem:
        # What ``_check`` cannot foresee.
        reasons = {"amount": "商户余额不足，不能退款", "refundNo": wording.number_taken}
        raise Refused(BUSINESS, reasons.get(problem.field or "", "该订单暂时不能退款")) from None


async def find_by_number(tx: Tx, merchant_id: str, number: str) -> refunds.Refund | None:
    """Return the refund with the merchant's own number, or with our number of it."""
    refund = await refunds.find_by_number(tx, merchant_id, number)
    if refund is not None or _OWN_NUMBER.fullmatch(number) is None:
        return refund
    return await refunds.find_or_none(tx, merchant_id, f"re_{number.removeprefix('re')}")


async def _find_earlier(
    tx: Tx, merchant_id: str, requested: RequestedRefund, now: int
) -> refunds.Refund | None:
    """Return the refund that an earlier request created.

    A refund without a refund_no is also found by the number that an earlier response gave it.
    """
    if requested.refund_no:
        return await find_by_number(tx, merchant_id, requested.refund_no)
    refund_id = await queries.REFUND_OF_REQUEST.get(
        tx, merchant_id=merchant_id, request=requested.request, after=now - REPEATABLE_MS
    )
    return None if refund_id is None else await refunds.find(tx, merchant_id, refund_id)


async def _find_refunded_order(tx: Tx, epay_order: EpayOrder, earlier: refunds.Refund) -> EpayOrder:
    """Return the earlier refund's order if it has the same out_trade_no, else ``epay_order``.

    If both orders of a number were paid, the number names the second one once the first one is
    refunded.
    """
    other_order = await queries.BY_ORDER.first(
        tx, merchant_id=epay_order.merchant_id, order_id=earlier.order_id
    )
    same_number = other_order is not None and other_order.out_trade_no == epay_order.out_trade_no
    return other_order if other_order is not None and same_number else epay_order


def _check_repeated(
    earlier: refunds.Refund, epay_order: EpayOrder, requested: RequestedRefund, currency: str
) -> refunds.Refund:
    """Return the earlier refund if it matches the request and did not fail. Raises Refused."""
    if earlier.order_id != epay_order.order_id or earlier.amount_minor != _minor(
        requested, currency
    ):
        raise Refused(BUSINESS, requested.wording.number_taken)
    if earlier.status == "FAILED":
        raise Refused(BUSINESS, requested.wording.refund_failed)
    return earlier


def _minor(requested: RequestedRefund, currency: str) -> int | None:
    try:
        return money.parse(requested.money, currency)
    except ValueError:
        return None


def _check(order: Order, requested: RequestedRefund) -> None:
    """Refuse a refund that is not possible, in the words of the convention. Raises Refused."""
    if order.status not in PAID_STATUSES:
        state = _STATUS_WORDS.get(order.status, "未支付" if order.status in PAYABLE else "已关闭")
        raise Refused(BUSINESS, f"该订单{state}，不能退款")
    refundable_minor = order.amount_minor - order.refund_held_minor
    if refundable_minor <= 0:
        raise Refused(BUSINESS, "退款金额不正确：该订单已全部退款")
    minor = _minor(requested, order.currency)
    if minor is None or not 0 < minor <= refundable_minor:
        most = money.show(refundable_minor, order.currency)
        raise Refused(
            BUSINESS, f"退款金额不正确：须为从 0.01 到 {most} {order.currency}，最多两位小数"
        )


_STATUS_WORDS: Final[Mapping[Status, str]] = {
    "DISPUTED": "有争议未决",
    "REFUNDED": "已全部退款",
    "CHARGEBACK": "已被拒付",
}


async def _record_request(
    tx: Tx, new_refund: refunds.Refund, requested: RequestedRefund, now: int
) -> None:
    """Record which refund a request created, unless a refund_no identifies the refund."""
    if requested.refund_no:
        return
    recorded_id = await queries.RECORD_REQUEST.get(
        tx,
        merchant_id=new_refund.merchant_id,
        request=requested.request,
        refund_id=new_refund.id,
        now=now,
        stale_until=now - REPEATABLE_MS,
    )
    if recorded_id is None:
        raise AssertionError  # the order is locked, so nobody else records the same request
