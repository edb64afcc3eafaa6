"""A merchant's bank account: where its payouts go.

The number is encrypted, and pages, logs and the audit log have its last four characters only. A
change holds payouts back for some days (decision 0090), so that whoever took over a login cannot
have money sent away before the merchant has noticed. So does a payout that the bank returned, until
the account is changed or staff confirm it.
"""

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
    """With which key accounts are encrypted, and how many days a change holds payouts back."""

    secret_key: str
    hold_days: int


def _purpose(merchant_id: str, version: int) -> str:
    return f"bank account {merchant_id} {version}"


async def current(tx: Tx, merchant_id: str) -> StoredAccount | None:
    """Return a merchant's bank account, None without one."""
    return await queries.ACCOUNT.first(tx, merchant_id=merchant_id)


def read(secret_key: str, stored: StoredAccount) -> BankAccount:
    """Return an account with its whole number. Raises ``encryption.WrongKey``."""
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
    """Send payouts to this account from now on; ``account`` is checked already.

    ``seen`` is the version that was shown, 0 for none, None for any. The same account again is no
    change, and another address of its holder holds nothing back. Raises NotFound,
    ``merchants.Stale`` and Invalid.
    """
    await merchants.lock(tx, merchant_id)
    await merchants.find(tx, merchant_id)
    actor = operator_actions.check_actor(actor.who, actor.reason)
    old = await current(tx, merchant_id)
    old_account = _read_old(old, rule.secret_key)
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
    made = await queries.ADD_ACCOUNT.one(
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
    subject = f"{before}{made.shown}, of {made.holder}"
    await merchants.record_audit(tx, actor, "payouts account", merchant_id, subject, now)
    return made


async def held_since(tx: Tx, account: StoredAccount) -> int | None:
    """Return when the bank returned a payout to an account, Unix ms; None if nothing waits for it.

    The same for a payout that the bank could not send, if it named the account as the reason.
    """
    return await queries.HELD_SINCE.get(
        tx, merchant_id=account.merchant_id, version=account.version
    )


async def current_held_since(tx: Tx, merchant_id: str) -> int | None:
    """As ``held_since``, of a merchant's account; None without one."""
    account = await current(tx, merchant_id)
    return None if account is None else await held_since(tx, account)


async def confirm(
    tx: Tx, merchant_id: str, actor: Actor, now: int, seen: tuple[int, int] | None = None
) -> StoredAccount:
    """Let payouts go to an account again although the bank returned one.

    ``seen`` is what was shown: the account's version, and since when it is held. Raises NotFound,
    ``merchants.Stale``, and Invalid for an account that payouts do not wait for.
    """
    await merchants.lock(tx, merchant_id)
    await merchants.find(tx, merchant_id)
    actor = operator_actions.check_actor(actor.who, actor.reason)
    account = or_not_found(await current(tx, merchant_id), f"{merchant_id} has no bank account yet")
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


def _read_old(old: StoredAccount | None, secret_key: str) -> BankAccount | None:
    try:
        return None if old is None else read(secret_key, old)
    except encryption.WrongKey:
        return None  # it must be entered anew


def check_from(accounts: dict[str, BankAccount], currency: str) -> BankAccount:
    """Return the operator's own account of a currency. Raises Invalid where there is none."""
    found = accounts.get(currency)
    if found is None:
        known = ", ".join(accounts) or "none yet"
        reason = f"currency must be one of OPENTILL_PAYOUT_ACCOUNTS, your own accounts: {known}"
        raise Invalid("currency", reason)
    return found
