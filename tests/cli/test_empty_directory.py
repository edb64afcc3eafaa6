"""Commands in an empty directory, and the test mode that new keys report."""

from pathlib import Path

import pytest

from support.commands import Commands, ForkServer, opentill

__all__ = ["opentill"]

# Commands that need an existing deployment; serve, demo and migrate create one.
NEED_DEPLOYMENT = [
    ("merchants", "create", "Tea House"),
    ("merchants", "list"),
    ("keys", "create", "mer_1"),
    ("rates", "set", "CNY", "USD", "0.14", "--reason", "seen"),
    ("ledger", "check"),
    ("webhooks", "add", "mer_1", "https://hooks.example.com/"),
    ("clock", "show"),
    ("reconcile", "sandbox"),
    ("worker",),
]


@pytest.mark.parametrize("words", NEED_DEPLOYMENT, ids=" ".join)
def test_no_command_creates_a_second_ledger_by_accident(
    fork_server: ForkServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    commands = Commands(fork_server, "", tmp_path)
    commands.environ["OPENTILL_DATA_DIR"] = "data"
    process = commands.run(*words)
    assert process.returncode == 2, process
    (line,) = process.stderr.decode().splitlines()
    assert f"there is no OpenTill database in {tmp_path}/data/postgres" in line
    for remedy in ("OPENTILL_DATA_DIR", "OPENTILL_DATABASE_URL", "`opentill serve`"):
        assert remedy in line
    assert not list(tmp_path.iterdir())


USE_SANDBOX = [("serve",), ("worker",), ("demo",), ("reconcile", "sandbox"), ("clock", "show")]


def test_the_sandbox_with_an_external_database_needs_a_setting(opentill: Commands) -> None:
    for words in USE_SANDBOX:
        process = opentill.run(*words, OPENTILL_SANDBOX="no")
        assert process.returncode == 2, process
        (line,) = process.stderr.decode().splitlines()
        assert "OPENTILL_DATABASE_URL is set" in line, words
        assert "OPENTILL_SANDBOX=yes" in line, words


# Each row: gateways of the deployment, livemode of a new key, part of the note ("": no note).
GATEWAYS = [
    ("sandbox", False, "The money is not real"),
    ("manual", True, ""),
    ("manual,sandbox", True, "through the sandbox bank, one of the gateways here, are not real"),
]


def test_a_new_key_shows_whether_money_is_real(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Tea House")["id"]
    for gateways, livemode, note in GATEWAYS:
        key = opentill.json("keys", "create", shop, OPENTILL_GATEWAYS=gateways)
        assert key["livemode"] is livemode
        new_key = opentill.json("keys", "regenerate", key["id"], OPENTILL_GATEWAYS=gateways)
        assert new_key["livemode"] is livemode
        process = opentill.run("keys", "create", shop, OPENTILL_GATEWAYS=gateways)
        assert process.returncode == 0
        assert "livemode" in process.stdout.decode()
        assert note in process.stderr.decode()
        assert bool(note) == bool(process.stderr)


@pytest.mark.parametrize("gateways", ["manual", "manual,sandbox"])
def test_the_demonstration_is_refused_with_real_money(opentill: Commands, gateways: str) -> None:
    opentill.environ |= {
        "OPENTILL_GATEWAYS": gateways,
        "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "Transfer it to DE00.",
    }
    process = opentill.run("demo")
    assert process.returncode == 2, process
    (line,) = process.stderr.decode().splitlines()
    assert "with the sandbox bank only" in line
    assert f"OPENTILL_GATEWAYS has {gateways}" in line
    assert opentill.json("merchants", "list") == []
    assert opentill.json("people", "list") == []
