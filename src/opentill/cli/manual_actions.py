"""Manual actions by command; above the limit they need a second person."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from opentill.cli import identity, output, session

if TYPE_CHECKING:
    from opentill.approvals import ActionRequest
    from opentill.approvals.model import Action
    from opentill.db.database import Tx
    from opentill.merchants import Actor


def perform(
    action: "Action",
    subject: str,
    actor: "Actor",
    find: "Callable[[Tx], Awaitable[str]]",
    to_output: "Callable[[Tx, Any], Awaitable[object]]",
) -> output.Result:
    """Perform a manual action or store a request for it; return the output of the command.

    ``find`` returns the merchant's id. ``to_output`` converts the action's result to that output.
    Raises NotFound, Invalid and ``identity.NotAllowed``.
    """
    from opentill.approvals import ActionRequest

    async def work(tx: "Tx", now: int) -> output.Result:
        merchant_id = await find(tx)
        request = ActionRequest(
            action=action, merchant_id=merchant_id, subject=subject, actor=actor
        )
        return await perform_in(tx, request, to_output, now)

    return session.transact(work)


async def perform_in(
    tx: "Tx",
    request: "ActionRequest",
    to_output: "Callable[[Tx, Any], Awaitable[object]]",
    now: int,
) -> output.Result:
    """Like ``perform``, in the caller's transaction."""
    from opentill import approvals

    rules = approvals.Rules.from_settings(session.settings())
    result = await approvals.perform(tx, request, rules, now)
    if isinstance(result, approvals.WaitingAction):
        identity.check_requester(needs_approval=True)
        note = f"waits for a second person: opentill approvals approve {result.id}"
        return output.Result(approvals.WaitingActionOut.from_request(result), note=note)
    return output.Result(await to_output(tx, result))
