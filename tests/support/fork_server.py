"""A process that has imported everything, from which tests fork commands and servers.

A command takes about a second to import its modules, a fork of this process 0.1 s.

``python fork_server.py LISTENER IMPORTS`` accepts requests at a listening socket, given by its file
descriptor. A request is a JSON array (words, environment, directory, whether it is long-running)
with the descriptors of the three standard streams. The words are arguments of ``opentill`` or, if
they begin with ``-c`` or a path, of ``python``. The response is the exit code of the process; for a
long-running process, its id is sent before.

The server imports modules at the first request, and exits at the end of its standard input.
``IMPORTS`` is ``everything`` or ``libraries``. With ``libraries``, each fork imports OpenTill's own
modules itself, so that tests detect errors in the order of imports.
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

COMMAND_TIMEOUT_S = 60
MAX_REQUEST_BYTES = 1 << 18
FIRST_DESCRIPTOR = 3  # file descriptors 0 to 2 are the standard streams


def load(imports: str) -> None:
    """Import all modules of OpenTill, and libraries that commands import late."""
    import opentill

    for module in pkgutil.walk_packages(opentill.__path__, "opentill."):
        importlib.import_module(module.name)
    for name in ("rich.console", "rich.table", "rich.text", "uvloop"):
        importlib.import_module(name)
    _prepare_command_line()
    if imports == "libraries":
        for name in [name for name in sys.modules if name.partition(".")[0] == "opentill"]:
            del sys.modules[name]
    gc.collect()
    # Frozen objects are not touched by the garbage collection of a fork, so their memory is not
    # copied.
    gc.freeze()


def _prepare_command_line() -> None:
    """Build the command line once for all commands, and make supervisors fork their children."""
    import typer.main

    from opentill import cli
    from opentill.server import supervisor

    command = typer.main.get_command(cli.build())
    for name in command.commands:  # type: ignore[attr-defined] # a look-up builds each of them
        command.commands[name]  # type: ignore[attr-defined]
    command.make_context("opentill", ["settings"])  # parsing any command imports pydantic
    cli.build = lambda: command
    supervisor._spawn = _ForkContext()


def serve(listener: socket.socket, imports: str) -> None:
    """Fork a process for each request, until the standard input ends."""
    if _has_request(listener):
        load(imports)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks report their exit codes themselves
    while _has_request(listener):
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _run_request(connection)
        connection.close()


def _has_request(listener: socket.socket) -> bool:
    """Wait for the next request; False at the end of the standard input."""
    return sys.stdin not in select.select([sys.stdin, listener], [], [])[0]


def _run_request(connection: socket.socket) -> NoReturn:
    """Read a request, run it in this process and send the exit code."""
    request, streams, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 3)
    words, environ, directory, is_long_running = json.loads(request)
    if is_long_running:
        connection.send(b"%d" % os.getpid())
    else:
        signal.alarm(COMMAND_TIMEOUT_S)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    os.environ.clear()
    os.environ.update(environ)
    # An interpreter does the same when it starts.
    folders = environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:0] = [folder for folder in folders if folder and folder not in sys.path]
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
        _run_program(words)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def _run_program(words: list[str]) -> None:
    first = words[0] if words else ""
    if first == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})  # noqa: S102 - a test's own
    elif first.endswith(".py"):
        sys.argv = words
        runpy.run_path(first, run_name="__main__")
    else:
        from opentill.__main__ import main

        sys.argv = ["opentill", *words]
        main()


class _Popen(popen_spawn_posix.Popen):
    """A child process of ``multiprocessing`` that is forked and behaves as if it were spawned.

    Its work is pickled, and it inherits neither other file descriptors nor signal handlers. It
    saves a second of imports for each process of a server: the test of a rolling restart takes
    1 s of CPU time instead of 7.4.
    """

    def _launch(self, process_obj: multiprocessing.process.BaseProcess) -> None:
        pickled = io.BytesIO()
        context.set_spawning_popen(self)
        try:
            reduction.dump(process_obj, pickled)
        finally:
            context.set_spawning_popen(None)
        self.sentinel, child_lives = os.pipe()  # readable as soon as the other process has ended
        parent_ended, parent_lives = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run_child(pickled.getvalue(), parent_ended, {child_lives, *self._fds})
        os.close(child_lives)
        os.close(parent_ended)
        self.finalizer = util.Finalize(self, util.close_fds, (self.sentinel, parent_lives))


def _run_child(pickled: bytes, parent_ended: int, inherited: set[int]) -> NoReturn:
    code = 1
    try:
        first = FIRST_DESCRIPTOR
        for number in sorted({parent_ended, *inherited}):
            os.closerange(first, number)
            first = number + 1
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        code = pickle.loads(pickled)._bootstrap(parent_sentinel=parent_ended)  # noqa: S301 - our own
    finally:
        os._exit(code)


class _Process(context.SpawnProcess):
    @staticmethod
    def _Popen(process_obj: multiprocessing.process.BaseProcess) -> _Popen:  # noqa: N802 - multiprocessing's name
        return _Popen(process_obj)


class _ForkContext(context.SpawnContext):
    """Replaces the context with which the supervisor starts its processes."""

    Process = _Process


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        serve(listener, sys.argv[2])
