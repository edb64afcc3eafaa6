"""Further accounts of the sandbox bank, and a routing rule, for the pages that show them."""

from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import accounts, rules
from support.people import TESTER


async def add_account_and_rule(tx: Tx, settings: Settings, now: int) -> None:
    """Add an account with limits and costs, and a rule that keeps cards at the settings' account.

    The account cannot be reached, so no payment may go there.
    """
    account = accounts.NewAccount(
        gateway="sandbox",
        label="Second bank",
        credentials={"url": "http://127.0.0.1:9", "secret": "s" * 32},
        limits=(accounts.AmountLimit("EUR", 100, 500_00),),
        day_limits=(accounts.DayLimit("EUR", 10_000_00, 200),),
        costs=(accounts.Cost("EUR", 290, 30),),
    )
    await accounts.add(tx, settings, account, now, actor=TESTER)
    rule = rules.NewRule(methods=("CREDIT_CARD",), ranking="ACCOUNTS", accounts=("sandbox",))
    await rules.add(tx, rule, None, ["sandbox"], now, actor=TESTER)


async def add_own_account(tx: Tx, settings: Settings, merchant_id: str, now: int) -> None:
    """Add an account of a merchant without prepaid balance, and allow more.

    No payment goes there.
    """
    account = accounts.NewAccount(
        gateway="sandbox",
        label="Own bank",
        credentials={"url": "http://127.0.0.1:9", "secret": "s" * 32},
        merchant_id=merchant_id,
    )
    await accounts.add(tx, settings, account, now, actor=TESTER)
    await accounts.allow(tx, settings, merchant_id, ["sandbox"], now, actor=TESTER)
