"""What the Epay API does: authenticate a request, start the payment of an order, find it."""

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
_START_S: Final = 8.0  # clients of mapi.php wait some ten seconds
NO_SUCH_ORDER: Final = "订单不存在"  # word for word: clients look for it
NOT_GENUINE: Final = "签名校验失败"
TOO_MANY: Final = "请求过于频繁，请稍后再试"
UNAVAILABLE: Final = "系统维护中，请稍后再试"
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
        await count_hit(app, "epay", merchants.limit_subject(address), limit, now)


async def count_hit(app: App, scope: str, subject: str, limit: int, now: int) -> None:
    """Count a request against a limit. Raises Refused beyond it."""
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


async def unpaid_beside(tx: Tx, paid_order: EpayOrder) -> list[NumberedOrder]:
    """Return the orders under the number of a paid one that can still be paid."""
    return await queries.UNPAID_BESIDE.all(
        tx,
        merchant_id=paid_order.merchant_id,
        out_trade_no=paid_order.out_trade_no,
        order_id=paid_order.order_id,
    )


async def end_unpaid(db: Db, paid_order: EpayOrder, unpaid_order: NumberedOrder, now: int) -> None:
    """End the session of another order under the number of a paid one: nobody is to pay twice.

    One whose payment is on its way stays: the payment counts if it arrives, and staff see that the
    number was paid twice.
    """
    cause = f"{paid_order.order_id} was paid under the same out_trade_no"
    merchant_id, session_id = paid_order.merchant_id, unpaid_order.checkout_id
    try:
        await db.run(lambda tx: checkouts.expire(tx, merchant_id, session_id, cause, now))
    except Invalid as refused:
        _log.warning(
            "an out_trade_no may be paid twice",
            order=unpaid_order.order_id,
            reason=refused.reason,
        )


async def find(tx: Tx, merchant_id: str, request: Request) -> EpayOrder:
    """Return the order that a request names by trade_no, which wins, or out_trade_no.

    An out_trade_no with several orders stands for the newest, or for one that was paid, first of
    all for one that still is. Raises Refused.
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
