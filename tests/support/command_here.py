"""A command in the process of its test: the same words, environment, directory and streams.

A fork takes three times as long. Nothing that a command leaves in its process stays here: the log,
the directory and the environment are those of before.
"""

import contextlib
import io
import logging
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import pytest
import structlog
import typer.main

from opentill import cli
from opentill.__main__ import main
from opentill.core import log

# What handles signals, starts processes or serves: these are forked.
OWN_PROCESS: Final = frozenset(
    "serve worker sandbox demo migrate health doctor backup restore webhooks:listen".split()
)


def is_fit(words: Sequence[str]) -> bool:
    """Return whether a command may run here."""
    return not {*words[:1], ":".join(words[:2])} & OWN_PROCESS


def run(
    words: Sequence[str], environ: Mapping[str, str], directory: Path, stdin: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end. In a thread of its own: the test's may have a running loop."""
    codes: list[int] = []
    with contextlib.ExitStack() as stack:
        files: list[Any] = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        stack.enter_context(_being(words, environ, directory, files))
        thread = threading.Thread(target=lambda: codes.append(_run()), name="command")
        thread.start()
        thread.join()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        for file in files:
            file.seek(0)
        _, out, err = (file.read() for file in files)
    return subprocess.CompletedProcess(["opentill", *words], codes[0], out, err)


@contextlib.contextmanager
def _being(
    words: Sequence[str], environ: Mapping[str, str], directory: Path, files: list[BinaryIO]
) -> Iterator[None]:
    """Have what a process has to itself be the command's while the block runs."""
    environment = dict(os.environ)
    with (
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        _log_as_before(),
        contextlib.chdir(directory),
    ):
        warnings.simplefilter("ignore")  # as an interpreter does with most
        root = _root()
        patch.setattr(cli, "build", lambda: root)
        patch.setattr(sys, "argv", ["opentill", *words])
        for name, file in zip(("stdin", "stdout", "stderr"), files, strict=True):
            patch.setattr(sys, name, _Text(file, encoding="utf-8", write_through=True))
        os.environ.clear()
        os.environ.update(environ)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(environment)


class _Text(io.TextIOWrapper):
    """A stream that leaves its file open."""

    def close(self) -> None:
        """Write what waits."""
        if not self.buffer.closed:
            self.flush()


@cache
def _root() -> Any:
    """Make the command line once for all commands."""
    return typer.main.get_command(cli.build())


@contextlib.contextmanager
def _log_as_before() -> Iterator[None]:
    configuration, root = structlog.get_config(), logging.getLogger()
    handlers, level, requests = root.handlers[:], root.level, log._requests
    levels = {name: logging.getLogger(name).level for name in log._QUIET}
    try:
        yield
    finally:
        structlog.configure(**configuration)
        root.handlers[:] = handlers
        root.setLevel(level)
        log._requests = requests
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)


def _run() -> int:
    try:
        main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type] # there is one
        return 1
    return 0
