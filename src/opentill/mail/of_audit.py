"""Which mails an entry of the audit log makes: the table of its actions."""

import re
from collections.abc import Sequence
from typing import Final

from opentill.db.database import Tx
from opentill.mail import of_accounts, recipients
from opentill.mail.contents import Entry
from opentill.mail.model import Audited, NewMail
from opentill.mail.topics import BY_NAME

_TOPICS: Final = {  # by action
    "webhooks disable": "endpoint_disabled",
    "webhooks add": "endpoint_changed",
    "webhooks set": "endpoint_changed",  # only of the address
    "keys create": "key_changed",
    "keys regenerate": "key_changed",
    "keys revoke": "key_changed",
    "payouts account": "account_changed",
}
# How the subject of a changed endpoint begins whose address is another one (``webhooks.update``).
_ADDRESS: Final = re.compile(r"\S+ url ")


async def mails(tx: Tx, entries: Sequence[Audited], since: int) -> list[NewMail]:
    """Return the mails that entries make; what happened before ``since`` (Unix ms) makes none."""
    made: list[NewMail] = []
    for one in entries:
        if one.at < since:
            continue
        if _is_mailed(one):
            made += await _to_members(tx, one)
        elif one.action in of_accounts.ACTIONS:
            made += await of_accounts.mails(tx, one)
    return made


def _is_mailed(entry: Audited) -> bool:
    """Return whether an entry makes mails: of an endpoint's changes, that of its address does."""
    if entry.action == "webhooks set" and not _ADDRESS.match(entry.subject):
        return False
    return entry.action in _TOPICS


async def _to_members(tx: Tx, entry: Audited) -> list[NewMail]:
    said = Entry(
        merchant_id=entry.merchant_id,
        action=entry.action,
        who=entry.who,
        subject=entry.subject,
        at=entry.at,
    )
    topic = BY_NAME[_TOPICS[entry.action]]
    to = await recipients.members(tx, entry.merchant_id, topic)
    return recipients.to_members(entry.merchant_id, to, topic, f"audit {entry.number}", said)
