"""Texts that the pages of gateway accounts and routing rules choose by a value."""

from collections.abc import Mapping
from typing import Final, Literal

from opentill.gateways.choice import Misfit
from opentill.gateways.rules import Ranking
from opentill.web.translations import N_

# Why an account does not take a test payment.
MISFIT_OF_TEST: Final[Mapping[Misfit, str]] = {
    "UNREADABLE": N_("This server cannot use the account. Replace its credentials"),
    "BROKEN": N_("The account has paused itself after failures. Resume it first"),
    "PAUSED": N_("The account is paused. Resume it first"),
    "RETIRED": N_("The account is retired and takes no payments"),
    "MODE": N_("The account is for the other kind of money than this deployment"),
    "MERCHANT": N_("The account belongs to another merchant. Choose that one"),
    "METHOD": N_("The account does not take this method in this currency"),
    "AMOUNT": N_("The amount is outside the limits of the account"),
}
RANKING: Final[Mapping[Ranking, str]] = {
    "ACCOUNTS": N_("These accounts first"),
    "PRIORITY": N_("By priority"),
    "WEIGHT": N_("At random, by weight"),
    "COST": N_("Lowest cost first"),
    "SUCCESS_RATE": N_("Best success rate first"),
}
# Why an account does not take a payment.
MISFIT: Final[Mapping[Misfit | Literal["DAY_LIMIT"], str]] = {
    "UNREADABLE": N_("Its credentials cannot be used"),
    "BROKEN": N_("It has paused itself after failures"),
    "PAUSED": N_("It is paused"),
    "RETIRED": N_("It is retired"),
    "MODE": N_("It is for the other kind of money"),
    "MERCHANT": N_("It belongs to another merchant"),
    "METHOD": N_("It does not take this method in this currency"),
    "AMOUNT": N_("The amount is outside its limits"),
    "DAY_LIMIT": N_("It has reached its limit of the day"),
    "PREPAID": N_("The merchant’s prepaid balance is too low for the fee"),
}
RULE_RESULT: Final = {
    "added": N_("The rule is added. Every server uses it within five seconds."),
    "changed": N_("The rule is changed. Every server uses it within five seconds."),
    "moved": N_("The rule is moved. Every server uses the new order within five seconds."),
    "removed": N_("The rule is removed. Every server stops using it within five seconds."),
}
