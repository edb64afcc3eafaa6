"""What pages say of the two sides of a difference: amounts, statuses, and what differs."""

import re
from decimal import Decimal
from typing import Final

import msgspec

from opentill.console.labels import DIFFERENCE
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

# Kinds of items in reports and books.
KIND_NAMES: Final = {
    "payment": NC_("settlement report", "Payment"),
    "refund": NC_("settlement report", "Refund"),
    "refund_failure": N_("Failed refund"),
    "chargeback": N_("Chargeback"),
    "recovery": N_("Recovered dispute"),
    "payment_failure": N_("Failed payment"),
    "unknown": NC_("settlement report", "Other"),
    "payout": NC_("settlement report", "Payout"),
    "booking": N_("Bank booking"),
}
# Titles of differences; those without an amount have the text of ``DIFFERENCE``.
_TITLES: Final = {
    "missing in ledger": N_("{kind} of {amount} is missing in the books"),
    "missing in report": N_("{kind} of {amount} is missing in the report"),
    "double in report": N_("{kind} of {amount} is twice in the report"),
}
# What usually is the cause, and what to do. The key is what differs, then the kind.
_ADVICE: Final = {
    "missing in report": N_(
        "Usually the provider reports it on a later day: wait for its next report, which resolves "
        "this by itself. If it stays missing, ask the provider whether the money moved."
    ),
    "double in report": N_(
        "Ask the provider whether the money moved twice. If it did, have one of the two returned; "
        "if the report is wrong, say so as the reason."
    ),
}
_ADVICE_PAYOUT: Final = N_(
    "Usually the bank has kept a fee, or somebody has changed the amount at the bank. Compare the "
    "bank’s statement with the payout. If the merchant got less, credit the rest to its balance "
    "here; if the bank kept a fee that is yours, resolve it with that reason."
)
_ADVICE_OTHERS: Final = N_(
    "Usually the provider has captured or refunded another amount than was asked for. Look at the "
    "item at the provider: if its amount is right, correct the merchant’s balance here; if the "
    "books are right, ask the provider to correct it."
)
_ADVICE_STATUS: Final = N_(
    "Usually a notification was lost: OpenTill asks the gateway again by itself. If the status "
    "stays as it is, settle it on the page of the item, then resolve the difference."
)


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


def difference_of(localizer: Localizer, difference: OpenDifference) -> str:
    """Return by which amount books and report differ, "" if not by an amount of one currency."""
    ours, theirs = amounts_of(difference)
    if ours is None or theirs is None or ours.currency != theirs.currency:
        return ""
    minor = abs(ours.minor - theirs.minor)
    return localizer.amount(Money(minor, ours.currency)) if minor else ""


def title_of(localizer: Localizer, difference: OpenDifference) -> str:
    """Say in a few words what differs: kind, amount, and which side lacks it."""
    kind = KIND_NAMES.get(difference.kind)
    name = difference.kind if kind is None else localizer.gettext(kind)
    ours, theirs = amounts_of(difference)
    money = ours or theirs
    if money is None:
        return localizer.gettext(DIFFERENCE[difference.what.replace(" ", "_")])
    if difference.what in _TITLES:
        amount = localizer.amount(money)
        return localizer.gettext(_TITLES[difference.what], kind=name, amount=amount)
    by = difference_of(localizer, difference)
    if by:
        return localizer.gettext(N_("{kind} differs by {amount}"), kind=name, amount=by)
    if ours is not None and theirs is not None and ours.currency != theirs.currency:
        return localizer.gettext(N_("{kind} has another currency in the report"), kind=name)
    return localizer.gettext(
        N_("{kind} of {amount} has another status in the report"),
        kind=name,
        amount=localizer.amount(money),
    )


def advice_for(difference: OpenDifference) -> str:
    """Return the usual cause and what to do, "" for items that the books do not have."""
    if difference.what in _ADVICE:
        return _ADVICE[difference.what]
    ours, theirs = amounts_of(difference)
    if difference.what != "different" or ours is None or theirs is None:
        return ""
    if ours == theirs:
        return _ADVICE_STATUS
    return _ADVICE_PAYOUT if difference.kind == "payout" else _ADVICE_OTHERS
