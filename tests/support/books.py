"""Checks the books with few statements, because it runs after each test that writes entries."""

import json
import re
from functools import cache
from typing import Final

import msgspec

from opentill import ledger
from opentill.db.database import Tx
from opentill.integrity import rules
from opentill.ledger import Violation

_MAX_CHARACTERS: Final = 15 * 1024  # asyncpg does not cache prepared statements that are longer


@cache
def _combine(statements: tuple[str, ...]) -> list[tuple[str, int]]:
    """Combine statements with ``union all``; return each with the number of its parameters."""
    parts = [("", 0)]
    for sql in statements:
        text, count = parts[-1]
        if len(text) + len(sql) + 100 > _MAX_CHARACTERS:
            text, count = "", 0
            parts.append((text, count))
        numbers = [int(number) for number in re.findall(r"\$(\d+)", sql)]
        renumbered = re.sub(r"\$(\d+)", lambda match, n=count: f"${int(match[1]) + n}", sql)
        select = f"select rule, merchant_id, subject, detail from (\n{renumbered}\n) r"
        text = f"{text} union all {select}" if text else select
        parts[-1] = (text, count + max(numbers, default=0))
    return parts


async def ledger_violations(tx: Tx) -> list[Violation]:
    """Return the violations of the ledger's own rules; other features' rules are not checked."""
    return [row for rule, values in ledger.rules() for row in await rule.all(tx, **values)]


async def assert_books(tx: Tx) -> int:
    """Fail if the books violate any rule; return the number of entries."""
    statements = list(rules.statements())
    values = [value for rule, named in statements for value in rule.values(None, named)]
    violations: list[Violation] = []
    # The statements are read each time, because mutation tests change them.
    for sql, count in _combine(tuple(rule.sql for rule, _ in statements)):
        rows = await tx.fetch(sql, *values[:count])
        violations += [Violation(**row) for row in rows]
        del values[:count]
    assert not violations, "\n".join(json.dumps(msgspec.to_builtins(v)) for v in violations)
    return await ledger.count_entries(tx)
