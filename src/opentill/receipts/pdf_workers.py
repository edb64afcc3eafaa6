"""Worker processes that draw receipts as PDF, and a cache of their results.

A worker draws one sheet after the other, because loading its libraries takes 0.45 s of CPU time and
drawing a Latin receipt 3 ms. A worker ends after it has read a font, which would stay in its
memory, and when it was idle for a while. The number of waiting sheets, in total and of one receipt,
and the time are limited; further requests are refused.

Sheets and results are sent through pipes, each after its length in four bytes. A result begins with
a code like the exit code of a program.
"""

import asyncio
import hashlib
import subprocess
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from opentill.core.errors import Unavailable

NO_FONT: Final = 3  # the result code that says that no font has all letters of the sheet
LENGTH_BYTES: Final = 4
_HEAD_BYTES: Final = 1 + LENGTH_BYTES
_MAX_BYTES: Final = 16 * 1024 * 1024  # a longer result of a worker is refused
_IDLE_S: Final = 30.0  # a worker that is idle for this time ends


class Limits(NamedTuple):
    """How many sheets are drawn or wait at once, and how long a sheet may take."""

    at_once: int = 2  # this many workers draw at the same time
    most: int = 16  # at most this many sheets are drawn or wait
    each: int = 2  # at most this many sheets of one receipt are drawn or wait
    timeout_s: float = 20.0  # a sheet must be drawn in this time, which includes its wait


class Failed(Exception):
    """A worker ended without a result, or reported an error; the text is what the worker wrote."""


class PdfWorkers:
    """Starts workers when sheets are to be drawn, and lets idle workers draw more sheets."""

    def __init__(self, command: Sequence[str], limits: Limits | None = None) -> None:
        """``command`` runs a worker, see ``pdf.main``."""
        self._command = command
        self._limits = limits or Limits()
        # Receipt → the number of its sheets that are drawn or wait.
        self._pending: Counter[str] = Counter()
        self._slots = asyncio.Semaphore(self._limits.at_once)
        self._idle: list[_Worker] = []
        self._idle_timer: asyncio.TimerHandle | None = None

    async def draw(self, receipt: str, sheet: bytes) -> tuple[int, bytes]:
        """Draw a sheet; return the worker's result code and result. Raises Unavailable, Failed."""
        limits = self._limits
        if self._pending.total() >= limits.most or self._pending[receipt] >= limits.each:
            raise Unavailable(reason="too many receipts are being drawn already, try again")
        self._pending[receipt] += 1
        try:
            async with asyncio.timeout(limits.timeout_s), self._slots:
                return await self._run(sheet)
        except TimeoutError:
            raise Unavailable(reason="drawing takes too long, try again") from None
        finally:
            self._pending[receipt] -= 1
            if not self._pending[receipt]:
                del self._pending[receipt]

    async def _run(self, sheet: bytes) -> tuple[int, bytes]:
        worker = self._idle_worker() or _Worker(self._command)
        exchange = asyncio.create_task(asyncio.to_thread(worker.exchange, sheet))
        is_reusable = False
        try:
            code, result, is_reusable = await asyncio.shield(exchange)
        finally:
            if is_reusable:
                self._add_idle(worker)
            else:
                worker.kill()  # ends the pipes, so that the thread of ``exchange`` stops reading
                with suppress(Failed):
                    await exchange  # wait until the thread no longer uses the pipes
                worker.close()
        if code not in {0, NO_FONT}:
            raise Failed(result.decode(errors="replace"))
        return code, result

    def _idle_worker(self) -> "_Worker | None":
        """Return an idle worker that still runs, None if there is none."""
        while self._idle:
            worker = self._idle.pop()
            if worker.is_running():
                return worker
            worker.close()
        return None

    def _add_idle(self, worker: "_Worker") -> None:
        """Keep a worker for the next sheet, and end all idle ones ``_IDLE_S`` after the last."""
        self._idle.append(worker)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(_IDLE_S, self.close)

    def close(self) -> None:
        """End the idle workers; the next sheet starts new ones."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        while self._idle:
            worker = self._idle.pop()
            worker.kill()
            worker.close()


class _Worker:
    """A worker process and the pipes to it."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 - our own

    def exchange(self, sheet: bytes) -> tuple[int, bytes, bool]:
        """Send a sheet; return code, result and whether the worker can be reused. Raises Failed."""
        source, target = self._process.stdout, self._process.stdin
        if source is None or target is None:
            raise AssertionError  # the process was started with pipes
        with suppress(OSError):  # if the process has ended, the read below reports it
            target.write(len(sheet).to_bytes(LENGTH_BYTES) + sheet)
            target.flush()
        head = source.read(_HEAD_BYTES)
        length = int.from_bytes(head[1:])
        result = source.read(length) if length <= _MAX_BYTES else b""
        if len(head) < _HEAD_BYTES or len(result) < length:
            raise Failed(self._error_output())
        return head[0], result, head[0] == 0 and source.read(1) == b"+"

    def _error_output(self) -> str:
        errors = self._process.stderr
        return "" if errors is None else errors.read(_MAX_BYTES).decode(errors="replace")

    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        self._process.kill()

    def close(self) -> None:
        """Close the pipes and wait for the end of the process."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):  # closing writes the rest, which fails if the process ended
                    pipe.close()
        self._process.wait()


class PdfCache:
    """The last used PDFs, by receipt and sheet.

    A receipt that has changed has another sheet, so that its old PDF is never returned again.
    """

    def __init__(self, most_bytes: int = 32 * 1024 * 1024, each: int = 4) -> None:
        """Store at most ``most_bytes`` in total, and ``each`` PDFs of one receipt."""
        self._most_bytes = most_bytes
        self._each = each
        self._size = 0
        self._pdfs: OrderedDict[str, OrderedDict[bytes, bytes]] = OrderedDict()

    def find(self, receipt: str, sheet: bytes) -> bytes | None:
        """Return the PDF of a sheet, None if the cache has none."""
        digest = hashlib.sha256(sheet).digest()
        of_receipt = self._pdfs.get(receipt)
        if of_receipt is None or digest not in of_receipt:
            return None
        self._pdfs.move_to_end(receipt)
        of_receipt.move_to_end(digest)
        return of_receipt[digest]

    def add(self, receipt: str, sheet: bytes, pdf: bytes) -> None:
        """Add the PDF of a sheet, and drop the least recently used ones if there is no room."""
        of_receipt = self._pdfs.setdefault(receipt, OrderedDict())
        self._pdfs.move_to_end(receipt)
        digest = hashlib.sha256(sheet).digest()
        self._size += len(pdf) - len(of_receipt.get(digest, b""))
        of_receipt[digest] = pdf
        while len(of_receipt) > self._each:
            self._size -= len(of_receipt.popitem(last=False)[1])
        while self._size > self._most_bytes:
            _, dropped = self._pdfs.popitem(last=False)
            self._size -= sum(map(len, dropped.values()))
