"""``opentill epay enable|rotate|disable|show|list|notices|resend``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.epay import Credentials, Notice

_COLUMNS = ("merchantId", "pid", "state", "createdAt", "rotatedAt")


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="The Epay door: credentials of merchants, and notices of paid orders.",
        no_args_is_help=True,
    )
    group.command("enable")(enable)
    group.command("rotate")(rotate)
    group.command("disable")(disable)
    group.command("show")(show)
    group.command("list")(list_)
    group.command("notices")(notices)
    group.command("resend")(resend)
    app.add_typer(group, name="epay")


def _plain(found: "Credentials", settings: "Settings") -> dict[str, Any]:
    """Credentials as they may be shown again: without the key."""
    return {
        "merchantId": found.merchant_id,
        "pid": found.pid,
        "state": found.state,
        "url": f"{settings.public_url}/epay/",
        "createdAt": found.created_at,
        "rotatedAt": found.rotated_at,
    }


def enable(
    merchant_id: str, *, reason: inputs.Why = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Let a merchant take payments by Epay; shows its pid and key."""
    from opentill import epay

    actor = inputs.actor(by, reason)

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db:
            now = await session.now(db)
            made = await db.run(lambda tx: epay.enable(tx, found, merchant_id, now, actor=actor))
        output.show(made, as_json=as_json)

    session.run(work())


def rotate(
    merchant_id: str, *, reason: inputs.Why = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Replace a merchant's key at once: what is signed with the old one is refused from now on."""
    from opentill import epay

    actor = inputs.actor(by, reason)

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db:
            now = await session.now(db)
            made = await db.run(lambda tx: epay.rotate(tx, found, merchant_id, now, actor=actor))
        output.show(made, as_json=as_json)

    session.run(work())


def disable(
    merchant_id: str, *, reason: inputs.Why = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Close the door for a merchant. `enable` opens it again, with the same pid and key."""
    from opentill import epay

    actor = inputs.actor(by, reason)

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db:
            now = await session.now(db)
            closed = await db.run(lambda tx: epay.disable(tx, merchant_id, now, actor=actor))
        output.show(_plain(closed, found), as_json=as_json)

    session.run(work())


def show(merchant_id: str, *, as_json: Json = False) -> None:
    """Show a merchant's credentials, without the key."""
    from opentill import epay

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db, db.connection() as tx:
            output.show(_plain(await epay.find(tx, merchant_id), found), as_json=as_json)

    session.run(work())


def list_(*, as_json: Json = False) -> None:
    """List the merchants that have Epay credentials."""
    from opentill import epay

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db, db.connection() as tx:
            rows = [_plain(one, found) for one in await epay.everyone(tx)]
        output.show(rows, as_json=as_json, columns=_COLUMNS)

    session.run(work())


def notices(
    merchant_id: str,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only those WAITING, DELIVERED or FAILED.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List the notices of a merchant's paid orders, newest first."""
    from typing import cast, get_args

    from opentill import epay
    from opentill.core.errors import Invalid
    from opentill.epay.model import NoticeState

    async def work() -> None:
        wanted = state.upper() if state else None
        if wanted is not None and wanted not in get_args(NoticeState):
            raise Invalid("state", "state must be WAITING, DELIVERED or FAILED")
        async with session.database() as db, db.connection() as tx:
            await epay.find(tx, merchant_id)
            rows = await epay.newest_notices(
                tx, merchant_id, cast("NoticeState | None", wanted), limit
            )
        columns = ("orderId", "state", "tries", "answer", "dueAt")
        output.show(rows, as_json=as_json, columns=columns)

    session.run(work())


def resend(
    order: Annotated[str, typer.Argument(help="The order's id, or its trade_no.")],
    *,
    as_json: Json = False,
) -> None:
    """Tell of a paid order anew, at once and with all tries."""
    from opentill import epay, orders
    from opentill.epay.model import order_id_of

    async def step(tx: "Tx") -> "Notice":
        found = await orders.find_anywhere(tx, order if "_" in order else order_id_of(order))
        return await epay.resend(tx, found.merchant_id, found.id, await session.now(tx))

    async def work() -> None:
        async with session.database() as db:
            output.show(await db.run(step), as_json=as_json)

    session.run(work())
