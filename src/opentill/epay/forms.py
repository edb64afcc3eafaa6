"""Validation of submit.php and mapi.php: parameters become a ``Submission``."""

import re
from ipaddress import ip_address
from typing import Final

from opentill.core import money
from opentill.core.errors import Invalid
from opentill.epay.model import BUSINESS, MISSING, Refused, Submission
from opentill.epay.request import Request, refuse_embedded_fields, without_zeros
from opentill.http import inputs

DEFAULT_CURRENCY: Final = "CNY"
MAX_NAME_BYTES: Final = 127
_MAX_PARAM: Final = 2048
_MAX_DISPLAY_NAME: Final = 80
_MAX_MONEY: Final = 32
_ADDRESSES: Final = ("notify_url", "return_url")
_OUT_TRADE_NO: Final = re.compile(r"[A-Za-z0-9._\-|]{1,64}", re.ASCII)
# Notices echo the type even if it is unsupported, so it may not contain a character that some
# clients strip or split at.
_TYPE: Final = re.compile(r"[^\s\\&=\x00-\x1f\x7f-\x9f]{1,32}")
_MONEY: Final = re.compile(money.PRICE_PATTERN, re.ASCII)
_REQUIRED: Final = ("out_trade_no", "notify_url", "return_url", "name", "money")
_REQUIRED_BY_MAPI: Final = ("type", "out_trade_no", "notify_url", "name", "money", "clientip")
# Names of card fields, and digits as long as a card number. Card data may be entered only on the
# gateway's page.
_CARD_FIELD: Final = re.compile(
    r"card|cvv|cvc|cvn|\bpan\b|security[_ -]?code"
    r"|exp(iry|ire|iration)?[_ -]?(month|year|date|y|m)?\b",
    re.IGNORECASE,
)
_DIGITS: Final = re.compile(r"[0-9](?:[ -]?[0-9]){11,18}")


def refuse_notifications(request: Request) -> None:
    """Refuse a submission that is a notification or could be turned into one. Raises Refused."""
    for name in ("trade_status", "trade_no"):
        if name in request.params:
            raise Refused(BUSINESS, f"下单请求不能带参数 {name}")
    refuse_embedded_fields(request.params, addresses=_ADDRESSES)


def read_submission(request: Request, *, by_server: bool) -> Submission:
    """Validate the parameters; ``by_server`` selects the rules of mapi.php. Raises Refused."""
    missing = request.missing(*(_REQUIRED_BY_MAPI if by_server else _REQUIRED))
    if missing:
        raise Refused(MISSING, f"缺少参数：{', '.join(missing)}")
    channel = request.get("channel_param")
    if _CARD_FIELD.search(channel) or _DIGITS.search(channel):
        raise Refused(BUSINESS, "channel_param 不能含有银行卡信息，卡号只在支付页面填写")
    kind = request.get("type")
    if kind and _TYPE.fullmatch(kind) is None:
        raise Refused(BUSINESS, "type 最多 32 个字符，不能含有空格、反斜杠、& 或 =")
    number = request.get("out_trade_no")
    if _OUT_TRADE_NO.fullmatch(number) is None:
        raise Refused(BUSINESS, "out_trade_no 须为 1 到 64 个字符，只能用字母、数字和 . _ - |")
    currency = (request.get("money_type") or DEFAULT_CURRENCY).upper()
    return Submission(
        out_trade_no=number,
        type=kind,
        name=_name(request.get("name")),
        money=request.get("money"),
        amount_minor=_minor(request.get("money"), currency),
        money_type=currency,
        notify_url=_address("notify_url", request.get("notify_url")),
        return_url=_address("return_url", request.get("return_url")),
        param=_param(request.get("param")),
        shown_name=_parse_display_name(request.get("display_merchant_name")),
        payer_ip=_payer_ip(request.get("clientip")) if by_server else "",
        device=request.get("device"),
    )


def _name(text: str) -> str:
    """Return a name as notices echo it: at most 127 bytes, without backslashes or outer spaces.

    Some clients strip backslashes or spaces before they verify a signature.
    """
    encoded = text.replace("\\", "").strip().encode()
    name = encoded[:MAX_NAME_BYTES].decode(errors="ignore").strip()
    if not name:
        raise Refused(BUSINESS, "name 不能为空")
    return name


def _minor(text: str, currency: str) -> int:
    if currency not in money.EXPONENTS:
        raise Refused(BUSINESS, "money_type 须为有效的 ISO 4217 货币代码，例如 CNY")
    message = "money 须为大于 0、最多两位小数的金额，从 0.01 到 99999999.99"
    text_without_zeros = without_zeros(text)
    if _MONEY.fullmatch(text_without_zeros) is None or len(text) > _MAX_MONEY:
        raise Refused(BUSINESS, message)
    try:
        minor = money.parse(text_without_zeros, currency)
    except ValueError:
        raise Refused(BUSINESS, f"money 不能有小数：{currency} 没有小数位") from None
    if minor <= 0:
        raise Refused(BUSINESS, message)
    return minor


def _address(name: str, text: str) -> str:
    """Check the syntax of a URL. The address policy applies when the URL is called."""
    try:
        if "{" in text:
            raise Invalid(name, "braces")  # noqa: TRY301 - handled like the Invalid of check_url
        inputs.check_url(name, text or None)
    except Invalid:
        reason = f"{name} 须为不超过 2048 个字符、域名有效、不含用户名密码的 http 或 https 地址"
        raise Refused(BUSINESS, reason) from None
    return text


def _param(text: str) -> str:
    if len(text) > _MAX_PARAM:
        raise Refused(BUSINESS, f"param 最多 {_MAX_PARAM} 个字符")
    if "\\" in text:
        # Notices repeat ``param`` unchanged, and some clients strip backslashes before they verify.
        raise Refused(BUSINESS, "param 不能含有反斜杠，部分客户端验签时会去掉它")
    return text


def _parse_display_name(text: str) -> str | None:
    trimmed = text.strip()
    if len(trimmed) > _MAX_DISPLAY_NAME:
        raise Refused(BUSINESS, f"display_merchant_name 最多 {_MAX_DISPLAY_NAME} 个字符")
    return trimmed or None


def _payer_ip(text: str) -> str:
    """Return the payer's IP address, the first one of a list that proxies append to."""
    first = text.split(",", maxsplit=1)[0].strip()
    try:
        if "%" in first:  # refuse an IPv6 address with a scope id
            raise ValueError(first)  # noqa: TRY301 - refused like any other invalid address
        return str(ip_address(first))
    except ValueError:
        raise Refused(BUSINESS, "clientip 须为付款人的 IP 地址") from None
