"""What an old Epay server knows of merchants and orders, taken over unchanged (decision 0175).

Shops keep their pid, their keys and the platform's public key, and find their old orders by the
numbers that the old server gave them.
"""

import secrets
from collections.abc import Sequence
from typing import Final

import msgspec

from opentill import merchants
from opentill.core import encryption
from opentill.core.errors import ConfigurationError, Invalid
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.db.query import columns
from opentill.epay import imported_queries, platform_key, queries
from opentill.epay.credentials import WRONG_KEY, directory_id, encrypt_key, key_decrypts
from opentill.epay.model import METHODS, NewMerchantKeys
from opentill.epay.placing import find_or_create_product
from opentill.merchants import Actor

# A notice that the old server still tries is sent by this one; one that it gave up is not.
_TRIED: Final = "not acknowledged at the old server"
_GIVEN_UP: Final = "given up by the old server"
_DONE: Final = "acknowledged at the old server"


class ImportedEpayOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The Epay part of an imported order; its submission is found when it is stored."""

    merchant_id: str
    order_id: str
    checkout_id: str
    old_trade_no: str
    out_trade_no: str
    type: str
    requested_type: str | None
    name: str
    money: str
    money_type: str
    notify_url: str
    return_url: str
    param: str
    created_at: int
    version: int
    state: str | None  # of its notice; None: it was not paid
    result: str


def split_type(name: str) -> tuple[str, str | None]:
    """Return the supported type and, if it is not supported, the requested one."""
    return (name, None) if name in METHODS else ("", name or None)


def notice_of(notify: int, url: str) -> tuple[str, str]:
    """Return state and result of the notice of a paid order, from ``pre_order.notify``.

    There 0 is acknowledged, a number above 0 the tries that failed, and -1 given up.
    """
    if notify == 0:
        return "DELIVERED", _DONE
    return ("WAITING", _TRIED) if notify > 0 and url else ("FAILED", _GIVEN_UP)


async def find_merchant_of_pid(tx: Tx, pid: int) -> tuple[str, str] | None:
    """Return id and name of the merchant that has a pid."""
    merchant = await queries.MERCHANT_OF_PID.first(tx, id=directory_id(str(pid)))
    return None if merchant is None else (merchant.merchant_id, merchant.name)


async def insert_credentials(
    tx: Tx, settings: Settings, keys: NewMerchantKeys, now: int, *, actor: Actor
) -> str:
    """Store the pid and keys of a merchant, disabled; return its product for Epay orders.

    Raises ConfigurationError if the deployment's key does not decrypt the stored keys, and Invalid
    if the pid is another merchant's.
    """
    if not settings.secret_key or not await key_decrypts(tx, settings.secret_key):
        raise ConfigurationError(WRONG_KEY)
    merchant_id, pid = keys.merchant_id, keys.pid
    if not await queries.LIST_PID.run(tx, merchant_id=merchant_id, id=directory_id(str(pid))):
        raise Invalid("pid", f"pid must be one that no merchant has: {pid} is taken")
    await imported_queries.INSERT_CREDENTIALS.run(
        tx,
        merchant_id=merchant_id,
        pid=pid,
        # Nobody may sign with an empty key, if the merchant is ever enabled.
        sealed_key=encrypt_key(settings, merchant_id, keys.key or secrets.token_hex(16)),
        versions=keys.versions,
        public_key=keys.public_key,
        public_key_at=None if keys.public_key is None else now,
        now=now,
    )
    await merchants.record_audit(tx, actor, "epay import", merchant_id, f"pid {pid}", now)
    return await find_or_create_product(tx, merchant_id, "CNY", now)


async def replace_keys(tx: Tx, settings: Settings, keys: NewMerchantKeys, now: int) -> None:
    """Store the keys of a merchant as the newest dump has them, before it is enabled."""
    await imported_queries.REPLACE_KEYS.run(
        tx,
        merchant_id=keys.merchant_id,
        sealed_key=encrypt_key(settings, keys.merchant_id, keys.key),
        versions=keys.versions,
        public_key=keys.public_key,
        public_key_at=None if keys.public_key is None else now,
        now=now,
    )


async def insert_orders(tx: Tx, orders: Sequence[ImportedEpayOrder], now: int) -> None:
    """Store the Epay part of imported orders, and the notices of those that were paid."""
    values = columns(ImportedEpayOrder, orders)
    notices = {name: values.pop(name) for name in ("state", "result")}
    await imported_queries.INSERT_ORDERS.run(tx, **values)
    await imported_queries.INSERT_NOTICES.run(
        tx, merchant_id=values["merchant_id"], order_id=values["order_id"], **notices, now=now
    )


async def find_imported_order(tx: Tx, number: str) -> str:
    """Return the id of the order with a trade_no of an old server, "" if there is none."""
    return await imported_queries.ORDER_OF_NUMBER.get(tx, number=number) or ""


async def start_notices(tx: Tx, merchant_id: str, now: int) -> None:
    """Send the notices of a merchant that the old server had not delivered."""
    await imported_queries.START_NOTICES.run(tx, merchant_id=merchant_id, now=now)


async def adopt_platform_key(
    tx: Tx, secret_key: str, private_key: str, now: int, *, actor: Actor
) -> bool:
    """Sign with the platform's key of the old server; return whether this changed anything.

    Raises ConfigurationError, BadKey if the text is no key, and Invalid if shops here rely on
    another platform key.
    """
    current = await platform_key.find_or_none(tx)
    key = platform_key.read(private_key)
    if current is not None and current.public_key == key.public_key:
        return False
    if current is not None and await imported_queries.HAS_V2.get(tx):
        reason = (
            "dump must have the platform key of this deployment, or come into one without merchants"
            " of V2: their shops know another platform key"
        )
        raise Invalid("dump", reason)
    number = 1 if current is None else current.number + 1
    await queries.INSERT_PLATFORM_KEY.run(
        tx,
        number=number,
        public_key=key.public_key,
        sealed_key=encryption.encrypt(secret_key, platform_key.PURPOSE, key.private_key),
        now=now,
    )
    await merchants.record_audit(tx, actor, "epay import", "", f"platform key {number}", now)
    return True
