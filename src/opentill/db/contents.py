"""What a database has, for those who back it up and restore it."""

from opentill.db import queries
from opentill.db.queries import Contents as Contents  # noqa: PLC0414 - part of this interface
from opentill.db.query import Tx


async def count(tx: Tx) -> Contents:
    """Count the rows of what is never deleted."""
    return await queries.CONTENTS.one(tx)


async def is_empty(tx: Tx) -> bool:
    """Return whether nobody has made anything in the database."""
    return not await queries.OBJECTS.get(tx)
