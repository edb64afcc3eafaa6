"""Everything at once on one merchant, from many connections, with the worker's jobs running."""

from opentill.db.database import Db
from support.concurrent_movements import hammered


async def test_everything_at_once_leaves_the_books_right(db: Db, database_url: str) -> None:
    await hammered(db, database_url, seconds=1)
