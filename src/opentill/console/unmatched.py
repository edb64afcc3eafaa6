"""Disputes that a gateway reported and no order could take: dismissed once they are dealt with."""

from typing import Final

import msgspec
from starlette.responses import Response

from opentill import disputes, merchants, people
from opentill.backoffice import once, render
from opentill.backoffice.model import OF_CONSOLE, Page
from opentill.backoffice.request import PageRequest
from opentill.console.zone import ZONE
from opentill.core import money
from opentill.core.errors import Invalid, KeyReused, NotFound
from opentill.core.ids import is_id
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.disputes import Unmatched

MOST: Final = 200  # that are listed
_LONGEST_REASON: Final = 255


class Typed(msgspec.Struct, frozen=True):
    """What was typed into the form of one of them, and the key of what is wrong with it."""

    key: tuple[str, str, str] = ("", "", "")
    reason: str = ""
    error: str = ""


def key_of(one: Unmatched) -> tuple[str, str, str]:
    """Return the key of one: merchant, gateway, the gateway's name of it."""
    return one.merchant_id, one.gateway, one.gateway_ref


async def show(request: PageRequest) -> Response:
    """List them, the newest first."""
    return await _all(request)


async def _all(request: PageRequest, status: int = 200, typed: Typed | None = None) -> Response:
    async with request.app.db.connection() as tx:
        found = (await disputes.unmatched(tx))[:MOST]
        names = await merchants.names(tx, (one.merchant_id for one in found))
    shown = typed or Typed()
    return render.page(
        request,
        "unmatched.html",
        status,
        found=[(one, _amount(request, one)) for one in found],
        names=names,
        typed=shown,
        is_there=shown.key in {key_of(one) for one in found},
        key_of=key_of,
        errors={"reason": shown.error} if shown.error else {},
        form_id=once.new_form_id,
        most=MOST,
        zone=ZONE,
    )


def _amount(request: PageRequest, one: Unmatched) -> str:
    """Write an amount as the reader's language does, if the gateway names one of ours."""
    minor, currency = one.amount_minor, one.currency
    if money.shown(minor, currency) is None:
        return money.named(minor, currency)
    return request.localizer.amount(Money(minor, currency))


async def dismiss(request: PageRequest) -> Response:
    """Dismiss one with a reason, unless the gateway has said something new about it."""
    form = await request.form()
    key = (form.get("merchant", ""), form.get("gateway", ""), form.get("ref", ""))
    reason = form.get("reason", "").strip()
    if not 0 < len(reason) <= _LONGEST_REASON:
        return await _all(request, 400, Typed(key, reason, "unmatched_error_reason"))
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        merchant_id, gateway, ref = key
        if not is_id(merchant_id) or not f"{gateway}{ref}".isprintable():
            raise NotFound
        await merchants.record_audit(
            tx, actor, "disputes dismiss", merchant_id, f"{gateway} {ref}", request.now
        )
        closed = await disputes.dismiss(tx, *key, actor.who, request.now)
        if closed.status != form.get("seen"):
            raise Invalid("dispute", "dispute must be as it was shown")
        return merchant_id

    try:
        await once.make(request, work)
    except (Invalid, KeyReused, NotFound):
        return await _all(request, 409, Typed(key, reason, "unmatched_error_stale"))
    return render.see_other(request, f"{PLACE}?done=1")


PLACE: Final = f"{OF_CONSOLE}/needs/unmatched"
pages: Final = (
    Page("GET", PLACE, "disputes.read", show),
    Page("POST", PLACE, "disputes.decide", dismiss),
)
