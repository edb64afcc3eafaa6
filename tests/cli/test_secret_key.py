"""A lost or wrong secret key is refused, and can be replaced explicitly."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from opentill.server.embedded.postgres import EmbeddedPostgres
from support.commands import Commands, ForkServer, opentill
from support.deployment import copy_directory
from support.pooler import connect
from support.ports import free_port

__all__ = ["opentill"]

ANOTHER = "another-secret-key-another-secret-key"
REPLACE = ("secret-key", "replace", "--reason", "the disk of the old machine is gone")


@pytest.fixture(scope="module")
def embedded(fork_server: ForkServer, migrated: Path) -> Iterator[tuple[Commands, Path, str]]:
    """Commands on a running embedded database, its key file, and a merchant with an Epay key."""
    with tempfile.TemporaryDirectory(prefix="opentill-test-") as directory:
        commands = Commands(fork_server, "", Path(directory))
        commands.environ["OPENTILL_SECRET_KEY"] = ""
        data = commands.directory / "data"
        copy_directory(migrated, data)
        with EmbeddedPostgres.start(data, durable=False):
            shop = commands.json("merchants", "create", "Harbour Books")["id"]
            commands.json("epay", "enable", shop)
            yield commands, data / "secret.key", shop


def test_a_lost_key_file_is_not_recreated_for_an_existing_database(
    embedded: tuple[Commands, Path, str],
) -> None:
    commands, path, shop = embedded
    key = path.read_text()
    path.unlink()
    for words in (("serve",), ("worker",), ("migrate",), ("epay", "enable", shop)):
        line = commands.refusal(*words)
        assert f"{path} is missing" in line
        assert "the Epay keys and webhook secrets in it are encrypted with that key" in line
        assert "Restore the file from the backup" in line
        assert "opentill secret-key replace" in line
    (finding,) = [each for each in _findings(commands) if each["subject"] == "settings"]
    assert (finding["level"], str(path) in finding["text"]) == ("fail", True)
    assert not path.exists()
    path.write_text(key)
    assert commands.json("epay", "enable", shop)["merchantId"] == shop


def test_a_wrong_key_file_is_refused_and_can_be_accepted(
    embedded: tuple[Commands, Path, str],
) -> None:
    commands, path, shop = embedded
    key = path.read_text()
    path.write_text("f" * 64)
    line = commands.refusal("epay", "enable", shop)
    assert f"the key in {path} is not the one" in line
    path.write_text(key)
    commands.json("epay", "enable", shop)

    path.unlink()
    process = commands.json(*REPLACE)
    assert process == {"replaced": True, "from": str(path)}
    assert path.read_text() not in ("", key)
    assert "OPENTILL_SECRET_KEY is not the one" in commands.refusal("epay", "enable", shop)
    pid = commands.json("epay", "rotate", shop)["pid"]
    assert commands.json("epay", "enable", shop)["pid"] == pid
    assert commands.json(*REPLACE)["replaced"] is False
    (row,) = [r for r in commands.json("audit", "list") if r["action"] == "secret-key replace"]
    assert (row["subject"], row["reason"]) == (str(path), REPLACE[-1])


def _findings(commands: Commands, **settings: str) -> list[dict[str, str]]:
    findings: list[dict[str, str]] = json.loads(commands.run("doctor", "--json", **settings).stdout)
    return findings


def test_a_wrong_key_for_an_external_database_is_refused_and_encrypts_nothing(
    opentill: Commands,
) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    wrong_key = {"OPENTILL_SECRET_KEY": ANOTHER, "OPENTILL_PORT": str(free_port())}
    for words in (("serve",), ("worker",), ("epay", "enable", shop)):
        process = opentill.run(*words, **wrong_key)
        assert process.returncode == 2, process
        (line,) = process.stderr.decode().splitlines()[-1:]
        assert "the key in OPENTILL_SECRET_KEY is not the one" in line
        assert "set it back" in line
        assert ANOTHER not in process.stderr.decode()
    levels = {each["subject"]: each["level"] for each in _findings(opentill, **wrong_key)}
    assert levels["database"] == "fail"
    levels = {each["subject"]: each["level"] for each in _findings(opentill)}
    assert levels["database"] == "ok"
    opentill.json("epay", "enable", shop)
    assert opentill.json(*REPLACE, **wrong_key) == {"replaced": True, "from": "OPENTILL_SECRET_KEY"}
    assert opentill.run("epay", "enable", shop).returncode == 2
    opentill.json("epay", "rotate", shop, **wrong_key)
    opentill.json("epay", "enable", shop, **wrong_key)


async def test_an_older_database_records_the_key_that_decrypts_its_secrets(
    opentill: Commands,
) -> None:
    shop = opentill.json("merchants", "create", "Harbour Books")["id"]
    opentill.json("epay", "enable", shop)
    connection = await connect(opentill.environ["OPENTILL_DATABASE_URL"])
    try:
        assert await connection.execute("delete from secret_key") == "DELETE 1"
        assert opentill.run("merchants", "list", OPENTILL_SECRET_KEY=ANOTHER).returncode == 2
        assert await connection.fetch("select from secret_key") == []
        opentill.json("merchants", "list")
        assert len(await connection.fetch("select from secret_key")) == 1
    finally:
        await connection.close()


def test_replacing_the_key_needs_a_reason(opentill: Commands) -> None:
    process = opentill.run("secret-key", "replace", "--reason", " ", OPENTILL_SECRET_KEY=ANOTHER)
    assert process.returncode == 2
    assert opentill.run("merchants", "list").returncode == 0


def test_the_advice_after_a_new_key_names_authenticators(opentill: Commands) -> None:
    opentill.json("merchants", "create", "Harbour Books")
    process = opentill.run(*REPLACE, OPENTILL_SECRET_KEY=ANOTHER)
    output = (process.stdout + process.stderr).decode()
    assert "Authenticators no longer work" in output
    assert "opentill people reset-factors EMAIL --as-root" in output
