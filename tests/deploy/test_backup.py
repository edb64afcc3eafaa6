"""The recipes for backups, word by word: taken while customers buy, restored in an empty place."""

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
from support.cluster import Process, eventually, make_shop, wait_for
from support.commands import ForkServer, clean
from support.deployment import Deployment, copy
from support.webhook_receiver import Receiver, receiving

RECIPES: Final = Path(__file__).parents[2] / "docs" / "recipes"


def blocks(recipe: str) -> list[str]:
    """Return the shell blocks of a recipe, as they stand there."""
    text = (RECIPES / f"{recipe}.md").read_text()
    found = re.findall(r"^( *)```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    return [re.sub(rf"^{indent}", "", block, flags=re.MULTILINE) for indent, block in found]


def block_with(recipe: str, text: str) -> str:
    """Return the only block of a recipe that has a text."""
    (block,) = [block for block in blocks(recipe) if text in block]
    return block


BACK_UP: Final = blocks("back-up")
RESTORE: Final = blocks("restore-a-backup")
UPGRADE: Final = blocks("upgrade")
LOOK: Final = block_with("restore-a-backup", "ledger check")
SKIP: Final = block_with("restore-a-backup", "skip-messages")
OWN_DUMP: Final = block_with("back-up", "pg_dump ")
OWN_FILES: Final = block_with("back-up", "pg_basebackup ")
OWN_RESTORE: Final = block_with("restore-a-backup", "pg_restore ")


class Place:
    """A deployment in a directory of its own, with server and worker apart."""

    def __init__(self, folder: Path, fork_server: ForkServer, backup: Path) -> None:
        """Nothing runs yet."""
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
        """Return a command, not started."""
        log = self.deployment.directory / "command.log"
        return Process("command", list(words), self.environ, log, 0, self._fork_server)

    def sh(self, block: str) -> str:
        """Run a block of a recipe as it stands there, as an operator would."""
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=self.environ, cwd=self.deployment.directory,
            capture_output=True, text=True, check=False, timeout=180,
        )  # fmt: skip
        assert ran.returncode == 0, (block, ran.stdout, ran.stderr)
        return ran.stdout

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """Run the server while the block runs."""
        self.server.start()
        try:
            wait_for(self.server)
            yield
        finally:
            self.worker.stop()
            self.server.stop()

    def shop(self) -> str:
        """Make a merchant and return its key."""
        merchant = json.loads(self.deployment.done("merchants", "create", "Shop", "--json"))["id"]
        made = json.loads(self.deployment.done("keys", "create", merchant, "--json"))
        key: str = made["key"]
        return key

    def client(self, key: str) -> httpx2.Client:
        """Return what calls the server with a key."""
        return httpx2.Client(
            base_url=self.server.url, headers={"x-api-key": key}, timeout=60, trust_env=False
        )


class Buyers:
    """Open and end sessions, one after the other, until they are told to stop."""

    def __init__(self, place: Place, key: str) -> None:
        """Nobody buys yet."""
        self._place, self._key = place, key
        self.acknowledged: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._buy)

    def _buy(self) -> None:
        with self._place.client(self._key) as client:
            tea = {"name": "Tea", "price": "9.99", "currency": "USD"}
            product = client.post("/v1/products", json=tea).json()["data"]["id"]
            while not self._stop.is_set():
                made = client.post("/v1/checkouts", json={"productId": product}).json()["data"]
                ended = client.post(f"/v1/checkouts/{made['id']}/expire")  # two events
                assert ended.status_code == 200, ended.text
                self.acknowledged.append(made["id"])

    def __enter__(self) -> Self:
        """Begin, and wait until some have bought."""
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


