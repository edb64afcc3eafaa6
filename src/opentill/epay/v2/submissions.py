"""Validation of ``pay/submit`` and ``pay/create``, with the reference server's messages."""

import re
from typing import Final

import msgspec

from opentill.core import money
from opentill.epay import forms
from opentill.epay.model import BUSINESS, VERSION_2, Refused, Submission
from opentill.epay.request import Request, without_zeros

_OUT_TRADE_NO: Final = re.compile(r"[A-Za-z0-9._\-|]{1,64}", re.ASCII)
_MONEY: Final = re.compile(money.PRICE_PATTERN, re.ASCII)
_MAX_MONEY: Final = 32
_METHODS: Final = ("web", "jump")
_LABELS: Final = {
    "out_trade_no": "订单号",
    "notify_url": "通知地址",
    "return_url": "回调地址",
    "name": "商品名称",
    "money": "金额",
    "type": "支付方式",
    "clientip": "用户IP地址",
}
_OF_SUBMIT: Final = ("out_trade_no", "notify_url", "return_url", "name", "money")
_OF_CREATE: Final = ("out_trade_no", "notify_url", "name", "money", "type", "clientip")


def read_submission(request: Request, *, by_server: bool) -> Submission:
    """Validate the fields; ``by_server`` selects the rules of ``pay/create``. Raises Refused."""
    for name in _OF_CREATE if by_server else _OF_SUBMIT:
        if not request.get(name):
            raise Refused(BUSINESS, f"{_LABELS[name]}({name})不能为空")
    amount = request.get("money")
    is_decimal = _MONEY.fullmatch(without_zeros(amount)) is not None and len(amount) <= _MAX_MONEY
    if not is_decimal or not amount.strip("0."):
        raise Refused(BUSINESS, "金额不合法")
    if _OUT_TRADE_NO.fullmatch(request.get("out_trade_no")) is None:
        raise Refused(BUSINESS, "订单号(out_trade_no)格式不正确")
    method = request.get("method") or "web"
    if by_server and method not in _METHODS:
        raise Refused(BUSINESS, f"不支持的接口类型(method)，可用的有：{', '.join(_METHODS)}")
    submission = forms.read_submission(request, by_server=by_server)
    # ``jump`` of ``device`` and ``method`` mean the same: no QR code, always an address.
    device = "jump" if method == "jump" else submission.device
    return msgspec.structs.replace(submission, version=VERSION_2, device=device)
