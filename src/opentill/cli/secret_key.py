"""``opentill secret-key replace``: go on when the key that encrypts what is read back is lost."""

from typing import TYPE_CHECKING, Any, Final

import typer

from opentill.cli import inputs, output, session
from opentill.cli.output import Json

if TYPE_CHECKING:
    from opentill.db.database import Tx

_THEN: Final = (
    "What was encrypted with the key before cannot be read any more. Make anew each Epay key"
    " (`opentill epay list`, `epay rotate`) and each webhook secret (`opentill webhooks list`,"
    " `webhooks rotate`), and give them to their merchants; then start servers and workers again."
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(
        help="The key that encrypts Epay keys and webhook secrets.", no_args_is_help=True
    )
    group.command("replace")(replace)
    app.add_typer(group, name="secret-key")


def replace(*, reason: inputs.Reason, by: inputs.By = "", as_json: Json = False) -> None:
    """Go on with another key: the one that is set, or a new one where the file is missing.

    What is encrypted with the key before cannot be read from then on, unless that one comes back.
    """
    from opentill import merchants
    from opentill.db import secret_key

    found = session.settings(new_key=True)

    async def step(tx: "Tx") -> dict[str, Any]:
        replaced = await secret_key.replace(tx, found.secret_key)
        if replaced:
            await merchants.record_audit(
                tx, who=inputs.who(by), action="secret-key replace", merchant_id="",
                subject=found.secret_key_from, reason=reason, now=await session.now(tx),
            )  # fmt: skip
        return {"replaced": replaced, "from": found.secret_key_from}

    async def work() -> None:
        async with session.database(found, any_key=True) as db:
            done = await db.run(step)
        output.show(done, as_json=as_json)
        output.say(_THEN if done["replaced"] else "It is the key of this database already.")

    session.run(work())
