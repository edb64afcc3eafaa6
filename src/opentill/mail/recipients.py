"""Who gets a message: members of a merchant by their role, or staff."""

from collections.abc import Sequence

import msgspec

from opentill import merchants, people
from opentill.core.languages import Language
from opentill.db.database import Tx
from opentill.mail import preferences, queries
from opentill.mail.model import OF_NOBODY, NewMail, StaffReader
from opentill.mail.topics import Topic


class Recipients(msgspec.Struct, frozen=True):
    """Addresses, and the language that they read."""

    emails: list[str]
    language: Language


async def members(tx: Tx, merchant_id: str, topic: Topic) -> Recipients:
    """Return the members whose role gets a topic: none of a closed merchant, who see no page."""
    if (await merchants.find(tx, merchant_id)).status == "CLOSED":
        return Recipients([], "en")
    found = await people.members(tx, merchant_id)
    emails = [one.email for one in found if one.role in topic.members]
    language = (await preferences.of(tx, merchant_id)).language if emails else "en"
    return Recipients(emails, language)


async def staff(tx: Tx, topic: Topic) -> list[StaffReader]:
    """Return the staff whose role gets a topic."""
    return await queries.STAFF.all(tx, roles=list(topic.staff))


def to_staff(
    readers: Sequence[StaffReader], topic: Topic, cause: str, said: msgspec.Struct
) -> list[NewMail]:
    """Return a mail for each of some staff, in their own language."""
    return [
        NewMail(
            merchant_id=OF_NOBODY,
            topic=topic.name,
            cause=cause,
            recipient=one.email,
            language=one.language,
            data=said,
        )
        for one in readers
    ]


def to_members(
    merchant_id: str, to: Recipients, topic: Topic, cause: str, said: msgspec.Struct
) -> list[NewMail]:
    """Return a mail for each of some members, in the language that they read."""
    return [
        NewMail(
            merchant_id=merchant_id,
            topic=topic.name,
            cause=cause,
            recipient=email,
            language=to.language,
            data=said,
        )
        for email in to.emails
    ]
