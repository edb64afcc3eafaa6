"""The notification of a paid order: a signed query for notify_url and return_url.

The version of the API that placed an order decides how its shop is notified. A message of V2 has a
timestamp that shops accept for five minutes, so it is signed anew for each try.
"""

import re
from typing import Final
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import structlog

from opentill import merchants
from opentill.context import App
from opentill.core import encryption, hostnames
from opentill.core.errors import ConfigurationError, Invalid, NotFound
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.epay import credentials, platform_key, queries, reports, timestamps
from opentill.epay.model import (
    VERSION_2,
    Credentials,
    EpayOrder,
    Notice,
    NoticeOfOrder,
    NoticeState,
    PaidTwice,
    Submission,
)
from opentill.gateways.epay import rsa_signature, signature
from opentill.merchants import OPENTILL, Actor
from opentill.orders.statuses import PAID_STATUSES

_log: Final = structlog.get_logger()
# Providers' numbers are letters and digits; others could contain separators of the signed text.
_MAX_PROVIDER_REF: Final = 64
_PROVIDER_REF: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_LONGEST_TIME: Final = "2000-01-01 00:00:00"
# A signature of 2048 bits in Base64. Of its characters, + / and = are encoded as three; 40 of the
# first two have never been seen, and a longer address would only be signed and tried again.
_LONGEST_SIGN: Final = "A" * 302 + "+" * 40 + "=="
MAX_ADDRESS: Final = 2048  # characters; the limit of outgoing/addresses.py
_SAFE_CHARACTERS: Final = "%/:?&=@!$'()*+,;-._~[]"


def message(order: EpayOrder, pid: int, key: str) -> dict[str, str]:
    """Return the signed parameters of a notification of V1.

    No value is empty, because some clients sign empty values, which the convention leaves out.
    """
    params = {**_fields(pid, order.trade_no, order), "type": order.reported_type}
    return {**params, "sign": signature.sign(params, key), "sign_type": signature.SIGN_TYPE}


async def message_of_v2(
    order: EpayOrder, pid: int, signer: platform_key.Signer, zone: str, seconds: int
) -> dict[str, str]:
    """Return the signed parameters of a notification of V2 at a real time (Unix s).

    ``buyer`` is left out: it would be the customer's email, and shops log their addresses.
    """
    params = {
        **_fields(pid, order.trade_no, order),
        "type": order.reported_type,
        "addtime": reports.format_time(order.created_at, zone),
        "endtime": reports.format_time(order.paid_at, zone),
        "timestamp": str(seconds),
    }
    if _PROVIDER_REF.fullmatch(order.provider_ref):
        params["api_trade_no"] = order.provider_ref
    sign = await signer.sign(params)
    return {**params, "sign": sign, "sign_type": rsa_signature.SIGN_TYPE}


def _fields(pid: int, trade_no: str, order: EpayOrder | Submission) -> dict[str, str]:
    fields = {
        "pid": str(pid),
        "trade_no": trade_no,
        "out_trade_no": order.out_trade_no,
        "type": order.type,
        "name": order.name,
        "money": order.money,
        "trade_status": "TRADE_SUCCESS",
    }
    return fields | ({"param": order.param} if order.param else {})


def address(url: str, params: dict[str, str]) -> str:
    """Append parameters to the query of a URL, encoded as PHP does."""
    url_parts = urlsplit(hostnames.with_ascii_host(url))
    query = "&".join(filter(None, (quote(url_parts.query, safe=_SAFE_CHARACTERS), _encode(params))))
    path = quote(url_parts.path, safe=_SAFE_CHARACTERS)
    return urlunsplit((url_parts.scheme, url_parts.netloc, path, query, url_parts.fragment))


def _encode(params: dict[str, str]) -> str:
    return urlencode(params).replace("~", "%7E")  # PHP encodes ~, Python does not


def fits(submission: Submission) -> bool:
    """Whether the notice of an order will be short enough to be sent."""
    longest = {
        **_fields(0, "order" + "0" * 26, submission),
        "pid": "0" * 9,
        "type": submission.type or "creditcard",
        "sign": "0" * 32,
        "sign_type": signature.SIGN_TYPE,
    }
    if submission.version == VERSION_2:
        longest |= {
            "api_trade_no": "0" * _MAX_PROVIDER_REF,
            "addtime": _LONGEST_TIME,
            "endtime": _LONGEST_TIME,
            "timestamp": "0" * 10,
            "sign": _LONGEST_SIGN,
        }
    return len(address(submission.notify_url, longest)) <= MAX_ADDRESS


