"""The commands of the backup recipes back up a busy deployment and restore it elsewhere."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Self

import httpx2
import pytest

from opentill.db.database import Db
from opentill.server.embedded.postgres import EmbeddedPostgres
from opentill.server.embedded.programs import find_programs
from support import pooler
from support.cluster import Process, create_shop, eventually, wait_until_ready
from support.commands import ForkServer, without_settings
from support.databases import database_name
from support.deployment import Deployment, copy_directory
from support.webhook_receiver import Receiver, receiving

RECIPES: Final = Path(__file__).parents[2] / "docs" / "recipes"


def blocks(recipe: str) -> list[str]:
    """Return the shell blocks of a recipe, without their indentation."""
    text = (RECIPES / f"{recipe}.md").read_text()
    matches = re.findall(r"^( *)```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in matches]


def block_with(recipe: str, text: str) -> str:
    """Return the only block of a recipe that contains a text."""
    (block,) = [block for block in blocks(recipe) if text in block]
    return block


BACK_UP: Final = blocks("back-up")
RESTORE: Final = blocks("restore-a-backup")
UPGRADE: Final = blocks("upgrade")
CHECK: Final = block_with("restore-a-backup", "ledger check")
SKIP: Final = block_with("restore-a-backup", "skip-messages")
EXTERNAL_DUMP: Final = block_with("back-up", "pg_dump ")
EXTERNAL_FILES: Final = block_with("back-up", "pg_basebackup ")
EXTERNAL_RESTORE: Final = block_with("restore-a-backup", "pg_restore ")


class Site:
    """A deployment in its own directory, with separate processes for server and worker."""

    def __init__(self, folder: Path, fork_server: ForkServer, backup: Path) -> None:
        """``serving`` starts the server."""
        folder.mkdir()
        self._fork_server = fork_server
        self.deployment = Deployment(folder, fork_server)
        self.environ = self.deployment.environ | {
            "BACKUP": str(backup),
            "OPENTILL_OUTGOING_HTTP": "yes",
            "OPENTILL_OUTGOING_ALLOW": "127.0.0.0/8",
            "OPENTILL_LIMIT_CHECKOUTS_PER_MINUTE": "0",
        }
        self.deployment.environ = self.environ
        port = self.deployment.port
        server = ["serve", "--no-worker"]
        log = folder / "server.log"
        self.server = Process("server", server, self.environ, log, port, fork_server)
        self.worker = Process(
            "worker", ["worker"], self.environ, folder / "worker.log", 0, fork_server
        )

    def command(self, *words: str) -> Process:
        """Return a command that is not started."""
        log = self.deployment.directory / "command.log"
        return Process("command", list(words), self.environ, log, 0, self._fork_server)

    def sh(self, block: str) -> str:
        """Run a block of a recipe unchanged."""
        return run_block(block, self.environ, self.deployment.directory)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run the server while the block runs."""
        self.server.start()
        try:
            wait_until_ready(self.server)
            yield
        finally:
            self.worker.stop()
            self.server.stop()

    def shop(self) -> str:
        """Create a merchant and return its key."""
        merchant = json.loads(self.deployment.run_checked("merchants", "create", "Shop", "--json"))[
            "id"
        ]
        key: str = json.loads(self.deployment.run_checked("keys", "create", merchant, "--json"))[
            "key"
        ]
        return key

    def client(self, key: str) -> httpx2.Client:
        """Return a client of the API with a key."""
        return httpx2.Client(
            base_url=self.server.url, headers={"x-api-key": key}, timeout=60, trust_env=False
        )


def run_block(block: str, environ: dict[str, str], folder: Path) -> str:
    """Run a shell block, which must succeed, and return its output."""
    process = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block], env=environ, cwd=folder,
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip
    assert process.returncode == 0, (block, process.stdout, process.stderr)
    return process.stdout


