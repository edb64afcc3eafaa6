"""Token transfers that need attention: staff send tokens back, and record here what they did."""

from decimal import Decimal
from typing import Final

import msgspec
from starlette.responses import Response

from opentill import deposits, merchants, people
from opentill.console.labels import GIVE_A_REASON
from opentill.console.need_labels import DEPOSIT_CASE
from opentill.console.zone import ZONE
from opentill.core.errors import KeyReused, NotFound
from opentill.core.ids import is_id
from opentill.db.database import Tx
from opentill.deposits import DepositCase
from opentill.gateways.deposits import takes_deposits
from opentill.people import command_permission
from opentill.portal import form_ids, render
from opentill.portal.model import CONSOLE_PATH, Page
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

MOST: Final = 200  # the list shows at most this many cases
_COMMAND: Final = "deposits handled"
_LONGEST_REASON: Final = 400
_HANDLED: Final = N_("Somebody else has handled this transfer meanwhile.")


class Row(msgspec.Struct, frozen=True):
    """A case in the list."""

    case: DepositCase
    kind: str
    amount: str  # with the token's symbol, or its address if the account does not take it
    transaction_url: str  # "" if no block explorer is known


async def list_cases(request: PageRequest) -> Response:
    """List the open cases, newest first."""
    return await _page(request)


async def _page(
    request: PageRequest, status: int = 200, case_id: str = "", reason: str = "", error: str = ""
) -> Response:
    async with request.app.db.connection() as tx:
        cases = (await deposits.list_open_cases(tx))[:MOST]
        names = await merchants.names(tx, (case.merchant_id for case in cases))
    return render.page(
        request,
        "deposit_cases.html",
        status,
        rows=[_row(request, case) for case in cases],
        names=names,
        sent_id=case_id,
        sent_reason=reason,
        is_listed=any(case.id == case_id for case in cases),
        may_handle=request.may(command_permission(_COMMAND)),
        errors={"reason": error} if error else {},
        form_id=form_ids.new_form_id,
        longest=_LONGEST_REASON,
        most=MOST,
        zone=ZONE,
    )


def _row(request: PageRequest, case: DepositCase) -> Row:
    gateway = request.app.gateways.get(case.account)
    amount, url = f"{case.units:f} {case.token}", ""
    if takes_deposits(gateway):
        url = gateway.show_transaction(case.transaction)
        for token in gateway.tokens:
            if token.address == case.token:
                exact = Decimal(case.units).scaleb(-token.decimals).normalize()
                amount = f"{exact:f} {token.symbol}"
    return Row(case, DEPOSIT_CASE[case.kind], amount, url)


async def handle_case(request: PageRequest) -> Response:
    """Close a case with what was done."""
    form = await request.form()
    case_id, reason = form["case"], form["reason"].strip()
    if not 0 < len(reason) <= _LONGEST_REASON:
        return await _page(request, 400, case_id, reason, GIVE_A_REASON)
    actor = people.actor_of(request.login, reason)

    async def work(tx: Tx) -> str:
        if not is_id(case_id):
            raise NotFound
        closed = await deposits.close_case(tx, case_id, actor.who, reason, request.now)
        await merchants.record_audit(tx, actor, _COMMAND, closed.merchant_id, case_id, request.now)
        return closed.id

    try:
        await form_ids.run_once(request, work)
    except (KeyReused, NotFound):
        return await _page(request, 409, case_id, reason, _HANDLED)
    return render.see_other(request, f"{PLACE}?done=1")


PLACE: Final = f"{CONSOLE_PATH}/needs/deposits"
pages: Final = (
    Page("GET", PLACE, "payments.read", list_cases),
    Page(
        "POST",
        PLACE,
        command_permission(_COMMAND),
        handle_case,
        fields=("case", "reason"),
        proves=N_("Close the case of a token transfer"),
        rehearsed=True,
    ),
)
