"""Commands of ``opentill payouts`` about bank accounts and runs (payouts in one bank file)."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from opentill.cli import identity, inputs, output, session
from opentill.cli.progress import progress
from opentill.cli.registration import acting

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.merchants import Actor
    from opentill.payouts import Run, RunView, StoredAccount
    from opentill.reconciliation import BankResult

_RUN_COLUMNS: Final = (
    "id", "status", "currency", "payouts", "amount", "paid", "payOn", "reference", "createdBy",
    "sentBy", "createdAt",
)  # fmt: skip


class FileForm(StrEnum):
    """The format of a bank file."""

    xml = "xml"
    csv = "csv"


def _account_record(stored: "StoredAccount") -> dict[str, Any]:
    fields = {
        name: value
        for name, value in output.plain(stored).items()
        if name not in ("number", "hint", "address")
    }
    return {**fields, "account": stored.shown, "hasAddress": stored.address is not None}


def account(merchant_id: str) -> dict[str, Any]:
    """Show where a merchant's payouts go: the last characters of the account."""
    from opentill import merchants, payouts
    from opentill.core.errors import or_not_found

    async def work(tx: "Tx") -> "StoredAccount":
        await merchants.find(tx, merchant_id)
        stored = await payouts.find_account(tx, merchant_id)
        return or_not_found(stored, f"{merchant_id} has no bank account yet")

    return _account_record(session.query(work))


@acting()
def set_account(  # noqa: PLR0913 - the fields of an account
    merchant_id: str,
    *,
    holder: Annotated[str, typer.Option(help="The account's holder, as the bank knows them.")],
    number: Annotated[
        str, typer.Option("--account", help="An IBAN, or a national account number.")
    ],
    bic: Annotated[str, typer.Option(help="The bank's BIC; an IBAN needs none.")] = "",
    bank_code: Annotated[
        str, typer.Option(help="For a national number: sort code, routing number and the like.")
    ] = "",
    country: Annotated[
        str, typer.Option(help="For a national number: the bank's country, such as US.")
    ] = "",
    street: Annotated[str, typer.Option(help="The street in the holder's address.")] = "",
    building: Annotated[str, typer.Option(help="The house number in the address.")] = "",
    post_code: Annotated[str, typer.Option(help="The post code in the address.")] = "",
    town: Annotated[
        str, typer.Option(help="The town in the address; banks need town and country.")
    ] = "",
    address_country: Annotated[
        str, typer.Option(help="The country in the address: two letters such as DE.")
    ] = "",
    actor: "Actor",
) -> dict[str, Any]:
    """Send a merchant's payouts to another account, after OPENTILL_BANK_ACCOUNT_HOLD_DAYS."""
    from opentill import payouts
    from opentill.core import bankaccounts

    settings = session.settings()
    address = bankaccounts.check_address(
        street=street, building=building, post_code=post_code, town=town, country=address_country
    )
    checked = msgspec.structs.replace(
        bankaccounts.check_account(holder, number, country=country, bic=bic, bank_code=bank_code),
        address=address,
    )
    rule = payouts.HoldRule(settings.secret_key, settings.bank_account_hold_days)
    account = session.transact(
        lambda tx, now: payouts.change_account(tx, merchant_id, checked, actor, rule, now), settings
    )
    return _account_record(account)


