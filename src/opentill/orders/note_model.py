"""What a note on an order is."""

import msgspec


class OrderNote(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody noted about an order, at ``at`` (Unix ms)."""

    merchant_id: str
    order_id: str
    number: int
    at: int
    who: str
    note: str
    by_merchant: bool  # a member of the merchant wrote it, and not the operator
