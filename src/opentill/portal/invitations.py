"""Invitations that pages create: of members by a team or by staff, and of staff."""

from collections.abc import Mapping
from typing import Final

from opentill import mail
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.merchants import Actor
from opentill.people import MERCHANT_ROLES, MerchantRole, NewLink
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

TOO_MANY_MAILS: Final = N_(
    "Ten messages were sent to this address on request within an hour. Try again later"
)

WRONG_ADDRESS: Final = N_("Enter an email address such as name@example.com")
IS_MEMBER: Final = N_("This person is a member already")


class Refused(Exception):
    """An invitation that is refused: status of the response, and the error text of the address."""

    def __init__(self, status: int, error: str) -> None:
        """``error`` is a message id."""
        super().__init__(error)
        self.status = status
        self.error = error


def chosen_role(form: Mapping[str, str]) -> MerchantRole | None:
    """Return the role that a form names, None if it names no role of merchants."""
    return next((role for role in MERCHANT_ROLES if role == form.get("role")), None)


async def invite(
    request: PageRequest, invitation: mail.NewInvitation, actor: Actor
) -> tuple[str, str]:
    """Invite a person; return their address, and the link if no mail server can send it, else "".

    Raises Refused, and NotFound for an unknown merchant.
    """
    settings = request.app.settings
    new = await request.app.db.run(lambda tx: create(tx, settings, invitation, actor, request.now))
    return new.link.email, shown_link(settings, new)


def shown_link(settings: Settings, new: NewLink) -> str:
    """Return the address of a new link, "" if it is mailed and nobody else sees it."""
    return settings.public_url.rstrip("/") + new.path if new.is_shown else ""


async def create(
    tx: Tx, settings: Settings, invitation: mail.NewInvitation, actor: Actor, now: int
) -> NewLink:
    """Create an invitation. Raises Refused, and NotFound for an unknown merchant."""
    try:
        return (await mail.invite(tx, settings, invitation, actor, now))[0]
    except mail.TooManyInvitations:
        error = N_(
            "A person may invite 50 times within 24 hours, and a merchant "
            "200 times. Try again later"
        )
        raise Refused(429, error) from None
    except mail.TooManyMails:
        raise Refused(429, TOO_MANY_MAILS) from None
    except Invalid as problem:
        error = WRONG_ADDRESS
        if "member" in (problem.reason or ""):
            error = IS_MEMBER
        elif "staff" in (problem.reason or ""):
            error = N_("This person is staff already")
        raise Refused(400, error) from None
