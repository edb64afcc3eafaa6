"""What the console says: one module for each group of pages, its sentences in every language."""

from typing import Final

from opentill.backoffice.model import Part
from opentill.console.catalogue import (
    adjustments,
    approvals,
    audit,
    disputes,
    gateway_tests,
    home,
    merchants,
    needs,
    operations,
    payments,
    payout,
    payout_runs,
    people,
    rates,
    reconciliation,
    settings,
    standing,
    terms,
    trial_balance,
)
from opentill.mail.catalogue import approvals as kinds

PARTS: Final[tuple[Part, ...]] = (
    home.SENTENCES,
    needs.SENTENCES,
    approvals.SENTENCES,
    kinds.SENTENCES,
    merchants.SENTENCES,
    audit.SENTENCES,
    operations.SENTENCES,
    gateway_tests.SENTENCES,
    people.SENTENCES,
    rates.SENTENCES,
    settings.SENTENCES,
    standing.SENTENCES,
    terms.SENTENCES,
    adjustments.SENTENCES,
    payments.SENTENCES,
    disputes.SENTENCES,
    payout.SENTENCES,
    payout_runs.SENTENCES,
    reconciliation.SENTENCES,
    trial_balance.SENTENCES,
)
