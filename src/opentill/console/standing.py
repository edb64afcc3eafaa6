"""A merchant's standing: status, capabilities, notes and history; and the open applications.

Each form has a reason, which the merchant reads, and notes, which only staff read. If the merchant
has changed since the form was shown, nothing is stored and the form is shown again.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants, onboarding, people
from opentill.console import proof_facts
from opentill.console.labels import MERCHANT_STATUS
from opentill.console.merchants import PLACE
from opentill.console.zone import ZONE
from opentill.core import pasted
from opentill.core.errors import Invalid, KeyReused
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.merchants import Capability, Status, StatusEvent
from opentill.onboarding import NotClosable
from opentill.portal import form_ids, mail_language, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

# The events that a status allows, in the order of their forms.
_EVENTS: Final[Mapping[Status, tuple[StatusEvent, ...]]] = {
    status: tuple(t.event for t in merchants.TRANSITIONS if t.source == status)
    for status in merchants.STATUSES
}
_BY_NAME: Final[Mapping[str, StatusEvent]] = {t.event: t.event for t in merchants.TRANSITIONS}
_CAPABILITIES: Final[Mapping[str, Capability]] = {name: name for name in merchants.CAPABILITIES}
_MOST_EVENTS: Final = 200  # the history shows this many of the newest events


class FormInput(msgspec.Struct, frozen=True):
    """The input of one form of the page, and its error texts by field."""

    form: str = ""
    reason: str = ""
    notes: str = ""
    confirm: str = ""
    errors: Mapping[str, str] = {}
    wait: str = ""  # the value of {wait} in an error text


class _Invitation(msgspec.Struct, frozen=True):
    """The invitation of the applicant whose application was approved."""

    email: str
    path: str  # the path of the invitation's link, "" if the link is mailed


class _Refused(Exception):
    """A field of the form has a wrong value."""

    def __init__(self, field: str, error: str) -> None:
        super().__init__(field)
        self.errors = {field: error}


async def show_standing(request: PageRequest) -> Response:
    """Show a merchant's standing. Raises NotFound."""
    return await _page(request)


async def _page(
    request: PageRequest,
    status: int = 200,
    form_input: FormInput | None = None,
    invitation: _Invitation | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        application = await merchants.application_of(tx, merchant.id)
        history = await merchants.status_history(tx, merchant.id, _MOST_EVENTS)
        switched_off = await merchants.switched_off(tx, merchant.id)
        unfinished = (
            await onboarding.unfinished(tx, merchant)
            if merchant.status in {"ACTIVE", "SUSPENDED"}
            else None
        )
    events: list[StatusEvent] = [event for event in _EVENTS[merchant.status] if event != "closed"]
    if unfinished is not None and not unfinished.blockers:
        events.append("closed")  # an active merchant is suspended by the same form
    form_input = form_input or FormInput()
    return render.page(
        request,
        "standing.html",
        status,
        merchant=merchant,
        capabilities=merchants.CAPABILITIES,
        switchable=merchant.status in {"ACTIVE", "SUSPENDED"},
        switched_off=switched_off,
        events=events,
        manages=request.may("merchants.manage"),
        application=application,
        history=history,
        most=_MOST_EVENTS,
        unfinished=unfinished,
        blocker_pages=_find_blocker_pages(request),
        money=Money,
        form_input=form_input,
        errors={f"{form_input.form}-{name}": text for name, text in form_input.errors.items()},
        wait=form_input.wait,
        invitation=invitation,
        public_url=request.app.settings.public_url.rstrip("/"),
        form_id=form_ids.new_form_id,
        zone=ZONE,
    )


def _find_blocker_pages(request: PageRequest) -> Mapping[str, str]:
    """Return the pages where what is in the way of closing a merchant is settled, by its name."""
    merchant_id = request.merchant_id
    balance = f"{request.base}/dashboard/{merchant_id}/balance"
    adjustments = request.console("merchants", merchant_id, "adjustments")
    payments = f"{request.console('payments')}?merchant={merchant_id}"
    return {
        "pending": balance,
        "available": request.console("payout-runs"),
        "frozen": adjustments,
        "reserve": balance,
        "prepaid": adjustments,
        "payments": f"{payments}&status=PENDING",
        "refunds": payments,
        "disputes": f"{request.console('disputes')}?status=OPEN",
        "payouts": f"{request.console('payouts')}?merchant={merchant_id}&status=PENDING",
        "approvals": request.console("approvals"),
    }


async def change_status(request: PageRequest) -> Response:
    """Change the status by an event.

    Sending the same form again has no effect.
    """
    form = await request.form()
    event = _BY_NAME.get(form.get("event", ""))
    if event is None:
        return await _page(request, 400)
    actor = people.actor_of(request.login, form.get("reason", ""))
    merchant_id, notes, now = request.merchant_id, form.get("notes", ""), request.now

    async def approve(tx: Tx) -> _Invitation:
        language, settings = mail_language.choose(request, form), request.app.settings
        if language is None:
            raise _Refused("language", N_("Choose one of the languages"))
        approved = await onboarding.approve(
            tx, settings, merchant_id, actor, now, notes=notes, language=language
        )
        link = approved.invitation
        return _Invitation(link.link.email, link.path if link.is_shown else "")

    async def apply_event(tx: Tx) -> str:
        if event == "closed":
            await _check_confirmed(tx, merchant_id, form)
            await onboarding.close(tx, merchant_id, actor, now, notes=notes)
        else:
            await merchants.change_status(tx, merchant_id, event, actor, now, notes=notes)
        return merchant_id

    try:
        if event == "approved":
            invitation = await form_ids.create_secret(request, approve, _Invitation)
            return await _page(request, invitation=invitation)
        await form_ids.run_once(request, apply_event)
    except (Invalid, KeyReused, _Refused) as problem:
        return await _refuse(request, event, form, problem)
    return render.see_other(request, f"{_path(merchant_id)}?done={event}")


async def _check_confirmed(tx: Tx, merchant_id: str, form: Mapping[str, str]) -> None:
    """Raise _Refused unless the form contains the merchant's name."""
    merchant = await merchants.find(tx, merchant_id)
    if pasted.trim(form.get("confirm", "")) != merchant.name:
        error = N_("Type the merchant’s name exactly as it stands above this field")
        raise _Refused("confirm", error)


async def switch_capability(request: PageRequest) -> Response:
    """Switch a capability on or off.

    Sending the same form again has no effect.
    """
    form = await request.form()
    capability = _CAPABILITIES.get(form.get("capability", ""))
    if capability is None:
        return await _page(request, 400)
    actor = people.actor_of(request.login, form.get("reason", ""))
    is_on = form.get("state") == "on"

    async def work(tx: Tx) -> str:
        merchant = await merchants.set_capability(
            tx,
            request.merchant_id,
            capability,
            on=is_on,
            actor=actor,
            now=request.now,
            notes=form.get("notes", ""),
        )
        return merchant.id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused) as problem:
        return await _refuse(request, capability, form, problem)
    result = f"{capability}-{'on' if is_on else 'off'}"
    return render.see_other(request, f"{_path(request.merchant_id)}?done={result}")


