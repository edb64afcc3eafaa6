"""What the dashboard says: one module for each group of pages, its sentences in every language.

All languages have the same keys. Values in braces are filled in when a page is made; they are
escaped there, so that no sentence here and no value can bring markup along.
"""

from typing import Final

from opentill.backoffice.model import Part
from opentill.dashboard.catalogue import (
    agreement,
    balance,
    developers,
    disputes,
    epay,
    home,
    links,
    mails,
    payments_list,
    payouts,
    products,
    sessions,
    settings,
    standing,
    team,
    webhooks,
)

PARTS: Final[tuple[Part, ...]] = (
    team.SENTENCES,
    home.SENTENCES,
    developers.SENTENCES,
    epay.SENTENCES,
    disputes.SENTENCES,
    products.SENTENCES,
    sessions.SENTENCES,
    links.SENTENCES,
    balance.SENTENCES,
    payouts.SENTENCES,
    webhooks.SENTENCES,
    agreement.SENTENCES,
    settings.SENTENCES,
    standing.SENTENCES,
    payments_list.SENTENCES,
    mails.SENTENCES,
)
