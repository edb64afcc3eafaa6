"""Output on a terminal: control characters in customers' input are escaped."""

import asyncio
import contextlib
import os
import pty
import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from opentill.db.database import Db
from support import pooler, world
from support.commands import Commands, opentill

__all__ = ["opentill"]

ODD = "\u202e\x1b[2J\x07"
METADATA = '{"note": "\u202e\\u001b[2J\\u0007"}'
SHOWN = "\\u202e\\u001b[2J\\u0007"
# How a command that takes over a second rewrites and erases its line: cli/progress.py.
_PROGRESS: Final = re.compile(r"\r\x1b\[K([^\r\n]* \d+ s)?")

# Commands; {merchant} and {order} are ids of an order with control characters in its fields.
WORDS = [
    ("export", "{merchant}"),
    ("orders", "show", "{order}", "--json"),
    ("webhooks", "listen", "{merchant}", "--from-start", "--count", "1", "--json"),
    ("merchants", "show", f"mer_{ODD}"),
]


@pytest.fixture
def order(opentill: Commands) -> dict[str, str]:
    """The ids of an order with control characters in its fields, and of its merchant."""

    async def create() -> dict[str, str]:
        url = opentill.environ["OPENTILL_DATABASE_URL"]
        db = await Db.connect(url, 2, prepared=pooler.prepared(url), acquire_timeout_s=20)
        try:
            async with db.transaction() as tx:
                order = await world.create_order(tx)
                await tx.execute(
                    "update orders set metadata = $2 where id = $1", order.id, METADATA
                )
                await world.pay_order(tx, order)
                await tx.execute(
                    "update orders set customer_name = $2 where id = $1", order.id, ODD
                )
                return {"order": order.id, "merchant": order.merchant_id}
        finally:
            await db.close()

    return asyncio.run(create())


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_no_command_prints_control_characters(
    opentill: Commands, order: dict[str, str], words: tuple[str, ...]
) -> None:
    shown = _on_a_terminal(opentill, *(word.format(**order) for word in words))
    shown = _PROGRESS.sub("", shown)
    assert SHOWN in shown
    odd = {char for char in shown if unicodedata.category(char) in {"Cc", "Cf"}}
    assert odd <= {"\r", "\n"}


def test_an_advance_that_ends_sessions_asks_for_confirmation(opentill: Commands) -> None:
    async def opened() -> str:
        url = opentill.environ["OPENTILL_DATABASE_URL"]
        db = await Db.connect(url, 2, prepared=pooler.prepared(url), acquire_timeout_s=20)
        try:
            return (await db.run(world.create_order)).checkout_id
        finally:
            await db.close()

    session = asyncio.run(opened())
    denied = _on_a_terminal(opentill, "clock", "advance", "1d", typed=b"n\n")
    assert f"open sessions that expire:\r\n  {session}\r\n" in denied
    assert "Move the time and end them?" in denied
    assert opentill.json("clock", "show")["aheadMs"] == 0
    assert "Aborted" not in _on_a_terminal(opentill, "clock", "advance", "1d", typed=b"y\n")
    assert opentill.json("clock", "show")["ahead"] == "1d"
    assert "Move" not in _on_a_terminal(opentill, "clock", "advance", "1d", "--yes", typed=b"")
    assert (
        opentill.json("clock", "advance", "1d")["ahead"] == "3d"
    )  # without a terminal it does not ask


def _on_a_terminal(opentill: Commands, *words: str, typed: bytes | None = None) -> str:
    """Run a command with a terminal as standard output and error; return its output.

    Its standard input is empty, or the terminal if something is ``typed`` there.
    """
    ours, theirs = pty.openpty()
    with Path(os.devnull).open() as nothing, ThreadPoolExecutor(1) as reader:
        shown = reader.submit(_read, ours)
        os.write(ours, typed or b"")
        stdin = nothing.fileno() if typed is None else theirs
        opentill.run_on([stdin, theirs, theirs], *words)
        os.close(theirs)
        text = shown.result().decode()
    os.close(ours)
    return text


def _read(terminal: int) -> bytes:
    shown = b""
    with contextlib.suppress(OSError):  # a terminal reports its closing as an error
        while part := os.read(terminal, 1 << 16):
            shown += part
    return shown
