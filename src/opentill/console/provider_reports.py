"""Reports of providers that fit no order, of each kind: listed until staff dismiss them.

The kinds have the same page, at an address of their own; a new kind is a row of ``KINDS``.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from opentill import disputes, merchants, people, refunds
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.disputes import Unmatched
from opentill.people import Permission, command_permission
from opentill.portal import form_ids, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.refunds import RefundCase
from opentill.web import refund_failures
from opentill.web.translations import N_

MOST: Final = 200  # that are listed
_LONGEST_REASON: Final = 255
Report = Unmatched | RefundCase


class ReportKind(NamedTuple):
    """A kind of report; ``name`` is its need's."""

    name: str
    place: str
    label: str  # the field that says what happened
    command: str  # whose permission and entry in the audit log dismissing has
    read: Permission
    list_open: Callable[[Tx], Awaitable[Sequence[Report]]]
    dismiss: Callable[[Tx, str, str, str, str, int], Awaitable[Report]]


UNMATCHED: Final = ReportKind(
    "unmatched", f"{CONSOLE_PATH}/needs/unmatched", "status", "disputes dismiss", "disputes.read",
    disputes.unmatched, disputes.dismiss,
)  # fmt: skip
REFUND_CASES: Final = ReportKind(
    "refund_cases", f"{CONSOLE_PATH}/needs/refund-cases", "kind", "refunds dismiss",
    "payments.read", refunds.list_open, refunds.dismiss,
)  # fmt: skip
KINDS: Final = (REFUND_CASES, UNMATCHED)


class Typed(msgspec.Struct, frozen=True):
    """What was typed into the form of a report, and the sentence of what is wrong with it."""

    key: tuple[str, str, str] = ("", "", "")
    reason: str = ""
    error: str = ""


def key_of(report: Report) -> tuple[str, str, str]:
    """Return the key of a report: merchant, gateway, the gateway's reference."""
    return report.merchant_id, report.gateway, report.gateway_ref


async def show(request: PageRequest, kind: ReportKind) -> Response:
    """List the open reports of a kind, newest first."""
    return await _list(request, kind)


async def _list(
    request: PageRequest, kind: ReportKind, status: int = 200, typed: Typed | None = None
) -> Response:
    async with request.app.db.connection() as tx:
        reports = (await kind.list_open(tx))[:MOST]
        names = await merchants.names(tx, (report.merchant_id for report in reports))
    shown = typed or Typed()
    return render.page(
        request,
        "provider_reports.html",
        status,
        kind=kind,
        reports=[(report, _amount(request, report)) for report in reports],
        reason_of=refund_failures.text_of,
        names=names,
        typed=shown,
        is_there=shown.key in {key_of(report) for report in reports},
        may_dismiss=request.may(command_permission(kind.command)),
        key_of=key_of,
        errors={"reason": shown.error} if shown.error else {},
        form_id=form_ids.new_form_id,
        most=MOST,
        zone=ZONE,
    )


def _amount(request: PageRequest, report: Report) -> str:
    """Write an amount as the reader's language does, if the gateway names one of ours."""
    minor, currency = report.amount_minor, report.currency
    if money.shown(minor, currency) is None:
        return money.named(minor, currency)
    return request.localizer.amount(Money(minor, currency))


async def dismiss(request: PageRequest, kind: ReportKind) -> Response:
    """Close a report with a reason, unless the gateway has reported something new about it."""
    form = await request.form()
    key = (form.get("merchant", ""), form.get("gateway", ""), form.get("ref", ""))
    reason = form.get("reason", "").strip()
    if not 0 < len(reason) <= _LONGEST_REASON:
        return await _list(
            request, kind, 400, Typed(key, reason, N_("Say why, in 1 to 255 characters"))
        )
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        merchant_id, gateway, ref = key
        if not is_id(merchant_id) or not f"{gateway}{ref}".isprintable():
            raise NotFound
        await merchants.record_audit(
            tx, actor, kind.command, merchant_id, f"{gateway} {ref}", request.now
        )
        closed = await kind.dismiss(tx, merchant_id, gateway, ref, actor.who, request.now)
        if closed.status != form.get("seen"):
            raise Invalid("report", "report must be as it was shown")
        return merchant_id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused, NotFound):
        return await _list(
            request,
            kind,
            409,
            Typed(
                key,
                reason,
                N_(
                    "It has changed since this was shown: somebody has dismissed "
                    "it, it was applied to its order, or the gateway has reported "
                    "more."
                ),
            ),
        )
    return render.see_other(request, f"{kind.place}?done=1")


def _pages(kind: ReportKind) -> tuple[Page, ...]:
    return (
        Page("GET", kind.place, kind.read, partial(show, kind=kind)),
        Page("POST", kind.place, command_permission(kind.command), partial(dismiss, kind=kind)),
    )


pages: Final = tuple(page for kind in KINDS for page in _pages(kind))
