"""``opentill keys create|list|regenerate|revoke``."""

from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json
from opentill.cli.registration import acting, add_group

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.merchants import Actor, Key, NewKey

_Which = Annotated[
    str, typer.Argument(help="A key's id, or the id of a merchant with one valid key.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "keys",
        "API keys. A key is shown once, when it is created.",
        create=create,
        list=list_,
        regenerate=regenerate,
        revoke=revoke,
    )


async def _key_id(tx: "Tx", any_id: str, now: int) -> str:
    from opentill import merchants
    from opentill.core.errors import Invalid

    if not any_id.startswith("mer_"):
        return any_id
    merchant = await merchants.find(tx, any_id)
    valid = [key for key in await merchants.keys(tx, merchant.id) if key.opens(now)]
    if len(valid) != 1:
        reason = (
            f"key must be a key's id: {any_id} has {len(valid)} valid keys (opentill keys list)"
        )
        raise Invalid("key", reason)
    return valid[0].id


def _show(new_key: "NewKey", settings: "Settings", *, as_json: bool) -> None:
    """Print a new key and whether its payments move real money."""
    from opentill.core.settings import SANDBOX

    note = ""
    if settings.livemode and SANDBOX in settings.gateways:
        note = "Payments through the sandbox bank, one of the gateways here, are not real money."
    elif SANDBOX in settings.gateways:
        note = "The money is not real: the sandbox bank is the only gateway here."
    record = {**output.plain(new_key), "livemode": settings.livemode}
    output.show(output.Result(record, note="" if as_json else note), as_json=as_json)


@acting(without_reason=inputs.NO_REASON)
def create(
    merchant_id: str,
    *,
    name: Annotated[
        str, typer.Option(help="Its purpose, which no other key has.", show_default=False)
    ] = "",
    expires: Annotated[
        str | None,
        typer.Option(help="At 2027-01-31 (its end, UTC), at a time, or 90d (from now)."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="A scope such as orders:read; repeat it. Without any, the key may do everything."
        ),
    ] = None,
    actor: "Actor",
    as_json: Json = False,
) -> None:
    """Create a key for the deployment's environment."""
    from opentill import merchants
    from opentill.people import key_scopes

    settings = session.settings()
    scopes = key_scopes.read(scope, "scope") if scope else None
    until = inputs.moment("expires", expires, end=True, ahead=True)
    fields = merchants.KeyFields(name=name, expires_at=until, scopes=scopes)

    async def work(tx: "Tx", now: int) -> "NewKey":
        environment = settings.environment
        return await merchants.create_key(tx, merchant_id, environment, now, fields, actor=actor)

    new_key = session.transact(work, settings)
    _show(new_key, settings, as_json=as_json)


def list_(merchant_id: str) -> "list[Key]":
    """List a merchant's keys; `lastUsedAt` is the last use, to the minute."""
    from opentill import merchants

    async def work(tx: "Tx") -> "list[Key]":
        merchant = await merchants.find(tx, merchant_id)
        return await merchants.keys(tx, merchant.id)

    return session.query(work)


@acting(without_reason=inputs.NO_REASON)
def regenerate(
    key: _Which,
    *,
    overlap_hours: Annotated[
        int, typer.Option(help="Hours for which the old key remains valid: 0, 1, 24, 72 or 168.")
    ] = 0,
    actor: "Actor",
    as_json: Json = False,
) -> None:
    """Replace a key: requests with the old one get 401 from now on, or after some hours."""
    from opentill import merchants

    settings = session.settings()

    async def work(tx: "Tx", now: int) -> "NewKey":
        key_id = await _key_id(tx, key, now)
        return await merchants.regenerate_key(
            tx, key_id, now, overlap_hours=overlap_hours, actor=actor
        )

    _show(session.transact(work, settings), settings, as_json=as_json)


@acting(without_reason=inputs.NO_REASON)
def revoke(key: _Which, *, actor: "Actor") -> "Key":
    """Revoke a key: requests with it get 401 from now on."""
    from opentill import merchants

    async def work(tx: "Tx", now: int) -> "Key":
        return await merchants.revoke_key(tx, await _key_id(tx, key, now), now, actor=actor)

    return session.transact(work)
