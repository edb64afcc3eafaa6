"""The table of postings (contract.md#postings). Other movements cannot be posted.

A posting moves a positive amount from one account to another, so the books balance by construction.
``shown`` is the sign with which the merchant sees it.
"""

from typing import Final, Literal, get_args

import msgspec

# The merchant's own accounts: each entry stores their balances after it. The other accounts
# represent the gateway, the bank and the platform, and exist for each merchant too.
# ``prepaid`` pays the fees of payments whose money went to the merchant directly (decision 0165).
MerchantAccount = Literal["pending", "available", "frozen", "reserve", "prepaid"]
Account = Literal[MerchantAccount, "gateway", "bank", "platform"]
Type = Literal[
    "PAYMENT",
    "SETTLEMENT",
    "PAYOUT",
    "FREEZE",
    "UNFREEZE",
    "CHARGEBACK",
    "CHARGEBACK_FEE",
    "CHARGEBACK_RECOVERY",
    "ROLLING_RESERVE_RECOVERY",
    "ROLLING_RESERVE",
    "ROLLING_RESERVE_RELEASE",
    "ROLLING_RESERVE_OFFSET",
    "ADMIN_RECHARGE",
    "REFUND",
    "FEE",
    "BALANCE_CORRECTION",
]
Cause = Literal["order", "refund", "dispute", "payout", "operator"]

TYPES: Final[tuple[Type, ...]] = get_args(Type)
MERCHANT_ACCOUNTS: Final[tuple[MerchantAccount, ...]] = get_args(MerchantAccount)
ACCOUNTS: Final[tuple[Account, ...]] = get_args(Account)


class Posting(msgspec.Struct, frozen=True):
    """One allowed movement, and the sign (+1 or -1) that the merchant sees."""

    type: Type
    source: Account
    target: Account
    shown: Literal[1, -1]


POSTINGS: Final = (
    #       type                        source       target       shown
    Posting("PAYMENT", "gateway", "pending", +1),
    Posting("FEE", "pending", "platform", -1),
    Posting("FEE", "available", "platform", -1),
    Posting("FEE", "prepaid", "platform", -1),
    Posting("FEE", "platform", "prepaid", +1),
    Posting("SETTLEMENT", "pending", "available", +1),
    Posting("PAYOUT", "available", "bank", -1),
    Posting("PAYOUT", "bank", "available", +1),
    Posting("FREEZE", "available", "frozen", -1),
    Posting("FREEZE", "pending", "frozen", -1),
    Posting("FREEZE", "available", "prepaid", -1),
    Posting("UNFREEZE", "frozen", "available", +1),
    Posting("UNFREEZE", "frozen", "pending", +1),
    Posting("UNFREEZE", "prepaid", "available", +1),
    Posting("REFUND", "frozen", "gateway", -1),
    Posting("REFUND", "pending", "gateway", -1),
    Posting("REFUND", "available", "gateway", -1),
    Posting("REFUND", "gateway", "pending", +1),
    Posting("REFUND", "gateway", "available", +1),
    Posting("CHARGEBACK", "available", "gateway", -1),
    Posting("CHARGEBACK", "pending", "gateway", -1),
    Posting("CHARGEBACK_FEE", "available", "platform", -1),
    Posting("CHARGEBACK_FEE", "pending", "platform", -1),
    Posting("CHARGEBACK_RECOVERY", "gateway", "available", +1),
    Posting("ROLLING_RESERVE", "available", "reserve", -1),
    Posting("ROLLING_RESERVE_RELEASE", "reserve", "available", +1),
    Posting("ROLLING_RESERVE_OFFSET", "reserve", "available", +1),
    Posting("ROLLING_RESERVE_RECOVERY", "available", "reserve", -1),
    Posting("ADMIN_RECHARGE", "bank", "available", +1),
    Posting("ADMIN_RECHARGE", "bank", "prepaid", +1),
    Posting("BALANCE_CORRECTION", "available", "platform", -1),
    Posting("BALANCE_CORRECTION", "platform", "available", +1),
    Posting("BALANCE_CORRECTION", "pending", "platform", -1),
    Posting("BALANCE_CORRECTION", "platform", "pending", +1),
)

# The types that only move money between the merchant's own accounts, so that their sum stays.
TRANSFERS: Final[tuple[Type, ...]] = tuple(
    type_
    for type_ in TYPES
    if all(
        {posting.source, posting.target} <= set(MERCHANT_ACCOUNTS)
        for posting in POSTINGS
        if posting.type == type_
    )
)
BY_MOVE: Final = {(posting.type, posting.source, posting.target): posting for posting in POSTINGS}
