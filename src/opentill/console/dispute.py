"""One dispute of whichever merchant: its deadline, the evidence of the merchant's, and the notes.

How it ends is said on the page of its payment, where the money that this moves is shown.
"""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Final

from starlette.responses import Response

from opentill import disputes, merchants, people
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, KeyReused, or_not_found
from opentill.core.money import Money
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES, NotesFull
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.figures.model import day_bounds, local
from opentill.portal import form_ids, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import responses
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255
_FURTHEST: Final = timedelta(days=366)  # that a bank leaves for evidence
_FIELDS: Final = ("until", "reason", "note")


class _Stale(Exception):
    """The deadline has changed since the form was shown."""


async def show(request: PageRequest) -> Response:
    """Show a dispute. Raises NotFound."""
    return await _page(request)


async def _found(request: PageRequest) -> Dispute:
    """Find the dispute in the path, and note the visit at its merchant. Raises NotFound."""
    async with request.app.db.connection() as tx:
        dispute = await disputes.find_anywhere(tx, request.ids["dispute"])
    await people.visit(request.app.db, request.login, dispute.merchant_id, request.now)
    return dispute


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    typed: Mapping[str, str] | None = None,
) -> Response:
    merchant_id = (await _found(request)).merchant_id
    async with request.app.db.snapshot() as tx:
        dispute = await disputes.find(tx, merchant_id, request.ids["dispute"])
        merchant = await merchants.find(tx, merchant_id)
        notes = await disputes.notes(tx, dispute)
        files = await disputes.list_evidence(tx, dispute)
    debit = Money(dispute.debit_minor, dispute.debit_currency)
    return render.page(
        request,
        "dispute.html",
        status,
        dispute=dispute,
        merchant=merchant,
        amount=Money(dispute.amount_minor, dispute.currency),
        debit=debit,
        fee=Money(dispute.fee_minor, dispute.debit_currency),
        notes=notes,
        files=files,
        decides=request.may("disputes.decide"),
        full=len(notes) >= MOST_NOTES,
        longest_note=LONGEST_NOTE,
        values={name: (typed or {}).get(name, "") for name in _FIELDS},
        seen=_seen(dispute),
        errors=errors or {},
        form_id=form_ids.new_form_id,
        late=dispute.respond_by is not None and dispute.respond_by < request.now,
        zone=ZONE,
    )


def _seen(dispute: Dispute) -> str:
    """Return what the form of the deadline was made of: as long as that is so, it may be sent."""
    return f"{dispute.status}.{dispute.respond_by or 0}"


async def set_deadline(request: PageRequest) -> Response:
    """Name the last day on which evidence counts, once for each form."""
    form, found = await request.form(), await _found(request)
    reason = form.get("reason", "").strip()
    last, errors = _last_day(request, form.get("until", "").strip()), dict[str, str]()
    if last is None:
        errors["until"] = N_("Enter a day from today on, at most a year ahead")
    if not 0 < len(reason) <= _LONGEST_REASON:
        errors["reason"] = N_("Say why, in 1 to 255 characters")
    if last is None or errors:
        return await _page(request, 400, errors, form)
    until, actor = day_bounds(last, ZONE).until - 1, people.actor_of(request.login, reason)
    ids = (found.merchant_id, found.id)

    async def work(tx: Tx) -> str:
        subject = f"{found.id} until {last} UTC"
        await merchants.record_audit(
            tx, actor, "disputes deadline", found.merchant_id, subject, request.now
        )
        dispute = await disputes.find(tx, *ids)
        if _seen(dispute) != form.get("seen"):
            raise _Stale
        await disputes.set_deadline(tx, *ids, until, request.now)
        return found.id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused, _Stale):  # it is decided, or somebody has named another
        return await _page(
            request,
            409,
            {
                "until": N_(
                    "The dispute has changed since this was shown, or this form "
                    "was used already. Nothing was done by it. Look at the "
                    "deadline above, then send it again"
                )
            },
            form,
        )
    return _back(request, "deadline")


def _last_day(request: PageRequest, text: str) -> date | None:
    """Read a day from today on, None for any other text."""
    today = local(request.now, ZONE).date()
    try:
        found = date.fromisoformat(text)
    except ValueError:
        return None
    return found if today <= found <= today + _FURTHEST else None


async def add_note(request: PageRequest) -> Response:
    """Add a note that the merchant's team reads too, once however often the form is sent."""
    form, found = await request.form(), await _found(request)
    text, ids = form.get("note", ""), (found.merchant_id, found.id)
    actor = people.actor_of(request.login, text.strip()[:_LONGEST_REASON])

    async def work(tx: Tx) -> str:
        await merchants.lock_audit_log(tx)  # the note is checked before the reason that it makes
        await disputes.add_note(tx, *ids, text, actor.who, request.now)
        await merchants.record_audit(tx, actor, "disputes note", *ids, request.now)
        return found.id

    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        status, error = (
            422,
            N_(
                "This form was sent before, with other entries, and has done "
                "its work. Send it again if you want another one"
            ),
        )
    except NotesFull:
        status, error = 409, N_("A dispute has at most 100 notes, so this one was not added")
    except Invalid:
        status, error = 400, N_("Enter plain text of 1 to 5,000 characters")
    else:
        return _back(request, "note")
    return await _page(request, status, {"note": error}, form)


async def download(request: PageRequest) -> Response:
    """Send a file of evidence as an attachment, which no browser shows or runs as a page."""
    dispute = await _found(request)
    async with request.app.db.connection() as tx:
        files = await disputes.list_evidence(tx, dispute)
        wanted = (one for one in files if one.id == request.ids["file"])
        file = or_not_found(next(wanted, None))
        content = await disputes.read_evidence(tx, dispute.merchant_id, file.id)
    return responses.attachment(content, file.kind, file.name)


def _back(request: PageRequest, done: str) -> Response:
    return render.see_other(request, f"{PLACE}/{request.ids['dispute']}?done={done}")


PLACE: Final = f"{CONSOLE_PATH}/disputes"
_ONE: Final = f"{PLACE}/{{dispute:id}}"
pages: Final = (
    Page("GET", _ONE, "disputes.read", show),
    Page("POST", f"{_ONE}/deadline", "disputes.decide", set_deadline),
    Page("POST", f"{_ONE}/notes", "disputes.decide", add_note),
    Page("GET", f"{_ONE}/evidence/{{file:id}}", "disputes.read", download),
)