@acting()
def confirm_account(merchant_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Resume payouts to a merchant's account after the bank has returned one.

    Runs leave the merchant out until then, or until the account is changed.
    """
    from opentill import payouts

    return _account_record(
        session.transact(lambda tx, now: payouts.confirm_account(tx, merchant_id, actor, now))
    )


def _run_record(run: "Run") -> dict[str, Any]:
    from opentill.core import money

    record = output.plain(run)
    fee_minor = record.pop("feeMinor")
    return {**record, "fee": money.show(fee_minor, run.currency)}


def _view_record(view: "RunView") -> dict[str, Any]:
    from opentill.core import money

    sums, is_sent = view.sums, view.run.status == "SENT"
    return {
        **_run_record(view.run),
        "payouts": sums.payouts,
        "amount": money.show(sums.amount_minor, view.run.currency),
        "inFile": sums.in_file if is_sent else None,
        "fileAmount": money.show(sums.file_minor, view.run.currency) if is_sent else None,
        "pending": sums.pending,
        "paid": sums.paid,
        "failed": sums.failed,
        "withoutAddress": sums.without_address,
    }


@acting()
def run(
    currency: str,
    *,
    reference: inputs.Reference = "",
    fee: Annotated[
        str | None, typer.Option(help="The fee that each merchant pays on top of the amount.")
    ] = None,
    pay_on: Annotated[
        str | None, typer.Option("--on", help="The day on which the bank pays; by default today.")
    ] = None,
    actor: "Actor",
) -> output.Result:
    """Make a payout for every merchant that is due one, to be sent to the bank in one file.

    Repeat the command with the same reference to continue an interrupted run: nobody is paid twice.
    """
    from opentill import payouts
    from opentill.core import bankaccounts

    settings = session.settings()
    if settings.approval_above is not None:
        # The person must be known, since whoever begins a run above the limit may not take its
        # file.
        identity.require_person("begin a run")
    operator_accounts = bankaccounts.parse_operator_accounts(
        settings.payout_accounts, settings.operator_name, settings.payout_address
    )
    request = payouts.RunRequest(
        currency=currency,
        reference=reference,
        actor=actor,
        source=payouts.require_source_account(operator_accounts, currency),
        fee_minor=inputs.amount("fee", fee, currency) or 0,
        pay_on=pay_on,
    )

    async def work() -> "tuple[RunView, int]":
        async with session.database(settings) as db:
            now = await session.now(db)
            new_run = await db.run(lambda tx: payouts.start_run(tx, request, now))
            with progress("making payouts"):
                view = await payouts.perform_run(db, new_run, settings.secret_key, now)
            async with db.connection() as tx:
                due = [row for row in await payouts.list_due(tx, 1000) if row.currency == currency]
            return view, len(due)

    view, left_out = session.run(work())
    note = f"{payouts.describe_run(view)}; the file: opentill payouts file {view.run.id}"
    if left_out:
        note = f"{note}; left out: {left_out}, see opentill payouts due"
    if view.sums.without_address:
        note = (
            f"{note}; accounts without an address: {view.sums.without_address}, see opentill"
            f" payouts runs {view.run.id}"
        )
    if view.run.source.address is None:
        note = f"{note}; OPENTILL_PAYOUT_ADDRESS is not set, so that your own address is missing"
    if view.unreadable:
        note = (
            f"{note}; encrypted with another key, to be entered again (opentill payouts"
            f" set-account): {', '.join(view.unreadable)}"
        )
    return output.Result({**_view_record(view), "unreadable": view.unreadable}, note=note)


def runs(
    run_id: Annotated[str | None, typer.Argument(help="A run, to list its payouts.")] = None,
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 100,
) -> output.Result:
    """List runs of payouts, newest first, or the payouts of one."""
    from opentill import payouts
    from opentill.core import money

    if run_id is None:
        newest = session.query(lambda tx: payouts.list_runs(tx, limit))
        return output.Result([_view_record(view) for view in newest], _RUN_COLUMNS)

    async def work(tx: "Tx") -> "tuple[RunView, list[Any]]":
        return await payouts.view_run(tx, run_id), await payouts.list_payouts_of_run(
            tx, run_id, "", limit
        )

    view, listed = session.query(work)
    rows = [
        {
            "id": one.payout_id,
            "merchantId": one.merchant_id,
            "merchant": one.merchant_name,
            "status": one.status,
            "amount": money.show(one.amount_minor, one.currency),
            "fee": money.show(one.fee_minor, one.currency),
            "currency": one.currency,
            "account": f"{one.country} •••• {one.hint}",
            "hasAddress": one.has_address,
            "inFile": one.in_file,
            "bankReference": one.bank_reference or None,
            "failureReason": one.failure_reason or None,
        }
        for one in listed
    ]
    columns = ("id", "merchant", "status", "amount", "currency", "account", "hasAddress", "inFile")
    return output.Result(rows, columns, payouts.describe_run(view))


@acting(without_reason="to be given to the bank")
def file(
    run_id: str,
    *,
    form: Annotated[
        FileForm, typer.Option("--format", help="xml: ISO 20022 pain.001.001.09; csv.")
    ] = FileForm.xml,
    to_file: inputs.Output = None,
    actor: "Actor",
    as_json: output.Json = False,
) -> None:
    """Write a run's file for the bank, which marks the run as sent and its file as final.

    Repeating the command writes the same bytes. Above OPENTILL_APPROVAL_ABOVE, the person who began
    the run may not take its file.
    """
    from opentill import approvals, payouts, people

    settings = session.settings()
    above = settings.approval_above
    if above is not None:
        # The person must be known, since whoever began a run above the limit may not take its file.
        identity.require_person("take the file")

    async def work() -> "RunView":
        async with session.database(settings) as db:
            now = await session.now(db)
            request = payouts.FileRequest(form.value, actor, above)
            taker = people.Approver(actor.who, lambda _account: False)
            await db.read(lambda tx: approvals.check_run_taker(tx, run_id, request, taker, now))
            await payouts.send_run(db, run_id, request, settings.secret_key, now)
            with await payouts.make_file(db, run_id, settings.secret_key) as bank_file:
                if as_json and to_file is None:
                    pass  # only the record is printed
                else:
                    with inputs.target(to_file) as target:
                        while piece := bank_file.read(64 * 1024):
                            target.write(piece)
                        target.flush()
            async with db.connection() as tx:
                return await payouts.view_run(tx, run_id)

    view = session.run(work())
    if as_json:
        output.show(_view_record(view), as_json=True)
    else:
        output.say(payouts.describe_run(view))


def pay_run(run_id: str, bank_reference: str, actor: "Actor") -> output.Result:
    """Mark all payouts in the file of a run as sent by the bank."""
    from opentill import payouts

    async def work(settings: "Settings") -> "tuple[int, RunView]":
        async with session.database(settings) as db:
            now = await session.now(db)
            with progress("marking payouts as paid"):
                paid = await payouts.pay_run(db, run_id, bank_reference, actor, now)
            return paid, await db.read(lambda tx: payouts.view_run(tx, run_id))

    paid, view = session.run(work(session.settings()))
    return output.Result({**_view_record(view), "paidNow": paid}, note=f"payouts PAID now: {paid}")


@acting(without_reason="as the bank reports")
def report(
    path: Annotated[Path, typer.Argument(help="camt.052, .053 or .054, or CSV; also in a zip.")],
    *,
    actor: "Actor",
) -> output.Result:
    """Read the bank's report: payouts that it sent become PAID, those that came back FAILED.

    CSV has the columns end_to_end_id (the payout), status (paid or failed), amount, currency,
    bank_reference and reason. Differences go to the inbox: opentill reconcile inbox, which
    lists bookings that concern no payout with --bookings. Payouts that came back above the limit
    OPENTILL_APPROVAL_ABOVE wait until somebody else approves it.
    """
    from opentill import approvals, reconciliation

    async def work(settings: "Settings") -> "BankResult":
        async with session.database(settings) as db:
            now = await session.now(db)
            with inputs.source(path) as report_file, progress("reading the report"):
                return await reconciliation.apply_bank_report(
                    db, report_file, path.name, actor, now,
                    rules=approvals.Rules.from_settings(settings),
                    check_requester=lambda: identity.check_requester(needs_approval=True),
                )  # fmt: skip

    result = session.run(work(session.settings()))
    note = "opentill reconcile inbox shows what fits no payout" if result.in_inbox else ""
    if not result.is_new:
        note = "This file was read before: nothing was changed."
    if result.waiting:
        note = f"{note}; " if note else ""
        note = (
            f"{note}waiting for a second person: {len(result.waiting)}, see opentill approvals list"
        )
    return output.Result(result, note=note)


COMMANDS: Final[dict[str, Callable[..., Any]]] = {
    "account": account,
    "set-account": set_account,
    "confirm-account": confirm_account,
    "run": run,
    "runs": runs,
    "file": file,
    "report": report,
}
