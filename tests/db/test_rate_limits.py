"""What counts in a window of one minute, to the millisecond."""

import pytest

from opentill.db import queries as db_queries
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.merchants import queries
from support.world import NOW

# When a request passed, and whether it counts now; clocks may be set back.
HITS = [
    (-60_001, False),
    (-60_000, False),
    (-59_999, True),
    (0, True),
    (60_000, True),
    (60_001, False),
]


@pytest.mark.parametrize(("offset", "counts"), HITS)
async def test_a_window_is_one_minute_either_way(tx: Tx, offset: int, counts: bool) -> None:
    await rate_limits.hit(tx, "ip", "192.0.2.1", 1, NOW + offset)
    await rate_limits.hit(tx, "ip", "192.0.2.2", 1, NOW)  # of somebody else
    await rate_limits.hit(tx, "merchant", "192.0.2.1", 1, NOW)
    look = await db_queries.WINDOW.first(tx, scope="ip", subject="192.0.2.1", now=NOW)
    assert look == rate_limits.Window(int(counts), NOW + offset if counts else NOW)
    refused = await rate_limits.hit(tx, "ip", "192.0.2.1", 1, NOW) is None
    assert refused == counts


@pytest.mark.parametrize(("offset", "counts"), HITS)
async def test_who_enters_is_counted_in_the_same_window(tx: Tx, offset: int, counts: bool) -> None:
    await rate_limits.hit(tx, "ip", "192.0.2.1", 1, NOW + offset)
    entered = await queries.AUTHENTICATE_LIMITED.first(
        tx, scope="ip", subject="192.0.2.1", limit=1, now=NOW, key_sha256=b""
    )
    assert entered is not None
    assert (entered.allowed, entered.merchant_id) == (not counts, None)


async def test_a_window_adds_up_what_counts_and_forgets_the_rest(tx: Tx) -> None:
    for number in range(4):
        window = await rate_limits.hit(tx, "ip", "192.0.2.1", 9, NOW + 20_000 * number)
        assert window is not None
    assert window == rate_limits.Window(3, NOW + 20_000)
    hits = await tx.fetchval("select hits from rate_limit_windows where subject = '192.0.2.1'")
    assert hits == [NOW + 20_000, NOW + 40_000, NOW + 60_000]
