"""A process that has imported much and done nothing, off which commands and servers are forked.

``python fork_server.py LISTENER MUCH`` takes orders at a listening socket, whose descriptor it is
given: an ``Order`` as JSON, with the descriptors of the three streams. The answer is the exit code,
sent when the command has ended; that of what ``lasts`` is preceded by its process id. It imports at
the first order, and ends with its standard input.

The words of an order are those of ``opentill``, or of ``python``: ``-c`` and a program, or the path
of one.

``MUCH`` is ``everything``, or ``libraries``: then what it forks imports our own modules itself, in
the order in which a command comes to them.
"""

import contextlib
import gc
import importlib
import io
import json
import multiprocessing
import os
import pickle
import pkgutil
import runpy
import select
import signal
import socket
import sys
from multiprocessing import context, popen_spawn_posix, reduction, util
from typing import NoReturn

LONGEST_S = 60  # no command of a test takes longer
MOST_BYTES = 1 << 18
FIRST_OF_OURS = 3  # descriptors below are the standard streams


def load(much: str) -> None:
    """Import what commands import, early or late."""
    import opentill

    for module in pkgutil.walk_packages(opentill.__path__, "opentill."):
        importlib.import_module(module.name)
    for name in ("rich.console", "rich.table", "rich.text", "uvloop"):
        importlib.import_module(name)
    _ready_command_line()
    if much == "libraries":
        for name in [name for name in sys.modules if name.partition(".")[0] == "opentill"]:
            del sys.modules[name]
    gc.collect()
    gc.freeze()  # otherwise each command copies what its collector marks


def _ready_command_line() -> None:
    """Make the command line once for all commands, and have the children of servers forked too."""
    import typer.main

    from opentill import cli
    from opentill.server import supervisor

    built = typer.main.get_command(cli.build())
    for name in built.commands:  # type: ignore[attr-defined] # each is made when it is looked up
        built.commands[name]  # type: ignore[attr-defined]
    built.make_context("opentill", ["settings"])  # reading words is what imports pydantic
    cli.build = lambda: built
    supervisor._spawn = _Warm()


def serve(listener: socket.socket, much: str) -> None:
    """Fork off a process for each order, until the standard input ends."""
    if _has_order(listener):
        load(much)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: they answer themselves
    while _has_order(listener):
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _obey(connection)
        connection.close()


def _has_order(listener: socket.socket) -> bool:
    """Wait for the next order; False at the end of the standard input."""
    return sys.stdin not in select.select([sys.stdin, listener], [], [])[0]


def _obey(connection: socket.socket) -> NoReturn:
    """Be the command."""
    order, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    words, environ, directory, lasts = json.loads(order)
    if lasts:
        connection.send(b"%d" % os.getpid())
    else:
        signal.alarm(LONGEST_S)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    os.environ.clear()
    os.environ.update(environ)
    # What an interpreter does with it at its start.
    places = environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [place for place in places if place and place not in sys.path]
    os.chdir(directory)
    code = 1
    try:
        code = _run(words)
    finally:
        with contextlib.suppress(OSError):
            connection.send(b"%d" % code)
        os._exit(code)


def _run(words: list[str]) -> int:
    try:
        _be(words)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _be(words: list[str]) -> None:
    begin = words[0] if words else ""
    if begin == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})  # noqa: S102 - a test's own
    elif begin.endswith(".py"):
        sys.argv = words
        runpy.run_path(begin, run_name="__main__")
    else:
        from opentill.__main__ import main

        sys.argv = ["opentill", *words]
        main()


class _Popen(popen_spawn_posix.Popen):
    """A child as it is spawned, but in a fork, which has imported everything.

    As it would in an interpreter of its own, what it is to do comes to it pickled, it has no
    descriptor that it was not given, and no signal handler.
    """

    def _launch(self, process_obj: multiprocessing.process.BaseProcess) -> None:
        pickled = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(process_obj, pickled)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, child_lives = os.pipe()  # each ends with the process that holds the other
        parent_ended, parent_lives = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _be_spawned(pickled.getvalue(), parent_ended, {child_lives, *self._fds})
        os.close(child_lives)
        os.close(parent_ended)
        self.finalizer = util.Finalize(self, util.close_fds, (self.sentinel, parent_lives))


def _be_spawned(pickled: bytes, parent_ended: int, inherited: set[int]) -> NoReturn:
    code = 1
    try:
        begin = FIRST_OF_OURS
        for number in sorted({parent_ended, *inherited}):
            os.closerange(begin, number)
            begin = number + 1
        os.closerange(begin, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        code = pickle.loads(pickled)._bootstrap(parent_sentinel=parent_ended)  # noqa: S301 - our own
    finally:
        os._exit(code)


class _Process(context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: multiprocessing.process.BaseProcess) -> _Popen:  # noqa: N802
        return _Popen(process_obj)


class _Warm(context.SpawnContext):
    """In the place of the supervisor's: the children of a server that was forked are, too."""

    Process = _Process


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        serve(listening, sys.argv[2])