async def signed_message(
    tx: Tx, settings: Settings, merchant_id: str, order_id: str
) -> tuple[EpayOrder, dict[str, str]]:
    """Return a paid order with its message, signed with the current key. Raises WrongKey."""
    order = await queries.BY_ORDER.one(tx, merchant_id=merchant_id, order_id=order_id)
    merchant_credentials: Credentials = await queries.OF_MERCHANT.one(tx, merchant_id=merchant_id)
    secret_key = settings.secret_key
    if order.version == VERSION_2:
        now = timestamps.now_s()
        signer = await platform_key.find_signer(tx, secret_key, now * 1000)
        return order, await message_of_v2(
            order, merchant_credentials.pid, signer, settings.epay_time_zone, now
        )
    return order, message(
        order, merchant_credentials.pid, credentials.decrypt(merchant_credentials, secret_key)
    )


async def return_address(
    app: App, merchant_id: str, order_id: str, /, *, at_once: bool = False
) -> str | None:
    """Return the signed return_url of a paid order for its customer; None if there is none.

    The URL proves the payment just like the notice, so it is built only when it is shown. That of
    V2 expires: unless the browser is sent there ``at_once``, the URL is one of ours, which signs
    and redirects.
    """
    async with app.db.connection() as tx:
        order = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=order_id)
        if order is None or order.status not in PAID_STATUSES or not order.return_url:
            return None
        try:
            if order.version == VERSION_2 and not at_once:
                return f"{app.settings.public_url}/checkout/{order.checkout_id}/shop"
            order, params = await signed_message(tx, app.settings, merchant_id, order_id)
        except (encryption.WrongKey, ConfigurationError):
            _log.error("no signed return", reason=credentials.WRONG_KEY)
            return None
    return address(order.return_url, params)


async def find_notice(tx: Tx, merchant_id: str, order_id: str) -> Notice | None:
    """Return the notice of an order; None if it has none."""
    return await queries.NOTICE.first(tx, merchant_id=merchant_id, order_id=order_id)


async def resend(
    tx: Tx, merchant_id: str, order_id: str, now: int, *, actor: Actor = OPENTILL
) -> Notice:
    """Restart the notification of a paid order, whatever its state, and write the audit log.

    Raises NotFound, and Invalid for an order that was not paid.
    """
    order = await queries.BY_ORDER.first(tx, merchant_id=merchant_id, order_id=order_id)
    if order is None:
        raise NotFound(reason=f"there is no Epay order {order_id}")
    notice = await queries.RESEND.first(tx, merchant_id=merchant_id, order_id=order_id, now=now)
    if notice is None:
        reason = f"order must be one that was paid: this one is {order.status}"
        raise Invalid("order", reason)
    await merchants.record_audit(tx, actor, "epay resend", merchant_id, order_id, now)
    return notice


async def list_notices(
    tx: Tx, merchant_id: str, state: NoticeState | None = None, limit: int = 100
) -> list[NoticeOfOrder]:
    """Return a merchant's notices, newest first."""
    return await queries.NEWEST_NOTICES.all(tx, merchant_id=merchant_id, state=state, limit=limit)


async def skip_waiting(tx: Tx, now: int) -> int:
    """Fail all pending notices after a restore; return their number.

    They may have been sent between the backup and the restore. Each can be resent.
    """
    return await queries.SKIP_NOTICES.run(tx, now=now)


async def list_failed_notices(tx: Tx, since: int, limit: int) -> list[Notice]:
    """Return the failed notices of all merchants that were created since a time (Unix ms)."""
    return await queries.FAILED_NOTICES.all(tx, since=since, limit=limit)


async def list_paid_twice(tx: Tx, since: int, limit: int) -> list[PaidTwice]:
    """Return each out_trade_no of any merchant with two paid orders, neither refunded.

    The newer order was placed since a time (Unix ms); newest first.
    """
    return await queries.PAID_TWICE.all(tx, since=since, limit=limit)
