"""A merchant's standing: status, capabilities, notes and history; and applications to decide.

Each change is a form with a reason, which the merchant reads, and notes, which only staff do. A
form whose merchant has changed meanwhile is shown again with what is so now; nothing is done.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants, onboarding, people
from opentill.console.labels import MERCHANT_STATUS
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.merchants import Capability, Status, StatusEvent
from opentill.onboarding import NotClosable
from opentill.portal import form_ids, mail_language, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# What a status allows: the forms of its page, in their order.
_EVENTS: Final[Mapping[Status, tuple[StatusEvent, ...]]] = {
    status: tuple(one.event for one in merchants.TRANSITIONS if one.source == status)
    for status in merchants.STATUSES
}
_BY_NAME: Final[Mapping[str, StatusEvent]] = {one.event: one.event for one in merchants.TRANSITIONS}
_CAPABILITIES: Final[Mapping[str, Capability]] = {one: one for one in merchants.CAPABILITIES}
_SHOWN: Final = 200  # lines of a history


class Typed(msgspec.Struct, frozen=True):
    """What was typed into one form of the page, by the form's name, and what is wrong with it."""

    form: str = ""
    reason: str = ""
    notes: str = ""
    confirm: str = ""
    errors: Mapping[str, str] = {}
    wait: str = ""  # a value that a sentence names


class _Made(msgspec.Struct, frozen=True):
    """The invitation that an approval made."""

    email: str
    path: str  # "" where the link is mailed


class _Refused(Exception):
    """A form is not to be taken; ``typed`` says why."""

    def __init__(self, typed: Typed, status: int) -> None:
        super().__init__(typed.errors)
        self.typed, self.status = typed, status


async def show(request: PageRequest) -> Response:
    """Show a merchant's standing. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    typed: Typed | None = None,
    invitation: _Made | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        application = await merchants.application_of(tx, merchant.id)
        lines = await merchants.status_history(tx, merchant.id, _SHOWN)
        switched = await merchants.switched_off(tx, merchant.id)
        left = await onboarding.unfinished(tx, merchant) if merchant.status == "SUSPENDED" else None
    shown = typed or Typed()
    return render.page(
        request,
        "standing.html",
        status,
        merchant=merchant,
        capabilities=merchants.CAPABILITIES,
        switchable=merchant.status in {"ACTIVE", "SUSPENDED"},
        switched=switched,
        events=_EVENTS[merchant.status],
        manages=request.may("merchants.manage"),
        application=application,
        lines=lines,
        most=_SHOWN,
        left=left,
        money=Money,
        typed=shown,
        errors={f"{shown.form}-{name}": key for name, key in shown.errors.items()},
        wait=shown.wait,
        invitation=invitation,
        public_url=request.app.settings.public_url.rstrip("/"),
        form_id=form_ids.new_form_id,
        zone=ZONE,
    )


async def take(request: PageRequest) -> Response:
    """Take a transition of the status, once for each form."""
    form = await request.form()
    event = _BY_NAME.get(form.get("event", ""))
    if event is None:
        return await _page(request, 400)
    actor = people.actor_of(request.login, form.get("reason", ""))
    merchant_id, notes, now = request.merchant_id, form.get("notes", ""), request.now

    async def invited(tx: Tx) -> _Made:
        language, settings = mail_language.chosen(request, form), request.app.settings
        if language is None:
            raise _Refused(Typed(errors={"language": N_("Choose one of the languages")}), 400)
        approved = await onboarding.approve(
            tx, settings, merchant_id, actor, now, notes=notes, language=language
        )
        made = approved.invitation
        return _Made(made.link.email, made.path if made.is_shown else "")

    async def taken(tx: Tx) -> str:
        if event == "closed":
            await _check_confirmed(tx, merchant_id, form)
            await onboarding.close(tx, merchant_id, actor, now, notes=notes)
        else:
            await merchants.change_status(tx, merchant_id, event, actor, now, notes=notes)
        return merchant_id

    try:
        if event == "approved":
            made = await form_ids.create_secret(request, invited, _Made)
            return await _page(request, invitation=made)
        await form_ids.run_once(request, taken)
    except (Invalid, KeyReused, _Refused) as problem:
        return await _again(request, event, form, problem)
    return render.see_other(request, f"{_path(merchant_id)}?done={event}")


async def _check_confirmed(tx: Tx, merchant_id: str, form: Mapping[str, str]) -> None:
    """Raise _Refused unless the merchant's name was typed."""
    merchant = await merchants.find(tx, merchant_id)
    if form.get("confirm", "").strip() != merchant.name:
        raise _Refused(
            Typed(
                errors={
                    "confirm": N_("Type the merchant's name as it stands at the top of this page")
                }
            ),
            400,
        )


