"""A merchant's bank account: where its payouts go.

The number is encrypted; pages, logs and the audit log show only its last four characters. A change
holds payouts back for some days (decision 0090), so that somebody who took over a login cannot have
money sent away before the merchant notices. A payout that the bank returned also holds payouts
back, until the account is changed or staff confirm it.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from opentill import merchants
from opentill.core import encryption
from opentill.core.bankaccounts import BankAccount, PostalAddress
from opentill.core.errors import Invalid, or_not_found
from opentill.db.database import Tx
from opentill.merchants import Actor, operator_actions
from opentill.payouts import queries
from opentill.payouts.model import StoredAccount

_DAY_MS: Final = 86_400_000


class HoldRule(msgspec.Struct, frozen=True):
    """The key that encrypts accounts, and how many days a change holds payouts back."""

    secret_key: str
    hold_days: int


def _purpose(merchant_id: str, version: int) -> str:
    return f"bank account {merchant_id} {version}"


async def find(tx: Tx, merchant_id: str) -> StoredAccount | None:
    """Return the newest version of a merchant's bank account; None if there is no account."""
    return await queries.ACCOUNT.first(tx, merchant_id=merchant_id)


async def find_of_payouts(
    tx: Tx, merchant_id: str, payout_ids: Sequence[str]
) -> dict[str, StoredAccount]:
    """Return the accounts to which a merchant's payouts go, by the payouts' ids."""
    rows = await queries.ACCOUNTS_OF_PAYOUTS.all(tx, merchant_id=merchant_id, ids=list(payout_ids))
    return {row.payout_id: row for row in rows}


def read(secret_key: str, stored: StoredAccount) -> BankAccount:
    """Decrypt an account. Raises ``encryption.WrongKey``."""
    purpose = _purpose(stored.merchant_id, stored.version)
    address = None
    if stored.address is not None:
        text = encryption.decrypt(secret_key, f"address of {purpose}", stored.address)
        address = msgspec.json.decode(text, type=PostalAddress)
    return BankAccount(
        holder=stored.holder,
        number=encryption.decrypt(secret_key, purpose, stored.number),
        country=stored.country,
        bic=stored.bic,
        bank_code=stored.bank_code,
        address=address,
    )


async def change(
    tx: Tx,
    merchant_id: str,
    account: BankAccount,
    actor: Actor,
    rule: HoldRule,
    now: int,
    seen: int | None = None,
) -> StoredAccount:
    """Send later payouts to ``account``, which has been validated.

    ``seen`` is the version that the form showed: 0 for no account, None to accept any version. If
    ``account`` equals the current one, nothing changes. A change of only the holder's address
    starts no new hold. Raises NotFound, ``merchants.Stale`` and Invalid.
    """
    await merchants.lock(tx, merchant_id)
    await merchants.find(tx, merchant_id)
    actor = operator_actions.check_actor(actor.who, actor.reason)
    old = await find(tx, merchant_id)
    old_account = None if old is None else _read_or_none(old, rule.secret_key)
    if old is not None and old_account == account:
        return old
    if seen is not None and seen != (old.version if old else 0):
        raise merchants.Stale
    version = old.version + 1 if old else 1
    usable_from = now + rule.hold_days * _DAY_MS if old else now
    if old is not None and old_account is not None:
        with_new_address = msgspec.structs.replace(old_account, address=account.address)
        if with_new_address == account:
            usable_from = old.usable_from
    purpose = _purpose(merchant_id, version)
    address = None
    if account.address is not None:
        text = msgspec.json.encode(account.address).decode()
        address = encryption.encrypt(rule.secret_key, f"address of {purpose}", text)
    new = await queries.ADD_ACCOUNT.one(
        tx,
        StoredAccount(
            merchant_id=merchant_id,
            version=version,
            holder=account.holder,
            number=encryption.encrypt(rule.secret_key, purpose, account.number),
            hint=account.hint,
            country=account.country,
            bic=account.bic,
            bank_code=account.bank_code,
            usable_from=usable_from,
            who=actor.who,
            reason=actor.reason,
            created_at=now,
            address=address,
        ),
    )
    before = f"{old.shown} → " if old else ""
    subject = f"{before}{new.shown}, of {new.holder}"
    await merchants.record_audit(tx, actor, "payouts account", merchant_id, subject, now)
    return new


async def held_since(tx: Tx, account: StoredAccount) -> int | None:
    """Return since when a returned payout holds an account's payouts back (Unix ms), or None.

    A payout that the bank could not send has the same effect if the bank gave the account as the
    reason.
    """
    return await queries.HELD_SINCE.get(
        tx, merchant_id=account.merchant_id, version=account.version
    )


async def find_held_since(tx: Tx, merchant_id: str) -> int | None:
    """Like ``held_since``, for a merchant's newest account; None also if there is no account."""
    account = await find(tx, merchant_id)
    return None if account is None else await held_since(tx, account)


async def confirm(
    tx: Tx, merchant_id: str, actor: Actor, now: int, seen: tuple[int, int] | None = None
) -> StoredAccount:
    """Release an account whose payouts are held back because the bank returned one.

    ``seen`` is what the page showed: the account's version, and since when its payouts are held
    back. Raises NotFound, ``merchants.Stale``, and Invalid if no payouts are held back.
    """
    await merchants.lock(tx, merchant_id)
    await merchants.find(tx, merchant_id)
    actor = operator_actions.check_actor(actor.who, actor.reason)
    account = or_not_found(await find(tx, merchant_id), f"{merchant_id} has no bank account yet")
    since = await held_since(tx, account)
    if since is None:
        raise Invalid("account", "account must be one to which the bank returned a payout")
    if seen is not None and seen != (account.version, since):
        raise merchants.Stale
    await queries.CONFIRM_ACCOUNT.run(
        tx, merchant_id=merchant_id, version=account.version, at=max(now, since), who=actor.who,
        reason=actor.reason,
    )  # fmt: skip
    await merchants.record_audit(
        tx, actor, "payouts confirm-account", merchant_id, account.shown, now
    )
    return account


def _read_or_none(account: StoredAccount, secret_key: str) -> BankAccount | None:
    """Decrypt an account; None if it was encrypted with another key."""
    try:
        return read(secret_key, account)
    except encryption.WrongKey:
        return None


def require_source_account(accounts: dict[str, BankAccount], currency: str) -> BankAccount:
    """Return the operator's own account in a currency. Raises Invalid if there is none."""
    if currency not in accounts:
        currencies = ", ".join(accounts) or "none yet"
        reason = (
            f"currency must be one of OPENTILL_PAYOUT_ACCOUNTS, your own accounts: {currencies}"
        )
        raise Invalid("currency", reason)
    return accounts[currency]
