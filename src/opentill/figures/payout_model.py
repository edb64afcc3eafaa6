"""What a payout contains, by kind of entry and by entry."""

import msgspec


class PayoutSum(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of one kind in a payout: their number and the change of the available balance.

    ``gross_minor`` and ``fee_minor`` are the amounts and fees of settled payments, and
    ``refunded_items`` is the number of those that were refunded before, ``lost_minor`` what lost
    disputes took of them before, and ``dispute_fee_minor`` the fees of these disputes.
    """

    kind: str
    items: int
    amount_minor: int
    gross_minor: int
    fee_minor: int
    refunded_items: int
    lost_minor: int = 0
    lost_items: int = 0
    dispute_fee_minor: int = 0
    dispute_fee_items: int = 0


class PayoutItem(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a payout: how it changed the available balance, and because of what.

    ``gross_minor`` and ``fee_minor`` are those of the payment that it settled, else None; a lost
    dispute has taken ``lost_minor`` and ``dispute_fee_minor`` of it before.
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
    lost_minor: int = 0
    dispute_fee_minor: int = 0

    @property
    def refunded_minor(self) -> int:
        """The part of the payment that was refunded before it settled; negative or 0."""
        if self.gross_minor is None or self.fee_minor is None:
            return 0
        net = self.gross_minor - self.fee_minor - self.lost_minor - self.dispute_fee_minor
        return self.amount_minor - net