class Buyers:
    """Opens and expires sessions in a thread during the block."""

    def __init__(self, site: Site, key: str) -> None:
        """``key``: the merchant's API key."""
        self._site, self._key = site, key
        self.acknowledged: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._buy)

    def _buy(self) -> None:
        with self._site.client(self._key) as client:
            tea = {"name": "Tea", "price": "9.99", "currency": "USD"}
            product = client.post("/v1/products", json=tea).json()["data"]["id"]
            while not self._stop.is_set():
                session = client.post("/v1/checkouts", json={"productId": product}).json()["data"]
                # The expiry writes two events.
                expired = client.post(f"/v1/checkouts/{session['id']}/expire")
                assert expired.status_code == 200, expired.text
                self.acknowledged.append(session["id"])

    def __enter__(self) -> Self:
        """Start, and wait for ten sessions."""
        self._thread.start()
        while len(self.acknowledged) < 10:
            assert self._thread.is_alive()
            self._stop.wait(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join()


@pytest.fixture
async def hook() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def test_a_backup_under_load_is_restored_and_sends_no_event_twice(
    tmp_path: Path, migrated: Path, fork_server: ForkServer, hook: Receiver
) -> None:
    backup = tmp_path / "backup"
    old = Site(tmp_path / "old", fork_server, backup)
    copy_directory(migrated, tmp_path / "old" / "data")
    with old.serving():
        key = await asyncio.to_thread(old.shop)
        with old.client(key) as client:
            client.post("/v1/webhook-endpoints", json={"url": f"{hook.url}/in"}).raise_for_status()
        with Buyers(old, key) as buyers:
            before = list(buyers.acknowledged)
            await asyncio.to_thread(old.sh, BACK_UP[0])
        assert (backup / "opentill.dump").stat().st_mode & 0o077 == 0
        # The worker starts after the backup, which therefore contains events that are not sent.
        old.worker.start()

        async def all_are_sent() -> bool:
            return len(hook.accepted_event_ids()) >= 2 * len(buyers.acknowledged)

        assert await eventually(all_are_sent)
    new = Site(tmp_path / "new", fork_server, backup)
    await asyncio.to_thread(_restore, new)
    with new.serving():
        with new.client(key) as client:
            sessions = client.get("/v1/checkouts", params={"size": 100}).json()["data"]
            assert sessions["pagination"]["total"] >= len(before)
            for session_id in before:
                assert client.get(f"/v1/checkouts/{session_id}").json()["data"]["id"] == session_id
        new.worker.start()
        with Buyers(new, key) as later:
            pass
        expected = 2 * (len(buyers.acknowledged) + len(later.acknowledged))

        async def later_are_sent() -> bool:
            return len(hook.accepted_event_ids()) >= expected

        assert await eventually(later_are_sent)
    counts = Counter(request.event_id for request in hook.accepted)
    assert max(counts.values()) == 1


def _restore(new: Site) -> None:
    new.environ["OPENTILL_DATA_DIR"] = str(new.deployment.directory / "restored")
    _kill_restore(new)
    new.sh(RESTORE[0])
    new.sh(CHECK)
    assert json.loads(new.deployment.run_checked("ledger", "check", "--json"))["violations"] == []
    new.sh(SKIP)
    newest = json.loads(new.deployment.run_checked("audit", "list", "--json"))[0]
    assert (newest["action"], newest["reason"]) == ("skip-messages", "restored a backup")
    assert re.fullmatch(r"webhooks: [1-9]\d*, epayNotifications: 0, mails: \d+", newest["subject"])
    refused = new.deployment.run("restore", str(Path(new.environ["BACKUP"]) / "opentill.dump"))
    assert refused.returncode == 2
    assert "has a database" in refused.stderr


def _kill_restore(new: Site) -> None:
    """Kill a restore, and check that commands refuse its incomplete database."""
    data, backup = Path(new.environ["OPENTILL_DATA_DIR"]), Path(new.environ["BACKUP"])
    data.mkdir(mode=0o700)
    shutil.copy2(backup / "secret.key", data)
    dump = backup / "opentill.dump"
    _assert_damaged_dumps_are_refused(new, dump, data)
    restoring = new.command("restore", str(dump))
    restoring.start()
    while not (data / "postgres.restoring" / "postgres" / "postmaster.pid").exists():
        assert restoring.is_running
        time.sleep(0.005)
    restoring.kill()
    assert restoring.wait() == -signal.SIGKILL
    for words in (("migrate",), ("serve",), ("merchants", "list")):
        refused = new.deployment.run(*words)
        assert refused.returncode == 2, words
        assert "`opentill restore` has not finished" in refused.stderr


def _assert_damaged_dumps_are_refused(new: Site, dump: Path, data: Path) -> None:
    """Try to restore truncated and changed dumps."""
    complete, damaged = dump.read_bytes(), dump.with_name("damaged.dump")
    middle = len(complete) // 2
    inverted = bytes(byte ^ 0xFF for byte in complete[middle : middle + 4])
    for content, words in (
        (complete[:-1], "is not whole"),
        (complete[:-2000], "is not whole"),
        (complete[:middle], "is not whole"),
        (b"", "is not whole"),
        (complete[:middle] + inverted + complete[middle + 4 :], "is damaged"),
        (complete[:middle] + complete[middle + 1 :], "is damaged"),
    ):
        damaged.write_bytes(content)
        refused = new.deployment.run("restore", str(damaged))
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert [path.name for path in data.iterdir()] == ["secret.key"]


def test_only_one_of_two_concurrent_backups_writes_a_file(
    tmp_path: Path, deployment: Deployment
) -> None:
    file = tmp_path / "one.dump"
    with ThreadPoolExecutor(2) as threads:
        backups = list(threads.map(lambda _: deployment.run("backup", str(file)), range(2)))
    assert sorted(backup.returncode for backup in backups) == [0, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["one.dump"]
    inode = file.stat().st_ino
    assert "is there already" in deployment.run("backup", str(file)).stderr
    assert file.stat().st_ino == inode
    assert deployment.run("backup", str(file), "--overwrite").returncode == 0
    assert file.stat().st_ino != inode


def test_the_error_about_a_file_is_one_line(tmp_path: Path, deployment: Deployment) -> None:
    for words in (
        ("backup", str(tmp_path / "missing" / "one.dump")),
        ("backup", "/proc/one.dump"),
        ("restore", "/proc/self/mem"),  # this file cannot be read
        ("restore", str(tmp_path / "missing" / "one.dump")),
    ):
        refused = deployment.run(*words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr


async def test_a_backup_that_is_terminated_leaves_no_file_and_no_program(
    tmp_path: Path, deployment: Deployment
) -> None:
    data = Path(deployment.environ["OPENTILL_DATA_DIR"])
    running_dumps = "select count(*) from pg_stat_activity where application_name = 'pg_dump'"
    with EmbeddedPostgres.start(data) as server:
        db = await Db.connect(server.url, 2)

        async def count_dumps() -> int:
            async with db.connection() as tx:
                count: int = await tx.fetchval(running_dumps)
                return count

        async def no_dump_runs() -> bool:
            return not await count_dumps()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            async with db.transaction() as tx:
                await tx.execute("lock table products")  # pg_dump has to wait for this lock
                words = [sys.executable, "-m", "opentill", "backup", str(tmp_path / "one.dump")]
                process = await asyncio.create_subprocess_exec(*words, env=deployment.environ)
                assert await eventually(count_dumps)
                process.send_signal(number)
                code = {signal.SIGTERM: 143, signal.SIGINT: 130}.get(number, -number)
                assert await process.wait() == code
                files = [path.name for path in tmp_path.iterdir()]
                assert len(files) == (number == signal.SIGKILL), files
                if files:  # SIGKILL leaves the file, and pg_dump goes on running
                    assert await count_dumps() == 1
                else:  # PostgreSQL takes a moment to notice that its client has ended
                    assert await eventually(no_dump_runs)

        assert await eventually(no_dump_runs)
        await db.close()
    assert await asyncio.to_thread(deployment.run_checked, "backup", str(tmp_path / "two.dump"))
    assert [path.name for path in tmp_path.iterdir()] == ["two.dump"]


@pooler.skip_if_pooled("pg_dump and pg_restore need PostgreSQL itself")
async def test_the_same_commands_back_up_and_restore_an_external_postgresql(
    tmp_path: Path, module_database_url: str, fork_server: ForkServer
) -> None:
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    shop = await create_shop(db)
    async with db.connection() as tx:
        await tx.execute(f'create database "again_{database_name(module_database_url)}"')
    await db.close()
    external = ExternalDatabase(tmp_path, fork_server, module_database_url)
    file = tmp_path / "backup" / "opentill.dump"
    await asyncio.to_thread(external.sh, BACK_UP[1])
    backup = json.loads(
        await asyncio.to_thread(external.done, "backup", "--overwrite", str(file), "--json")
    )
    assert (backup["merchants"], backup["file"]) == (1, str(file))
    await asyncio.to_thread(external.done, "backup", "--check", str(file))
    refused = await asyncio.to_thread(external.run, "restore", str(file))
    assert refused.returncode == 2
    assert "is not empty" in refused.stderr
    empty = module_database_url.replace("@/", "@/again_", 1)
    external.environ["OPENTILL_DATABASE_URL"] = empty
    # The database stays empty after a damaged dump.
    damaged = tmp_path / "damaged.dump"
    damaged.write_bytes(file.read_bytes()[:5000])
    for words in (
        ("restore", str(damaged)),
        ("restore", "--unchecked", str(damaged)),
        ("backup", "--check", str(damaged)),
    ):
        assert (await asyncio.to_thread(external.run, *words)).returncode == 2
    await asyncio.to_thread(external.sh, RESTORE[1])
    merchants = json.loads(await asyncio.to_thread(external.done, "merchants", "list", "--json"))
    assert [row["id"] for row in merchants] == [shop.id]


class ExternalDatabase:
    """Commands on a PostgreSQL that OpenTill does not run itself."""

    def __init__(self, folder: Path, fork_server: ForkServer, url: str) -> None:
        """``url``: the address of the database."""
        self._folder, self._fork_server = folder, fork_server
        self.environ = {
            **without_settings(os.environ),
            "OPENTILL_DATABASE_URL": url,
            "OPENTILL_SECRET_KEY": "a secret key for tests, 32 characters and more",
            "OPENTILL_SANDBOX": "yes",
            "OPENTILL_DATA_DIR": str(folder / "data"),
            "BACKUP": str(folder / "backup"),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }
        (folder / "bin").mkdir()
        fork_server.command(folder / "bin")

    def sh(self, block: str) -> None:
        """Run a block of a recipe unchanged."""
        run_block(block, self.environ, self._folder)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        process = self._fork_server.run(words, self.environ, self._folder, b"")
        return subprocess.CompletedProcess(
            process.args, process.returncode, process.stdout.decode(), process.stderr.decode()
        )

    def done(self, *words: str) -> str:
        """Run a command that must succeed and return its output."""
        process = self.run(*words)
        assert process.returncode == 0, process.stderr
        return process.stdout


def test_the_recipe_writes_nothing_without_the_url_of_the_database(tmp_path: Path) -> None:
    _, programs = find_programs()
    environ = without_settings(os.environ) | {
        "BACKUP": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"
    }  # fmt: skip
    for block in (EXTERNAL_DUMP, EXTERNAL_FILES, EXTERNAL_RESTORE):
        # Like an operator's shell, this bash has no option -e.
        process = subprocess.run(
            ["bash", "-c", block], env=environ, cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert process.returncode != 0, block
        assert "OPENTILL_DATABASE_URL" in process.stderr
        assert list(tmp_path.iterdir()) == []


def test_the_blocks_for_containers_have_valid_syntax() -> None:
    containers = [block for block in BACK_UP if "docker " in block or "kubectl " in block]
    assert len(containers) == 2
    for block in containers:
        subprocess.run(["bash", "-n", "-c", block], check=True)


def test_after_a_failed_restore_every_command_accepts_the_directory(
    tmp_path: Path, deployment: Deployment
) -> None:
    dump = tmp_path / "complete.dump"
    deployment.run_checked("backup", str(dump))
    data = tmp_path / "new"
    environ = {"OPENTILL_DATA_DIR": str(data)}
    no_dump, truncated = tmp_path / "no.dump", tmp_path / "truncated.dump"
    no_dump.write_bytes(b"no dump\n" * 100)
    content = dump.read_bytes()
    truncated.write_bytes(content[: len(content) // 2])
    for file in (no_dump, truncated):
        refused = deployment.run("restore", "--unchecked", str(file), **environ)
        assert refused.returncode == 2
        assert "pg_restore failed: " in refused.stderr
        assert not [path.name for path in data.iterdir() if path.is_dir()]
        without_database = deployment.run("merchants", "list", **environ)
        assert "no OpenTill database" in without_database.stderr
    restored = deployment.run("restore", str(dump), **environ)
    assert restored.returncode == 0, restored.stderr
    merchants = json.loads(deployment.run_checked("merchants", "list", "--json"))
    (data / "secret.key").write_bytes(
        (Path(deployment.environ["OPENTILL_DATA_DIR"]) / "secret.key").read_bytes()
    )
    restored_list = deployment.run("merchants", "list", "--json", **environ)
    assert json.loads(restored_list.stdout) == merchants


@pytest.mark.stress
async def test_the_recipes_back_up_and_restore_an_external_postgresql(
    tmp_path: Path, module_database_url: str
) -> None:
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    shop = await create_shop(db)
    (tmp_path / "data").mkdir()
    _, programs = find_programs()
    source = Path(__file__).parents[2] / "src"
    command = tmp_path / "opentill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m opentill "$@"\n')
    command.chmod(0o755)
    empty = module_database_url.replace("@/", "@/restored_", 1)
    async with db.connection() as tx:
        await tx.execute(f'create database "{database_name(empty)}"')
    await db.close()
    environ = {
        **{name: text for name, text in os.environ.items() if not name.startswith("OPENTILL_")},
        "PATH": f"{tmp_path}:{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(source),
        "BACKUP": str(tmp_path / "backup"),
        "OPENTILL_SECRET_KEY": "a secret key for tests, 32 characters and more",
        "OPENTILL_SANDBOX": "yes",
        "OPENTILL_DATA_DIR": str(tmp_path / "data"),
    }
    for url, recipe in (
        (module_database_url, [EXTERNAL_DUMP, EXTERNAL_FILES]),
        (empty, [EXTERNAL_RESTORE, CHECK, SKIP, *map(_accept_findings, UPGRADE)]),
    ):
        for block in recipe:
            await asyncio.to_thread(
                run_block,
                f"BACKUP={tmp_path}/backup\n{block}",
                environ | {"OPENTILL_DATABASE_URL": url},
                tmp_path,
            )
    restored = await Db.connect(empty, 2, acquire_timeout_s=20)
    async with restored.connection() as tx:
        name = await tx.fetchval("select name from merchants where id = $1", shop.id)
    await restored.close()
    assert name == "Shop"


def _accept_findings(block: str) -> str:
    """Let a block continue after findings of the doctor."""
    return block.replace("opentill doctor", "opentill doctor || test $? = 1")
