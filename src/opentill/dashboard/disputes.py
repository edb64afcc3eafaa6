"""The page of a dispute with its deadline, notes and evidence."""

from collections.abc import Mapping
from typing import Final, Literal, get_args
from zoneinfo import ZoneInfo

import msgspec
from starlette.responses import Response

from opentill import disputes, ledger, merchants, orders, people, products
from opentill.core.errors import Invalid, KeyReused, NotFound, PayloadTooLarge, or_not_found
from opentill.core.money import Money
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES, NotesFull
from opentill.dashboard import dispute_statement, page_helpers
from opentill.dashboard.dispute_errors import EVIDENCE_ERROR, EXPLANATION_ERROR, RESPONSE_ERROR
from opentill.db.database import Tx
from opentill.disputes import Dispute, Evidence, EvidenceRefused, Note
from opentill.merchants import Actor
from opentill.orders import HistoryRow
from opentill.portal import (
    form_ids,
    member_names,
    notes,
    payment_details,
    payment_record,
    render,
)
from opentill.portal.model import DASHBOARD_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import dispute_reasons, responses

_REASON: Final = "on the page of a dispute"
_FILE: Final = "file"
Kind = Literal[
    "opened", "note", "file", "ACCEPTED", "CONTESTED", "forwarded", "WON", "LOST", "RECOVERED"
]


class HistoryItem(msgspec.Struct, frozen=True):
    """A line of a dispute's history; ``text`` is the text of a note or the name of a file.

    ``email`` is the address of the member who acted, "" if the bank or the operator acted.
    """

    at: int
    kind: Kind
    email: str = ""
    text: str = ""


class _AlreadyRemoved(Exception):
    """The file is not there, so that it need not be removed."""


class _ExplanationRefused(Exception):
    """A dispute cannot be contested with this explanation."""

    def __init__(self, why: Literal["missing", "text", "many"]) -> None:
        super().__init__(why)
        self.why = why


async def show(request: PageRequest) -> Response:
    """Show a dispute."""
    return await _render_dispute(request)


async def _render_dispute(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    note: str = "",
    written: Mapping[str, str] | None = None,
) -> Response:
    async with request.app.db.connection() as tx:
        merchant = await merchants.find(tx, request.merchant_id)
        names = await member_names.read(tx, merchant.id)
        dispute = await _find_dispute(tx, request)
        dispute_notes = await disputes.list_notes(tx, dispute)
        files = await disputes.list_evidence(tx, dispute)
        entries = await ledger.list_entries_of(tx, merchant.id, "dispute", dispute.id)
        history = await orders.history(tx, merchant.id, dispute.order_id)
        order = attempt = None
        if request.access.may("payments.read"):
            order = await orders.find(tx, merchant.id, dispute.order_id)
            attempt = await orders.find_attempt(tx, merchant.id, dispute.attempt_id)
    card = attempt and orders.card_of_attempt(attempt)
    held_minor = payment_details.held_minor(dispute, order) if order is not None else 0
    statement = _find_statement(dispute, dispute_notes)
    responded_at = _find_response_time(dispute, files, dispute_notes, history)
    return render.page(
        request,
        "dispute.html",
        status,
        zone=ZoneInfo(merchant.time_zone),
        dispute=dispute,
        order=order,
        has_product=order is not None and not products.is_stand_in(order.product_id),
        paid=order and Money(order.amount_minor, order.currency),
        card=orders.format_card(card) if card else "",
        evidence=dispute_reasons.evidence_for(dispute.reason),
        amount=Money(dispute.amount_minor, dispute.currency),
        debit=Money(dispute.debit_minor, dispute.debit_currency),
        fee=Money(dispute.fee_minor, dispute.debit_currency),
        loss=Money(dispute.loss_minor, dispute.debit_currency),
        held=Money(held_minor, dispute.debit_currency) if held_minor > 0 else None,
        files=files,
        full=len(files) >= disputes.MAX_FILES,
        statement=dispute_statement.without_files(statement, [file.name for file in files]),
        categories=dispute_statement.read_files(statement, [file.name for file in files]),
        names=names,
        history=_build_history(
            dispute, [note for note in dispute_notes if note.note != statement], files, history
        ),
        entries=[(entry, Money(entry.shown_minor, entry.currency)) for entry in entries],
        errors=errors or {},
        note=note,
        written=written or {},
        evidence_fields=dispute_reasons.fields_for(dispute.reason),
        longest_fact=dispute_statement.LONGEST_FACT,
        has_evidence=_has_evidence(files, dispute_notes),
        explanation_missing=EXPLANATION_ERROR["missing"],
        own_notes=sum(item.by_merchant for item in dispute_notes),
        responded_at=responded_at,
        is_unforwarded=responded_at is None,
        scripts=True,
        max_note=LONGEST_NOTE,
        full_of_notes=len(dispute_notes) >= MOST_NOTES,
        form_id=form_ids.new_form_id,
    )


def _has_evidence(files: list[Evidence], dispute_notes: list[Note]) -> bool:
    """Return whether the merchant has given a file or a note that the bank can get."""
    return bool(files) or any(note.by_merchant for note in dispute_notes)


def _find_statement(dispute: Dispute, dispute_notes: list[Note]) -> str:
    """Return the facts and the explanation with which the dispute was contested, "" for none.

    They are a note of the moment of the response.
    """
    at = dispute.responded_at
    own = [note.note for note in dispute_notes if note.by_merchant and note.at == at]
    return own[-1] if own else ""


def _find_response_time(
    dispute: Dispute, files: list[Evidence], dispute_notes: list[Note], rows: list[HistoryRow]
) -> int | None:
    """Return when the operator forwarded the merchant's last evidence; None if not yet.

    ``rows`` are the rows of the order's history.
    """
    if dispute.responded_at is None:
        return None
    own = [file.at for file in files] + [note.at for note in dispute_notes if note.by_merchant]
    return disputes.forwarded_at(dispute, rows, max([dispute.responded_at, *own]))


async def _find_dispute(tx: Tx, request: PageRequest) -> Dispute:
    return await disputes.find(tx, request.merchant_id, request.ids["dispute"])


def _build_history(
    dispute: Dispute, dispute_notes: list[Note], files: list[Evidence], rows: list[HistoryRow]
) -> list[HistoryItem]:
    """Return the history, oldest first; staff are not named.

    ``rows`` are the rows of the order's history.
    """
    items = [
        HistoryItem(dispute.created_at, "opened"),
        *(
            HistoryItem(
                note.at, "note", _extract_email(note.who) if note.by_merchant else "", note.note
            )
            for note in dispute_notes
        ),
        *(HistoryItem(file.at, "file", _extract_email(file.who), file.name) for file in files),
    ]
    if dispute.response is not None and dispute.responded_at is not None:
        items.append(HistoryItem(dispute.responded_at, dispute.response, dispute.responder))
    items += [HistoryItem(at, "forwarded") for at in disputes.list_forwarding_times(dispute, rows)]
    if dispute.closed_at is not None:
        items.append(HistoryItem(dispute.closed_at, "WON" if dispute.status == "WON" else "LOST"))
    if dispute.status == "RECOVERED":
        items.append(HistoryItem(disputes.recovered_at(dispute, rows), "RECOVERED"))
    return sorted(items, key=lambda item: item.at)


def _extract_email(who: str) -> str:
    return who.partition(" (")[0]


async def add_note(request: PageRequest) -> Response:
    """Add a note. Idempotent."""
    form = await request.form()
    dispute_id, text = request.ids["dispute"], form.get("note", "")
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> str:
        ids = (request.merchant_id, dispute_id)
        await merchants.record_audit(tx, actor, "disputes note", *ids, request.now)
        await disputes.add_note(tx, *ids, text, actor.who, request.now, by_merchant=True)
        return dispute_id

    if refusal := await notes.add_once(request, work):
        status, error = refusal
        return await _render_dispute(request, status, {"note": error}, text)
    return _redirect_to_dispute(request, "note")


async def add_evidence(request: PageRequest) -> Response:
    """Add a file as evidence. Idempotent for the same content."""
    async with request.app.db.connection() as tx:
        dispute = await _find_dispute(tx, request)
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
        return await _render_dispute(request, 413, {_FILE: EVIDENCE_ERROR["size"]})
    except EvidenceRefused as refused:
        return await _render_dispute(request, 400, {_FILE: EVIDENCE_ERROR[refused.why]})
    return _redirect_to_dispute(request, "file" if dispute.may_remove_evidence else "late-file")


async def remove_evidence(request: PageRequest) -> Response:
    """Remove a file of evidence, as long as the dispute has no response. Idempotent."""
    dispute_id, file_id = request.ids["dispute"], request.ids["file"]
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> None:
        await _find_dispute(tx, request)
        try:
            await disputes.remove_evidence(
                tx, request.merchant_id, dispute_id, file_id, actor=actor, now=request.now
            )
        except NotFound:  # a double click, or another person was faster
            raise _AlreadyRemoved from None

    try:
        await request.app.db.run(work)
    except _AlreadyRemoved:
        pass
    except EvidenceRefused as refused:
        return await _render_dispute(request, 409, {_FILE: EVIDENCE_ERROR[refused.why]})
    return _redirect_to_dispute(request, "removed")


async def respond(request: PageRequest) -> Response:
    """Accept or contest a dispute. Contesting needs a file, a note, a fact or an explanation.

    Facts and explanation are stored as one note. Sending the same form again has no effect.
    """
    try:
        form = await request.form()
    except PayloadTooLarge:
        return await _render_dispute(request, 413, {"document": EVIDENCE_ERROR["size"]})
    response = next((r for r in get_args(disputes.Response) if r == form.get("response")), None)
    if response is None:
        return await _render_dispute(request, 400, {"response": RESPONSE_ERROR["response"]})
    if response == "ACCEPTED":
        return await _respond(request, response)
    actor = people.actor_of(request.login, _REASON)
    statement, errors = await _read_statement(request, form, actor)
    if errors:
        return await _render_dispute(request, 400, errors, written=form)
    return await _respond(request, response, statement)


async def _respond(
    request: PageRequest, response: disputes.Response, explanation: str = ""
) -> Response:
    form, dispute_id = await request.form(), request.ids["dispute"]
    actor = people.actor_of(request.login, _REASON)

    async def work(tx: Tx) -> str:
        subject = f"{dispute_id} {response}"
        await merchants.record_audit(
            tx, actor, "disputes respond", request.merchant_id, subject, request.now
        )
        await disputes.respond(
            tx, request.merchant_id, dispute_id, response, who=actor.who, now=request.now
        )
        if explanation.strip():
            await _add_explanation(tx, request, dispute_id, explanation, actor.who)
        elif response == "CONTESTED":
            dispute = await _find_dispute(tx, request)
            files = await disputes.list_evidence(tx, dispute)
            if not _has_evidence(files, await disputes.list_notes(tx, dispute)):
                raise _ExplanationRefused("missing")
        return dispute_id

    try:
        await form_ids.run_once(request, work)
    except _ExplanationRefused as refused:
        errors = {"explanation": EXPLANATION_ERROR[refused.why]}
        return await _render_dispute(request, 400, errors, written=form)
    except (Invalid, KeyReused):  # somebody else has responded, or the dispute is decided
        return await _render_dispute(request, 409, {"response": RESPONSE_ERROR["late"]})
    return _redirect_to_dispute(request, response)


async def _read_statement(
    request: PageRequest, form: Mapping[str, str], actor: Actor
) -> tuple[str, dict[str, str]]:
    """Store the files of the form that contests a dispute. Returns its note, and its errors."""
    async with request.app.db.connection() as tx:
        dispute = await _find_dispute(tx, request)
    fields = dispute_reasons.fields_for(dispute.reason)
    errors, names = dispute_statement.check(form, fields), dict[str, str]()
    # The same form again, or a late one, adds no file: `respond` decides about it.
    uploads = await request.files() if dispute.may_contest and not errors else {}
    for name, upload in uploads.items():
        try:
            file = await disputes.add_evidence(
                request.app.db,
                request.merchant_id,
                dispute.id,
                upload.name,
                upload.content,
                actor=actor,
                now=request.now,
            )
        except EvidenceRefused as refused:
            errors[name] = EVIDENCE_ERROR[refused.why]
        else:
            names[name] = file.name
    translate = request.localizer.gettext
    return dispute_statement.compose(form, fields, names, translate), errors


async def _add_explanation(
    tx: Tx, request: PageRequest, dispute_id: str, text: str, who: str
) -> None:
    """Store an explanation as a note. Raises _ExplanationRefused."""
    try:
        await disputes.add_note(
            tx, request.merchant_id, dispute_id, text, who, request.now, by_merchant=True
        )
    except NotesFull:
        raise _ExplanationRefused("many") from None
    except Invalid:
        raise _ExplanationRefused("text") from None


async def show_record(request: PageRequest) -> Response:
    """Send the record of the disputed payment."""
    async with request.app.db.connection() as tx:
        dispute = await _find_dispute(tx, request)
    return await payment_record.send(request, request.access, dispute.order_id)


def _redirect_to_dispute(request: PageRequest, done: str) -> Response:
    return page_helpers.redirect(request, "disputes", request.ids["dispute"], done=done)


async def download(request: PageRequest) -> Response:
    """Send a file of evidence as an attachment, so that no browser shows or runs it as a page."""
    async with request.app.db.connection() as tx:
        files = await disputes.list_evidence(tx, await _find_dispute(tx, request))
        matches = (file for file in files if file.id == request.ids["file"])
        file = or_not_found(next(matches, None))
        content = await disputes.read_evidence(tx, request.merchant_id, file.id)
    return responses.attachment(content, file.kind, file.name)


_LIST: Final = f"{DASHBOARD_PATH}/disputes"
_ONE: Final = f"{_LIST}/{{dispute:id}}"
pages: Final = (
    Page("GET", _ONE, "disputes.read", show),
    Page("POST", f"{_ONE}/notes", "disputes.respond", add_note, fields=("note",)),
    Page("POST", f"{_ONE}/evidence", "disputes.respond", add_evidence, files=disputes.MAX_BYTES),
    Page("POST", f"{_ONE}/evidence/{{file:id}}/remove", "disputes.respond", remove_evidence),
    Page(
        "POST",
        f"{_ONE}/response",
        "disputes.respond",
        respond,
        fields=("response",),
        files=3 * disputes.MAX_BYTES,
    ),
    Page("GET", f"{_ONE}/payment.pdf", "disputes.read", show_record),
    Page("GET", f"{_ONE}/evidence/{{file:id}}", "disputes.read", download, is_file=True),
)
