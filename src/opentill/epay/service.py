"""Authenticate Epay requests, start payments, and find orders."""

import asyncio
import hmac
import secrets
from typing import Final

import msgspec
import structlog

from opentill import checkouts, merchants, orders
from opentill.context import App
from opentill.core import encryption, log
from opentill.core.errors import Invalid
from opentill.db import rate_limits
from opentill.db.database import Db, Tx
from opentill.epay import credentials, queries
from opentill.epay.model import (
    BUSINESS,
    MISSING,
    NOT_ENABLED,
    SCANNED,
    WRONG_KEY,
    EpayMerchant,
    EpayOrder,
    NumberedOrder,
    PlacedOrder,
    Refused,
    Submission,
    order_id_of,
)
from opentill.epay.request import Request
from opentill.gateways.epay import signature
from opentill.orders import Payer, PaymentAttempt, PaymentIntent

_log: Final = structlog.get_logger()
# Time limit for starting a payment; clients of mapi.php time out after about ten seconds.
_START_S: Final = 8.0
NO_SUCH_ORDER: Final = "订单不存在"  # clients compare the message with this text
NOT_GENUINE: Final = "签名校验失败"
TOO_MANY: Final = "请求过于频繁，请稍后再试"
NOT_OPEN: Final = "该商户未开通易支付接口"
UNAVAILABLE: Final = "系统维护中，请稍后再试"
# Every submission and every signed return_url has one of these fields; requests to api.php have
# neither.
_BROWSER_FIELDS: Final = frozenset({"notify_url", "trade_status"})
# For these acts the signature must cover the field ``act``.
_SIGNED_ACTS: Final = frozenset({"refund"})
# Replaces the merchant of an unknown pid, so that such a pid is refused after the same work as a
# wrong key: the response time does not reveal which pids exist.
_UNKNOWN_PID_KEY: Final = secrets.token_hex(32)
_UNKNOWN_PID: Final = EpayMerchant(
    merchant_id="",
    pid=0,
    sealed_key=encryption.encrypt(_UNKNOWN_PID_KEY, "epay key ", secrets.token_hex(16)),
    state="DISABLED",
    created_at=0,
    rotated_at=None,
    updated_at=0,
    versions="BOTH",
    public_key=None,
    public_key_at=None,
    name="",
    settlement_currency="",
    ip_allowlist=[],
    status="CLOSED",
    charge_off="",
)


class EpayCaller(msgspec.Struct, frozen=True):
    """The merchant that sent a request, with its signing key."""

    merchant: EpayMerchant
    key: str


async def count_request(app: App, address: str, now: int) -> None:
    """Count a request of a client address. Raises Refused beyond the limit per address."""
    limit = app.settings.limit_ip_per_minute
    if limit:
        await count_hit(app, "epay", merchants.limit_subject(address), limit, now)


async def count_hit(app: App, scope: str, subject: str, limit: int, now: int) -> None:
    """Count a request of ``subject``. Raises Refused beyond ``limit`` requests per minute."""
    async with app.db.connection() as tx:
        if await rate_limits.hit(tx, scope, subject, limit, now) is None:
            raise Refused(BUSINESS, TOO_MANY)


async def authenticate(
    app: App, request: Request, *, by_key: bool, by_server: bool = True
) -> EpayCaller:
    """Authenticate the merchant of a request by its signature or, with ``by_key``, by its key.

    Raises Refused; an unknown pid and a wrong key get the same response. A merchant's IP allow-list
    applies to its servers, not to its customers' browsers.
    """
    proof = "key" if by_key and request.get("key") else "sign"
    missing = request.missing("pid", proof)
    if missing:
        names = [f"{name}（或 key）" if by_key and name == "sign" else name for name in missing]
        raise Refused(MISSING, f"缺少参数：{', '.join(names)}")
    merchant, key = await _merchant_and_key(app, request.get("pid"))
    if proof == "key":
        is_genuine = hmac.compare_digest(request.get("key").encode(), key.encode())
    else:
        is_genuine = _is_signed(request, key, of_api=by_key)
    if not is_genuine or merchant is None:
        raise Refused(WRONG_KEY, NOT_GENUINE)
    if by_server and not merchants.may_call(request.address, merchant.ip_allowlist):
        raise Refused(WRONG_KEY, NOT_GENUINE)
    if merchant.versions == "V2":
        raise Refused(WRONG_KEY, "该商户只能使用RSA签名类型")
    if merchant.state != "ENABLED" or merchant.status == "CLOSED":
        raise Refused(NOT_ENABLED, NOT_OPEN)
    log.merchant.set(merchant.merchant_id)
    return EpayCaller(merchant, key)


async def find_merchant(app: App, pid: str) -> EpayMerchant | None:
    """Return the merchant of a pid, None for an unknown one."""
    if not (pid.isascii() and pid.isdigit()):
        return None
    async with app.db.connection() as tx:
        return await queries.MERCHANT_OF_PID.first(tx, id=credentials.directory_id(pid))


