"""Commands on a terminal escape control characters, and ask for confirmation."""

import contextlib
import os
import pty
import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from cli.database import in_database
from opentill.db.database import Tx
from support import world
from support.commands import Commands, opentill

__all__ = ["opentill"]

ODD = "\u202e\x1b[2J\x07"
METADATA = '{"note": "\u202e\\u001b[2J\\u0007"}'
SHOWN = "\\u202e\\u001b[2J\\u0007"
# Commands rewrite this line if they take over a second, and erase it (cli/progress.py).
_PROGRESS: Final = re.compile(r"\r\x1b\[K([^\r\n]* \d+ s)?")

# Commands to run; {merchant} and {order} are ids of an order with control characters in its fields.
WORDS = [
    ("export", "{merchant}"),
    ("orders", "show", "{order}", "--json"),
    ("merchants", "show", f"mer_{ODD}"),
]


@pytest.fixture
def order(opentill: Commands) -> dict[str, str]:
    """The ids of an order with control characters in its fields, and of its merchant."""

    async def create(tx: Tx) -> dict[str, str]:
        order = await world.create_order(tx)
        await tx.execute("update orders set metadata = $2 where id = $1", order.id, METADATA)
        await world.pay_order(tx, order)
        await tx.execute("update orders set customer_name = $2 where id = $1", order.id, ODD)
        return {"order": order.id, "merchant": order.merchant_id}

    return in_database(opentill, create)


@pytest.mark.parametrize("words", WORDS, ids=lambda words: words[0])
def test_no_command_prints_control_characters(
    opentill: Commands, order: dict[str, str], words: tuple[str, ...]
) -> None:
    output = _run_on_terminal(opentill, *(word.format(**order) for word in words))
    output = _PROGRESS.sub("", output)
    assert SHOWN in output
    controls = {char for char in output if unicodedata.category(char) in {"Cc", "Cf"}}
    assert controls <= {"\r", "\n"}


def test_an_advance_that_ends_sessions_asks_for_confirmation(opentill: Commands) -> None:
    session = in_database(opentill, world.create_order).checkout_id
    denied = _run_on_terminal(opentill, "clock", "advance", "1d", typed=b"n\n")
    assert f"open sessions that expire:\r\n  {session}\r\n" in denied
    assert "Move the time and end them?" in denied
    assert opentill.json("clock", "show")["aheadMs"] == 0
    assert "Aborted" not in _run_on_terminal(opentill, "clock", "advance", "1d", typed=b"y\n")
    assert opentill.json("clock", "show")["ahead"] == "1d"
    assert "Move" not in _run_on_terminal(opentill, "clock", "advance", "1d", "--yes", typed=b"")
    # Without a terminal the command does not ask.
    assert opentill.json("clock", "advance", "1d")["ahead"] == "3d"


def _run_on_terminal(opentill: Commands, *words: str, typed: bytes | None = None) -> str:
    """Run a command with a terminal as standard output and error; return its output.

    Its standard input is empty, or the terminal if something is ``typed`` there.
    """
    controller, terminal = pty.openpty()
    with Path(os.devnull).open() as empty, ThreadPoolExecutor(1) as reader:
        output = reader.submit(_read, controller)
        os.write(controller, typed or b"")
        stdin = empty.fileno() if typed is None else terminal
        opentill.run_on([stdin, terminal, terminal], *words)
        os.close(terminal)
        text = output.result().decode()
    os.close(controller)
    return text


def _read(terminal: int) -> bytes:
    output = b""
    with contextlib.suppress(OSError):  # a terminal reports its end as an error
        while part := os.read(terminal, 1 << 16):
            output += part
    return output
