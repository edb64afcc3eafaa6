"""Reports of providers that fit no order: each kind has a list, from which staff dismiss reports.

A new kind is a row of ``KINDS``.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec
from starlette.responses import Response

from opentill import disputes, merchants, people, refunds
from opentill.console.labels import GIVE_A_REASON_255
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

MOST: Final = 200  # the list shows at most this many reports
_LONGEST_REASON: Final = 255
Report = Unmatched | RefundCase


class ReportKind(NamedTuple):
    """A kind of report."""

    name: str  # the name of its row in ``needs.NEEDS``
    place: str
    label: str  # the field whose value is a key of ``PROVIDER_REPORT``
    # The command that dismisses a report: the form needs its permission and writes its name to the
    # audit log.
    command: str
    read: Permission
    list_open: Callable[[Tx], Awaitable[Sequence[Report]]]
    dismiss: Callable[[Tx, str, str, str, str, int], Awaitable[Report]]


UNMATCHED: Final = ReportKind(
    "unmatched", f"{CONSOLE_PATH}/needs/unmatched", "status", "disputes dismiss", "disputes.read",
    disputes.list_unmatched, disputes.dismiss,
)  # fmt: skip
REFUND_CASES: Final = ReportKind(
    "refund_cases", f"{CONSOLE_PATH}/needs/refund-cases", "kind", "refunds dismiss",
    "payments.read", refunds.list_open, refunds.dismiss,
)  # fmt: skip
KINDS: Final = (REFUND_CASES, UNMATCHED)


class FormInput(msgspec.Struct, frozen=True):
    """The input of the form of a report, and its error text."""

    key: tuple[str, str, str] = ("", "", "")
    reason: str = ""
    error: str = ""


def key_of(report: Report) -> tuple[str, str, str]:
    """Return the key of a report: the merchant's id, the gateway and its reference."""
    return report.merchant_id, report.gateway, report.gateway_ref


async def list_reports(request: PageRequest, kind: ReportKind) -> Response:
    """List the open reports of a kind, newest first."""
    return await _page(request, kind)


async def _page(
    request: PageRequest, kind: ReportKind, status: int = 200, form_input: FormInput | None = None
) -> Response:
    async with request.app.db.connection() as tx:
        reports = (await kind.list_open(tx))[:MOST]
        names = await merchants.names(tx, (report.merchant_id for report in reports))
    form_input = form_input or FormInput()
    return render.page(
        request,
        "provider_reports.html",
        status,
        kind=kind,
        reports=[(report, _write_amount(request, report)) for report in reports],
        reason_of=refund_failures.text_of,
        names=names,
        form_input=form_input,
        is_listed=form_input.key in {key_of(report) for report in reports},
        may_dismiss=request.may(command_permission(kind.command)),
        key_of=key_of,
        errors={"reason": form_input.error} if form_input.error else {},
        form_id=form_ids.new_form_id,
        most=MOST,
        zone=ZONE,
    )


def _write_amount(request: PageRequest, report: Report) -> str:
    """Write the amount; in the reader's language if OpenTill supports its currency."""
    minor, currency = report.amount_minor, report.currency
    if money.shown(minor, currency) is None:
        return money.named(minor, currency)
    return request.localizer.amount(Money(minor, currency))


async def dismiss_report(request: PageRequest, kind: ReportKind) -> Response:
    """Dismiss a report with a reason, unless its status has changed since it was shown."""
    form = await request.form()
    key = (form.get("merchant", ""), form.get("gateway", ""), form.get("ref", ""))
    reason = form.get("reason", "").strip()
    if not 0 < len(reason) <= _LONGEST_REASON:
        return await _page(request, kind, 400, FormInput(key, reason, GIVE_A_REASON_255))
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        merchant_id, gateway, ref = key
        if not is_id(merchant_id) or not f"{gateway}{ref}".isprintable():
            raise NotFound
        await merchants.record_audit(
            tx, actor, kind.command, merchant_id, f"{gateway} {ref}", request.now
        )
        dismissed = await kind.dismiss(tx, merchant_id, gateway, ref, actor.who, request.now)
        if dismissed.status != form.get("seen"):
            raise Invalid("report", "report must be as it was shown")
        return merchant_id

    try:
        await form_ids.run_once(request, work)
    except (Invalid, KeyReused, NotFound):
        error = N_(
            "It has changed since this was shown: somebody has dismissed "
            "it, it was applied to its order, or the gateway has reported "
            "more."
        )
        return await _page(request, kind, 409, FormInput(key, reason, error))
    return render.see_other(request, f"{kind.place}?done=1")


pages: Final = (
    *(Page("GET", kind.place, kind.read, partial(list_reports, kind=kind)) for kind in KINDS),
    *(
        Page("POST", kind.place, command_permission(kind.command),
             partial(dismiss_report, kind=kind),
             fields=("merchant", "gateway", "ref", "reason", "seen"), rehearsed=True,
             proves=N_("Close the case of a provider’s report"))
        for kind in KINDS
    ),
)  # fmt: skip
