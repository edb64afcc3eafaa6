"""Rows of the audit log that were there before it was a chain become its beginning."""

import asyncpg

from opentill import merchants
from opentill.db import migrations
from support.world import NOW

OLD = (
    "insert into audit_log (id, at, who, action, merchant_id, subject, reason)"
    " values ($1, $2, 'ann', 'orders confirm', 'mer_1', 'order_1', 'gesehen – 看到了')"
)


async def test_older_rows_are_chained_by_the_migration(empty_database_url: str) -> None:
    first, *_ = files = migrations.migrations()
    connection = await asyncpg.connect(empty_database_url)
    try:
        await connection.execute(first.sql)
        for number in (2, 1, 3):
            await connection.execute(OLD, f"aud_{number}", NOW + number)
        for later in files[1:]:
            await connection.execute(later.sql)
        async with connection.transaction():
            await merchants.record_audit(
                connection, who="bob", action="test", merchant_id="mer_1", subject="s",
                reason="why", now=NOW,
            )  # fmt: skip
            verdict = await merchants.verify_audit(connection)
        assert (verdict.rows, verdict.breaks) == (4, [])
        rows = await merchants.audit_log(connection)
        assert [row.id for row in rows][1:] == ["aud_3", "aud_2", "aud_1"]
    finally:
        await connection.close()
