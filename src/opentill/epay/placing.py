"""Placing an order: its number, its values, its product and its checkout session.

If nobody paid an order and its session has ended, submitting its number and values again places
another order (decision 0125). ``submission`` counts the orders under one number.
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
    TYPES,
    EpayMerchant,
    EpayOrder,
    PlacedOrder,
    Refused,
    Submission,
    trade_no,
)
from opentill.epay.service import EpayCaller, count_hit
from opentill.orders.model import PAYABLE
from opentill.orders.statuses import PAID_STATUSES

_STOPPED: Final = "商户暂时不能收款"  # customers may read it, so it does not reveal the reason


async def place(app: App, caller: EpayCaller, submission: Submission, now: int) -> PlacedOrder:
    """Place an order, or return the existing one with the same number. Raises Refused.

    Concurrent requests with one number place one order: all but one violate the unique constraint,
    roll back and find the order. If nobody paid an order and its session has ended, the same number
    with the same values places another order.
    """
    limit, merchant_id = app.settings.limit_checkouts_per_minute, caller.merchant.merchant_id
    if limit:
        await count_hit(app, "checkouts", merchant_id, limit, now)
    if not notices.fits(submission):
        raise Refused(BUSINESS, "notify_url、name 和 param 合计过长，通知地址最多 2048 个字符")
    offered_types = _offered_types(app, merchant_id, submission.money_type)
    if not offered_types or (submission.method and submission.type not in offered_types):
        raise Refused(BUSINESS, f"不支持的支付方式，可用的有：{', '.join(offered_types) or '无'}")
    # Refuse the submission even if its order exists already.
    if caller.merchant.charge_off is not None:
        raise Refused(BUSINESS, _STOPPED)
    settings = app.settings
    try:
        return await app.db.run(lambda tx: _place(tx, caller.merchant, submission, settings, now))
    except asyncpg.UniqueViolationError:
        return await app.db.run(lambda tx: _place(tx, caller.merchant, submission, settings, now))
    except merchants.CapabilityOff:
        raise Refused(BUSINESS, _STOPPED) from None
    except NotPermitted:
        raise Refused(BUSINESS, "商户尚未接受商户服务协议，暂时不能收款") from None
    except checkouts.AmountOutOfBounds as problem:
        bounds = _write_bounds(problem, submission.money_type)
        raise Refused(BUSINESS, f"money 须为从 {bounds} 的金额") from None
    except Invalid:  # name, amount and product are valid, so only the rate can be missing
        raise Refused(
            BUSINESS, f"暂不支持以 {submission.money_type} 收款：没有可用的汇率"
        ) from None


def _write_bounds(problem: checkouts.AmountOutOfBounds, currency: str) -> str:
    """Write the smallest and the largest accepted amount that ``money`` can express."""
    cent_minor = 10 ** max(0, exponent(currency) - 2)  # ``money`` has at most two decimals
    least_minor = -(-problem.least_minor // cent_minor) * cent_minor
    longest_minor = parse("99999999.99" if exponent(currency) else "99999999", currency)
    most_minor = min(problem.most_minor // cent_minor * cent_minor, longest_minor)
    return f"{show(least_minor, currency)} 到 {show(most_minor, currency)} {currency}"


def _offered_types(app: App, merchant_id: str, currency: str) -> list[str]:
    methods = gateways.offered_methods(app.gateways, currency, merchant_id=merchant_id)
    return [name for method, name in TYPES.items() if method in methods]


async def _place(
    tx: Tx, merchant: EpayMerchant, submission: Submission, settings: Settings, now: int
) -> PlacedOrder:
    merchant_id = merchant.merchant_id
    merchant_name = submission.shown_name or merchant.name
    existing_order = await queries.BY_NUMBER.first(
        tx, merchant_id=merchant_id, out_trade_no=submission.out_trade_no
    )
    if existing_order is not None:
        _check_same(existing_order, submission)
        if not await _can_be_paid(tx, existing_order, now):
            existing_order = await _lock_number(tx, existing_order)
        if await _keeps_number(tx, existing_order, now):
            await _replace_type_and_version(tx, existing_order, submission)
            return PlacedOrder(
                order_id=existing_order.order_id,
                checkout_id=existing_order.checkout_id,
                merchant_name=merchant_name,
            )
    body = checkouts.SessionBody(
        product_id=await find_or_create_product(tx, merchant_id, submission.money_type, now),
        display_merchant_name=submission.shown_name,
        client_reference=submission.out_trade_no,
    )
    session = await checkouts.open_session(
        tx,
        merchant_id,
        body,
        now,
        rates_max_age_days=settings.rates_max_age_days,
        item=_build_item(submission),
        agreement_required=settings.agreement_required,
    )
    await queries.INSERT_ORDER.run(
        tx,
        merchant_id=merchant_id,
        out_trade_no=submission.out_trade_no,
        submission=1 if existing_order is None else existing_order.submission + 1,
        order_id=session.order_id,
        checkout_id=session.id,
        type=submission.supported_type,
        name=submission.name,
        money=submission.money,
        money_type=submission.money_type,
        notify_url=submission.notify_url,
        return_url=submission.return_url,
        param=submission.param,
        now=now,
        requested_type=submission.unsupported_type,
        version=submission.version,
    )
    return PlacedOrder(
        order_id=session.order_id, checkout_id=session.id, merchant_name=merchant_name
    )


def _build_item(submission: Submission) -> checkouts.Item:
    order_id = new_id("order")
    metadata = {"out_trade_no": submission.out_trade_no, "trade_no": trade_no(order_id)}
    if submission.param:
        metadata["param"] = submission.param
    return checkouts.Item(
        order_id=order_id,
        name=submission.name,
        amount_minor=submission.amount_minor,
        metadata=msgspec.json.encode(metadata).decode(),
        source="EPAY",
        method=submission.method,
    )


def _check_same(existing_order: EpayOrder, submission: Submission) -> None:
    """Raise Refused if a submission differs from its number's order, or that order was paid."""
    same = (
        (existing_order.amount_minor, existing_order.money_type)
        == (submission.amount_minor, submission.money_type)
        and existing_order.name == submission.name
        and existing_order.notify_url == submission.notify_url
        and existing_order.return_url == submission.return_url
        and existing_order.param == submission.param
    )
    if not same:
        raise Refused(BUSINESS, "商户订单号已存在，且订单内容不一致，请换一个 out_trade_no")
    _check_unpaid(existing_order)


