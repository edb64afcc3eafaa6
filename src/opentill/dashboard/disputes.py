"""A merchant's disputes: the list, and each with its deadline, notes and files of evidence."""

from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import disputes, ledger, merchants, orders, people
from opentill.core.errors import Invalid, KeyReused, PayloadTooLarge, or_not_found
from opentill.core.money import Money
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES, NotesFull
from opentill.dashboard.labels import EVIDENCE_ERROR
from opentill.db.database import Tx
from opentill.disputes import Dispute, Evidence, EvidenceRefused, Note
from opentill.ledger import Entry
from opentill.orders import HistoryRow
from opentill.portal import downloads, form_ids, lists, render
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import responses
from opentill.web.translations import N_

_REASON: Final = "on the page of a dispute"
_FILE: Final = "file"
Did = Literal["opened", "note", "file", "WON", "LOST", "RECOVERED"]


class Happening(msgspec.Struct, frozen=True):
    """A line of a dispute's history: what somebody did, with a note's text or a file's name.

    ``who`` is "" for what the bank or the operator did.
    """

    at: int
    what: Did
    who: str = ""
    text: str = ""


async def show_list(request: PageRequest) -> Response:
    """Show the disputes of some days, those that are open first."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    zone = ZoneInfo(merchant.time_zone)
    days = lists.days(request, zone)
    status = lists.choice(request, "status", disputes.STATUSES)
    number = lists.page_number(request)
    rows, total = await disputes.page(
        request.app.db, merchant.id, status, days.range, number, lists.SIZE
    )
    return render.page(
        request,
        "disputes.html",
        zone=zone,
        days=days,
        chosen=status,
        statuses=disputes.STATUSES,
        pager=lists.Pager(number, total),
        filters=_query(request),
        rows=[(one, Money(one.amount_minor, one.currency)) for one in rows],
    )


def _query(request: PageRequest) -> str:
    """Return the query of the list as it follows a path, "" if there is none."""
    _, mark, query = request.here().partition("?")
    return mark + query


async def show_file(request: PageRequest) -> Response:
    """Send the disputes that the list shows as CSV, all of its pages."""
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
    zone = ZoneInfo(merchant.time_zone)
    days = lists.days(request, zone)
    if days.errors:  # the page says what is wrong with them
        return render.see_other(request, f"/dashboard/{merchant.id}/disputes{_query(request)}")
    status = lists.choice(request, "status", disputes.STATUSES)
    chunks = disputes.export_csv(request.app.db, merchant.id, status, days.range, zone)
    name = days.filename("disputes")
    return await downloads.table(name, chunks)


async def show(request: PageRequest) -> Response:
    """Show a dispute."""
    return await _dispute(request)


async def _dispute(
    request: PageRequest, status: int = 200, errors: dict[str, str] | None = None, note: str = ""
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        dispute = await _find(tx, request)
        notes = await disputes.list_notes(tx, dispute)
        files = await disputes.list_evidence(tx, dispute)
        entries = await ledger.list_entries_of(tx, merchant.id, "dispute", dispute.id)
        history = await orders.history(tx, merchant.id, dispute.order_id)
    return render.page(
        request,
        "dispute.html",
        status,
        zone=ZoneInfo(merchant.time_zone),
        dispute=dispute,
        amount=Money(dispute.amount_minor, dispute.currency),
        debit=Money(dispute.debit_minor, dispute.debit_currency),
        fee=Money(dispute.fee_minor, dispute.debit_currency),
        files=files,
        full=len(files) >= disputes.MAX_FILES,
        happenings=_happenings(dispute, notes, files, history),
        entries=[_movement(entry) for entry in entries],
        errors=errors or {},
        note=note,
        max_note=LONGEST_NOTE,
        full_of_notes=len(notes) >= MOST_NOTES,
        form_id=form_ids.new_form_id(),
    )


async def _find(tx: Tx, request: PageRequest) -> Dispute:
    return await disputes.find(tx, request.merchant_id, request.ids["dispute"])


def _movement(entry: Entry) -> tuple[Entry, Money]:
    return entry, Money(entry.shown_minor, entry.currency)


def _happenings(
    dispute: Dispute, notes: list[Note], files: list[Evidence], history: list[HistoryRow]
) -> list[Happening]:
    """Return what happened, oldest first."""
    found = [
        Happening(dispute.created_at, "opened"),
        *(Happening(one.at, "note", _who(one), one.note) for one in notes),
        *(Happening(one.at, "file", _email(one.who), one.name) for one in files),
    ]
    if dispute.closed_at is not None:
        found.append(Happening(dispute.closed_at, "WON" if dispute.status == "WON" else "LOST"))
    if dispute.status == "RECOVERED":
        found.append(Happening(disputes.recovered_at(dispute, history), "RECOVERED"))
    return sorted(found, key=lambda one: one.at)


def _who(note: Note) -> str:
    """Return which member of the team wrote a note; the operator's people are not named."""
    return _email(note.who) if note.by_merchant else ""


