"""``opentill keys create|list|regenerate|revoke``."""

from typing import TYPE_CHECKING, Annotated

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from opentill.core.settings import Settings
    from opentill.db.database import Tx
    from opentill.merchants import NewKey

_Which = Annotated[
    str, typer.Argument(help="A key's id, or the id of a merchant with one valid key.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="API keys. A key is shown once, when it is made.", no_args_is_help=True
    )
    group.command("create")(create)
    group.command("list")(list_)
    group.command("regenerate")(regenerate)
    group.command("revoke")(revoke)
    app.add_typer(group, name="keys")


async def _key_id(tx: "Tx", which: str) -> str:
    from opentill import merchants
    from opentill.core.errors import Invalid

    if not which.startswith("mer_"):
        return which
    merchant = await merchants.find(tx, which)
    valid = [key for key in await merchants.keys(tx, merchant.id) if key.revoked_at is None]
    if len(valid) != 1:
        reason = f"key must be a key's id: {which} has {len(valid)} valid keys (opentill keys list)"
        raise Invalid("key", reason)
    return valid[0].id


def _show(made: "NewKey", found: "Settings", *, as_json: bool) -> None:
    """Show a new key, and what its payments are worth: not everything that looks real is."""
    from opentill.core.settings import SANDBOX

    output.show({**output.plain(made), "livemode": found.livemode}, as_json=as_json)
    if as_json or SANDBOX not in found.gateways:
        return
    if found.livemode:
        output.say(
            "Payments through the sandbox bank, one of the gateways here, are not real money."
        )
    else:
        output.say("The money is not real: the sandbox bank is the only gateway here.")


def create(
    merchant_id: str,
    *,
    expires: Annotated[
        str | None, typer.Option(help="Last day (UTC), such as 2027-01-31, or Unix ms.")
    ] = None,
    reason: inputs.Why = "",
    by: inputs.By = "",
    as_json: Json = False,
) -> None:
    """Make a key for the deployment's environment."""
    from opentill import merchants

    actor = inputs.actor(by, reason)

    async def work() -> None:
        found = session.settings()
        until = inputs.moment("expires", expires, end=True)
        async with session.database(found) as db:
            now = await session.now(db)
            made = await db.run(
                lambda tx: merchants.create_key(
                    tx, merchant_id, found.environment, now, until, actor=actor
                ),
            )
        _show(made, found, as_json=as_json)

    session.run(work())


def list_(merchant_id: str, *, as_json: Json = False) -> None:
    """List a merchant's keys."""
    from opentill import merchants

    async def work() -> None:
        async with session.database() as db, db.connection() as tx:
            merchant = await merchants.find(tx, merchant_id)
            output.show(await merchants.keys(tx, merchant.id), as_json=as_json)

    session.run(work())


def regenerate(
    key: _Which, *, reason: inputs.Why = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Replace a key at once: the old one gets 401 from now on."""
    from opentill import merchants

    actor = inputs.actor(by, reason)

    async def step(tx: "Tx") -> merchants.NewKey:
        now = await session.now(tx)
        return await merchants.regenerate_key(tx, await _key_id(tx, key), now, actor=actor)

    async def work() -> None:
        found = session.settings()
        async with session.database(found) as db:
            _show(await db.run(step), found, as_json=as_json)

    session.run(work())


def revoke(
    key: _Which, *, reason: inputs.Why = "", by: inputs.By = "", as_json: Json = False
) -> None:
    """Revoke a key: it gets 401 from now on."""
    from opentill import merchants

    actor = inputs.actor(by, reason)

    async def step(tx: "Tx") -> object:
        now = await session.now(tx)
        return await merchants.revoke_key(tx, await _key_id(tx, key), now, actor=actor)

    async def work() -> None:
        async with session.database() as db:
            output.show(await db.run(step), as_json=as_json)

    session.run(work())