def _check_unpaid(existing_order: EpayOrder) -> None:
    if existing_order.paid_at is not None:
        state = "已支付" if existing_order.status in PAID_STATUSES else "已关闭"
        raise Refused(BUSINESS, f"该订单{state}，请换一个 out_trade_no")


async def _can_be_paid(tx: Tx, existing_order: EpayOrder, now: int) -> bool:
    if existing_order.status not in PAYABLE:
        return False
    session = await checkouts.find(tx, existing_order.merchant_id, existing_order.checkout_id)
    return session.expires_at > now


async def _lock_number(tx: Tx, existing_order: EpayOrder) -> EpayOrder:
    """Lock all orders under a number and return its current order.

    A late payment of any of these orders is thus either visible here or confirmed after the new
    order exists. Raises Refused if one of them was paid meanwhile.
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


async def _keeps_number(tx: Tx, existing_order: EpayOrder, now: int) -> bool:
    """Whether a number keeps its existing order, so that the submission places no new one.

    The caller has locked the existing order, unless it can be paid. If the order's session has
    ended, the number keeps the order only while its payment is in progress; otherwise the order is
    closed here, unless the worker has closed it already. Raises Refused if the order was revoked,
    or if it is closed and its payment may still arrive.
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


async def _replace_type_and_version(
    tx: Tx, existing_order: EpayOrder, submission: Submission
) -> None:
    """Replace the payment type of an order by the type of a later submission.

    An order that V1 placed becomes one of V2 when the shop submits it by V2. The reverse is
    refused, because anybody who has an old link of V1 can submit it again. Raises Refused.
    """
    if existing_order.version > submission.version:
        raise Refused(BUSINESS, "该商户订单号已由 V2 接口提交，请换一个 out_trade_no")
    if (existing_order.submitted_type, existing_order.version) != (
        submission.type,
        submission.version,
    ):
        await orders.lock(tx, existing_order.merchant_id, existing_order.order_id)
        await queries.SET_TYPE.run(
            tx,
            merchant_id=existing_order.merchant_id,
            order_id=existing_order.order_id,
            type=submission.supported_type,
            requested_type=submission.unsupported_type,
            version=submission.version,
        )
        await orders.set_method(
            tx, existing_order.merchant_id, existing_order.checkout_id, submission.method
        )


async def find_or_create_product(tx: Tx, merchant_id: str, currency: str, now: int) -> str:
    """Return the product of the merchant's Epay orders in a currency; create it if missing."""
    product_id = await queries.PRODUCT.get(tx, merchant_id=merchant_id, currency=currency)
    if product_id is not None:
        return product_id
    await queries.LOCKED.first(tx, merchant_id=merchant_id)  # serializes concurrent first orders
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
