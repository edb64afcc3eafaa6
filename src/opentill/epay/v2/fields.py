"""The fields that each V2 path takes.

A signature covers the fields and not the path: the link of ``pay/submit``, which the customer
holds, would also be a valid ``pay/refund``. Therefore every path except those that place an order
takes an exact list of fields in exact forms. No form allows ``&``, so that the signed text of
another request cannot be read as these fields either.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.epay.model import BUSINESS, Refused
from opentill.epay.request import Request

_ALWAYS: Final = frozenset({"pid", "timestamp", "sign", "sign_type"})
_NUMBER: Final = re.compile(r"[A-Za-z0-9._\-|]{1,64}", re.ASCII)
_INTEGER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
_FORMS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "trade_no": (re.compile(r"[A-Za-z0-9]{1,64}", re.ASCII), "订单号(trade_no)格式不正确"),
    "out_trade_no": (_NUMBER, "订单号(out_trade_no)格式不正确"),
    "refund_no": (_NUMBER, "退款单号(refund_no)格式不正确"),
    "out_refund_no": (_NUMBER, "退款单号(out_refund_no)格式不正确"),
    "money": (re.compile(r"[0-9]{1,8}(\.[0-9]{1,2}0{0,16})?", re.ASCII), "金额输入错误"),
    "offset": (_INTEGER, "offset 须为非负整数"),
    "limit": (_INTEGER, "limit 须为正整数，最多 50"),
    "status": (re.compile(r"[0-4]", re.ASCII), "status 须为从 0 到 4 的整数"),
    "type": (re.compile(r"[a-z]{1,32}", re.ASCII), "代付方式(type)不正确"),
    "account": (re.compile(r"[^&=\s]{1,64}"), "收款人账号(account)格式不正确"),
    "name": (re.compile(r"[^&=]{1,64}"), "收款人姓名(name)格式不正确"),
    "remark": (re.compile(r"[^&=]{1,32}"), "转账备注最多32个字"),
    "biz_no": (_NUMBER, "交易号输入不规范"),
    "out_biz_no": (_NUMBER, "交易号输入不规范"),
    "bookid": (_NUMBER, "bookid 格式不正确"),
}
# Fields of other paths, with which a request does not place an order.
_NOT_OF_SUBMISSIONS: Final = frozenset({
    "trade_no", "trade_status", "refund_no", "out_refund_no", "biz_no", "out_biz_no", "account",
})  # fmt: skip


class Fields(msgspec.Struct, frozen=True):
    """The fields of a path besides those of every request; None: those of a submission."""

    names: frozenset[str] | None

    def check(self, request: Request) -> None:
        """Refuse other fields, and values that are not in the form of their field.

        Empty fields are missing ones: no signature covers them. Raises Refused.
        """
        present = {name for name, value in request.params.items() if value}
        if self.names is None:
            others = present & _NOT_OF_SUBMISSIONS
        else:
            others = present - self.names - _ALWAYS
        if others:
            raise Refused(BUSINESS, f"该接口不接受参数：{', '.join(sorted(others))}")
        for name in sorted(present & (self.names or frozenset())):
            form, message = _FORMS[name]
            if form.fullmatch(request.get(name)) is None:
                raise Refused(BUSINESS, message)


def exactly(*names: str) -> Fields:
    """Return the fields of a path that takes only these."""
    return Fields(frozenset(names))


SUBMISSION: Final = Fields(None)
