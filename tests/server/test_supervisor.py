"""Children of a supervisor, beside ``tests/cli/test_running.py``, which has real ones."""

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor

from opentill.server.supervisor import Child


def test_threads_may_ask_at_once_whether_a_child_is_ready() -> None:
    """A server asks in the thread that looks after its children and in that which announces it."""
    threads = 4
    begin = threading.Barrier(threads)

    def ask(child: Child) -> bool:
        begin.wait()
        return child.check_ready()

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(300):
            child = Child("sandbox", print)
            child._ready, said = multiprocessing.Pipe(duplex=False)
            said.send_bytes(b"1")
            said.close()
            assert list(pool.map(ask, [child] * threads)) == [True] * threads
            assert child.is_ready
