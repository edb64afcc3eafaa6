"""What a merchant wants to have mailed, and the topics of each switch.

Receipts are on unless a merchant turns them off: an operator who sets up a mail server wants
customers to have them. A digest is sent to merchants that ask for it.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from opentill import merchants
from opentill.core import languages
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.mail import queries
from opentill.mail.model import Preferences
from opentill.merchants import Actor
from opentill.web.language import supported

OF_CUSTOMERS: Final = ("receipt", "refund", "refund_failed")
OF_MONEY: Final = (
    "receipt",
    "refund",
    "refund_failed",
    "refund_reversed",
    "refund_at_gateway",
    "dispute_opened",
    "payout_paid",
    "payout_failed",
    "digest",
)
SWITCHES: Final = ("receipts", "refunds", "digest")


async def of(tx: Tx, merchant_id: str) -> Preferences:
    """Return what a merchant wants, which is what everybody has until it says something else."""
    found = await queries.PREFERENCES.first(tx, merchant_id=merchant_id)
    return found or Preferences(merchant_id=merchant_id)


async def change(
    tx: Tx,
    merchant_id: str,
    switches: Mapping[str, bool],
    language: str,
    now: int,
    *,
    actor: Actor,
) -> Preferences:
    """Set what a merchant wants; what is so already is no change. Raises Invalid and NotFound."""
    chosen = supported("merchant", language)
    if chosen is None:
        raise Invalid(
            "language", f"language must be one of {', '.join(languages.offered('merchant'))}"
        )
    await merchants.lock(tx, merchant_id)
    old = await of(tx, merchant_id)
    new = msgspec.structs.replace(old, **switches, language=chosen)
    changed = [name for name in (*SWITCHES, "language") if getattr(old, name) != getattr(new, name)]
    if not changed:
        return old
    new = msgspec.structs.replace(new, updated_at=now)
    await queries.SET_PREFERENCES.run(tx, new)
    subject = ", ".join(
        f"{name}: {_text(getattr(old, name))} → {_text(getattr(new, name))}" for name in changed
    )
    await merchants.record_audit(tx, actor, "mail set", merchant_id, subject, now)
    return new


def _text(value: object) -> str:
    return (
        {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )
