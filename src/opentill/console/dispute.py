"""The page of a dispute of any merchant: its outcome, deadline, evidence and notes."""

from collections.abc import Mapping
from datetime import date, timedelta
from functools import partial
from typing import Final

from starlette.responses import Response

from opentill import disputes, merchants, orders, people
from opentill.approvals import WaitingAction
from opentill.console import payment_actions, proof_facts
from opentill.console.labels import DISPUTE_DECISION, GIVE_A_REASON_255
from opentill.console.needs import SOON_MS
from opentill.console.payment_actions import DISPUTE_ACTIONS, Action, ActionCall
from opentill.console.zone import ZONE
from opentill.core.errors import Invalid, KeyReused, or_not_found
from opentill.core.money import Money
from opentill.core.notes import LONGEST_NOTE, MOST_NOTES
from opentill.db.database import Tx
from opentill.disputes import Dispute
from opentill.figures.model import day_bounds, local
from opentill.portal import form_ids, notes, payment_record, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web import responses
from opentill.web.translations import N_

_LONGEST_REASON: Final = 255
_LATEST_DEADLINE: Final = timedelta(days=366)  # a deadline may be at most this far from today
_FIELDS: Final = (
    "until", "reason", "note", "how", *(f"{action.name}-reason" for action in DISPUTE_ACTIONS)
)  # fmt: skip


class _Stale(Exception):
    """The deadline has changed since the form was shown."""


async def show_dispute(request: PageRequest) -> Response:
    """Show a dispute. Raises NotFound."""
    return await _page(request)


async def _visit(request: PageRequest) -> Dispute:
    """Find the dispute in the path and record the visit in the audit log. Raises NotFound."""
    async with request.app.db.connection() as tx:
        dispute = await disputes.find_anywhere(tx, request.ids["dispute"])
    await people.visit(request.app.db, request.login, dispute.merchant_id, request.now)
    return dispute


async def _page(
    request: PageRequest,
    status: int = 200,
    errors: dict[str, str] | None = None,
    values: Mapping[str, str] | None = None,
) -> Response:
    merchant_id = (await _visit(request)).merchant_id
    async with request.app.db.snapshot() as tx:
        dispute = await disputes.find(tx, merchant_id, request.ids["dispute"])
        merchant = await merchants.find(tx, merchant_id)
        dispute_notes = await disputes.list_notes(tx, dispute)
        files = await disputes.list_evidence(tx, dispute)
        order = await orders.find(tx, merchant_id, dispute.order_id)
        unforwarded = await disputes.find_unforwarded(tx, merchant_id, [dispute])
        sent_at = await _find_forwarding(tx, dispute)
        offers = [
            offer
            for offer in payment_actions.offer_decisions(dispute)
            if request.may(offer.action.permission)
        ]
        who = people.actor_of(request.login, "").who
        waiting = await payment_actions.list_waiting(
            tx, order, offers, (who, request.app.settings, request.now)
        )
    return render.page(
        request,
        "dispute.html",
        status,
        dispute=dispute,
        merchant=merchant,
        amount=Money(dispute.amount_minor, dispute.currency),
        order_row=order,
        loss=Money(dispute.debit_minor + dispute.fee_minor, dispute.debit_currency),
        debit=Money(dispute.debit_minor, dispute.debit_currency),
        fee=Money(dispute.fee_minor, dispute.debit_currency),
        notes=dispute_notes,
        files=files,
        decides=request.may("disputes.decide"),
        is_unforwarded=bool(unforwarded),
        sent_at=None if unforwarded else sent_at,
        is_full=len(dispute_notes) >= MOST_NOTES,
        longest_note=LONGEST_NOTE,
        values={name: (values or {}).get(name, "") for name in _FIELDS},
        seen=_state_token(dispute),
        errors=errors or {},
        form_id=form_ids.new_form_id,
        offers=offers,
        waiting=waiting,
        soon=SOON_MS,
        zone=ZONE,
    )


async def _find_forwarding(tx: Tx, dispute: Dispute) -> int | None:
    """Return when staff last forwarded a response to the bank (Unix ms), None if never."""
    if dispute.responded_at is None:
        return None
    rows = await orders.history(tx, dispute.merchant_id, dispute.order_id)
    return max(disputes.list_forwarding_times(dispute, rows), default=None)


def _state_token(dispute: Dispute) -> str:
    """Return a token of a dispute's present state. A form with another token is stale."""
    return f"{dispute.status}.{dispute.respond_by or 0}"


async def decide(request: PageRequest, action: Action) -> Response:
    """Record the outcome of the dispute.

    Sending the same form again has no effect.
    """
    form, dispute = await request.form(), await _visit(request)
    field, ids = f"{action.name}-reason", (dispute.merchant_id, dispute.id)
    reason = form.get(field, "").strip()
    if not 0 < len(reason) <= _LONGEST_REASON:
        return await _page(request, 400, {field: GIVE_A_REASON_255}, form)
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        # Take the locks in this order: merchant, audit log, order.
        await merchants.lock(tx, dispute.merchant_id)
        await merchants.lock_audit_log(tx)
        order = await orders.lock(tx, dispute.merchant_id, dispute.order_id)
        if _state_token(await disputes.find(tx, *ids)) != form.get("seen"):
            raise _Stale
        entries = {"subject": dispute.id}
        call = ActionCall(request.app.settings, order, entries, actor, request.now)
        result = await action.apply(tx, call)
        return result.id if isinstance(result, WaitingAction) else dispute.id

    try:
        result_id = await form_ids.run_once(request, work)
    except (Invalid, KeyReused, _Stale):
        error = N_(
            "The dispute has changed since this was shown, or this form was used already. "
            "Nothing was done by it. Look at the dispute, then decide again"
        )
        return await _page(request, 409, {"decision": error}, form)
    if result_id != dispute.id:
        return render.see_other(request, f"{PLACE}/{dispute.id}?waits={result_id}")
    return _redirect(request, action.name)


async def set_deadline(request: PageRequest) -> Response:
    """Set the last day on which the bank accepts evidence.

    Sending the same form again has no effect.
    """
    form, dispute = await request.form(), await _visit(request)
    reason = form.get("reason", "").strip()
    last_day, errors = _parse_deadline(request, form.get("until", "").strip()), dict[str, str]()
    if last_day is None:
        errors["until"] = N_("Enter a day from today on, at most a year ahead")
    if not 0 < len(reason) <= _LONGEST_REASON:
        errors["reason"] = GIVE_A_REASON_255
    if last_day is None or errors:
        return await _page(request, 400, errors, form)
    until, actor = day_bounds(last_day, ZONE).until - 1, people.actor_of(request.login, reason)
    ids = merchant_id, dispute_id = dispute.merchant_id, dispute.id

    async def work(tx: Tx) -> str:
        subject = f"{dispute_id} until {last_day} UTC"
        await merchants.record_audit(
            tx, actor, "disputes deadline", merchant_id, subject, request.now
        )
        if _state_token(await disputes.find(tx, *ids)) != form.get("seen"):
            raise _Stale
        await disputes.set_deadline(tx, *ids, until, request.now)
        return dispute_id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused, _Stale):  # ``Invalid`` means that the dispute has been decided
        error = N_(
            "The dispute has changed since this was shown, or this form "
            "was used already. Nothing was done by it. Look at the "
            "deadline above, then send it again"
        )
        return await _page(request, 409, {"until": error}, form)
    return _redirect(request, "deadline")


def _parse_deadline(request: PageRequest, text: str) -> date | None:
    """Parse a day from today on, at most a year ahead; return None for any other text."""
    today = local(request.now, ZONE).date()
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if today <= day <= today + _LATEST_DEADLINE else None


async def mark_forwarded(request: PageRequest) -> Response:
    """Record that the merchant's response was forwarded to the bank.

    Sending the same form again has no effect.
    """
    form, dispute = await request.form(), await _visit(request)
    how, ids = form.get("how", "").strip(), (dispute.merchant_id, dispute.id)
    if not 0 < len(how) <= _LONGEST_REASON:
        return await _page(request, 400, {"how": GIVE_A_REASON_255}, form)
    actor = people.actor_of(request.login, how)

    async def work(tx: Tx) -> str:
        # Take the locks in this order: merchant, audit log, order.
        await merchants.lock(tx, dispute.merchant_id)
        await merchants.record_audit(tx, actor, "disputes forward", *ids, request.now)
        await disputes.record_forwarding(tx, *ids, how, request.now)
        return dispute.id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused):
        error = N_(
            "No response of the merchant waits here: somebody has marked it as forwarded, the "
            "dispute has been decided, or this form was used already. Nothing was done by it"
        )
        return await _page(request, 409, {"decision": error}, form)
    return _redirect(request, "forwarded")


async def add_note(request: PageRequest) -> Response:
    """Add a note, which the merchant's team can read.

    Sending the same form again has no effect.
    """
    form, dispute = await request.form(), await _visit(request)
    text, ids = form.get("note", ""), (dispute.merchant_id, dispute.id)
    actor = notes.author(request, text)

    async def work(tx: Tx) -> str:
        # The audit log must be locked before the dispute. It is written last, so that an invalid
        # note is refused before.
        await merchants.lock_audit_log(tx)
        await disputes.add_note(tx, *ids, text, actor.who, request.now)
        await merchants.record_audit(tx, actor, "disputes note", *ids, request.now)
        return dispute.id

    if refusal := await notes.add_once(request, work):
        status, error = refusal
        return await _page(request, status, {"note": error}, form)
    return _redirect(request, "note")


async def download_evidence(request: PageRequest) -> Response:
    """Send a file of evidence as an attachment, so that no browser renders it as a page."""
    dispute = await _visit(request)
    async with request.app.db.connection() as tx:
        files = await disputes.list_evidence(tx, dispute)
        file = or_not_found(next((f for f in files if f.id == request.ids["file"]), None))
        content = await disputes.read_evidence(tx, dispute.merchant_id, file.id)
    return responses.attachment(content, file.kind, file.name)


async def send_record(request: PageRequest) -> Response:
    """Send the record of the disputed payment, and record the visit in the audit log."""
    async with request.app.db.connection() as tx:
        dispute = await disputes.find_anywhere(tx, request.ids["dispute"])
    access = await people.visit(request.app.db, request.login, dispute.merchant_id, request.now)
    return await payment_record.send(request, access, dispute.order_id)


def _redirect(request: PageRequest, done: str) -> Response:
    return render.see_other(request, f"{PLACE}/{request.ids['dispute']}?done={done}")


PLACE: Final = f"{CONSOLE_PATH}/disputes"
_DISPUTE: Final = f"{PLACE}/{{dispute:id}}"
pages: Final = (
    Page("GET", _DISPUTE, "disputes.read", show_dispute),
    Page(
        "POST",
        f"{_DISPUTE}/deadline",
        "disputes.decide",
        set_deadline,
        fields=("seen", "until", "reason"),
        proves=N_("Set the deadline of a dispute"),
        rehearsed=True,
        about=proof_facts.of_dispute,
    ),
    *(
        Page(
            "POST",
            f"{_DISPUTE}/{action.name}",
            action.permission,
            partial(decide, action=action),
            fields=("seen", f"{action.name}-reason"),
            proves=DISPUTE_DECISION[action.name],
            rehearsed=True,
            about=proof_facts.of_dispute,
        )
        for action in DISPUTE_ACTIONS
    ),
    Page(
        "POST",
        f"{_DISPUTE}/forwarded",
        "disputes.decide",
        mark_forwarded,
        fields=("how",),
        proves=N_("Mark a response as forwarded to the bank"),
        rehearsed=True,
        about=proof_facts.of_dispute,
    ),
    Page(
        "POST",
        f"{_DISPUTE}/notes",
        "disputes.decide",
        add_note,
        fields=("note",),
        proves=N_("Add a note to a dispute"),
        rehearsed=True,
        about=proof_facts.of_dispute,
    ),
    Page("GET", f"{_DISPUTE}/payment.pdf", "disputes.read", send_record),
    Page("GET", f"{_DISPUTE}/evidence/{{file:id}}", "disputes.read", download_evidence),
)
