"""Many connections and the worker's jobs move one merchant's money concurrently."""

from opentill.db.database import Db
from support.concurrent_movements import run_movements


async def test_concurrent_movements_leave_the_books_consistent(db: Db, database_url: str) -> None:
    await run_movements(db, database_url, seconds=1)
