"""The place of a mail in the list of all mails, which is sorted by their last change."""

from typing import Final, NamedTuple

from opentill.core import ids


class LastChange(NamedTuple):
    """The place of a mail among all mails by their last change."""

    at: int
    mail_id: str


LAST_CHANGE: Final = LastChange(2**53, ids.LAST)  # after all mails