async def test_a_backup_taken_under_load_is_restored_word_by_word_and_sends_nothing_twice(
    tmp_path: Path, migrated: Path, fork_server: ForkServer, hook: Receiver
) -> None:
    backup = tmp_path / "backup"
    old = Place(tmp_path / "old", fork_server, backup)
    copy(migrated, tmp_path / "old" / "data")
    with old.serving():
        key = await asyncio.to_thread(old.shop)
        with old.client(key) as client:
            client.post("/v1/webhook-endpoints", json={"url": f"{hook.url}/in"}).raise_for_status()
        with Buyers(old, key) as buyers:
            before = list(buyers.acknowledged)
            await asyncio.to_thread(old.sh, BACK_UP[0])
        assert (backup / "opentill.dump").stat().st_mode & 0o077 == 0
        old.worker.start()  # the events that wait in the backup are sent only now

        async def sent() -> bool:
            return len(hook.ids()) >= 2 * len(buyers.acknowledged)

        assert await eventually(sent)
    new = Place(tmp_path / "new", fork_server, backup)
    await asyncio.to_thread(_restored, new)
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

        async def all_sent() -> bool:
            return len(hook.ids()) >= expected

        assert await eventually(all_sent)
    twice = [one for one in hook.ids() if sum(got.event_id == one for got in hook.taken) > 1]
    assert twice == []


def _restored(new: Place) -> None:
    new.environ["OPENTILL_DATA_DIR"] = str(new.deployment.directory / "restored")
    _cut_off(new)
    new.sh(RESTORE[0])
    new.sh(LOOK)
    assert json.loads(new.deployment.done("ledger", "check", "--json"))["violations"] == []
    new.sh(SKIP)
    newest = json.loads(new.deployment.done("audit", "list", "--json"))[0]
    assert (newest["action"], newest["reason"]) == ("skip-messages", "restored a backup")
    assert re.fullmatch(r"webhooks: [1-9]\d*, epayNotifications: 0, mails: \d+", newest["subject"])
    again = new.deployment.run("restore", str(Path(new.environ["BACKUP"]) / "opentill.dump"))
    assert again.returncode == 2
    assert "has a database" in again.stderr


def _cut_off(new: Place) -> None:
    """Kill a restore half-way: what is there then is served by nobody, and another goes on."""
    data, backup = Path(new.environ["OPENTILL_DATA_DIR"]), Path(new.environ["BACKUP"])
    data.mkdir(mode=0o700)
    shutil.copy2(backup / "secret.key", data)
    dump = backup / "opentill.dump"
    _refuse_what_is_not_whole(new, dump, data)
    restoring = new.command("restore", str(dump))
    restoring.start()
    while not (data / "postgres.restoring" / "postgres" / "postmaster.pid").exists():
        assert restoring.runs
        time.sleep(0.005)
    restoring.kill()
    assert restoring.wait() == -signal.SIGKILL
    for words in (("migrate",), ("serve",), ("merchants", "list")):
        # Nobody makes an empty database where a backup was meant to be.
        refused = new.deployment.run(*words)
        assert refused.returncode == 2, words
        assert "`opentill restore` has not finished" in refused.stderr


def _refuse_what_is_not_whole(new: Place, dump: Path, data: Path) -> None:
    """Try files that were cut or changed: nothing is made of them."""
    whole, spoiled = dump.read_bytes(), dump.with_name("spoiled.dump")
    middle = len(whole) // 2
    other = bytes(byte ^ 0xFF for byte in whole[middle : middle + 4])
    for content, words in (
        (whole[:-1], "is not whole"),
        (whole[:-2000], "is not whole"),
        (whole[:middle], "is not whole"),
        (b"", "is not whole"),
        (whole[:middle] + other + whole[middle + 4 :], "is damaged"),
        (whole[:middle] + whole[middle + 1 :], "is damaged"),
    ):
        spoiled.write_bytes(content)
        refused = new.deployment.run("restore", str(spoiled))
        assert (refused.returncode, words in refused.stderr) == (2, True), refused.stderr
    assert [path.name for path in data.iterdir()] == ["secret.key"]


def test_of_backups_to_one_file_at_once_one_is_kept(tmp_path: Path, deployment: Deployment) -> None:
    file = tmp_path / "one.dump"
    with ThreadPoolExecutor(2) as threads:
        ran = list(threads.map(lambda _: deployment.run("backup", str(file)), range(2)))
    assert sorted(one.returncode for one in ran) == [0, 2]
    assert [path.name for path in tmp_path.iterdir()] == ["one.dump"]
    kept = file.stat().st_ino
    assert "is there already" in deployment.run("backup", str(file)).stderr
    assert file.stat().st_ino == kept
    assert deployment.run("backup", str(file), "--overwrite").returncode == 0
    assert file.stat().st_ino != kept


