"""``opentill secret-key replace``: continue after the loss of the encryption key."""

from typing import TYPE_CHECKING, Any, Final

import typer

from opentill.cli import inputs, output, session
from opentill.cli.registration import add_group

if TYPE_CHECKING:
    from opentill.db.database import Tx

_NEXT_COMMANDS: Final = (
    "What was encrypted with the old key cannot be read any more. Replace each Epay key (`opentill"
    " epay list`, `epay rotate`), the platform's Epay key (`epay rotate-platform-key`) and each"
    " webhook secret (`opentill webhooks list`, `webhooks"
    " rotate`), and give them to their merchants; enter each merchant's bank account again"
    " (`opentill payouts set-account`), and each gateway account's credentials (`opentill gateways"
    " list`, `gateways rotate`); then start servers and workers again. Authenticators no"
    " longer work: whoever has one logs in with a recovery code or a passkey and replaces it at"
    " /security. Who has neither left needs `opentill people reset-factors EMAIL --as-root`."
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app, "secret-key", "The key that encrypts Epay keys and webhook secrets.", replace=replace
    )


def replace(*, reason: inputs.Reason, as_root: inputs.AsRoot = False) -> output.Result:
    """Replace the key in use by the key of the settings; a missing key file gets a new key.

    Secrets that were encrypted with the old key can be read only if that key is restored.
    """
    from opentill import merchants
    from opentill.db import secret_key

    settings = session.settings(new_key=True)

    actor = inputs.actor(reason, as_root=as_root)

    async def work(tx: "Tx", now: int) -> dict[str, Any]:
        replaced = await secret_key.replace(tx, settings.secret_key)
        if replaced:
            subject = settings.secret_key_from
            await merchants.record_audit(tx, actor, "secret-key replace", "", subject, now)
        return {"replaced": replaced, "from": settings.secret_key_from}

    result = session.transact(work, settings, any_key=True)
    note = _NEXT_COMMANDS if result["replaced"] else "It is the key of this database already."
    return output.Result(result, note=note)
