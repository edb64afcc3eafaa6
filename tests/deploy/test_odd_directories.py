"""Commands work with every character in the path of the data directory."""

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.commands import ForkServer
from support.deployment import TIMEOUT_S, Deployment, copy_directory

CHARACTERS: Final = (
    "a space",
    'it\'s "quoted"',
    "100%41 %",
    "Zürich 東京",
    "plus+sign",
    "hash#mark",
    "what?is=it&that",
    "comma, semicolon; $HOME `id` \\n * ~",
    os.fsdecode(b"not utf-8 \xff"),
)
# Every run tries all characters in one name; `make stress` finds out which one has failed.
NAMES: Final = (
    " ".join(CHARACTERS),
    "a path too long for a socket " + "x" * 80,
    *(pytest.param(name, marks=pytest.mark.stress) for name in CHARACTERS),
)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A directory whose path is short enough for PostgreSQL's socket in the data directory."""
    with tempfile.TemporaryDirectory(prefix="ot", dir="/tmp") as directory:
        yield Path(directory)


@pytest.mark.parametrize("name", NAMES)
def test_commands_work_in_a_directory_with_any_name(
    name: str, short_path: Path, migrated: Path, fork_server: ForkServer
) -> None:
    folder = short_path / name
    folder.mkdir()
    deployment = Deployment(folder, fork_server)
    data = folder / "data"
    copy_directory(migrated, data)
    server = deployment.start()
    try:
        merchant = json.loads(deployment.run_checked("merchants", "create", "Shop", "--json"))["id"]
        deployment.run_checked("migrate")
        # Doctor may have findings (1), but must not fail (2).
        assert deployment.run("doctor").returncode in {0, 1}
        deployment.run_checked("ledger", "check")
        deployment.run_checked("export", merchant)
        dump = folder / "the backup.dump"
        deployment.run_checked("backup", str(dump))
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(TIMEOUT_S)
        if server.stdout is not None:
            server.stdout.close()
    deployment.run_checked("backup", str(dump), "--overwrite")  # the backup runs without a server
    restored = folder / "restored"
    restored.mkdir(mode=0o700)
    shutil.copy2(data / "secret.key", restored)
    deployment.environ["OPENTILL_DATA_DIR"] = str(restored)
    deployment.run_checked("restore", str(dump))
    merchants = json.loads(deployment.run_checked("merchants", "list", "--json"))
    assert merchant in {row["id"] for row in merchants}
    assert deployment.run("doctor").returncode in {0, 1}
    assert '"violations":[]' in deployment.run_checked("ledger", "check", "--json")
