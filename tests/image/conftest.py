"""A real engine, the image that it builds, and containers of it."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from image.containers import BUILD_S, TOP, Call, Start, run, words

IMAGE: Final = "opentill-test"


@pytest.fixture(scope="session")
def engine() -> list[str]:
    """Find the engine."""
    found = [[name] for name in ("docker", "podman") if shutil.which(name)]
    asked = words("OPENTILL_TEST_ENGINE")
    assert asked or found, "no engine here: install podman or docker"
    return asked or found[0]


@pytest.fixture(scope="session")
def call(engine: list[str]) -> Call:
    """Run the engine."""
    return partial(run, *engine)


@pytest.fixture(scope="session")
def image(call: Call) -> str:
    """Build the image from the files that git knows, and nothing that lies about."""
    call("build", *words("OPENTILL_TEST_BUILD"), "--tag", IMAGE, str(TOP), timeout_s=BUILD_S)
    return IMAGE


@pytest.fixture
def start(call: Call, image: str) -> Iterator[Start]:
    """Start containers with a volume of their own; gone after the test."""
    started: list[str] = []

    def start_one(*options: str, command: tuple[str, ...] = ("serve",)) -> str:
        name = f"{IMAGE}-{os.getpid()}-{len(started)}"
        started.append(name)
        sandbox = "--env=OPENTILL_SANDBOX=yes"
        call("run", "--detach", f"--name={name}", f"--volume={name}:/data", "--network=none",
             sandbox, *words("OPENTILL_TEST_RUN"), *options, image, *command)  # fmt: skip
        return name

    yield start_one
    for name in started:
        call("rm", "--force", "--volumes", name, check=False)
        call("volume", "rm", name, check=False)
