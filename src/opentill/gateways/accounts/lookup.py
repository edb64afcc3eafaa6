"""Find accounts by id, label or gateway, and list them."""

from collections.abc import Container

import msgspec

from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.gateways import registry
from opentill.gateways.account import Breaker, GatewayAccount, is_account_id
from opentill.gateways.accounts import environment as environment_accounts
from opentill.gateways.accounts import queries
from opentill.gateways.accounts.model import StoredAccount


async def find(tx: Tx, account_id: str) -> GatewayAccount:
    """Return an account. Raises NotFound."""
    account = await queries.BY_ID.first(tx, id=account_id) if is_id(account_id) else None
    if account is None:
        raise NotFound
    return account


async def find_stored(tx: Tx, account_id: str) -> StoredAccount:
    """Return an account with its encrypted credentials. Raises NotFound."""
    account = await queries.STORED_BY_ID.first(tx, id=account_id) if is_id(account_id) else None
    if account is None:
        raise NotFound
    return account


async def find_by_label(tx: Tx, text: str) -> GatewayAccount:
    """Return the account with an id or a label.

    The operator's accounts count before those of merchants, and retired ones last. Raises NotFound,
    and Invalid on ``account`` if accounts of several merchants have the label.
    """
    if is_id(text):
        return await find(tx, text)
    label = text.strip().lower()
    labeled = [each for each in await list_accounts(tx) if each.label.lower() == label]
    used = [each for each in labeled if each.status != "RETIRED"]
    candidates = [each for each in used if each.merchant_id is None] or used or labeled[:1]
    if not candidates:
        raise NotFound
    if len(candidates) > 1:
        reason = f"account must be an id: accounts of several merchants have the label {text!r}"
        raise Invalid("account", reason)
    return candidates[0]


async def find_id(tx: Tx, text: str, environment: Container[str]) -> str:
    """Return the id of the account with an id, a label, or the name of an environment's gateway.

    ``environment`` has the gateways of the environment. Raises Invalid on ``account``.
    """
    if text.strip() in environment:
        return text.strip()
    try:
        return (await find_by_label(tx, text)).id
    except NotFound:
        reason = "account must be the id or the label of one, or one of OPENTILL_GATEWAYS"
        raise Invalid("account", f"{reason}, not {text!r}") from None


async def list_accounts(tx: Tx) -> list[GatewayAccount]:
    """Return all accounts, active ones first, in the order of their priority."""
    return await queries.LIST.all(tx)


async def list_owners(tx: Tx) -> list[str]:
    """Return the ids of merchants with active accounts of their own."""
    active = [account for account in await list_accounts(tx) if account.status == "ACTIVE"]
    return sorted({account.merchant_id for account in active if account.merchant_id is not None})


async def list_names(tx: Tx) -> dict[str, str]:
    """Return how reports name each account in the database, by id."""
    return {account.id: account.name for account in await list_accounts(tx)}


async def list_stored(tx: Tx) -> list[StoredAccount]:
    """Return all accounts with their encrypted credentials."""
    return await queries.STORED.all(tx)


async def with_self_reporting(tx: Tx, reporting: Container[str]) -> Container[str]:
    """Return the gateways of ``reporting`` and the accounts that report every refund themselves."""
    gateways = registry.self_reporting(registry.account_gateways())
    accounts = await queries.IDS_OF.all(tx, gateways=list(gateways))
    return _Either(reporting, frozenset(account.id for account in accounts))


class _Either(msgspec.Struct, frozen=True):
    """Names that are in either of two containers."""

    gateways: Container[str]
    accounts: frozenset[str]

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        return name in (self.accounts if is_account_id(name) else self.gateways)


async def list_broken(tx: Tx) -> list[Breaker]:
    """Return the accounts that are paused for their failures, first those of the environment."""
    listed = await list_accounts(tx)
    broken = [each for each in listed if each.broken_at is not None and each.status == "ACTIVE"]
    return [*await environment_accounts.list_broken(tx), *broken]
