"""The operation that invites a member. It belongs to mail, because the invitation is mailed."""

from typing import Final

from opentill.db.database import Tx
from opentill.http.operations import ApiRequest, Nothing
from opentill.mail.outbox import NewInvitation, invite
from opentill.people import handlers
from opentill.people.api import INVITATION, row
from opentill.people.wire import InvitationBody, InvitationWithUrl


async def create_invitation(
    request: ApiRequest[Nothing, InvitationBody], tx: Tx
) -> InvitationWithUrl:
    """Invite a member, by mail if there is a mail server."""
    settings = request.app.settings
    invitation = NewInvitation(
        email=request.body.email,
        by=request.access.login.name,
        merchant_id=request.merchant_id,
        role=request.body.role,
        by_member=True,
    )
    new_link, _ = await invite(tx, settings, invitation, handlers.actor(request), request.now)
    url = settings.public_url.rstrip("/") + new_link.path if new_link.is_shown else None
    return InvitationWithUrl.new(new_link.link, url)


operations: Final = (
    row(
        "POST", "/team/invitations", "team.manage", "Invite a member", body=InvitationBody,
        response=InvitationWithUrl, status=201, write=create_invitation, secret=True,
        example={"email": "bob@example.com", "role": "support"},
        response_example=INVITATION | {"url": "https://pay.example.com/invite/EXAMPLE"},
        refusals=("somebody who is a member already",),
        about=" The link works once, within 24 hours. If there is a mail server, the link is "
        "mailed, in the language of the inviting person, and `url` is null; otherwise `url` has "
        "the link.",
    ),
)  # fmt: skip
