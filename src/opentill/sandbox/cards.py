"""The test cards, and how what a customer typed into the card form is read.

No card number goes further than this file and the handler that calls it: it is neither stored nor
logged, only its last four digits are kept.
"""

import re
from typing import Final, Literal

import msgspec

from opentill.sandbox.model import PaymentStatus

Aftermath = Literal["dispute", "refunds_fail", "challenge"]


class TestCard(msgspec.Struct, frozen=True):
    """A well-known number and what the bank does with it."""

    __test__ = False  # not a test case, whatever pytest makes of the name

    number: str
    what: str  # the key of a sentence
    status: PaymentStatus
    decline_code: str | None = None
    aftermath: Aftermath | None = None

    @property
    def spaced(self) -> str:
        """The number as it is printed on a card: in groups of four."""
        return " ".join(self.number[at : at + 4] for at in range(0, 16, 4))


TEST_CARDS: Final = (
    TestCard("4242424242424242", "does_pay", "succeeded"),
    TestCard("4000002500003155", "does_challenge", "action_required", None, "challenge"),
    TestCard("4000000000000002", "does_decline", "declined", "card_declined"),
    TestCard("4000000000009995", "does_insufficient_funds", "declined", "insufficient_funds"),
    TestCard("4000000000000069", "does_expired_card", "declined", "expired_card"),
    TestCard("4000000000000127", "does_incorrect_cvc", "declined", "incorrect_cvc"),
    TestCard("4000000000000119", "does_process", "processing", "processing_error"),
    TestCard("4000000000009987", "does_refuse", "refused", "lost_card"),
    TestCard("4000000000000259", "does_dispute", "succeeded", None, "dispute"),
    TestCard("4000000000005126", "does_fail_refunds", "succeeded", None, "refunds_fail"),
)
_BY_NUMBER: Final = {card.number: card for card in TEST_CARDS}

_NUMBER: Final = re.compile(r"\d{12,19}", re.ASCII)
_EXPIRY: Final = re.compile(r"(\d{1,2})\s*[/-]?\s*(\d{4}|\d{2})", re.ASCII)
_CSC: Final = re.compile(r"\d{3,4}", re.ASCII)
_MONTHS: Final = 12
_YEARS_AHEAD: Final = 30


class CardForm(msgspec.Struct, frozen=True):
    """The card form as posted; every field may be missing."""

    number: str = ""
    exp: str = ""
    csc: str = ""
    name: str = ""


def read_card(form: CardForm, year: int, month: int) -> tuple[TestCard | None, dict[str, str]]:
    """Return the card, or None and, for each field that is wrong, the key of a sentence.

    ``year`` and ``month`` are today's: a card is good until the end of the month printed on it.
    """
    errors: dict[str, str] = {}
    number = re.sub(r"[\s-]", "", form.number)
    card = _BY_NUMBER.get(number)
    if not number:
        errors["number"] = "error_number_missing"
    elif not _NUMBER.fullmatch(number):
        errors["number"] = "error_number_form"
    elif card is None:
        errors["number"] = "error_number_other"
    if wrong := _wrong_expiry(form.exp.strip(), year, month):
        errors["exp"] = wrong
    if not _CSC.fullmatch(form.csc.strip()):
        errors["csc"] = "error_csc"
    return (None, errors) if errors else (card, errors)


def _wrong_expiry(text: str, year: int, month: int) -> str | None:
    found = _EXPIRY.fullmatch(text)
    if found is None:
        return "error_exp_form"
    card_month = int(found[1])
    short = len(found[2]) < len("YYYY")
    card_year = int(found[2]) + (2000 if short else 0)
    if not 1 <= card_month <= _MONTHS:
        return "error_exp_month"
    if (card_year, card_month) < (year, month):
        return "error_exp_past"
    if card_year > year + _YEARS_AHEAD:
        return "error_exp_far"
    return None
