"""What doctor says of the database."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opentill.cli import doctor_database, session
from opentill.core.settings import Settings
from support import pooler


@pytest.mark.parametrize(("shift_s", "level"), [(0.0, "ok"), (60.0, "warn"), (-60.0, "warn")])
def test_the_clocks_of_both_machines_are_compared(
    database_url: str, monkeypatch: pytest.MonkeyPatch, shift_s: float, level: str
) -> None:
    monkeypatch.setattr("opentill.db.clock.now_ms", lambda: int((time.time() + shift_s) * 1000))
    assert _levels(database_url)["clock"] == level


def test_that_an_embedded_database_stops_slowly_is_no_difference_of_clocks(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_database, "CLOCK_TOLERANCE_S", 1.0)

    @contextmanager
    def stops_slowly(settings: Settings) -> Iterator[Settings]:
        yield settings
        time.sleep(1.5)

    monkeypatch.setattr(session, "running_database", stops_slowly)
    assert _levels(database_url)["clock"] == "ok"


def _levels(url: str) -> dict[str, str]:
    settings = Settings(database_url=url, secret_key="k" * 32, db_prepared=pooler.prepared(url))
    return {found.subject: found.level for found in doctor_database.findings(settings)}
