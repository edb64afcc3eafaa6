"""How far the import of a merchant is, and what an import did."""

from collections import Counter
from typing import Literal

import msgspec

State = Literal["RUNNING", "FINISHED"]


class ImportedMerchant(msgspec.Struct, frozen=True, kw_only=True):
    """A merchant of an old server; ``RUNNING``: rows may be missing, and it is switched off."""

    merchant_id: str
    pid: int
    state: State
    product_id: str


class Done(msgspec.Struct, kw_only=True):
    """What an import did, and what it found done already."""

    merchants: int = 0  # created now
    finished: int = 0  # switched on now, with their opening balance
    unfinished: list[int] = msgspec.field(default_factory=list[int])  # pids that stay switched off
    orders: int = 0
    orders_before: int = 0
    refunds: int = 0
    left_out: Counter[str] = msgspec.field(default_factory=Counter[str])
    # Pids with refunds that belong to no order, and with orders that an earlier dump had otherwise.
    incomplete: set[int] = msgspec.field(default_factory=set[int])
    changed: set[int] = msgspec.field(default_factory=set[int])
    opened_minor: int = 0
