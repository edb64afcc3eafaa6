"""An upgrade by docs/recipes/upgrade.md while customers pay.

``OPENTILL_TEST_UPGRADE_FROM`` is a checkout of the version to upgrade from, such as
``git worktree add --detach ../before COMMIT`` creates. By default it is the newest commit that
lacks a current migration.
"""

import asyncio
import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import asyncpg
import pytest

import opentill
from opentill.server.embedded.postgres import EmbeddedPostgres
from stress.upgrading import Load, all_announced, durations, run
from support.balancer import Balancer
from support.cluster import Cluster, Process, wait_until_ready
from support.mail_server import MailServer
from support.ports import free_port
from support.webhook_receiver import Receiver, receiving

pytestmark = pytest.mark.stress
NEW: Final = Path(opentill.__file__).parents[1]
SECONDS: Final = float(os.environ.get("STRESS_MINUTES", "0.2")) * 60 / 2
CUSTOMERS: Final = 6
LONGEST_S: Final = 2.0
# Changes of tables wait for a relation, and the building of an index for a transaction. Nothing
# else waits for either while the customers of this test pay.
MIGRATION_WAITS: Final = (
    "select exists (select from pg_locks where locktype in ('relation', 'virtualxid')"
    " and not granted)"
)
TABLES: Final = (
    "select string_agg(oid::regclass::text, ', ' order by oid) from pg_class"
    " where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
)
BUILT_INDEX: Final = re.compile(r"create (?:unique )?index concurrently \w+\s+on (\w+)")
MAILED: Final = (
    "select m.topic, m.cause, e.created_at from mails m join events e"
    " on e.merchant_id = m.merchant_id and strpos(m.cause, e.id) > 0"
)


class Upgrade:
    """A deployment of the previous version under load, and the settings of the new version."""

    def __init__(
        self, cluster: Cluster, url: str, load: Load, mail: MailServer, receiver: Receiver
    ) -> None:
        """Called by ``old_deployment``."""
        self.cluster, self.url, self.load, self.mail = cluster, url, load, mail
        self.receiver = receiver
        self.customers: list[asyncio.Task[None]] = []
        self.replaced_at = 0.0  # time.time() when the new worker was started (0.0: not yet)
        self.new = {
            "PYTHONPATH": str(NEW),
            "OPENTILL_SMTP_URL": mail.url,
            "OPENTILL_MAIL_FROM": "till@example.com",
        }

    def command(self, *words: str) -> Process:
        """Return a command of the new version."""
        return self.cluster.worker.copy("command", **self.new).command(*words)

    async def replace(self, environ: dict[str, str]) -> None:
        """Step 4: replace worker and servers, one after the other, at the same ports."""
        worker = self.cluster.worker
        worker.terminate()
        assert await asyncio.to_thread(worker.wait) == 0, worker.output[-2000:]
        self.replaced_at = time.time()
        self.cluster.worker = worker.copy(f"{worker.name}+", **environ)
        self.cluster.worker.start()
        for number, server in enumerate(self.cluster.servers):
            server.terminate()
            assert await asyncio.to_thread(server.wait) == 0, server.output[-2000:]
            self.cluster.servers[number] = server.copy(f"{server.name}+", **environ)
            self.cluster.servers[number].start()
            await asyncio.to_thread(wait_until_ready, self.cluster.servers[number])
            await asyncio.sleep(1)  # the balancer needs this time to check the new server

    async def end(self) -> None:
        """Assert that no request failed, all events arrived and the books are right."""
        load = self.load
        load.over = True
        await asyncio.gather(*self.customers)
        sys.stderr.write(f"\n{len(load.requests)} requests, {len(load.failed)} failed\n")
        for request in (*load.failed[:10], *load.slowest):
            sys.stderr.write(f"  {request}\n")
        assert await all_announced(self.url, self.receiver.accepted_event_ids())
        assert '"violations":[]' in (await run(self.command("ledger", "check", "--json")))
        assert load.failed == []
        assert load.slowest[0].duration_s < LONGEST_S, load.slowest


def _git(*words: str) -> bytes:
    git = ["git", "-C", str(NEW.parent), *words]
    return subprocess.run(git, check=True, capture_output=True).stdout


def _version_before(folder: Path) -> Path:
    """Return the source of the version to upgrade from, perhaps unpacked in ``folder``."""
    if checkout := os.environ.get("OPENTILL_TEST_UPGRADE_FROM"):
        return Path(checkout) / "src"
    current = _git("ls-tree", "HEAD", "migrations/").decode().splitlines()
    for commit in _git("log", "--format=%H", "--", "migrations").decode().split():
        files = _git("ls-tree", commit, "migrations/").decode().splitlines()
        # Skip commits of branches, which may have other migrations.
        if len(files) < len(current) and files == current[: len(files)]:
            break
    else:
        pytest.skip("no commit has fewer migrations")
    content = _git("archive", commit, "src", "migrations")
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"


