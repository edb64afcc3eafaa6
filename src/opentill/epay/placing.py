"""Placing an order: its number, its values, its product, and the session that it is paid in.

While nobody paid a number, the same values under it are another order once its session has ended
(decision 0125). Orders under one number are counted by their ``submission``.
"""

from typing import Final

import asyncpg
import msgspec

from opentill import checkouts, gateways, merchants, orders, products
from opentill.context import App
from opentill.core.errors import Invalid, NotPermitted
from opentill.core.ids import new_id
from opentill.core.money import exponent, parse, show
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.epay import notices, queries
from opentill.epay.model import (
    BUSINESS,
    PAID,
    PAYABLE,
    TYPES,
    EpayMerchant,
    EpayOrder,
    PlacedOrder,
    Refused,
    Submission,
    trade_no,
)
from opentill.epay.service import EpayCaller, count_hit

_STOPPED: Final = "商户暂时不能收款"  # customers may read it: why is for the merchant alone


async def place(app: App, caller: EpayCaller, wanted: Submission, now: int) -> PlacedOrder:
    """Place an order, or find the one that was placed with the same number before. Raises Refused.

    However many requests with one number come at once, there is one order: all but one of them
    collide on the number, take back what they had begun and find it. After a session that nobody
    paid, the same number with the same values is placed again, as another order.
    """
    limit, merchant_id = app.settings.limit_checkouts_per_minute, caller.merchant.merchant_id
    if limit:
        await count_hit(app, "checkouts", merchant_id, limit, now)
    if not notices.fits(wanted):
        raise Refused(BUSINESS, "notify_url、name 和 param 合计过长，通知地址最多 2048 个字符")
    offered = _offered(app, wanted.money_type)
    if not offered or (wanted.method and wanted.type not in offered):
        raise Refused(BUSINESS, f"不支持的支付方式，可用的有：{', '.join(offered) or '无'}")
    if caller.merchant.charge_off is not None:  # an order that was placed before is not shown again
        raise Refused(BUSINESS, _STOPPED)
    settings = app.settings
    try:
        return await app.db.run(lambda tx: _place(tx, caller.merchant, wanted, settings, now))
    except asyncpg.UniqueViolationError:
        return await app.db.run(lambda tx: _place(tx, caller.merchant, wanted, settings, now))
    except merchants.CapabilityOff:
        raise Refused(BUSINESS, _STOPPED) from None
    except NotPermitted:
        raise Refused(BUSINESS, "商户尚未接受商户服务协议，暂时不能收款") from None
    except checkouts.AmountOutOfBounds as problem:
        bounds = _shown_bounds(problem, wanted.money_type)
        raise Refused(BUSINESS, f"money 须为从 {bounds} 的金额") from None
    except Invalid:  # name, amount and product are ours: only the rate can be missing
        raise Refused(BUSINESS, f"暂不支持以 {wanted.money_type} 收款：没有可用的汇率") from None


