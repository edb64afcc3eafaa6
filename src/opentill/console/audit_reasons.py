"""The reasons of the audit log as people read them.

A reason that a person typed is shown as it is. OpenTill itself notes a few fixed ones.
"""

import re
from collections.abc import Mapping
from typing import Final

from markupsafe import Markup, escape

from opentill.portal.labels import STAFF_ROLE
from opentill.web.language import Localizer
from opentill.web.templates import isolated
from opentill.web.translations import N_

_NOTED: Final[Mapping[str, str]] = {
    "applied at /apply": N_("Application form"),
    "as an owner": N_("As an owner"),
    "asked for on the page of a forgotten password": N_("Forgotten password"),
    "by OpenTill itself": N_("By OpenTill itself"),
    "by command, without a reason": N_("Command without a reason"),
    "by the link that was mailed": N_("With the link of an email"),
    "by the merchant's API": N_("Through the API"),
    "taken in the console, for the bank": N_("For the bank"),
    "uploaded in the console": N_("Uploaded in the console"),
}
_STAFF: Final = re.compile(r"as staff, (\w+)", re.ASCII)
_INVITED: Final = re.compile(r"invited by (.+?)(?: \(per_\w+\))?", re.ASCII)
# Notes that say only where something was done, which is not a reason.
_PLACE: Final = re.compile(r"(a note )?on the page (of|about) [A-Za-z ]+|in the console")
_ROLES: Final[Mapping[str, str]] = {str(role): name for role, name in STAFF_ROLE.items()}


def write(localizer: Localizer, reason: str) -> Markup:
    """Write a reason in the reader's language; "–" if there is none."""
    if not reason or _PLACE.fullmatch(reason):
        return Markup("–")
    if reason in _NOTED:
        return localizer.gettext(_NOTED[reason])
    if (match := _STAFF.fullmatch(reason)) and match[1] in _ROLES:
        role = localizer.gettext(_ROLES[match[1]])
        return localizer.gettext(N_("As staff, with the role {role}"), role=role)
    if match := _INVITED.fullmatch(reason):
        return localizer.gettext(N_("Invited by {who}"), who=isolated(match[1]))
    return escape(reason)
