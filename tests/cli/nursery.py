"""A process that has imported everything and done nothing, off which commands are forked.

``python nursery.py LISTENER`` takes orders at a listening socket, whose descriptor it is given: a
command's words, environment and directory as JSON, with the descriptors of its three streams. The
answer is the exit code, sent when the command has ended. It ends with its standard input.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from typing import NoReturn

LONGEST_S = 60  # no command of a test takes longer
MOST_BYTES = 1 << 18


def load() -> None:
    """Import all that commands import, early or late."""
    import opentill

    for module in pkgutil.walk_packages(opentill.__path__, "opentill."):
        importlib.import_module(module.name)
    for name in ("rich.console", "rich.table", "rich.text", "uvloop"):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # otherwise each command copies what its collector marks


def serve(listener: socket.socket) -> None:
    """Fork off a process for each order, until the standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them: they answer themselves
    while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            _obey(connection)
        connection.close()


def _obey(connection: socket.socket) -> NoReturn:
    """Be the command."""
    signal.alarm(LONGEST_S)
    order, streams, _, _ = socket.recv_fds(connection, MOST_BYTES, 3)
    words, environ, directory = json.loads(order)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, "r", closefd=False)
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(directory)
    sys.argv = ["opentill", *words]
    code = 1
    try:
        code = _run()
    finally:
        with contextlib.suppress(OSError):
            connection.send(b"%d" % code)
        os._exit(code)


def _run() -> int:
    from opentill.__main__ import main

    try:
        main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as listening:
        load()
        serve(listening)