async def add_note(request: PageRequest) -> Response:
    """Add a note.

    Sending the same form again has no effect.
    """
    form = await request.form()
    actor = people.actor_of(request.login, "a note on the page of the standing")

    async def work(tx: Tx) -> str:
        await merchants.add_note(tx, request.merchant_id, form.get("notes", ""), actor, request.now)
        return request.merchant_id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused) as problem:
        return await _refuse(request, "noted", form, problem)
    return render.see_other(request, f"{_path(request.merchant_id)}?done=noted")


async def _refuse(
    request: PageRequest, name: str, form: Mapping[str, str], problem: Exception
) -> Response:
    """Show a refused form again with its input and the reason of the refusal."""
    status, wait = 400, ""
    match problem:
        case _Refused():
            errors = problem.errors
        case NotClosable():
            error = N_("The merchant still has money or open items, see below")
            status, errors = 409, {"reason": error}
        case Invalid(field="reason"):
            errors = {"reason": N_("Give a reason: up to 500 characters on one line")}
        case Invalid(field="notes"):
            errors = {"notes": N_("Notes may have up to 2,000 printable characters")}
        case _:  # the status has changed, or this form was sent before with other entries
            error = N_(
                "Somebody else has changed this merchant meanwhile: {wait}. Check the change, "
                "and send the form again if it still applies"
            )
            status, errors = 409, {"reason": error}
            async with request.app.db.connection() as tx:
                merchant = await merchants.find(tx, request.merchant_id)
            wait = request.localizer.gettext(MERCHANT_STATUS[merchant.status])
    values = {field: form.get(field, "") for field in ("reason", "notes", "confirm")}
    return await _page(request, status, FormInput(form=name, errors=errors, wait=wait, **values))


async def list_applications(request: PageRequest) -> Response:
    """List the open applications, oldest first."""
    async with request.app.db.connection() as tx:
        applications = await merchants.waiting_applications(tx)
    settings = request.app.settings
    return render.page(
        request,
        "applications.html",
        applications=applications,
        form_link=f"{settings.public_url}/apply" if settings.applications else "",
        zone=ZONE,
    )


def _path(merchant_id: str) -> str:
    return f"{PLACE}/{merchant_id}/standing"


_STANDING: Final = f"{PLACE}/{{merchant:id}}/standing"
pages: Final = (
    Page("GET", f"{CONSOLE_PATH}/applications", "merchants.read", list_applications,
         menu=N_("Applications"), group="merchants"),
    Page("GET", _STANDING, "merchants.read", show_standing),
    Page("POST", _STANDING, "merchants.manage", change_status,
         fields=("event", "reason", "notes"),
         proves=N_("Change the status of a merchant"), rehearsed=True,
         about=proof_facts.of_merchant),
    Page("POST", f"{_STANDING}/capability", "merchants.manage", switch_capability,
         fields=("capability", "state", "reason", "notes"),
         proves=N_("Switch payments, refunds or payouts of a merchant"), rehearsed=True,
         about=proof_facts.of_merchant),
    Page("POST", f"{_STANDING}/notes", "merchants.manage", add_note, fields=("notes",),
         proves=N_("Add a note to a merchant"), rehearsed=True, about=proof_facts.of_merchant),
)  # fmt: skip
