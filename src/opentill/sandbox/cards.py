"""The test cards, and reading the card form.

Only this file and the handler that calls it see a card number: it is neither stored nor logged,
except for its last four digits.
"""

import re
from typing import Final, Literal

import msgspec

from opentill.sandbox.language import N_
from opentill.sandbox.model import PaymentStatus

Aftermath = Literal["dispute", "refunds_fail", "challenge"]


class TestCard(msgspec.Struct, frozen=True):
    """A test card number and its result."""

    __test__ = False  # keeps pytest from running it as a test case

    number: str
    effect: str  # a translatable text, in English, that says what the card does
    status: PaymentStatus
    decline_code: str | None = None
    aftermath: Aftermath | None = None

    @property
    def spaced(self) -> str:
        """The number as it is printed on a card: in groups of four."""
        return " ".join(self.number[at : at + 4] for at in range(0, 16, 4))


TEST_CARDS: Final = (
    TestCard("4242424242424242", N_("Succeeds"), "succeeded"),
    TestCard("4000002500003155", N_("Requires 3-D Secure"), "action_required", None, "challenge"),
    TestCard("4000000000000002", N_("Declined"), "declined", "card_declined"),
    TestCard("4000000000009995", N_("Insufficient funds"), "declined", "insufficient_funds"),
    TestCard("4000000000000069", N_("Expired card"), "declined", "expired_card"),
    TestCard("4000000000000127", N_("Incorrect security code"), "declined", "incorrect_cvc"),
    TestCard("4000000000000119", N_("No response, then fails"), "processing", "processing_error"),
    TestCard("4000000000009987", N_("Declined, cannot be retried"), "refused", "lost_card"),
    TestCard("4000000000000259", N_("Succeeds, then disputed"), "succeeded", None, "dispute"),
    TestCard(
        "4000000000005126", N_("Succeeds, refunds fail later"), "succeeded", None, "refunds_fail"
    ),
)
_BY_NUMBER: Final = {card.number: card for card in TEST_CARDS}

_NUMBER: Final = re.compile(r"\d{12,19}", re.ASCII)
_EXPIRY: Final = re.compile(r"(\d{1,2})\s*[/-]?\s*(\d{4}|\d{2})", re.ASCII)
_CSC: Final = re.compile(r"\d{3,4}", re.ASCII)
_MONTHS: Final = 12
_YEARS_AHEAD: Final = 30


class CardForm(msgspec.Struct, frozen=True):
    """The posted card form; every field may be missing."""

    number: str = ""
    exp: str = ""
    csc: str = ""
    name: str = ""


def read_card(form: CardForm, year: int, month: int) -> tuple[TestCard | None, dict[str, str]]:
    """Return the card, or None and an error message for each invalid field.

    ``year`` and ``month`` are today's: a card is valid until the end of the month printed on it.
    """
    errors: dict[str, str] = {}
    number = re.sub(r"[\s-]", "", form.number)
    card = _BY_NUMBER.get(number)
    if not number:
        errors["number"] = N_("Enter a card number.")
    elif not _NUMBER.fullmatch(number):
        errors["number"] = N_("Enter a card number of 12 to 19 digits. Spaces are allowed.")
    elif card is None:
        errors["number"] = N_(
            "This is not one of the test cards on this page. You have not been charged. Never "
            "enter a real card number here."
        )
    if error := _expiry_error(form.exp.strip(), year, month):
        errors["exp"] = error
    if not _CSC.fullmatch(form.csc.strip()):
        errors["csc"] = N_("Enter the 3 or 4 digits of the security code, such as 123.")
    return (None, errors) if errors else (card, errors)


def spaced(number: str) -> str:
    """Return the number of a test card in groups of four, "" for any other number."""
    card = _BY_NUMBER.get(re.sub(r"[\s-]", "", number))
    return card.spaced if card else ""


def _expiry_error(text: str, year: int, month: int) -> str | None:
    match = _EXPIRY.fullmatch(text)
    if match is None:
        return N_("Enter the expiry date as MM/YY, such as 12/34.")
    card_month = int(match[1])
    short = len(match[2]) < len("YYYY")
    card_year = int(match[2]) + (2000 if short else 0)
    if not 1 <= card_month <= _MONTHS:
        return N_("The month of the expiry date must be from 01 to 12.")
    if (card_year, card_month) < (year, month):
        return N_("This expiry date is in the past.")
    if card_year > year + _YEARS_AHEAD:
        return N_("This expiry date is too far in the future.")
    return None
