"""``opentill epay enable|rotate|disable|show|list|notices|resend``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, session
from opentill.cli.groups import add_group
from opentill.cli.output import Json

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.epay import Credentials, Notice

_COLUMNS = ("merchantId", "pid", "state", "createdAt", "rotatedAt")


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "The Epay API: credentials of merchants, and notifications of paid orders."
    add_group(
        app,
        "epay",
        summary,
        enable=enable,
        rotate=rotate,
        disable=disable,
        show=show,
        list=list_,
        notices=notices,
        resend=resend,
    )


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
    merchant_id: str,
    *,
    reason: inputs.OptionalReason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Let a merchant take payments by Epay; shows its pid and key."""
    from opentill import epay

    actor, found = inputs.actor(by, reason), session.settings()
    made = session.transact(
        lambda tx, now: epay.enable(tx, found, merchant_id, now, actor=actor), found
    )
    output.show(made, as_json=as_json)


def rotate(
    merchant_id: str,
    *,
    reason: inputs.OptionalReason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Replace a merchant's key at once: signatures with the old one are refused from now on."""
    from opentill import epay

    actor, found = inputs.actor(by, reason), session.settings()
    made = session.transact(
        lambda tx, now: epay.rotate(tx, found, merchant_id, now, actor=actor), found
    )
    output.show(made, as_json=as_json)


def disable(
    merchant_id: str,
    *,
    reason: inputs.OptionalReason = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Stop a merchant's Epay API. `enable` starts it again, with the same pid and key."""
    from opentill import epay

    actor, found = inputs.actor(by, reason), session.settings()
    closed = session.transact(
        lambda tx, now: epay.disable(tx, merchant_id, now, actor=actor), found
    )
    output.show(_plain(closed, found), as_json=as_json)


def show(merchant_id: str, *, as_json: Json = False) -> None:
    """Show a merchant's credentials, without the key."""
    from opentill import epay

    found = session.settings()
    credentials = session.query(lambda tx: epay.find(tx, merchant_id), found)
    output.show(_plain(credentials, found), as_json=as_json)


def list_(*, as_json: Json = False) -> None:
    """List the merchants that have Epay credentials."""
    from opentill import epay

    found = session.settings()
    rows = [_plain(one, found) for one in session.query(epay.all_credentials, found)]
    output.show(rows, as_json=as_json, columns=_COLUMNS)


def notices(
    merchant_id: str,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only those WAITING, DELIVERED or FAILED.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List the notifications of a merchant's paid orders, newest first."""
    from typing import get_args

    from opentill import epay
    from opentill.epay.model import NoticeState

    wanted: NoticeState | None = inputs.choice(
        "state", state.upper() if state else None, get_args(NoticeState)
    )

    async def work(tx: "Tx") -> "list[Notice]":
        await epay.find(tx, merchant_id)
        return await epay.newest_notices(tx, merchant_id, wanted, limit)

    columns = ("orderId", "state", "tries", "answer", "dueAt")
    output.show(session.query(work), as_json=as_json, columns=columns)


def resend(
    order: Annotated[str, typer.Argument(help="The order's id, or its trade_no.")],
    *,
    as_json: Json = False,
) -> None:
    """Send the notification of a paid order again, at once and with all attempts."""
    from opentill import epay, orders
    from opentill.epay.model import order_id_of

    async def work(tx: "Tx", now: int) -> "Notice":
        found = await orders.find_anywhere(tx, order if "_" in order else order_id_of(order))
        return await epay.resend(tx, found.merchant_id, found.id, now)

    output.show(session.transact(work), as_json=as_json)