def _shown_bounds(problem: checkouts.AmountOutOfBounds, currency: str) -> str:
    """Write the smallest and the largest amount, in whole hundredths of the currency."""
    grain = 10 ** max(0, exponent(currency) - 2)
    least = -(-problem.least_minor // grain) * grain
    written = parse("99999999.99" if exponent(currency) else "99999999", currency)
    most = min(problem.most_minor // grain * grain, written)  # more cannot be submitted
    return f"{show(least, currency)} 到 {show(most, currency)} {currency}"


def _offered(app: App, currency: str) -> list[str]:
    methods = gateways.offered(app.gateways, currency)
    return [name for method, name in TYPES.items() if method in methods]


async def _place(
    tx: Tx, merchant: EpayMerchant, wanted: Submission, settings: Settings, now: int
) -> PlacedOrder:
    merchant_id = merchant.merchant_id
    shown = wanted.shown_name or merchant.name
    existing_order = await queries.BY_NUMBER.first(
        tx, merchant_id=merchant_id, out_trade_no=wanted.out_trade_no
    )
    if existing_order is not None:
        _check_same(existing_order, wanted)
        if not await _can_be_paid(tx, existing_order, now):
            existing_order = await _lock_number(tx, existing_order)
        if await _stays(tx, existing_order, now):
            await _take_type(tx, existing_order, wanted)
            return PlacedOrder(
                order_id=existing_order.order_id,
                checkout_id=existing_order.checkout_id,
                merchant_name=shown,
            )
    body = checkouts.SessionBody(
        product_id=await _product(tx, merchant_id, wanted.money_type, now),
        display_merchant_name=wanted.shown_name,
        client_reference=wanted.out_trade_no,
    )
    session = await checkouts.open_session(
        tx,
        merchant_id,
        body,
        now,
        rates_max_age_days=settings.rates_max_age_days,
        item=_item(wanted),
        agreement_required=settings.agreement_required,
    )
    await queries.INSERT_ORDER.run(
        tx,
        merchant_id=merchant_id,
        out_trade_no=wanted.out_trade_no,
        submission=1 if existing_order is None else existing_order.submission + 1,
        order_id=session.order_id,
        checkout_id=session.id,
        type=wanted.known_type,
        name=wanted.name,
        money=wanted.money,
        money_type=wanted.money_type,
        notify_url=wanted.notify_url,
        return_url=wanted.return_url,
        param=wanted.param,
        now=now,
        requested_type=wanted.other_type,
    )
    return PlacedOrder(order_id=session.order_id, checkout_id=session.id, merchant_name=shown)


def _item(wanted: Submission) -> checkouts.Item:
    order_id = new_id("order")
    metadata = {"out_trade_no": wanted.out_trade_no, "trade_no": trade_no(order_id)}
    if wanted.param:
        metadata["param"] = wanted.param
    return checkouts.Item(
        order_id=order_id,
        name=wanted.name,
        amount_minor=wanted.amount_minor,
        metadata=msgspec.json.encode(metadata).decode(),
        source="EPAY",
        method=wanted.method,
    )


def _check_same(existing_order: EpayOrder, wanted: Submission) -> None:
    """Refuse other values under a number, and any once it was paid. Raises Refused."""
    same = (
        (existing_order.amount_minor, existing_order.money_type)
        == (wanted.amount_minor, wanted.money_type)
        and existing_order.name == wanted.name
        and existing_order.notify_url == wanted.notify_url
        and existing_order.return_url == wanted.return_url
        and existing_order.param == wanted.param
    )
    if not same:
        raise Refused(BUSINESS, "商户订单号已存在，且订单内容不一致，请换一个 out_trade_no")
    _check_unpaid(existing_order)


def _check_unpaid(existing_order: EpayOrder) -> None:
    if existing_order.paid_at is not None:
        how = "已支付" if existing_order.status in PAID else "已关闭"
        raise Refused(BUSINESS, f"该订单{how}，请换一个 out_trade_no")


async def _can_be_paid(tx: Tx, existing_order: EpayOrder, now: int) -> bool:
    if existing_order.status not in PAYABLE:
        return False
    session = await checkouts.find(tx, existing_order.merchant_id, existing_order.checkout_id)
    return session.expires_at > now


async def _lock_number(tx: Tx, existing_order: EpayOrder) -> EpayOrder:
    """Lock every order under a number, and return the one that the number stands for now.

    So a late payment of any of them is either seen here, or confirmed after the new order is there.
    Raises Refused where one was paid meanwhile.
    """
    number = {
        "merchant_id": existing_order.merchant_id,
        "out_trade_no": existing_order.out_trade_no,
    }
    for order in await queries.ORDERS_OF_NUMBER.all(tx, **number):
        await orders.lock(tx, existing_order.merchant_id, order.order_id)
    current_order = await queries.BY_NUMBER.one(tx, **number)
    _check_unpaid(current_order)
    return current_order


async def _stays(tx: Tx, existing_order: EpayOrder, now: int) -> bool:
    """Return whether a number stays with its order, which is locked unless it can be paid.

    An order whose session is over gives way to a new one under the same number: it is closed here
    if the worker has not come to it. Not while its payment is on its way: its page shows that.
    Raises Refused where the order is closed and its payment may still arrive, or was revoked.
    """
    if await _can_be_paid(tx, existing_order, now):
        return True
    is_being_paid = await queries.IS_BEING_PAID.get(
        tx, merchant_id=existing_order.merchant_id, out_trade_no=existing_order.out_trade_no
    )
    if existing_order.status in PAYABLE:
        if existing_order.status == "CREATING" or is_being_paid:
            return True
        await checkouts.expire(
            tx, existing_order.merchant_id, existing_order.checkout_id, "its time is over", now
        )
        return False
    if existing_order.status == "REVOKED":
        raise Refused(BUSINESS, "该订单已撤销，请换一个 out_trade_no")
    if is_being_paid:
        raise Refused(BUSINESS, "该订单的付款正在确认中，请稍后再试")
    return False


async def _take_type(tx: Tx, existing_order: EpayOrder, wanted: Submission) -> None:
    """Let another payment type replace the one that was submitted before."""
    if existing_order.asked_type != wanted.type:
        await orders.lock(tx, existing_order.merchant_id, existing_order.order_id)
        await queries.SET_TYPE.run(
            tx,
            merchant_id=existing_order.merchant_id,
            order_id=existing_order.order_id,
            type=wanted.known_type,
            requested_type=wanted.other_type,
        )
        await orders.set_method(
            tx, existing_order.merchant_id, existing_order.checkout_id, wanted.method
        )


async def _product(tx: Tx, merchant_id: str, currency: str, now: int) -> str:
    """Return the product that orders in the currency stand on, made with the first of them."""
    product_id = await queries.PRODUCT.get(tx, merchant_id=merchant_id, currency=currency)
    if product_id is not None:
        return product_id
    await queries.LOCKED.first(tx, merchant_id=merchant_id)  # one after the other
    product_id = await queries.PRODUCT.get(tx, merchant_id=merchant_id, currency=currency)
    if product_id is not None:
        return product_id
    body = products.ProductBody(
        name=f"Epay ({currency})",
        description="Stands for what is sold through the Epay API. Each order has a name and an"
        " amount of its own; this price is nobody's.",
        price="0.01" if exponent(currency) else "1.00",
        currency=currency,
    )
    product = await products.create(tx, merchant_id, body, now)
    await products.archive(tx, merchant_id, product.id, now)
    await queries.INSERT_PRODUCT.run(
        tx, merchant_id=merchant_id, currency=currency, product_id=product.id
    )
    return product.id
