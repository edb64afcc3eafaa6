"""Has receipts drawn as PDF by a few processes, and keeps what they drew.

A process draws one sheet after the other, so that it loads its libraries once: a Latin receipt then
takes 3 ms of a processor, and 0.45 s in a process that begins. One that has read a font ends, since
the font stays in its memory, and so does one that had nothing to draw for a while. A few sheets may
wait for their turn, a few of one receipt, and for so long only; others are refused at once.

Sheets and results go through pipes, each with its length in four bytes before it; before a result
stands its code, as the exit code of a program.
"""

import asyncio
import hashlib
import subprocess
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from opentill.core.errors import Unavailable

NO_FONT: Final = 3  # code: no font has all letters
LENGTH_BYTES: Final = 4
_HEAD_BYTES: Final = 1 + LENGTH_BYTES
_LONGEST: Final = 16 * 1024 * 1024  # of a result
_IDLE_S: Final = 30.0  # after which a process ends


class Limits(NamedTuple):
    """How much a press takes on."""

    at_once: int = 2  # processes
    most: int = 16  # sheets that are drawn or wait
    each: int = 2  # of one receipt
    timeout_s: float = 20.0  # of a sheet, with the wait for its turn


class Failed(Exception):
    """A process has ended without a result, or with an error; the text is its own."""


class Press:
    """The processes that draw, started when they are needed."""

    def __init__(self, command: Sequence[str], limits: Limits | None = None) -> None:
        """``command`` runs a program that draws, see ``pdf.main``."""
        self._command = command
        self._limits = limits or Limits()
        self._inside: Counter[str] = Counter()
        self._turns = asyncio.Semaphore(self._limits.at_once)
        self._idle: list[_Process] = []
        self._ending: asyncio.TimerHandle | None = None

    async def draw(self, receipt: str, sheet: bytes) -> tuple[int, bytes]:
        """Return the code and what the program has drawn. Raises Unavailable, and Failed."""
        limits = self._limits
        if self._inside.total() >= limits.most or self._inside[receipt] >= limits.each:
            raise Unavailable(reason="too many receipts are being drawn already, try again")
        self._inside[receipt] += 1
        try:
            async with asyncio.timeout(limits.timeout_s), self._turns:
                return await self._run(sheet)
        except TimeoutError:
            raise Unavailable(reason="drawing takes too long, try again") from None
        finally:
            self._inside[receipt] -= 1
            if not self._inside[receipt]:
                del self._inside[receipt]

    async def _run(self, sheet: bytes) -> tuple[int, bytes]:
        process = self._idle_process() or _Process(self._command)
        talk = asyncio.create_task(asyncio.to_thread(process.exchange, sheet))
        done = False
        try:
            code, drawn, goes_on = await asyncio.shield(talk)
            done = goes_on
        finally:
            if done:
                self._keep(process)
            else:
                process.kill()  # which ends the thread, too
                with suppress(Failed):
                    await talk  # closes the pipes, even if the time was up before it began
                process.close()
        if code not in {0, NO_FONT}:
            raise Failed(drawn.decode(errors="replace"))
        return code, drawn

    def _idle_process(self) -> "_Process | None":
        """Return a process that waits for a sheet, None if there is none; others may have ended."""
        while self._idle:
            process = self._idle.pop()
            if process.is_running():
                return process
            process.close()
        return None

    def _keep(self, process: "_Process") -> None:
        """Keep a process for the next sheet, until all were idle for a while."""
        self._idle.append(process)
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(_IDLE_S, self.close)

    def close(self) -> None:
        """End the processes that have nothing to draw; the next sheet starts new ones."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        while self._idle:
            process = self._idle.pop()
            process.kill()
            process.close()


class _Process:
    """A program that draws, and the pipes to it."""

    def __init__(self, command: Sequence[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)  # noqa: S603 - our own

    def exchange(self, sheet: bytes) -> tuple[int, bytes, bool]:
        """Have a sheet drawn: code, result, and whether it takes another. Raises Failed."""
        source, target = self._process.stdout, self._process.stdin
        if source is None or target is None:
            raise AssertionError  # they are pipes
        with suppress(OSError):  # it has ended: there is no result, and it says why
            target.write(len(sheet).to_bytes(LENGTH_BYTES) + sheet)
            target.flush()
        head = source.read(_HEAD_BYTES)
        length = int.from_bytes(head[1:])
        drawn = source.read(length) if length <= _LONGEST else b""
        if len(head) < _HEAD_BYTES or len(drawn) < length:
            raise Failed(self._last_words())
        return head[0], drawn, head[0] == 0 and source.read(1) == b"+"

    def _last_words(self) -> str:
        errors = self._process.stderr
        return "" if errors is None else errors.read(_LONGEST).decode(errors="replace")

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it; does nothing once it has ended."""
        self._process.kill()

    def close(self) -> None:
        """Close its pipes, and wait until it has ended."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with suppress(OSError):  # what it did not read cannot be written any more
                    pipe.close()
        self._process.wait()


class Shelf:
    """PDFs that were drawn, the last used ones, by receipt and sheet.

    A receipt that has changed has another sheet: the PDF of the old one is never shown again.
    """

    def __init__(self, most_bytes: int = 32 * 1024 * 1024, each: int = 4) -> None:
        """``most_bytes`` in all; ``each`` PDFs of one receipt, in other languages and zones."""
        self._most_bytes = most_bytes
        self._each = each
        self._size = 0
        self._kept: OrderedDict[str, OrderedDict[bytes, bytes]] = OrderedDict()

    def find(self, receipt: str, sheet: bytes) -> bytes | None:
        """Return the PDF of a sheet, None if it is not kept."""
        digest = hashlib.sha256(sheet).digest()
        of_receipt = self._kept.get(receipt)
        if of_receipt is None or digest not in of_receipt:
            return None
        self._kept.move_to_end(receipt)
        of_receipt.move_to_end(digest)
        return of_receipt[digest]

    def keep(self, receipt: str, sheet: bytes, pdf: bytes) -> None:
        """Keep the PDF of a sheet, in the place of those that were not used for longest."""
        of_receipt = self._kept.setdefault(receipt, OrderedDict())
        self._kept.move_to_end(receipt)
        digest = hashlib.sha256(sheet).digest()
        self._size += len(pdf) - len(of_receipt.get(digest, b""))
        of_receipt[digest] = pdf
        while len(of_receipt) > self._each:
            self._size -= len(of_receipt.popitem(last=False)[1])
        while self._size > self._most_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._size -= sum(map(len, dropped.values()))
