"""Commands in a directory where nothing was ever served, and what keys say of play money."""

from pathlib import Path

import pytest

from support.commands import Commands, ForkServer, opentill

__all__ = ["opentill"]

# What needs a deployment that is there. Those that begin one are serve, demo and migrate.
NEEDS_ONE = [
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


@pytest.mark.parametrize("words", NEEDS_ONE, ids=" ".join)
def test_no_second_ledger_begins_by_accident(
    fork_server: ForkServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    place = Commands(fork_server, "", tmp_path)
    place.environ["OPENTILL_DATA_DIR"] = "elsewhere"
    done = place.run(*words)
    assert done.returncode == 2, done
    (line,) = done.stderr.decode().splitlines()
    assert f"there is no OpenTill database in {tmp_path}/elsewhere/postgres" in line
    for way in ("OPENTILL_DATA_DIR", "OPENTILL_DATABASE_URL", "`opentill serve`"):
        assert way in line
    assert not list(tmp_path.iterdir())


USES_THE_SANDBOX = [("serve",), ("worker",), ("demo",), ("reconcile", "sandbox"), ("clock", "show")]


def test_play_money_with_a_database_of_ones_own_is_asked_for_by_name(opentill: Commands) -> None:
    for words in USES_THE_SANDBOX:
        done = opentill.run(*words, OPENTILL_SANDBOX="no")
        assert done.returncode == 2, done
        (line,) = done.stderr.decode().splitlines()
        assert "OPENTILL_DATABASE_URL is set" in line, words
        assert "OPENTILL_SANDBOX=yes" in line, words


# gateways, livemode, what is said beside it
GATEWAYS = [
    ("sandbox", False, "The money is not real"),
    ("manual", True, ""),
    ("manual,sandbox", True, "through the sandbox bank, one of the gateways here, are not real"),
]


def test_a_new_key_says_whether_money_is_real(opentill: Commands) -> None:
    shop = opentill.json("merchants", "create", "Tea House")["id"]
    for gateways, livemode, said in GATEWAYS:
        key = opentill.json("keys", "create", shop, OPENTILL_GATEWAYS=gateways)
        assert key["livemode"] is livemode
        new = opentill.json("keys", "regenerate", key["id"], OPENTILL_GATEWAYS=gateways)
        assert new["livemode"] is livemode
        shown = opentill.run("keys", "create", shop, OPENTILL_GATEWAYS=gateways)
        assert shown.returncode == 0
        assert "livemode" in shown.stdout.decode()
        assert said in shown.stderr.decode()
        assert bool(said) == bool(shown.stderr)


@pytest.mark.parametrize("gateways", ["manual", "manual,sandbox"])
def test_there_is_no_demonstration_where_money_is_real(opentill: Commands, gateways: str) -> None:
    opentill.environ |= {
        "OPENTILL_GATEWAYS": gateways,
        "OPENTILL_GATEWAY_MANUAL_INSTRUCTIONS": "Transfer it to DE00.",
    }
    done = opentill.run("demo")
    assert done.returncode == 2, done
    (line,) = done.stderr.decode().splitlines()
    assert "with the sandbox bank only" in line
    assert f"OPENTILL_GATEWAYS has {gateways}" in line
    assert opentill.json("merchants", "list") == []
    assert opentill.json("people", "list") == []
