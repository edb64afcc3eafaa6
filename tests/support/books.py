"""Whether the books are right, asked in few statements: a thousand tests ask it at their end."""

import json
import re
from functools import cache
from typing import Final

import msgspec

from opentill import ledger
from opentill.db.database import Tx
from opentill.integrity import rules
from opentill.ledger import Violation

_MOST: Final = 15 * 1024  # characters: asyncpg keeps no longer statement prepared


@cache
def _joined(statements: tuple[str, ...]) -> list[tuple[str, int]]:
    """Join statements without changing their order; each with the number of its parameters."""
    parts = [("", 0)]
    for sql in statements:
        text, count = parts[-1]
        if len(text) + len(sql) + 100 > _MOST:
            text, count = "", 0
            parts.append((text, count))
        numbers = [int(number) for number in re.findall(r"\$(\d+)", sql)]
        moved = re.sub(r"\$(\d+)", lambda parts, n=count: f"${int(parts[1]) + n}", sql)
        joined = f"select rule, merchant_id, subject, detail from (\n{moved}\n) r"
        text = f"{text} union all {joined}" if text else joined
        parts[-1] = (text, count + max(numbers, default=0))
    return parts


async def ledger_violations(tx: Tx) -> list[Violation]:
    """Return what breaks the ledger's own rules, without those of the features above it."""
    return [broken for rule, values in ledger.rules() for broken in await rule.all(tx, **values)]


async def assert_books(tx: Tx) -> int:
    """Fail with what is wrong if the books are not right; return how many entries there are."""
    statements = list(rules.statements())
    values = [value for rule, named in statements for value in rule.values(None, named)]
    violations: list[Violation] = []
    # The statements are read anew each time: mutation tests change them.
    for sql, count in _joined(tuple(rule.sql for rule, _ in statements)):
        rows = await tx.fetch(sql, *values[:count])
        violations += [Violation(**row) for row in rows]
        del values[:count]
    assert not violations, "\n".join(json.dumps(msgspec.to_builtins(v)) for v in violations)
    return await ledger.count_entries(tx)
