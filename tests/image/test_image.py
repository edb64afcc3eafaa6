"""The container image runs as any user, and contains no development tools."""

import time
from typing import Final

import pytest

from image.containers import QUICKLY_S, TIMEOUT_S, Call, Start, split_variable

pytestmark = pytest.mark.image

RESTRICTED: Final = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges",
)  # fmt: skip
USERS: Final = [
    # Each row: description, options of the container.
    ("the image's user", RESTRICTED),
    ("an arbitrary user id", ("--user=43210", *RESTRICTED)),
    ("an arbitrary user and group id", ("--user=43210:54321", *RESTRICTED)),
    ("root without the right to trace", ("--user=0", "--read-only", "--tmpfs=/tmp",
                                         "--cap-drop=SYS_PTRACE")),
]  # fmt: skip


@pytest.mark.parametrize("options", [row[1] for row in USERS], ids=[row[0] for row in USERS])
def test_a_container_with_a_read_only_root_serves_and_stops_quickly_and_cleanly(
    call: Call, start: Start, options: tuple[str, ...]
) -> None:
    name = start(*options)
    _wait_until_ready(call, name)
    merchant = call("exec", name, "opentill", "merchants", "create", "Tea House", "--json")
    assert '"id":"mer_' in merchant
    assert "/readyz" not in call("logs", name)
    stopped_at = time.monotonic()
    call("kill", "--signal=TERM", name)
    assert call("wait", name).split()[0] == "0"
    duration_s = time.monotonic() - stopped_at
    log = call("start", name, check=False) and _postgres_log(call, name)
    assert "database system is shut down" in log
    assert duration_s < QUICKLY_S


def _wait_until_ready(call: Call, name: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while True:
        health = call("exec", name, "opentill", "health", check=False)
        if '"status":"ready"' in health:
            return
        assert time.monotonic() < end, health + call("logs", name)
        time.sleep(0.2)


def _postgres_log(call: Call, name: str) -> str:
    _wait_until_ready(call, name)
    return call("exec", name, "cat", "/data/opentill/postgres.log")


def test_the_image_has_no_development_packages(call: Call, image: str) -> None:
    run_pip = (
        "run",
        "--rm",
        "--network=none",
        *split_variable("OPENTILL_TEST_RUN"),
        "--entrypoint=pip",
    )
    packages = call(*run_pip, image, "list", "--format=freeze", "--no-index")
    names = {line.partition("==")[0].lower() for line in packages.splitlines() if "==" in line}
    assert {"opentill", "asyncpg", "tzdata"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hatchling", "editables", "localstripe"}
