"""What the dashboard says: one module for each group of pages, its sentences in every language.

All languages have the same keys. Values in braces are filled in when a page is made; they are
escaped there, so that no sentence here and no value can bring markup along.
"""

from collections.abc import Mapping
from typing import Final

from opentill.dashboard.catalogue import (
    agreement,
    balance,
    developers,
    disputes,
    epay,
    frame,
    home,
    links,
    payment,
    payment_refund,
    payment_timeline,
    payments_list,
    payouts,
    people,
    products,
    security,
    sessions,
    settings,
    team,
    webhooks,
)
from opentill.web.catalogue import LANGUAGES, Language, with_frame

PARTS: Final[tuple[Mapping[Language, Mapping[str, str]], ...]] = (
    frame.SENTENCES,
    people.SENTENCES,
    security.SENTENCES,
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
    payment.SENTENCES,
    payment_refund.SENTENCES,
    payment_timeline.SENTENCES,
    payments_list.SENTENCES,
)
SENTENCES: Final[dict[Language, dict[str, str]]] = with_frame(
    {
        language: {key: one for part in PARTS for key, one in part[language].items()}
        for language in LANGUAGES
    }
)
