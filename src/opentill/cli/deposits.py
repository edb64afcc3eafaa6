"""``opentill deposits``: token transfers that need attention, and refunds sent from a wallet."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from opentill.cli import output, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.deposits import DepositCase, RefundEvidence
    from opentill.gateways import Gateway
    from opentill.merchants import Actor
    from opentill.orders import PaymentAttempt
    from opentill.refunds import Refund, RefundOut

_COLUMNS: Final = ("id", "kind", "account", "orderId", "token", "units", "transaction")


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "deposits",
        "Token transfers that need attention, and refunds that were sent from a wallet.",
        cases=cases,
        chains=chains,
        handled=handled,
        refunded=refunded,
    )


def cases() -> output.Result:
    """List the token transfers that need attention.

    EXCESS: more arrived than was due. UNKNOWN_TOKEN: the account does not take this token.
    REORGANIZED: a confirmed transfer is no longer part of the chain; its order stays paid.
    """
    from opentill import deposits

    rows = session.query(deposits.list_open_cases)
    return output.Result(rows, _COLUMNS, empty="no transfer needs attention")


def chains() -> output.Result:
    """List how far the worker has read the chain of each account, and why it cannot, if so."""
    from opentill import deposits

    return output.Result(session.query(deposits.list_chains), empty="no chain was read")


@acting()
def handled(
    case: Annotated[str, typer.Argument(help="As `opentill deposits cases` lists it.")],
    *,
    actor: "Actor",
) -> "DepositCase":
    """Close a case. The reason says what was done, such as the transaction that sent it back."""
    from opentill import deposits, merchants

    async def work(tx: "Tx", now: int) -> "DepositCase":
        closed = await deposits.close_case(tx, case, actor.who, actor.reason, now)
        await merchants.record_audit(tx, actor, "deposits handled", closed.merchant_id, case, now)
        return closed

    return session.transact(work)


@acting()
def refunded(
    refund_id: str,
    transaction: Annotated[str, typer.Argument(help="The hash of the transaction, 0x….")],
    recipient: Annotated[str, typer.Argument(help="The address of the customer, 0x….")],
    *,
    actor: "Actor",
) -> "RefundOut":
    """Record the transaction by which a refund was sent, once the chain confirms it."""
    from opentill import deposits, gateways, merchants, orders, refunds
    from opentill.core.errors import Invalid
    from opentill.core.money import Money
    from opentill.gateways import accounts
    from opentill.gateways.account import is_account_id
    from opentill.gateways.accounts import service as account_service
    from opentill.gateways.deposits import takes_deposits
    from opentill.gateways.model import RefundOutcome

    settings = session.settings()

    async def read(tx: "Tx") -> tuple["Refund", "PaymentAttempt", "Gateway | None"]:
        refund = await refunds.find_anywhere(tx, refund_id)
        attempt = await orders.find_attempt(tx, refund.merchant_id, refund.attempt_id)
        if is_account_id(attempt.gateway):
            stored = await accounts.find_stored(tx, attempt.gateway)
            return refund, attempt, account_service.build_stored(stored, settings)
        names = tuple(name for name in settings.gateways if name == attempt.gateway)
        return refund, attempt, gateways.load(names, settings).get(attempt.gateway)

    refund, attempt, gateway = session.query(read, settings)

    async def verify() -> "RefundEvidence":
        try:
            if not takes_deposits(gateway):
                msg = "refund must be one of a payment in tokens"
                raise Invalid("refund", msg)
            return await deposits.verify_refund(
                gateway,
                attempt.gateway,
                refund_id,
                Money(refund.amount_minor, refund.currency),
                transaction,
                recipient,
            )
        finally:
            if gateway is not None:
                await gateway.close()

    evidence = session.run(verify())

    async def work(tx: "Tx", now: int) -> "Refund":
        ids = (refund.merchant_id, refund_id)
        await merchants.record_audit(tx, actor, "deposits refunded", *ids, now)
        await deposits.record_refund(tx, evidence, now)
        outcome = RefundOutcome(status="SUCCEEDED", provider_ref=evidence.transaction)
        reporting: Any = await accounts.with_self_reporting(
            tx, gateways.self_reporting(settings.gateways)
        )
        return await refunds.end_manually(tx, *ids, outcome, now, reporting=reporting)

    return refunds.RefundOut.from_refund(session.transact(work, settings))
