"""``opentill epay …``: credentials, keys of V2, and notifications."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opentill.cli import epay_import, inputs, output, resolve, session
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.epay import Credentials, NewKeyPair, Notice, NoticeOfOrder, PlatformKey
    from opentill.epay.model import NewCredentials
    from opentill.merchants import Actor

_COLUMNS = ("merchantId", "pid", "state", "versions", "createdAt", "rotatedAt")
_MOST_KEY = 16_384  # bytes of a file with a key; longer files contain something else
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
        versions=versions,
        **{
            "import": epay_import.import_,
            "key-pair": key_pair,
            "public-key": public_key,
            "platform-key": show_platform_key,
            "rotate-platform-key": rotate_platform_key,
        },
    )


def _without_key(credentials: "Credentials", settings: "Settings") -> dict[str, Any]:
    """Return credentials without the key."""
    return {
        "merchantId": credentials.merchant_id,
        "pid": credentials.pid,
        "state": credentials.state,
        "url": f"{settings.public_url}/epay/",
        "versions": credentials.versions,
        "publicKey": credentials.public_key,
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
        order_id = order if "_" in order else order_id_of(order)
        if not order_id:
            order_id = await epay.find_imported_order(tx, order)
        paid_order = await orders.find_anywhere(tx, order_id)
        return await epay.resend(tx, paid_order.merchant_id, paid_order.id, now, actor=actor)

    return session.transact(work)


@acting(without_reason=inputs.NO_REASON)
def versions(
    merchant_id: str,
    accepted: Annotated[
        str, typer.Argument(metavar="V1|V2|BOTH", help="V1 (MD5), V2 (RSA) or BOTH.")
    ],
    *,
    actor: "Actor",
) -> dict[str, Any]:
    """Set which versions of the Epay API a merchant accepts. V2 needs a key of the merchant."""
    from typing import get_args

    from opentill import epay
    from opentill.epay import Versions

    chosen = inputs.choice("versions", accepted.upper(), get_args(Versions))
    if chosen is None:
        raise AssertionError  # only an omitted text has no choice
    settings = session.settings()
    credentials = session.transact(
        lambda tx, now: epay.set_versions(tx, merchant_id, chosen, now, actor=actor), settings
    )
    return _without_key(credentials, settings)


@acting(without_reason=inputs.NO_REASON)
def key_pair(merchant_id: str, *, actor: "Actor") -> "NewKeyPair":
    """Replace a merchant's key for V2 by a new pair, and show its private half once."""
    from opentill import epay

    settings = session.settings()
    return session.transact(
        lambda tx, now: epay.create_key_pair(
            tx, settings.secret_key, merchant_id, now, actor=actor
        ),
        settings,
    )


@acting(without_reason=inputs.NO_REASON)
def public_key(
    merchant_id: str,
    file: Annotated[Path, typer.Argument(help="A file with the public key, in PEM or Base64.")],
    *,
    actor: "Actor",
) -> dict[str, Any]:
    """Replace a merchant's key for V2 by a public key, of which the shop has the private half."""
    from opentill import epay

    with inputs.source(file) as source:
        text = source.read(_MOST_KEY).decode(errors="replace")
    settings = session.settings()
    credentials = session.transact(
        lambda tx, now: epay.set_public_key(
            tx, settings.secret_key, merchant_id, text, now, actor=actor
        ),
        settings,
    )
    return _without_key(credentials, settings)


def show_platform_key() -> dict[str, Any]:
    """Show the public half of the platform's key, with which V2 responses are signed."""
    from opentill.epay import platform_key

    return _platform_key(session.query(platform_key.find))


@acting(without_reason=inputs.NO_REASON)
def rotate_platform_key(*, actor: "Actor") -> dict[str, Any]:
    """Replace the platform's key at once; every shop with V2 needs the new public half."""
    from opentill.epay import platform_key

    settings = session.settings()
    key = session.transact(
        lambda tx, now: platform_key.rotate(tx, settings.secret_key, now, actor=actor), settings
    )
    return _platform_key(key)


def _platform_key(key: "PlatformKey") -> dict[str, Any]:
    return {"number": key.number, "publicKey": key.public_key, "createdAt": key.created_at}