async def switch(request: PageRequest) -> Response:
    """Switch a capability on or off, once for each form."""
    form = await request.form()
    capability = _CAPABILITIES.get(form.get("capability", ""))
    if capability is None:
        return await _page(request, 400)
    actor = people.actor_of(request.login, form.get("reason", ""))

    async def work(tx: Tx) -> str:
        made = await merchants.set_capability(
            tx,
            request.merchant_id,
            capability,
            on=form.get("state") == "on",
            actor=actor,
            now=request.now,
            notes=form.get("notes", ""),
        )
        return made.id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused) as problem:
        return await _again(request, capability, form, problem)
    return render.see_other(request, f"{_path(request.merchant_id)}?done=switched")


async def note(request: PageRequest) -> Response:
    """Add a note, once for each form."""
    form = await request.form()
    actor = people.actor_of(request.login, "a note on the page of the standing")

    async def work(tx: Tx) -> str:
        await merchants.add_note(tx, request.merchant_id, form.get("notes", ""), actor, request.now)
        return request.merchant_id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused) as problem:
        return await _again(request, "noted", form, problem)
    return render.see_other(request, f"{_path(request.merchant_id)}?done=noted")


async def _again(
    request: PageRequest, name: str, form: Mapping[str, str], problem: Exception
) -> Response:
    """Show a form again with what was typed, and why it was not taken."""
    status, errors, wait = 400, dict[str, str](), ""
    match problem:
        case _Refused():
            status, errors = problem.status, dict(problem.typed.errors)
        case NotClosable():
            status, errors = (
                409,
                {"reason": N_("The merchant still has money or something under way, see below")},
            )
        case Invalid(field="reason"):
            errors = {"reason": N_("Give a reason: up to 500 characters on one line")}
        case Invalid(field="notes"):
            errors = {"notes": N_("Notes may have up to 2,000 printable characters")}
        case _:  # somebody else was faster, or the form was used for something else
            async with request.app.db.connection() as tx:
                now = (await merchants.find(tx, request.merchant_id)).status
            status, errors = (
                409,
                {
                    "reason": N_(
                        "Somebody else has changed this merchant meanwhile: {wait}. "
                        "Look again, and send the form anew if it still makes sense"
                    )
                },
            )
            wait = request.localizer.gettext(MERCHANT_STATUS[now])
    kept = {field: form.get(field, "") for field in ("reason", "notes", "confirm")}
    return await _page(request, status, Typed(form=name, errors=errors, wait=wait, **kept))


async def applications(request: PageRequest) -> Response:
    """List the applications that wait, the oldest first."""
    async with request.app.db.connection() as tx:
        waiting = await merchants.waiting_applications(tx)
    return render.page(request, "applications.html", waiting=waiting, zone=ZONE)


def _path(merchant_id: str) -> str:
    return f"{PLACE}/{merchant_id}/standing"


_STANDING: Final = f"{PLACE}/{{merchant:id}}/standing"
pages: Final = (
    Page("GET", f"{CONSOLE_PATH}/applications", "merchants.read", applications,
         menu=N_("Applications")),
    Page("GET", _STANDING, "merchants.read", show),
    Page("POST", _STANDING, "merchants.manage", take),
    Page("POST", f"{_STANDING}/capability", "merchants.manage", switch),
    Page("POST", f"{_STANDING}/notes", "merchants.manage", note),
)  # fmt: skip
