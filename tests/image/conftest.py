"""Fixtures: a container engine, the image, and containers that run it."""

import os
import shutil
from collections.abc import Iterator
from functools import partial
from typing import Final

import pytest

from image.containers import BUILD_S, TOP, Call, Start, run, split_variable

IMAGE: Final = "opentill-test"


@pytest.fixture(scope="session")
def engine() -> list[str]:
    """The command of the container engine."""
    setting = split_variable("OPENTILL_TEST_ENGINE")
    installed = [[name] for name in ("docker", "podman") if shutil.which(name)]
    assert setting or installed, "no container engine is installed: install podman or docker"
    return setting or installed[0]


@pytest.fixture(scope="session")
def call(engine: list[str]) -> Call:
    """A function that runs a command of the engine."""
    return partial(run, *engine)


@pytest.fixture(scope="session")
def image(call: Call) -> str:
    """The image, built from this repository; its name."""
    call(
        "build", *split_variable("OPENTILL_TEST_BUILD"), "--tag", IMAGE, str(TOP), timeout_s=BUILD_S
    )
    return IMAGE


@pytest.fixture
def start(call: Call, image: str) -> Iterator[Start]:
    """A function that starts a container with its own volume; both are removed after the test."""
    names: list[str] = []

    def start_container(*options: str, command: tuple[str, ...] = ("serve",)) -> str:
        name = f"{IMAGE}-{os.getpid()}-{len(names)}"
        names.append(name)
        sandbox = "--env=OPENTILL_SANDBOX=yes"
        call("run", "--detach", f"--name={name}", f"--volume={name}:/data", "--network=none",
             sandbox, *split_variable("OPENTILL_TEST_RUN"), *options, image, *command)  # fmt: skip
        return name

    yield start_container
    for name in names:
        call("rm", "--force", "--volumes", name, check=False)
        call("volume", "rm", name, check=False)
