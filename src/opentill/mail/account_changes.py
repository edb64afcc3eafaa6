"""Changes of a person's account that the person gets a mail about."""

from collections.abc import Mapping
from typing import Final

from opentill.mail.model import AuditEntry
from opentill.people import Person

# Action in the audit log → name of the change; of several names, the subject's end selects one.
ACCOUNT_CHANGES: Final[Mapping[str, str | Mapping[str, str]]] = {
    "people second factor": {"set up": "authenticator_on", "removed": "authenticator_off"},
    "people recovery codes": "codes",
    "people passkey add": "passkey_on",
    "people passkey remove": "passkey_off",
    "people password": "password",
    "people email": "email",
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


def name_of(entry: AuditEntry) -> str:
    """Return the name of the change in an entry of the audit log."""
    names = ACCOUNT_CHANGES[entry.action]
    if isinstance(names, str):
        return names
    return next(name for end, name in names.items() if entry.subject.endswith(end))


def recipients(entry: AuditEntry, person: Person) -> list[str]:
    """Return the addresses that get the mail; a former address learns that it was replaced."""
    if entry.action != "people email":
        return [person.email]
    _person_id, former, *_rest = entry.subject.split(" ")
    return [person.email, former]
