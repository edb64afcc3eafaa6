"""The container image, built and run by a real engine: ``make test-image``.

What the engine needs on a machine comes from the environment, as words of a command line:

- ``OPENTILL_TEST_ENGINE``: the engine, if it is not ``docker`` or ``podman`` as they are
- ``OPENTILL_TEST_BUILD``, ``OPENTILL_TEST_RUN``: what its ``build`` and ``run`` take besides
- ``OPENTILL_TEST_COMPOSE``: a compose command, if it is not the engine's own
"""

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.image

TOP: Final = Path(__file__).parents[2]
IMAGE: Final = "opentill-test"
BUILD_S: Final = 1800
TIMEOUT_S: Final = 120.0
QUICKLY_S: Final = 10.0  # an engine's patience before it kills; well under 2 s on an idle machine
STRANGE: Final = "p@ss/w:rd#%41 ?&='\"$x\\+${HOME}ü"
LOCKED_UP: Final = (
    "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL", "--security-opt=no-new-privileges",
)  # fmt: skip


def _words(variable: str) -> list[str]:
    return shlex.split(os.environ.get(variable, ""))


@pytest.fixture(scope="session")
def engine() -> list[str]:
    """Find the engine."""
    found = _words("OPENTILL_TEST_ENGINE") or [
        name for name in ("docker", "podman") if shutil.which(name)
    ]
    assert found, "no engine here: install podman or docker"
    return found if _words("OPENTILL_TEST_ENGINE") else found[:1]


Call = Callable[..., str]


@pytest.fixture(scope="session")
def call(engine: list[str]) -> Call:
    """Run the engine; what it prints, both streams."""

    def run(*words: str, check: bool = True, timeout_s: float = TIMEOUT_S) -> str:
        done = subprocess.run(
            [*engine, *words], capture_output=True, text=True, check=False, timeout=timeout_s
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="session")
def image(call: Call) -> str:
    """Build the image from the files that git knows, and nothing that lies about."""
    call("build", *_words("OPENTILL_TEST_BUILD"), "--tag", IMAGE, str(TOP), timeout_s=BUILD_S)
    return IMAGE


Start = Callable[..., str]


@pytest.fixture
def start(call: Call, image: str) -> Iterator[Start]:
    """Start containers with a volume of their own; gone after the test."""
    started: list[str] = []

    def run(*options: str, command: tuple[str, ...] = ("serve",)) -> str:
        name = f"{IMAGE}-{os.getpid()}-{len(started)}"
        started.append(name)
        sandbox = "--env=OPENTILL_SANDBOX=yes"
        call("run", "--detach", f"--name={name}", f"--volume={name}:/data", "--network=none",
             sandbox, *_words("OPENTILL_TEST_RUN"), *options, image, *command)  # fmt: skip
        return name

    yield run
    for name in started:
        call("rm", "--force", "--volumes", name, check=False)
        call("volume", "rm", name, check=False)


def _until_ready(call: Call, name: str) -> None:
    end = time.monotonic() + TIMEOUT_S
    while '"status":"ready"' not in (said := call("exec", name, "opentill", "health", check=False)):
        assert time.monotonic() < end, said + call("logs", name)
        time.sleep(0.2)


USERS: Final = [
    # name, what the container is run with
    ("the image's user", LOCKED_UP),
    ("an arbitrary user id", ("--user=43210", *LOCKED_UP)),
    ("an arbitrary user and group id", ("--user=43210:54321", *LOCKED_UP)),
    ("root without the right to trace", ("--user=0", "--read-only", "--tmpfs=/tmp",
                                         "--cap-drop=SYS_PTRACE")),
]  # fmt: skip


@pytest.mark.parametrize("options", [row[1] for row in USERS], ids=[row[0] for row in USERS])
def test_it_serves_with_a_read_only_root_and_stops_quickly_and_whole(
    call: Call, start: Start, options: tuple[str, ...]
) -> None:
    name = start(*options)
    _until_ready(call, name)
    made = call("exec", name, "opentill", "merchants", "create", "Tea House", "--json")
    assert '"id":"mer_' in made
    logged = call("logs", name)
    assert "/readyz" not in logged
    begin = time.monotonic()
    call("kill", "--signal=TERM", name)
    assert call("wait", name).split()[0] == "0"
    took = time.monotonic() - begin
    log = call("start", name, check=False) and _postgres_log(call, name)
    assert "database system is shut down" in log
    assert took < QUICKLY_S


def _postgres_log(call: Call, name: str) -> str:
    _until_ready(call, name)
    return call("exec", name, "cat", "/data/opentill/postgres.log")


def test_the_image_has_nothing_that_only_develops(call: Call, image: str) -> None:
    run = ("run", "--rm", "--network=none", *_words("OPENTILL_TEST_RUN"), "--entrypoint=pip")
    listed = call(*run, image, "list", "--format=freeze", "--no-index")
    names = {line.partition("==")[0].lower() for line in listed.splitlines() if "==" in line}
    assert {"opentill", "asyncpg", "tzdata"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hatchling", "editables", "localstripe"}


def test_compose_comes_up_with_a_strange_password(
    engine: list[str], call: Call, tmp_path: Path
) -> None:
    """As the first lines of compose.yaml say, in a copy of what git knows."""
    compose = _words("OPENTILL_TEST_COMPOSE") or [*engine, "compose"]
    here = tmp_path / "opentill-compose"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=TOP, capture_output=True, check=True
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, files)):
        if (TOP / name).exists():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / name, here / name)
    (here / "secrets").mkdir(mode=0o700)
    (here / "secrets" / "database_password").write_text(STRANGE + "\n")
    (here / "secrets" / "secret_key").write_text("k" * 64 + "\n")
    (here / ".env").write_text("OPENTILL_SANDBOX=yes\nOPENTILL_OPERATOR_NAME=Tea & Co\n")

    def run(*words: str, check: bool = True) -> str:
        done = subprocess.run(
            [*compose, *words], cwd=here, capture_output=True, text=True, check=False,
            timeout=BUILD_S,
        )  # fmt: skip
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    try:
        run("up", "--detach")
        end = time.monotonic() + TIMEOUT_S
        inside = ("exec", "-T", "opentill", "opentill")
        while '"status":"ready"' not in (said := run(*inside, "health", check=False)):
            assert time.monotonic() < end, said + run("logs", check=False)
            time.sleep(0.5)
        assert '"id":"mer_' in run(*inside, "merchants", "create", "Tea House", "--json")
        assert '"violations":[]' in run(*inside, "ledger", "check", "--json")
        settings = run(*inside, "settings")
        assert "Tea & Co" in settings
        assert STRANGE not in settings + run("logs", check=False)
    finally:
        run("down", "--volumes", "--timeout", "30", check=False)