@contextlib.asynccontextmanager
async def old_deployment() -> AsyncIterator[Upgrade]:
    """Two servers and a worker of the previous version, behind a balancer, with customers."""
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opentill-upgrade-")))
        postgres = await asyncio.to_thread(EmbeddedPostgres.start, folder)
        stack.callback(postgres.release)
        mail = stack.enter_context(MailServer())
        receiver = await stack.enter_async_context(receiving())
        port = free_port()
        cluster = Cluster(
            folder, postgres.url, source=_version_before(folder / "before"),
            PUBLIC_URL=f"http://127.0.0.1:{port}", OUTGOING_ALLOW="127.0.0.0/8",
            OUTGOING_HTTP="yes", DRAIN_DELAY_S="1",
        )  # fmt: skip
        await run(cluster.worker.command("migrate"))
        stack.push_async_callback(asyncio.to_thread, cluster.stop)
        await asyncio.to_thread(cluster.start)
        output = await run(cluster.worker.command("merchants", "create", "Shop", "--json"))
        merchant_id = output.split('"id":"')[1].split('"')[0]
        output = await run(cluster.worker.command("keys", "create", merchant_id, "--json"))
        key = output.split('"key":"')[1].split('"')[0]
        await run(cluster.worker.command("webhooks", "add", merchant_id, receiver.url))
        balancer = Balancer([server.port for server in cluster.servers], port)
        await stack.enter_async_context(balancer.listening())
        load = Load(cluster.public_url, cluster.bank.url, key)
        stack.push_async_callback(load.close)
        watch = asyncio.create_task(balancer.watch())
        stack.callback(watch.cancel)
        await load.prepare()
        customers = [asyncio.create_task(load.customer()) for _ in range(CUSTOMERS)]
        upgrade = Upgrade(cluster, postgres.url, load, mail, receiver)
        upgrade.customers = customers
        await asyncio.sleep(SECONDS)
        try:
            yield upgrade
        finally:
            load.over = True
            await asyncio.gather(*customers)


async def _migrate(upgrade: Upgrade) -> None:
    """Steps 2 and 3: check the settings and migrate."""
    await run(upgrade.command("settings"))
    assert "run `opentill migrate`" in await run(upgrade.command("doctor"), exit_code=1)
    await run(upgrade.command("migrate"))
    sys.stderr.write(f"\n{await durations(upgrade.url)}")


async def test_an_upgrade_by_the_recipe_fails_no_request() -> None:
    async with old_deployment() as upgrade:
        await _migrate(upgrade)
        # The previous version serves for some seconds on the migrated schema.
        await asyncio.sleep(SECONDS)
        await upgrade.replace(upgrade.new)
        await asyncio.sleep(SECONDS)
        sys.stderr.write(await run(upgrade.command("doctor")))
        await upgrade.end()
        sys.stderr.write(f"{len(upgrade.mail.accepted)} mails\n")
        assert upgrade.mail.accepted
        before = f"e.created_at < {upgrade.replaced_at * 1000:.0f}"
        assert await _fetch(upgrade.url, f"{MAILED} where {before}") == []


async def test_a_migration_that_is_killed_can_be_repeated_and_no_request_fails() -> None:
    async with old_deployment() as upgrade:
        (row,) = await _fetch(upgrade.url, TABLES)
        # A backup reads all tables, so the first change of a table waits.
        killed = [await _kill_waiting_migration(upgrade, row[0], "access share")]
        if tables := await _tables_of_pending_indexes(upgrade.url):
            killed += [await _kill_waiting_migration(upgrade, tables, "row exclusive")]
        assert any(killed), "no migration had to wait"
        await run(upgrade.command("migrate"))
        assert await _fetch(upgrade.url, "select from pg_index where not indisvalid") == []
        await upgrade.replace(upgrade.new)
        await asyncio.sleep(SECONDS)
        await upgrade.end()


async def _tables_of_pending_indexes(url: str) -> str:
    """Return the existing tables for which pending migrations build indexes, with commas."""
    (row,) = await _fetch(url, "select count(*) from schema_migrations")
    files = sorted((NEW.parent / "migrations").glob("*.sql"))[row[0] :]
    names = {name for file in files for name in BUILT_INDEX.findall(file.read_text())}
    existing = await _fetch(url, "select tablename from pg_tables where schemaname = 'public'")
    return ", ".join(sorted(names & {row["tablename"] for row in existing}))


async def _kill_waiting_migration(upgrade: Upgrade, tables: str, lock: str) -> bool:
    """Kill the migration while it waits for the locks of another transaction, such as a backup.

    Returns whether it waited: a migration that needs none of these tables ends instead.
    """
    connection, observer = [await asyncpg.connect(upgrade.url) for _ in range(2)]
    migrating = upgrade.command("migrate")
    try:
        async with connection.transaction():
            await connection.execute(f"lock table {tables} in {lock} mode")
            migrating.start()
            async with asyncio.timeout(120):
                while migrating.is_running and not await observer.fetchval(MIGRATION_WAITS):
                    await asyncio.sleep(0.01)
            # Meanwhile, requests wait behind the migration, which waits for its lock.
            await asyncio.sleep(3)
            was_waiting = migrating.is_running
            await asyncio.to_thread(migrating.kill)
            await asyncio.sleep(1)
    finally:
        await connection.close()
        await observer.close()
    sys.stderr.write(f"\nkilled: {migrating.output}\n")
    return was_waiting


async def _fetch(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()
