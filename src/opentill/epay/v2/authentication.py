"""Authenticate V2 requests by RSA signature, timestamp and path.

An unknown pid, a merchant without a key and a wrong signature get the same response after the same
work, so that nobody learns which pids exist.
"""

import secrets
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey, RSAPublicNumbers

from opentill import merchants
from opentill.context import App
from opentill.core import log
from opentill.epay import replays, service, timestamps
from opentill.epay.model import BUSINESS, MISSING, WRONG_KEY, EpayMerchant, Refused
from opentill.epay.request import Request
from opentill.epay.service import EpayCaller
from opentill.epay.v2.fields import Fields
from opentill.gateways.epay import rsa_signature

NOT_GENUINE: Final = "RSA签名校验失败"
# Replaces the key of an unknown merchant. Nobody knows the private half of a random modulus.
_NOBODYS_MODULUS: Final = secrets.randbits(2048) | 1 << 2047 | 1
_NOBODYS_KEY: Final = RSAPublicNumbers(65537, _NOBODYS_MODULUS).public_key()


async def authenticate(
    app: App, request: Request, path: str, fields: Fields, *, changes: bool, by_server: bool
) -> EpayCaller:
    """Authenticate the merchant of a request to ``path``, which takes ``fields``.

    ``changes``: the path changes something. A merchant's IP allow-list applies to its servers, and
    not to its customers' browsers. Raises Refused.
    """
    _check_form(request)
    merchant = await service.find_merchant(app, request.get("pid"))
    if not _is_signed(request, merchant) or merchant is None:
        raise Refused(WRONG_KEY, NOT_GENUINE)
    if by_server and not merchants.may_call(request.address, merchant.ip_allowlist):
        raise Refused(WRONG_KEY, NOT_GENUINE)
    if merchant.versions == "V1":
        raise Refused(WRONG_KEY, "该商户未开启RSA签名类型")
    if merchant.state != "ENABLED" or merchant.status == "CLOSED":
        raise Refused(BUSINESS, service.NOT_OPEN)
    fields.check(request)
    signature = rsa_signature.decode_signature(request.get("sign"))
    async with app.db.connection() as tx:
        await replays.use(tx, merchant.merchant_id, signature, path, changes=changes)
    log.merchant.set(merchant.merchant_id)
    return EpayCaller(merchant, "")


def _check_form(request: Request) -> None:
    """Check pid, sign type and timestamp as the reference server does. Raises Refused."""
    if "pid" not in request.params:
        raise Refused(MISSING, "未传入任何参数")
    pid = request.get("pid")
    if not (pid.isascii() and pid.isdigit()) or not pid.strip("0"):
        raise Refused(BUSINESS, "商户ID不能为空")
    sign_type = request.get("sign_type").strip().upper() or rsa_signature.SIGN_TYPE
    if sign_type != rsa_signature.SIGN_TYPE:
        raise Refused(WRONG_KEY, "该接口只能使用RSA签名类型")
    timestamp = request.get("timestamp")
    if not timestamp:
        raise Refused(WRONG_KEY, "时间戳(timestamp)字段不能为空")
    if not timestamps.is_recent(timestamp):
        raise Refused(WRONG_KEY, "时间戳字段不正确，请检查服务器时间")


def _is_signed(request: Request, merchant: EpayMerchant | None) -> bool:
    return rsa_signature.verify(request.params, _key_of(merchant))


def _key_of(merchant: EpayMerchant | None) -> RSAPublicKey:
    if merchant is None or merchant.public_key is None:
        return _NOBODYS_KEY
    return rsa_signature.read_public_key(merchant.public_key)
