"""The container image serves as any user, and contains no development tools."""

import time
from typing import Final

import pytest

from image.containers import QUICKLY_S, TIMEOUT_S, Call, Start, words

pytestmark = pytest.mark.image

LOCKED_UP: Final = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges",
)  # fmt: skip
USERS: Final = [
    # name, options of the container
    ("the image's user", LOCKED_UP),
    ("an arbitrary user id", ("--user=43210", *LOCKED_UP)),
    ("an arbitrary user and group id", ("--user=43210:54321", *LOCKED_UP)),
    ("root without the right to trace", ("--user=0", "--read-only", "--tmpfs=/tmp",
                                         "--cap-drop=SYS_PTRACE")),
]  # fmt: skip


@pytest.mark.parametrize("options", [row[1] for row in USERS], ids=[row[0] for row in USERS])
def test_it_serves_with_a_read_only_root_and_stops_quickly_and_cleanly(
    call: Call, start: Start, options: tuple[str, ...]
) -> None:
    name = start(*options)
    _until_ready(call, name)
    merchant = call("exec", name, "opentill", "merchants", "create", "Tea House", "--json")
    assert '"id":"mer_' in merchant
    assert "/readyz" not in call("logs", name)
    begin = time.monotonic()
    call("kill", "--signal=TERM", name)
    assert call("wait", name).split()[0] == "0"
    duration_s = time.monotonic() - begin
    log = call("start", name, check=False) and _postgres_log(call, name)
    assert "database system is shut down" in log
    assert duration_s < QUICKLY_S


def _until_ready(call: Call, name: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while True:
        health = call("exec", name, "opentill", "health", check=False)
        if '"status":"ready"' in health:
            return
        assert time.monotonic() < end, health + call("logs", name)
        time.sleep(0.2)


def _postgres_log(call: Call, name: str) -> str:
    _until_ready(call, name)
    return call("exec", name, "cat", "/data/opentill/postgres.log")


def test_the_image_has_no_development_packages(call: Call, image: str) -> None:
    run = ("run", "--rm", "--network=none", *words("OPENTILL_TEST_RUN"), "--entrypoint=pip")
    packages = call(*run, image, "list", "--format=freeze", "--no-index")
    names = {line.partition("==")[0].lower() for line in packages.splitlines() if "==" in line}
    assert {"opentill", "asyncpg", "tzdata"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hatchling", "editables", "localstripe"}