def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path, deployment: Deployment) -> None:
    for words in (
        ("backup", str(tmp_path / "missing" / "one.dump")),
        ("backup", "/proc/one.dump"),
        ("restore", "/proc/self/mem"),  # which nobody can read at its beginning
        ("restore", str(tmp_path / "missing" / "one.dump")),
    ):
        refused = deployment.run(*words)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr


async def test_a_backup_that_is_ended_leaves_nothing_and_ends_its_program(
    tmp_path: Path, deployment: Deployment
) -> None:
    data = Path(deployment.environ["OPENTILL_DATA_DIR"])
    dumps = "select count(*) from pg_stat_activity where application_name = 'pg_dump'"
    with EmbeddedPostgres.start(data) as server:
        db = await Db.connect(server.url, 2)

        async def dumping() -> int:
            async with db.connection() as tx:
                found: int = await tx.fetchval(dumps)
                return found

        async def over() -> bool:
            return not await dumping()

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            async with db.transaction() as tx:
                await tx.execute("lock table products")  # which the program waits for
                words = [sys.executable, "-m", "opentill", "backup", str(tmp_path / "one.dump")]
                process = await asyncio.create_subprocess_exec(*words, env=deployment.environ)
                assert await eventually(dumping)
                process.send_signal(number)
                ended = {signal.SIGTERM: 143, signal.SIGINT: 130}.get(number, -number)
                assert await process.wait() == ended
                left = [path.name for path in tmp_path.iterdir()]
                assert len(left) == (number == signal.SIGKILL), left
                if left:  # nothing was there to end it
                    assert await dumping() == 1
                else:  # PostgreSQL notices a moment later that its client is gone
                    assert await eventually(over)

        assert await eventually(over)
        await db.close()
    assert await asyncio.to_thread(deployment.done, "backup", str(tmp_path / "two.dump"))
    assert [path.name for path in tmp_path.iterdir()] == ["two.dump"]


@pooler.direct("pg_dump and pg_restore need PostgreSQL itself")
async def test_a_postgresql_of_ones_own_is_backed_up_and_restored_by_the_same_commands(
    tmp_path: Path, module_database_url: str, fork_server: ForkServer
) -> None:
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    shop = await make_shop(db)
    async with db.connection() as tx:
        await tx.execute(f'create database "again_{_name_of(module_database_url)}"')
    await db.close()
    own = Own(tmp_path, fork_server, module_database_url)
    file = tmp_path / "backup" / "opentill.dump"
    # Word by word, as the units of systemd and an operator's shell run it.
    await asyncio.to_thread(own.sh, BACK_UP[1])
    shown = json.loads(
        await asyncio.to_thread(own.done, "backup", "--overwrite", str(file), "--json")
    )
    assert (shown["merchants"], shown["file"]) == (1, str(file))
    await asyncio.to_thread(own.done, "backup", "--check", str(file))
    refused = await asyncio.to_thread(own.run, "restore", str(file))
    assert refused.returncode == 2
    assert "is not empty" in refused.stderr
    empty = module_database_url.replace("@/", "@/again_", 1)
    own.environ["OPENTILL_DATABASE_URL"] = empty
    # What is no dump of ours, or cannot be restored, leaves the database empty.
    spoiled = tmp_path / "spoiled.dump"
    spoiled.write_bytes(file.read_bytes()[:5000])
    for words in (
        ("restore", str(spoiled)),
        ("restore", "--unchecked", str(spoiled)),
        ("backup", "--check", str(spoiled)),
    ):
        assert (await asyncio.to_thread(own.run, *words)).returncode == 2
    await asyncio.to_thread(own.sh, RESTORE[1])
    listed = json.loads(await asyncio.to_thread(own.done, "merchants", "list", "--json"))
    assert [row["id"] for row in listed] == [shop.id]


