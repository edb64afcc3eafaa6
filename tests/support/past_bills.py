"""Payments of a sandbox bank on the day before, whose bill is made already."""

import sqlite3
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from opentill.sandbox.storage import FILE

DAY_MS: Final = 86_400_000
_CHINA_MS: Final = 8 * 3_600_000


def yesterday(days_ago: int = 1) -> str:
    """Return the name of a past day of China."""
    now = datetime.fromtimestamp(time.time() + _CHINA_MS / 1000, UTC)
    return (now.date() - timedelta(days=days_ago)).isoformat()


def bounds(day: str) -> tuple[int, int]:
    """Return the first and the last ms of a day of China."""
    start = round(datetime.fromisoformat(f"{day}T00:00:00+08:00").timestamp() * 1000)
    return start, start + DAY_MS - 1


def move_to_past(data_dir: Path, payment_id: str, days_ago: int = 1) -> None:
    """Move a payment and its refunds to an earlier day, as if they were made then."""
    change = days_ago * DAY_MS
    with sqlite3.connect(data_dir / FILE, timeout=30) as file:
        file.execute(
            "update payments set settled_at = settled_at - ? where id = ?", (change, payment_id)
        )
        file.execute(
            "update refunds set created_at = created_at - ?, succeeded_at = succeeded_at - ?"
            " where payment_id = ?",
            (change, change, payment_id),
        )
    file.close()
