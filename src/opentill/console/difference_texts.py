"""What pages say of the two sides of a difference: amounts, statuses, and what differs."""

import re
from decimal import Decimal
from typing import Final

import msgspec

from opentill.core.money import EXPONENTS, Money
from opentill.reconciliation import OpenDifference
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_

# Matches the amount that begins the text of the books or the report, such as "12.50 USD PAID".
_AMOUNT: Final = re.compile(r"(-?[0-9]{1,18}(?:\.[0-9]{1,4})?) ([A-Z]{3})\b", re.ASCII)
# Statuses of payments, refunds, disputes and payouts in the books.
_STATUS: Final = {
    "SUCCEEDED": N_("Complete"),
    "PAID": NC_("payout run", "Paid"),
    "PENDING": NC_("payout", "Pending"),
    "ACTION_REQUIRED": N_("Waiting for the customer"),
    "DECLINED": NC_("order status", "Declined"),
    "REFUSED": NC_("order status", "Declined"),
    "VOIDED": N_("Canceled"),
    "DUPLICATE": N_("Second payment"),
    "GIVEN_BACK": N_("Second payment, refunded"),
    "FAILED": N_("Failed"),
    "REVERSED": N_("Reversed"),
    "OPEN": NC_("reconciliation", "Open"),
    "WON": N_("Won"),
    "LOST": N_("Lost"),
    "RECOVERED": N_("Recovered"),
}


class _Side(msgspec.Struct, frozen=True):
    """An amount, and the text after it: a status of the books, or a detail of the report."""

    money: Money | None
    rest: str

    @classmethod
    def read(cls, text: str) -> "_Side":
        match = _AMOUNT.match(text)
        if match is None or match[2] not in EXPONENTS:
            return cls(None, text)
        minor = int(Decimal(match[1]).scaleb(EXPONENTS[match[2]]))
        return cls(Money(minor, match[2]), text[match.end() :].strip())


def amount_text(localizer: Localizer, text: str) -> str:
    """Write the amount and the status of one side in the reader's language; keep other text."""
    side = _Side.read(text)
    if side.money is None:
        return text
    rest = localizer.gettext(_STATUS[side.rest]) if side.rest in _STATUS else side.rest
    return " · ".join(part for part in (localizer.amount(side.money), rest) if part)


def amounts_of(difference: OpenDifference) -> tuple[Money | None, Money | None]:
    """Return the amount in the books and the one in the report, None if a side has none."""
    return _Side.read(difference.ours).money, _Side.read(difference.theirs).money


def what_differs(localizer: Localizer, difference: OpenDifference) -> str:
    """Say which of amount, currency and status differ; "" if the texts do not show it."""
    ours, theirs = _Side.read(difference.ours), _Side.read(difference.theirs)
    if difference.what != "different" or ours.money is None or theirs.money is None:
        return ""
    values = {
        "ours": localizer.amount(ours.money),
        "theirs": localizer.amount(theirs.money),
        "status": localizer.gettext(_STATUS.get(ours.rest, ours.rest)),
    }
    if ours.money.currency != theirs.money.currency:
        text = N_("The currency differs: {ours} in the books, {theirs} in the report.")
    elif ours.money.minor != theirs.money.minor:
        by = Money(abs(ours.money.minor - theirs.money.minor), ours.money.currency)
        values["difference"] = localizer.amount(by)
        text = N_(
            "The amount differs by {difference}: {ours} in the books, {theirs} in the report."
        )
    else:
        text = N_("The report says that the money has moved. Its status in the books: {status}.")
    return localizer.gettext(text, **values)