class Own:
    """Commands on a PostgreSQL of one's own."""

    def __init__(self, folder: Path, fork_server: ForkServer, url: str) -> None:
        """Nothing runs yet."""
        self._folder, self._fork_server = folder, fork_server
        self.environ = {
            **clean(os.environ),
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
        """Run a block of a recipe as it stands there."""
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=self.environ, cwd=self._folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (block, ran.stderr)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        ran = self._fork_server.run(words, self.environ, self._folder, b"")
        return subprocess.CompletedProcess(
            ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode()
        )

    def done(self, *words: str) -> str:
        """Run a command that must go well and return what it prints."""
        ran = self.run(*words)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


def test_the_recipe_writes_nothing_where_the_address_of_the_database_is_not_set(
    tmp_path: Path,
) -> None:
    _, programs = find_programs()
    environ = clean(os.environ) | {
        "BACKUP": str(tmp_path), "PATH": f"{programs}:{os.environ['PATH']}"
    }  # fmt: skip
    for block in (OWN_DUMP, OWN_FILES, OWN_RESTORE):
        ran = subprocess.run(  # without -e, as an operator pastes it
            ["bash", "-c", block], env=environ, cwd=tmp_path, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert ran.returncode != 0, block
        assert "OPENTILL_DATABASE_URL" in ran.stderr
        assert list(tmp_path.iterdir()) == []


def test_the_blocks_for_containers_are_shell() -> None:
    containers = [block for block in BACK_UP if "docker " in block or "kubectl " in block]
    assert len(containers) == 2
    for block in containers:
        subprocess.run(["bash", "-n", "-c", block], check=True)


def test_a_failed_restore_leaves_a_directory_that_every_command_takes(
    tmp_path: Path, deployment: Deployment
) -> None:
    dump = tmp_path / "whole.dump"
    deployment.done("backup", str(dump))
    data = tmp_path / "new"
    here = {"OPENTILL_DATA_DIR": str(data)}
    no_dump, other = tmp_path / "no.dump", tmp_path / "other.dump"
    no_dump.write_bytes(b"no dump\n" * 100)
    whole = dump.read_bytes()
    other.write_bytes(whole[: len(whole) // 2])  # its end is missing, as pg_restore notices
    for file, text in ((no_dump, "pg_restore failed: "), (other, "pg_restore failed: ")):
        refused = deployment.run("restore", "--unchecked", str(file), **here)
        assert refused.returncode == 2
        assert text in refused.stderr
        assert not [path.name for path in data.iterdir() if path.is_dir()]
        listed = deployment.run("merchants", "list", **here)
        assert "no OpenTill database" in listed.stderr
    restored = deployment.run("restore", str(dump), **here)
    assert restored.returncode == 0, restored.stderr
    deployment_merchants = json.loads(deployment.done("merchants", "list", "--json"))
    (data / "secret.key").write_bytes(
        (Path(deployment.environ["OPENTILL_DATA_DIR"]) / "secret.key").read_bytes()
    )
    listed = deployment.run("merchants", "list", "--json", **here)
    assert json.loads(listed.stdout) == deployment_merchants


@pytest.mark.stress
async def test_a_postgresql_of_ones_own_is_backed_up_and_restored_word_by_word(
    tmp_path: Path, module_database_url: str
) -> None:
    db = await Db.connect(module_database_url, 2, acquire_timeout_s=20)
    shop = await make_shop(db)
    (tmp_path / "data").mkdir()
    _, programs = find_programs()
    source = Path(__file__).parents[2] / "src"
    command = tmp_path / "opentill"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m opentill "$@"\n')
    command.chmod(0o755)
    empty = module_database_url.replace("@/", "@/restored_", 1)
    async with db.connection() as tx:
        await tx.execute(f'create database "{_name_of(empty)}"')
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
        (module_database_url, [OWN_DUMP, OWN_FILES]),
        (empty, [OWN_RESTORE, LOOK, SKIP, *map(_with_findings, UPGRADE)]),
    ):
        for block in recipe:
            ran = await asyncio.to_thread(
                subprocess.run,
                ["bash", "-euo", "pipefail", "-c", f"BACKUP={tmp_path}/backup\n{block}"],
                env=environ | {"OPENTILL_DATABASE_URL": url},
                cwd=tmp_path, capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert ran.returncode == 0, (block, ran.stderr)
    restored = await Db.connect(empty, 2, acquire_timeout_s=20)
    async with restored.connection() as tx:
        found = await tx.fetchval("select name from merchants where id = $1", shop.id)
    await restored.close()
    assert found == "Shop"


def _with_findings(block: str) -> str:
    """Let the doctor find something, such as the sandbox bank beside a database of one's own."""
    return block.replace("opentill doctor", "opentill doctor || test $? = 1")


def _name_of(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]
