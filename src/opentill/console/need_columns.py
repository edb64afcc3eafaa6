"""The columns of lists of what needs attention."""

from typing import Final, NamedTuple

from opentill.console.need_labels import NEED_COLUMN, NEED_TIME


class Column(NamedTuple):
    """A column of a list: what its cells show, and its place in the two lines of a phone's row."""

    name: str  # a key of ``NEED_COLUMN``; "time" is the column of ``NEED_TIME``
    kind: str

    def heading(self, need: str) -> str:
        """Return the heading in the list of a kind."""
        return NEED_TIME[need] if self.name == "time" else NEED_COLUMN[self.name]


_MERCHANT: Final = Column("merchant", "words below")
_REASON: Final = Column("reason", "words under")
_TIME: Final = Column("time", "words below-end")
_AMOUNT: Final = Column("amount", "number at-end")
# The columns of a list of payments, whose first column has the link.
OF_PAYMENTS: Final = (Column("customer", "words at-start"), _MERCHANT, _TIME, _AMOUNT)
WITH_REASON: Final = (*OF_PAYMENTS[:2], _REASON, *OF_PAYMENTS[2:])
OF_RESPONSES: Final = (*OF_PAYMENTS[:2], Column("response", "words under"), *OF_PAYMENTS[2:])
OF_NUMBERS: Final = (
    Column("number", "words at-start"),
    Column("customer", "words"),
    *OF_PAYMENTS[1:],
)
OF_PAYOUTS: Final = (
    Column("merchant", "words at-start"),
    Column("payout", "words below"),
    _REASON,
    _TIME,
    _AMOUNT,
)
OF_ENDPOINTS: Final = (Column("endpoint", "words at-start"), _MERCHANT, _REASON, _TIME)
OF_NOTICES: Final = (*OF_PAYMENTS[:2], _REASON, _TIME)
