"""Merchants by their names, in commands that take a merchant's id."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentill.cli import session

if TYPE_CHECKING:
    from opentill.db.database import Tx

# Parameters of commands that name a merchant.
_PARAMETERS: Final = ("merchant_id", "merchant")
_PREFIX: Final = "mer_"


def with_ids(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's arguments with the id of a merchant in place of its name.

    A text that is nobody's name stays as it is; the command reports it. Raises Invalid if several
    merchants have the name.
    """
    named = {
        name: text.strip()
        for name in _PARAMETERS
        if isinstance(text := arguments.get(name), str) and not text.strip().startswith(_PREFIX)
    }
    ids = {name: session.query(_finder(name, text)) for name, text in named.items() if text}
    return {**arguments, **ids}


def _finder(parameter: str, text: str) -> Any:
    async def find_id(tx: "Tx") -> str:
        from opentill import merchants
        from opentill.core.errors import Invalid

        ids = await merchants.ids_by_name(tx, text)
        if len(ids) > 1:
            field = parameter.removesuffix("_id")
            reason = f"{field} must be an id: {len(ids)} merchants have this name, {', '.join(ids)}"
            raise Invalid(field, reason)
        return ids[0] if ids else text

    return find_id
