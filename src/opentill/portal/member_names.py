"""The names of a merchant's members, for pages that say who did something."""

from collections.abc import Mapping

import msgspec
from markupsafe import Markup

from opentill import people
from opentill.db.database import Tx


class MemberNames(msgspec.Struct, frozen=True):
    """Names by email address, as the members have chosen them."""

    by_email: Mapping[str, str]

    def show(self, who: str) -> Markup:
        """Return a member's name, with the email address in its title.

        ``who`` is an email address, or an actor of the audit log. Somebody who is no member any
        more is shown by the email address.
        """
        email = who.partition(" (")[0]
        name = self.by_email.get(email)
        if not name:
            return Markup("<bdi>{}</bdi>").format(email)
        return Markup('<bdi title="{}">{}</bdi>').format(email, name)


async def read(tx: Tx, merchant_id: str) -> MemberNames:
    """Read the names of a merchant's members."""
    members = await people.members(tx, merchant_id)
    return MemberNames({member.email: member.name for member in members})
