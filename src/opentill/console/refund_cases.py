"""Refunds that need attention: reversed, or made at a gateway and in no order; closed by staff."""

from typing import Final

import msgspec
from starlette.responses import Response

from opentill import merchants, people, refunds
from opentill.backoffice import once, render
from opentill.backoffice.model import OF_CONSOLE, Page
from opentill.backoffice.request import PageRequest
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.people import command_permission
from opentill.refunds import RefundCase

MOST: Final = 200  # that are listed
_LONGEST_REASON: Final = 255


class Typed(msgspec.Struct, frozen=True):
    """What was typed into the form of a case, and the sentence of what is wrong with it."""

    key: tuple[str, str, str] = ("", "", "")
    reason: str = ""
    error: str = ""


def key_of(case: RefundCase) -> tuple[str, str, str]:
    """Return the key of a case: merchant, gateway, the gateway's reference."""
    return case.merchant_id, case.gateway, case.gateway_ref


async def show(request: PageRequest) -> Response:
    """List the open cases, newest first."""
    return await _all(request)


async def _all(request: PageRequest, status: int = 200, typed: Typed | None = None) -> Response:
    async with request.app.db.connection() as tx:
        cases = (await refunds.list_open(tx))[:MOST]
        names = await merchants.names(tx, (case.merchant_id for case in cases))
    shown = typed or Typed()
    return render.page(
        request,
        "refund_cases.html",
        status,
        cases=[(case, _amount(request, case)) for case in cases],
        names=names,
        typed=shown,
        is_there=shown.key in {key_of(case) for case in cases},
        key_of=key_of,
        errors={"reason": shown.error} if shown.error else {},
        form_id=once.new_form_id,
        most=MOST,
        zone=ZONE,
    )


def _amount(request: PageRequest, case: RefundCase) -> str:
    """Write an amount as the reader's language does, if the gateway names one of ours."""
    minor, currency = case.amount_minor, case.currency
    if money.shown(minor, currency) is None:
        return money.named(minor, currency)
    return request.localizer.amount(Money(minor, currency))


async def dismiss(request: PageRequest) -> Response:
    """Close a case with a reason, unless the gateway has reported something new about it."""
    form = await request.form()
    key = (form.get("merchant", ""), form.get("gateway", ""), form.get("ref", ""))
    reason = form.get("reason", "").strip()
    if not 0 < len(reason) <= _LONGEST_REASON:
        return await _all(request, 400, Typed(key, reason, "case_error_reason"))
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        merchant_id, gateway, ref = key
        if not is_id(merchant_id) or not f"{gateway}{ref}".isprintable():
            raise NotFound
        await merchants.record_audit(
            tx, actor, "refunds dismiss", merchant_id, f"{gateway} {ref}", request.now
        )
        closed = await refunds.dismiss(tx, *key, actor.who, request.now)
        if closed.status != form.get("seen"):
            raise Invalid("refund", "refund must be as it was shown")
        return merchant_id

    try:
        await once.make(request, work)
    except (Invalid, KeyReused, NotFound):
        return await _all(request, 409, Typed(key, reason, "case_error_stale"))
    return render.see_other(request, f"{PLACE}?done=1")


PLACE: Final = f"{OF_CONSOLE}/needs/refund-cases"
pages: Final = (
    Page("GET", PLACE, "payments.read", show),
    Page("POST", PLACE, command_permission("refunds dismiss"), dismiss),
)
