"""Who gets a message: members of a merchant by their role, or staff."""

import msgspec

from opentill import people
from opentill.db.database import Tx
from opentill.mail import preferences, queries
from opentill.mail.topics import Topic
from opentill.web.catalogue import Language


class Recipients(msgspec.Struct, frozen=True):
    """Addresses, and the language that they read."""

    emails: list[str]
    language: Language


async def members(tx: Tx, merchant_id: str, topic: Topic) -> Recipients:
    """Return the members whose role gets a topic."""
    found = await people.members(tx, merchant_id)
    emails = [one.email for one in found if one.role in topic.members]
    language = (await preferences.of(tx, merchant_id)).language if emails else "en"
    return Recipients(emails, language)


async def staff(tx: Tx, topic: Topic) -> list[str]:
    """Return the addresses of the staff whose role gets a topic."""
    found = await queries.STAFF.all(tx, roles=list(topic.staff))
    return [one.email for one in found]
