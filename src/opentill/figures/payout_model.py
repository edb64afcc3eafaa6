"""What a payout contains, by kind of entry and by entry."""

import msgspec


class PayoutSum(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one kind in a payout: their number and the change of the available balance.

    ``gross_minor`` and ``fee_minor`` are the amounts and fees of settled payments, and
    ``refunded_items`` is the number of those that were refunded before.
    """

    kind: str
    items: int
    amount_minor: int
    gross_minor: int
    fee_minor: int
    refunded_items: int


class PayoutItem(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a payout: how it changed the available balance, and because of what.

    ``gross_minor`` and ``fee_minor`` are those of the payment that it settled, else None.
    """

    number: int
    id: str
    created_at: int
    type: str
    source_type: str
    source_id: str
    kind: str
    amount_minor: int
    gross_minor: int | None
    fee_minor: int | None

    @property
    def refunded_minor(self) -> int:
        """The part of the payment that was refunded before it settled; negative or 0."""
        if self.gross_minor is None or self.fee_minor is None:
            return 0
        return self.amount_minor - self.gross_minor + self.fee_minor
