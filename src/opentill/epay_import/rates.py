"""Fees of a merchant here, from the rates of its group and its channels on the old server.

There a rate is the merchant's share in percent: 98.5 means a fee of 1.5 %. A merchant's own rate
counts before that of its group, and that before the rate of the channel.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast

from opentill.core.payment_methods import Method
from opentill.epay_import import values
from opentill.epay_import.model import Channel, OldMerchant

# The names of the old server's payment types that are payment methods here.
METHODS: Final[Mapping[str, Method]] = {
    "alipay": "ALIPAY",
    "wxpay": "WECHAT_PAY",
    "bank": "BANK_TRANSFER",
}
_CENT: Final = Decimal(100)
_DIGITS: Final = Decimal("0.000001")


def find_fees(
    merchant: OldMerchant,
    groups: Mapping[int, str],
    channels: Sequence[Channel],
    types: Mapping[int, str],
) -> tuple[dict[Method, Decimal], list[str]]:
    """Return a merchant's fee by payment method, and notes about rates that are not clear."""
    own, of_group = _rates(merchant.channel_info), _rates(groups.get(merchant.gid, ""))
    fees: dict[Method, Decimal] = {}
    notes: list[str] = []
    for type_id, name in types.items():
        method = METHODS.get(name)
        if method is None:
            continue
        written = own.get(type_id) or of_group.get(type_id)
        if not written:
            rates = {channel.rate for channel in channels if channel.type == name and channel.is_on}
            if len(rates) > 1:
                notes.append(f"channels of {name} have different rates: the highest fee counts")
            written = min(rates, key=_number, default="")
        fee = _fee(written)
        if fee is not None:
            fees[method] = fee
        elif written:
            notes.append(f"the rate of {name} is no percentage from above 0 to 100")
    return fees, notes


def _rates(info: str) -> dict[int, str]:
    """Return the rates of a group or merchant by the ids of payment types."""
    try:
        parsed: Any = json.loads(info) if info else {}
    except (ValueError, RecursionError):
        return {}
    rates: dict[int, str] = {}
    for type_id, cell in _items(parsed):
        if values.is_number(type_id):
            rates[int(type_id)] = str(dict(_items(cell)).get("rate") or "").strip()
    return rates


def _items(value: Any) -> list[tuple[str, Any]]:
    """Return the members of a JSON object, none of anything else."""
    if not isinstance(value, dict):
        return []
    return list(cast("dict[str, Any]", value).items())


def _number(rate: str) -> Decimal:
    try:
        number = Decimal(rate)
    except InvalidOperation:
        return Decimal(0)
    return number if number.is_finite() else Decimal(0)


def _fee(rate: str) -> Decimal | None:
    share = _number(rate)
    return ((_CENT - share) / _CENT).quantize(_DIGITS).normalize() if 0 < share <= _CENT else None
