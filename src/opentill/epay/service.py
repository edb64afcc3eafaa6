"""What the Epay API does: authenticate a request, place an order, start its payment, find it."""

import asyncio
import hmac
import secrets
from typing import Final

import asyncpg
import msgspec
import structlog

from opentill import checkouts, gateways, merchants, orders, products
from opentill.context import App
from opentill.core import encryption, log
from opentill.core.errors import Invalid, NotPermitted
from opentill.core.ids import new_id
from opentill.core.money import exponent, parse, show
from opentill.core.settings import Settings
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.epay import credentials, notices, queries
from opentill.epay.model import (
    BUSINESS,
    MISSING,
    NOT_ENABLED,
    PAID,
    PAYABLE,
    SCANNED,
    TYPES,
    WRONG_KEY,
    EpayMerchant,
    EpayOrder,
    PlacedOrder,
    Refused,
    Submission,
    order_id_of,
    trade_no,
)
from opentill.epay.request import Request
from opentill.gateways.epay import signature
from opentill.orders import Payer, PaymentAttempt, PaymentIntent

_log: Final = structlog.get_logger()
_START_S: Final = 8.0  # clients of mapi.php wait some ten seconds
NO_SUCH_ORDER: Final = "订单不存在"  # word for word: clients look for it
NOT_GENUINE: Final = "签名校验失败"
TOO_MANY: Final = "请求过于频繁，请稍后再试"
UNAVAILABLE: Final = "系统维护中，请稍后再试"
_STOPPED: Final = "商户暂时不能收款"  # customers may read it: why is for the merchant alone
# What every submission and every signed return has, and no call of api.php.
_OF_BROWSERS: Final = frozenset({"notify_url", "trade_status"})
_SIGNED_ACTS: Final = frozenset({"refund"})  # what a sign must cover to count for it
# The caller of an unknown pid: refused after the same work as a wrong key, so that the time a
# response takes does not show which pids exist.
_UNKNOWN_PID_KEY: Final = secrets.token_hex(32)
_UNKNOWN_PID: Final = EpayMerchant(
    merchant_id="",
    pid=0,
    sealed_key=encryption.encrypt(_UNKNOWN_PID_KEY, "epay key ", secrets.token_hex(16)),
    state="DISABLED",
    created_at=0,
    rotated_at=None,
    updated_at=0,
    name="",
    settlement_currency="",
    ip_allowlist=[],
    status="CLOSED",
    charge_off="",
)


class EpayCaller(msgspec.Struct, frozen=True):
    """The merchant that sent a request, with the key that it signs with."""

    merchant: EpayMerchant
    key: str


async def count_request(app: App, address: str, now: int) -> None:
    """Count a request against its address. Raises Refused beyond the limit of the API."""
    limit = app.settings.limit_ip_per_minute
    if limit:
        await _hit(app, "epay", merchants.limit_subject(address), limit, now)


async def _hit(app: App, scope: str, subject: str, limit: int, now: int) -> None:
    async with app.db.connection() as tx:
        if await rate_limits.hit(tx, scope, subject, limit, now) is None:
            raise Refused(BUSINESS, TOO_MANY)


async def authenticate(
    app: App, request: Request, *, by_key: bool, by_server: bool = True
) -> EpayCaller:
    """Find out which merchant has sent a request, by its sign or, with ``by_key``, its key.

    Raises Refused: an unknown pid and a wrong key get the same response. A merchant's list of
    addresses holds for what its servers send, not for its customers' browsers.
    """
    proof = "key" if by_key and request.get("key") else "sign"
    missing = request.missing("pid", proof)
    if missing:
        names = [f"{name}（或 key）" if by_key and name == "sign" else name for name in missing]
        raise Refused(MISSING, f"缺少参数：{', '.join(names)}")
    found, key = await _merchant_and_key(app, request.get("pid"))
    if proof == "key":
        genuine = hmac.compare_digest(request.get("key").encode(), key.encode())
    else:
        genuine = _is_signed(request, key, of_api=by_key)
    if not genuine or found is None:
        raise Refused(WRONG_KEY, NOT_GENUINE)
    if by_server and not merchants.may_call(request.address, found.ip_allowlist):
        raise Refused(WRONG_KEY, NOT_GENUINE)
    if found.state != "ENABLED" or found.status == "CLOSED":
        raise Refused(NOT_ENABLED, "该商户未开通易支付接口")
    log.merchant.set(found.merchant_id)
    return EpayCaller(found, key)


async def _merchant_and_key(app: App, pid: str) -> tuple[EpayMerchant | None, str]:
    """Return the merchant of a pid with its key; for an unknown pid None and a key of nobody."""
    found = None
    if pid.isascii() and pid.isdigit():
        async with app.db.connection() as tx:
            found = await queries.MERCHANT_OF_PID.first(tx, id=credentials.directory_id(pid))
    secret_key = app.settings.secret_key if found else _UNKNOWN_PID_KEY
    try:
        return found, credentials.decrypt(found or _UNKNOWN_PID, secret_key)
    except encryption.WrongKey:
        _log.error("the Epay API cannot check keys", reason=credentials.WRONG_KEY)
        raise Refused(BUSINESS, UNAVAILABLE) from None


