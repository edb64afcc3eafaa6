"""``opentill epay enable|rotate|disable|show|list|notices|resend``."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import inputs, output, resolve, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.epay import Credentials, Notice, NoticeOfOrder
    from opentill.epay.model import NewCredentials
    from opentill.merchants import Actor

_COLUMNS = ("merchantId", "pid", "state", "createdAt", "rotatedAt")
_NOTICES = ("orderId", "outTradeNo", "state", "tries", "answer", "dueAt")


def register(app: typer.Typer) -> None:
    """Add the group."""
    summary = "Epay credentials, and notifications of paid orders."
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


def _without_key(credentials: "Credentials", settings: "Settings") -> dict[str, Any]:
    """Return credentials without the key."""
    return {
        "merchantId": credentials.merchant_id,
        "pid": credentials.pid,
        "state": credentials.state,
        "url": f"{settings.public_url}/epay/",
        "createdAt": credentials.created_at,
        "rotatedAt": credentials.rotated_at,
    }


@acting(without_reason=inputs.NO_REASON)
def enable(merchant_id: str, *, actor: "Actor") -> "NewCredentials":
    """Enable a merchant's Epay API, and show its pid and key."""
    from opentill import epay

    settings = session.settings()
    return session.transact(
        lambda tx, now: epay.enable(tx, settings, merchant_id, now, actor=actor), settings
    )


@acting(without_reason=inputs.NO_REASON)
def rotate(merchant_id: str, *, actor: "Actor") -> "NewCredentials":
    """Replace a merchant's key at once: signatures with the old one are refused from now on."""
    from opentill import epay

    settings = session.settings()
    return session.transact(
        lambda tx, now: epay.rotate(tx, settings, merchant_id, now, actor=actor), settings
    )


@acting(without_reason=inputs.NO_REASON)
def disable(merchant_id: str, *, actor: "Actor") -> dict[str, Any]:
    """Stop a merchant's Epay API. `enable` starts it again, with the same pid and key."""
    from opentill import epay

    settings = session.settings()
    credentials = session.transact(
        lambda tx, now: epay.disable(tx, merchant_id, now, actor=actor), settings
    )
    return _without_key(credentials, settings)


def show(merchant: resolve.AnyId) -> dict[str, Any]:
    """Show a merchant's credentials, without the key."""
    from opentill import epay

    settings = session.settings()

    async def work(tx: "Tx") -> "Credentials":
        return await epay.find(tx, (await resolve.merchant(tx, merchant)).id)

    return _without_key(session.query(work, settings), settings)


def list_() -> output.Result:
    """List the merchants that have Epay credentials."""
    from opentill import epay

    settings = session.settings()
    rows = [
        _without_key(credentials, settings)
        for credentials in session.query(epay.list_credentials, settings)
    ]
    return output.Result(rows, _COLUMNS)


def notices(
    merchant_id: str,
    *,
    state: Annotated[
        str | None, typer.Option(help="Only those WAITING, DELIVERED or FAILED.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
) -> output.Result:
    """List the notifications of a merchant's paid orders, newest first."""
    from typing import get_args

    from opentill import epay
    from opentill.epay.model import NoticeState

    notice_state: NoticeState | None = inputs.choice(
        "state", state.upper() if state else None, get_args(NoticeState)
    )

    async def work(tx: "Tx") -> "list[NoticeOfOrder]":
        await epay.find(tx, merchant_id)
        return await epay.list_notices(tx, merchant_id, notice_state, limit)

    return output.Result(session.query(work), _NOTICES)


@acting(without_reason=inputs.NO_REASON)
def resend(
    order: Annotated[str, typer.Argument(help="The order's id, or its trade_no.")],
    *,
    actor: "Actor",
) -> "Notice":
    """Send the notification of a paid order again, at once and with all attempts."""
    from opentill import epay, orders
    from opentill.epay.model import order_id_of

    async def work(tx: "Tx", now: int) -> "Notice":
        paid_order = await orders.find_anywhere(tx, order if "_" in order else order_id_of(order))
        return await epay.resend(tx, paid_order.merchant_id, paid_order.id, now, actor=actor)

    return session.transact(work)
