"""What all pages for people who log in say: a module for each group, in every language.

All languages have the same keys. Values in braces are filled in when a page is made; they are
escaped there, so that no sentence here and no value can bring markup along.
"""

from typing import Final

from opentill.backoffice.catalogue import (
    apply,
    bank_account,
    factors,
    forgotten,
    frame,
    ledger_entries,
    mail_language,
    payment,
    payment_notes,
    payment_refund,
    payment_timeline,
    payment_words,
    people,
    security,
)
from opentill.backoffice.model import Part

PARTS: Final[tuple[Part, ...]] = (
    frame.SENTENCES,
    ledger_entries.SENTENCES,
    people.SENTENCES,
    security.SENTENCES,
    factors.SENTENCES,
    apply.SENTENCES,
    bank_account.SENTENCES,
    forgotten.SENTENCES,
    mail_language.SENTENCES,
    payment.SENTENCES,
    payment_notes.SENTENCES,
    payment_refund.SENTENCES,
    payment_timeline.SENTENCES,
    payment_words.SENTENCES,
)