def _email(who: str) -> str:
    return who.partition(" (")[0]


async def add_note(request: PageRequest) -> Response:
    """Add a note, once however often the form is sent."""
    form = await request.form()
    dispute_id, text = request.ids["dispute"], form.get("note", "")
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, dispute_id)
        await merchants.record_audit(tx, actor, "disputes note", *ids, request.now)
        await disputes.add_note(tx, *ids, text, actor.who, request.now, by_merchant=True)
        return dispute_id

    try:
        await form_ids.run_once(request, work)
    except KeyReused:
        return await _dispute(
            request,
            422,
            {
                "note": N_(
                    "This form was sent before, with other entries, and has done "
                    "its work. Send it again if you want another one"
                )
            },
            text,
        )
    except NotesFull:
        return await _dispute(
            request,
            409,
            {"note": N_("A dispute has at most 100 notes, so this one was not added")},
            text,
        )
    except Invalid:
        return await _dispute(
            request, 400, {"note": N_("Enter plain text of 1 to 5,000 characters")}, text
        )
    return _back(request, "note")


async def add_evidence(request: PageRequest) -> Response:
    """Keep a file as evidence; the same file twice is one."""
    async with request.app.db.connection() as tx:
        dispute = await _find(tx, request)
    try:
        files = await request.files()
        upload = files.get(_FILE)
        await disputes.add_evidence(
            request.app.db,
            request.merchant_id,
            dispute.id,
            upload.name if upload else "",
            upload.content if upload else b"",
            actor=people.actor_of(request.login, _REASON),
            now=request.now,
        )
    except PayloadTooLarge:
        return await _dispute(request, 413, {_FILE: N_("Choose a file of at most 5 MB")})
    except EvidenceRefused as refused:
        return await _dispute(request, 400, {_FILE: EVIDENCE_ERROR[refused.why]})
    return _back(request, "file")


def _back(request: PageRequest, done: str) -> Response:
    path = f"/dashboard/{request.merchant_id}/disputes/{request.ids['dispute']}?done={done}"
    return render.see_other(request, path)


async def download(request: PageRequest) -> Response:
    """Send a file of evidence as an attachment, which no browser shows or runs as a page."""
    async with request.app.db.connection() as tx:
        files = await disputes.list_evidence(tx, await _find(tx, request))
        wanted = (one for one in files if one.id == request.ids["file"])
        file = or_not_found(next(wanted, None))
        content = await disputes.read_evidence(tx, request.merchant_id, file.id)
    return responses.attachment(content, file.kind, file.name)


_LIST: Final = f"{DASHBOARD_PATH}/disputes"
_ONE: Final = f"{_LIST}/{{dispute:id}}"
pages: Final = (
    Page("GET", _LIST, "disputes.read", show_list, menu=N_("Disputes")),
    Page("GET", f"{_LIST}.csv", "disputes.read", show_file),
    Page("GET", _ONE, "disputes.read", show),
    Page("POST", f"{_ONE}/notes", "disputes.respond", add_note),
    Page("POST", f"{_ONE}/evidence", "disputes.respond", add_evidence, files=disputes.MAX_BYTES),
    Page("GET", f"{_ONE}/evidence/{{file:id}}", "disputes.read", download),
)