async def _merchant_and_key(app: App, pid: str) -> tuple[EpayMerchant | None, str]:
    """Return the merchant of a pid and its key; for an unknown pid, None and a key nobody has."""
    merchant = await find_merchant(app, pid)
    secret_key = app.settings.secret_key if merchant else _UNKNOWN_PID_KEY
    try:
        return merchant, credentials.decrypt(merchant or _UNKNOWN_PID, secret_key)
    except encryption.WrongKey:
        _log.error("the Epay API cannot check keys", reason=credentials.WRONG_KEY)
        raise Refused(BUSINESS, UNAVAILABLE) from None


def _is_signed(request: Request, key: str, *, of_api: bool) -> bool:
    """Whether the signature of a request is valid.

    The ``act`` of api.php may be outside of the signed parameters. Therefore api.php accepts no
    parameters that were signed for a customer's browser, and an act that moves money only if the
    signature covers it.
    """
    params = request.params
    if of_api and not _BROWSER_FIELDS.isdisjoint(params):
        return False
    with_act = {**params, "act": request.act} if of_api and request.act else params
    without_act = request.act not in _SIGNED_ACTS and signature.verify(params, key)
    return without_act or signature.verify(with_act, key)


async def start_attempt(
    app: App, caller: EpayCaller, placed: PlacedOrder, submission: Submission, now: int
) -> PaymentAttempt | None:
    """Start the payment of a mapi.php submission if its gateway returns a QR code.

    Returns None if there is nothing to scan; the customer then pays on the payment page.
    """
    if submission.method is None or submission.type not in SCANNED or submission.device == "jump":
        return None
    merchant_id = caller.merchant.merchant_id
    async with app.db.connection() as tx:
        order = await orders.find(tx, merchant_id, placed.order_id)
        try:
            await checkouts.check_attempts(tx, merchant_id, placed.order_id)
        except Invalid:  # the payment page shows the reason
            return None
    payer = Payer(  # the customer's language is unknown until the payment page is shown
        email=order.customer_email, name=order.customer_name, ip=submission.payer_ip, locale=""
    )
    intent = PaymentIntent(
        merchant_id=merchant_id,
        order_id=placed.order_id,
        payer=payer,
        method=submission.method,
        merchant_name=placed.merchant_name,
    )
    try:
        async with asyncio.timeout(_START_S):
            attempt = await orders.submit(
                app.db, app.gateways, intent, app.settings.public_url, now
            )
    except TimeoutError:
        _log.warning("gateway slow", order=placed.order_id)  # the worker will query the gateway
        return None
    needs_action = attempt is not None and attempt.status == "ACTION_REQUIRED"
    return attempt if needs_action and attempt is not None and attempt.qr_text else None


async def find_unpaid_siblings(tx: Tx, paid_order: EpayOrder) -> list[NumberedOrder]:
    """Return the orders that can still be paid under the out_trade_no of a paid order."""
    return await queries.UNPAID_SIBLINGS.all(
        tx,
        merchant_id=paid_order.merchant_id,
        out_trade_no=paid_order.out_trade_no,
        order_id=paid_order.order_id,
    )


async def end_unpaid_sibling(
    db: Db, paid_order: EpayOrder, unpaid_order: NumberedOrder, now: int
) -> None:
    """End the session of another order under a paid number, so that nobody pays twice.

    An order whose payment is in progress stays open: if the payment succeeds, it counts, and staff
    see that the number was paid twice.
    """
    cause = f"{paid_order.order_id} was paid under the same out_trade_no"
    merchant_id, session_id = paid_order.merchant_id, unpaid_order.checkout_id
    try:
        await db.run(lambda tx: checkouts.expire(tx, merchant_id, session_id, cause, now))
    except Invalid as refusal:
        _log.warning(
            "an out_trade_no may be paid twice",
            order=unpaid_order.order_id,
            reason=refusal.reason,
        )


async def find_by_trade_no(tx: Tx, merchant_id: str, number: str) -> EpayOrder | None:
    """Return the order with our trade_no, or with the trade_no of an old server."""
    order_id = order_id_of(number)
    order = None
    if order_id:
        order = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=order_id)
    if order is None:
        order = await queries.BY_OLD_NUMBER.first(tx, merchant_id=merchant_id, number=number)
    return order


async def find(
    tx: Tx, merchant_id: str, request: Request, unknown: str = NO_SUCH_ORDER
) -> EpayOrder:
    """Return the order that a request names by trade_no or, if that is missing, by out_trade_no.

    Of several orders with the same out_trade_no it returns the one that is paid, else one that was
    paid before, else the newest. Raises Refused, with the message ``unknown`` if there is no such
    order.
    """
    number = request.get("trade_no")
    if number:
        order = await find_by_trade_no(tx, merchant_id, number)
    elif request.get("out_trade_no"):
        order = await queries.BY_NUMBER.first(
            tx, merchant_id=merchant_id, out_trade_no=request.get("out_trade_no")
        )
    else:
        raise Refused(MISSING, "缺少参数：trade_no 或 out_trade_no")
    if order is None:
        raise Refused(BUSINESS, unknown)
    return order
