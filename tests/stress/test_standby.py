"""Promoting a synchronous standby while payments run loses nothing that was acknowledged."""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from opentill.db import migrations
from opentill.db.database import Db
from opentill.server.embedded.postgres import EmbeddedPostgres
from support.cluster import Client, Cluster, create_shop
from support.crash_load import CrashLoad
from support.standby import running_standby

pytestmark = pytest.mark.stress
SECONDS = float(os.environ.get("STRESS_MINUTES", "0.5")) * 60


def _kill_primary(postgres: EmbeddedPostgres, folder: Path) -> None:
    """Kill the primary, as if its machine had failed."""
    pid = int((folder / "postgres" / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    child = postgres._cluster._child
    if child is not None:
        child.wait()


async def test_a_promoted_standby_has_everything_that_was_acknowledged() -> None:
    with tempfile.TemporaryDirectory(prefix="opentill-failover-") as name:
        folder = Path(name)
        postgres = await asyncio.to_thread(EmbeddedPostgres.start, folder)
        await migrations.migrate(postgres.url)
        with contextlib.ExitStack() as stack:
            stack.callback(postgres.release)
            standby = await asyncio.to_thread(stack.enter_context, running_standby(postgres.url))
            await asyncio.to_thread(standby.require_synchronous_commits)
            cluster = Cluster(folder, standby.failover_url, servers=2)
            stack.callback(cluster.stop)
            await asyncio.to_thread(cluster.start)
            db = await Db.connect(standby.failover_url, 4, acquire_timeout_s=10)
            storm = CrashLoad(folder, cluster, db, postgres)
            storm.shops = [await create_shop(db, overdraft_minor=10**9) for _ in range(2)]
            processes = [process._popen.pid for process in cluster.processes if process._popen]

            async def lose_the_primary() -> tuple[int, float]:
                await asyncio.sleep(SECONDS / 2)
                before = sum(map(len, storm.paid_orders.values()))
                await asyncio.to_thread(_kill_primary, postgres, folder)
                lost_at = time.monotonic()
                await asyncio.to_thread(standby.promote)
                while sum(map(len, storm.paid_orders.values())) < before + 5:
                    await asyncio.sleep(0.05)
                return before, time.monotonic() - lost_at

            end = time.monotonic() + SECONDS
            clients = [Client(cluster, shop.key) for shop in storm.shops]
            async with asyncio.TaskGroup() as tasks:
                failover = tasks.create_task(lose_the_primary())
                for n in range(8):
                    tasks.create_task(storm.run_customer(end, clients[n % 2], storm.shops[n % 2]))
            for client in clients:
                await client.close()
            await storm.assert_consistent(120)
            # No process was restarted: the processes have connected to the new primary themselves.
            assert processes == [p._popen.pid for p in cluster.processes if p._popen]
            before, seconds = failover.result()
            paid = sum(map(len, storm.paid_orders.values()))
            figures = (
                dict(storm.statuses),
                len(storm.opened_orders),
                before,
                paid,
                len(storm.accepted_refunds),
            )
            print(*figures, f"{seconds:.1f} s until payments ran again")  # noqa: T201 - the figures
            assert paid > before
            await db.close()
