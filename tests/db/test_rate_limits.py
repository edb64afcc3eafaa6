"""Which requests a window of one minute counts, to the millisecond."""

from typing import Any

import pytest

from opentill.core.errors import TooManyRequests
from opentill.db import queries as db_queries
from opentill.db import rate_limits
from opentill.db.database import Tx
from opentill.http.responses import render_problem
from opentill.merchants import queries
from support.world import NOW

# Time of an earlier request, in ms after the present one, and whether the window counts it. Clocks
# may be set back, so that the earlier request may have a later time.
HITS = [
    (-60_001, False),
    (-60_000, False),
    (-59_999, True),
    (0, True),
    (60_000, True),
    (60_001, False),
]


@pytest.mark.parametrize(("offset", "counts"), HITS)
async def test_a_window_is_one_minute_before_and_after(tx: Tx, offset: int, counts: bool) -> None:
    await rate_limits.hit(tx, "ip", "192.0.2.1", 1, NOW + offset)
    await rate_limits.hit(tx, "ip", "192.0.2.2", 1, NOW)  # another address is counted separately
    await rate_limits.hit(tx, "merchant", "192.0.2.1", 1, NOW)
    window = await db_queries.WINDOW.first(tx, scope="ip", subject="192.0.2.1", now=NOW)
    assert window == rate_limits.Window(int(counts), NOW + offset if counts else NOW)
    is_refused = await rate_limits.hit(tx, "ip", "192.0.2.1", 1, NOW) is None
    assert is_refused == counts


@pytest.mark.parametrize(("offset", "counts"), HITS)
async def test_authentication_counts_in_the_same_window(tx: Tx, offset: int, counts: bool) -> None:
    await rate_limits.hit(tx, "ip", "192.0.2.1", 1, NOW + offset)
    caller = await queries.AUTHENTICATE_LIMITED.first(
        tx, scope="ip", subject="192.0.2.1", limit=1, now=NOW, key_sha256=b""
    )
    assert caller is not None
    assert (caller.allowed, caller.merchant_id) == (not counts, None)


@pytest.mark.parametrize(
    ("hit", "length_ms"),
    [
        (rate_limits.hit_hourly, db_queries.HOUR_MS),
        (rate_limits.hit_daily, db_queries.DAY_MS),
    ],
)
@pytest.mark.parametrize("action_leaves", [True, False])
async def test_a_long_window_counts_the_actions_of_its_length(
    tx: Tx, hit: Any, length_ms: int, action_leaves: bool
) -> None:
    action = "mail", "ann@example.com", 1
    await hit(tx, *action, NOW)
    if action_leaves:
        await hit(tx, *action, NOW + length_ms)
    else:
        with pytest.raises(TooManyRequests) as refusal:
            await hit(tx, *action, NOW + length_ms - 1)
        assert refusal.value.retry_after_s == 1
        policy = dict(render_problem(refusal.value)[2])[b"ratelimit-policy"]
        assert policy == b'"default";q=1;w=%d' % (length_ms // 1000)


async def test_a_window_deletes_the_requests_that_no_longer_count(tx: Tx) -> None:
    for number in range(4):
        window = await rate_limits.hit(tx, "ip", "192.0.2.1", 9, NOW + 20_000 * number)
        assert window is not None
    assert window == rate_limits.Window(3, NOW + 20_000)
    hits = await tx.fetchval("select hits from rate_limit_windows where subject = '192.0.2.1'")
    assert hits == [NOW + 20_000, NOW + 40_000, NOW + 60_000]
