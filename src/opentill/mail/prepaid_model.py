"""Mails about a merchant's prepaid balance: their content, and what was mailed."""

import msgspec

from opentill.ledger import PrepaidLevel
from opentill.mail.model import Amount


class PrepaidNotice(msgspec.Struct, frozen=True, kw_only=True):
    """The worst level of a prepaid balance that was mailed since it was topped up.

    Entries up to ``number`` were read for top-ups.
    """

    merchant_id: str
    currency: str
    level: PrepaidLevel
    number: int


class PrepaidContent(msgspec.Struct, frozen=True, kw_only=True):
    """What was left of a prepaid balance at ``at``, and the fees of the week before (Unix ms)."""

    merchant_id: str
    free: Amount
    fees: Amount
    at: int
