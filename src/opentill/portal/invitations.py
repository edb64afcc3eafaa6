"""Invitations that pages create: of members by a team or by staff, and of staff."""

from collections.abc import Mapping
from typing import Final

from opentill import mail
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.http import inputs
from opentill.merchants import Actor
from opentill.people import MERCHANT_ROLES, STAFF_ROLES, MerchantRole, NewLink, StaffRole
from opentill.portal import mail_language
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

TOO_MANY_MAILS: Final = N_(
    "Ten messages were sent to this address on request within an hour. Try again later"
)

WRONG_ADDRESS: Final = N_("Enter an email address such as name@example.com")
IS_MEMBER: Final = N_("This person is a member already")
CHOOSE_ROLE: Final = N_("Choose one of the roles")


class Refused(Exception):
    """An invitation that is refused: status of the response, and error texts by field.

    ``entries`` are those of the form that can be shown again.
    """

    def __init__(
        self, status: int, errors: Mapping[str, str], entries: Mapping[str, str] | None = None
    ) -> None:
        """The errors are message ids."""
        super().__init__(*errors.values())
        self.status = status
        self.errors = dict(errors)
        self.entries = dict(entries or {})


def chosen_role(form: Mapping[str, str]) -> MerchantRole | None:
    """Return the role that a form names, None if it names no role of merchants."""
    return next((role for role in MERCHANT_ROLES if role == form.get("role")), None)


def chosen_staff_role(form: Mapping[str, str]) -> StaffRole | None:
    """Return the role that a form names, None if it names no role of staff."""
    return next((role for role in STAFF_ROLES if role == form.get("role")), None)


async def invite(
    request: PageRequest, actor: Actor, merchant_id: str | None = None, *, by_member: bool = False
) -> dict[str, str]:
    """Invite the person of the form to a merchant, or else to the staff.

    Returns the address as ``invited``, and as ``link`` the link if no mail server can send it, else
    "". Raises Refused with the errors of all fields, and NotFound for an unknown merchant.
    """
    form, settings = await request.form(), request.app.settings
    role = chosen_role(form) if merchant_id is not None else None
    staff_role = chosen_staff_role(form) if merchant_id is None else None
    email, language = form.get("email", ""), mail_language.choose(request, form)
    errors = dict[str, str]()
    try:
        inputs.check_email("email", email)
    except Invalid:
        errors["email"] = WRONG_ADDRESS
    if role is None and staff_role is None:
        errors["role"] = CHOOSE_ROLE
    if language is None:
        errors["language"] = N_("Choose one of the languages")
    entries = {"email": email, "language": language or ""}
    if chosen := role or staff_role:
        entries["role"] = chosen
    if errors:
        raise Refused(400, errors, entries)
    invitation = mail.NewInvitation(
        email=email,
        by=request.login.name,
        language=language,
        merchant_id=merchant_id,
        role=role,
        staff_role=staff_role,
        by_member=by_member,
    )
    try:
        new = await request.transact(
            lambda tx: create(tx, settings, invitation, actor, request.now)
        )
    except Refused as refusal:
        raise Refused(refusal.status, refusal.errors, entries) from None
    return {"invited": new.link.email, "link": shown_link(settings, new)}


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
        raise Refused(429, {"email": error}) from None
    except mail.TooManyMails:
        raise Refused(429, {"email": TOO_MANY_MAILS}) from None
    except Invalid as problem:
        error = WRONG_ADDRESS
        if "member" in (problem.reason or ""):
            error = IS_MEMBER
        elif "staff" in (problem.reason or ""):
            error = N_("This person is staff already")
        raise Refused(400, {"email": error}) from None
