"""Which mails a change of somebody's account makes, by the entry of the audit log that it has."""

import re
from collections.abc import Mapping
from typing import Final

from opentill import people
from opentill.db.database import Tx
from opentill.mail import recipients
from opentill.mail.contents import AccountChange, FactorsWaiting
from opentill.mail.model import OF_NOBODY, Audited, NewMail
from opentill.mail.topics import BY_NAME

# What has changed, by the action and, where that is not enough, the end of the subject.
_CHANGES: Final[Mapping[str, str | Mapping[str, str]]] = {
    "people second factor": {"set up": "authenticator_on", "removed": "authenticator_off"},
    "people recovery codes": "codes",
    "people passkey add": "passkey_on",
    "people passkey remove": "passkey_off",
    "people password": "password",
    "people set anew": "set_anew",
    "people accept": "joined",
    "people role": "role",
    "people remove": "removed",
    "people factor failed": "codes_wrong",
    "people factors ask": "factors_asked",
    "people factors begin": "factors_begun",
    "people factors stop": "factors_stopped",
    "people factors end": "factors_ended",
}
ACTIONS: Final = frozenset(_CHANGES)
CHANGES: Final = tuple(
    change
    for one in _CHANGES.values()
    for change in ((one,) if isinstance(one, str) else one.values())
)
_BEGUN: Final = "factors_begun"
_IN_SUBJECT: Final = re.compile(r"per_[0-9a-z]+")  # at its beginning: whose account it is
_OF_WHO: Final = re.compile(r"\((per_[0-9a-z]+)\)$")  # else the person who has changed it


def _change(entry: Audited) -> str:
    change = _CHANGES[entry.action]
    if isinstance(change, str):
        return change
    return next(name for end, name in change.items() if entry.subject.endswith(end))


async def mails(tx: Tx, entry: Audited) -> list[NewMail]:
    """Return the mails about a change: to the person and, of staff, to other administrators."""
    found = _IN_SUBJECT.match(entry.subject)
    of_who = _OF_WHO.search(entry.who)
    person_id = found[0] if found else of_who[1] if of_who else ""
    person = await people.find_by_id(tx, person_id)
    if person is None:
        return []
    change = _change(entry)
    said = AccountChange(
        change=change,
        email=person.email,
        who=entry.who,
        subject=entry.subject,
        reason=entry.reason,
        at=entry.at,
    )
    cause, made = f"audit {entry.number}", list[NewMail]()
    until = await people.lost_factors.due_at(tx, person_id) if change == _BEGUN else None
    made.append(
        NewMail(
            merchant_id=OF_NOBODY,
            topic="account_change" if until is None else "factors_waiting",
            cause=cause,
            recipient=person.email,
            language=person.language or "en",
            data=said if until is None else FactorsWaiting(at=entry.at, until=until),
        )
    )
    if "staff" in entry.subject or await people.is_staff(tx, person_id):
        topic_of_staff = BY_NAME["account_change_staff"]
        readers = [
            one for one in await recipients.staff(tx, topic_of_staff) if one.person_id != person_id
        ]
        made += recipients.to_staff(readers, topic_of_staff, cause, said)
    return made
