"""Ten thousand mails to a failing mail server, from workers that are killed (decision 0085)."""

import random
import sys
import time

import pytest

from opentill.db.database import Db
from support.commands import ForkServer
from support.mail_server import Fault, MailServer
from support.mailing import assert_delivered_once, send_with_killed_mailers

pytestmark = pytest.mark.stress


async def test_ten_thousand_mails_arrive_once_through_twenty_kills(
    fork_server: ForkServer, db: Db, database_url: str
) -> None:
    rng = random.Random(16)

    def fault() -> Fault:
        kinds: tuple[Fault, ...] = ("later", "later", "later", "cut", "accepted_then_cut")
        return rng.choice(kinds) if rng.random() < 0.3 else ""

    started = time.monotonic()
    with MailServer(fault) as server:
        await send_with_killed_mailers(
            fork_server, db, database_url, server, count=10_000, kills=20
        )
        statuses = await assert_delivered_once(db, server, 10_000)
    duration_s = time.monotonic() - started
    sys.stderr.write(f"\n{dict(statuses)}, {server.connections} connections, {duration_s:.0f} s")