def _is_signed(request: Request, key: str, *, of_api: bool) -> bool:
    """Return whether the sign of a request is genuine.

    The ``act`` of api.php may stand apart from the signed parameters, covered by the sign or not.
    So api.php takes nothing that was signed for a customer's browser, and what moves money only if
    the sign covers its act.
    """
    params = request.params
    if of_api and not _OF_BROWSERS.isdisjoint(params):
        return False
    with_act = {**params, "act": request.act} if of_api and request.act else params
    without_act = request.act not in _SIGNED_ACTS and signature.verify(params, key)
    return without_act or signature.verify(with_act, key)


async def place(app: App, caller: EpayCaller, wanted: Submission, now: int) -> PlacedOrder:
    """Place an order, or find the one that was placed with the same number before. Raises Refused.

    However many requests with one number come at once, there is one order: all but one of them
    collide on the number, take back what they had begun and find it.
    """
    limit, merchant_id = app.settings.limit_checkouts_per_minute, caller.merchant.merchant_id
    if limit:
        await _hit(app, "checkouts", merchant_id, limit, now)
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
    before = await queries.BY_NUMBER.first(
        tx, merchant_id=merchant_id, out_trade_no=wanted.out_trade_no
    )
    if before is not None:
        await _again(tx, before, wanted, now)
        return PlacedOrder(
            order_id=before.order_id, checkout_id=before.checkout_id, merchant_name=shown
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


async def _again(tx: Tx, before: EpayOrder, wanted: Submission, now: int) -> None:
    """Take the same submission again; another payment type replaces the one before."""
    same = (
        (before.amount_minor, before.money_type) == (wanted.amount_minor, wanted.money_type)
        and before.name == wanted.name
        and before.notify_url == wanted.notify_url
        and before.return_url == wanted.return_url
        and before.param == wanted.param
    )
    if not same:
        raise Refused(BUSINESS, "商户订单号已存在，且订单内容不一致，请换一个 out_trade_no")
    if before.status not in PAYABLE:
        how = "已支付" if before.status in PAID else "已关闭"
        raise Refused(BUSINESS, f"该订单{how}，请换一个 out_trade_no")
    session = await checkouts.find(tx, before.merchant_id, before.checkout_id)
    if session.expires_at <= now:
        raise Refused(BUSINESS, "该订单已过期，请换一个 out_trade_no")
    if before.asked_type != wanted.type:
        await orders.lock(tx, before.merchant_id, before.order_id)
        await queries.SET_TYPE.run(
            tx,
            merchant_id=before.merchant_id,
            out_trade_no=before.out_trade_no,
            type=wanted.known_type,
            requested_type=wanted.other_type,
        )
        await orders.set_method(tx, before.merchant_id, before.checkout_id, wanted.method)


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


async def start(
    app: App, caller: EpayCaller, placed: PlacedOrder, wanted: Submission, now: int
) -> PaymentAttempt | None:
    """Start the attempt of a type whose gateway gives a QR text, for the payer of mapi.php.

    None where there is nothing to scan; the customer then pays on the page, whatever came of it.
    """
    if wanted.method is None or wanted.type not in SCANNED or wanted.device == "jump":
        return None
    merchant_id = caller.merchant.merchant_id
    async with app.db.connection() as tx:
        order = await orders.find(tx, merchant_id, placed.order_id)
        try:
            await checkouts.check_attempts(tx, merchant_id, placed.order_id)
        except Invalid:  # the page says so
            return None
    payer = Payer(  # the language is not known before the page is shown
        email=order.customer_email, name=order.customer_name, ip=wanted.payer_ip, locale=""
    )
    intent = PaymentIntent(
        merchant_id=merchant_id,
        order_id=placed.order_id,
        payer=payer,
        method=wanted.method,
        merchant_name=placed.merchant_name,
    )
    try:
        async with asyncio.timeout(_START_S):
            attempt = await orders.submit(
                app.db, app.gateways, intent, app.settings.public_url, now
            )
    except TimeoutError:
        _log.warning("gateway slow", order=placed.order_id)  # the worker goes on asking
        return None
    waits = attempt is not None and attempt.status == "ACTION_REQUIRED"
    return attempt if waits and attempt is not None and attempt.qr_text else None


async def find(tx: Tx, merchant_id: str, request: Request) -> EpayOrder:
    """Return the order that a request names by trade_no, which wins, or out_trade_no.

    Raises Refused.
    """
    number = request.get("trade_no")
    if number:
        found = await queries.BY_ORDER.first(
            tx, merchant_id=merchant_id, order_id=order_id_of(number)
        )
    elif request.get("out_trade_no"):
        found = await queries.BY_NUMBER.first(
            tx, merchant_id=merchant_id, out_trade_no=request.get("out_trade_no")
        )
    else:
        raise Refused(MISSING, "缺少参数：trade_no 或 out_trade_no")
    if found is None:
        raise Refused(BUSINESS, NO_SUCH_ORDER)
    return found
