"""Untrusted text cannot control a terminal."""

import io
import json
import os
import pty
import sys
import unicodedata

import pytest

from opentill.cli import inputs, output
from opentill.core.terminal import Terminal, escape

ODD = [
    # Each row: a text, and the form in which a terminal shows it.
    ("Ada Løvelace 茶 😀", "Ada Løvelace 茶 😀"),
    ("a\nb", "a\nb"),
    ("\x1b[2J\x07", "\\u001b[2J\\u0007"),
    ("\x9b31m\x7f\x85", "\\u009b31m\\u007f\\u0085"),
    ("\u202eevil\u2066\u200f", "\\u202eevil\\u2066\\u200f"),
    ("\u200b\ufeff\u2028\u061c", "\\u200b\\ufeff\\u2028\\u061c"),
    ("\U000e0041", "\\udb40\\udc41"),
    ("tab\there", "tab\\there"),
]


@pytest.mark.parametrize(("text", "escaped"), ODD)
def test_control_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape(text) == escaped
    assert json.loads(escape(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_a_file_is_complete_for_any_size_of_chunks(size: int) -> None:
    target = io.BytesIO()
    terminal = Terminal(target)
    data = 'id,name\r\n1,"茶\u202e\rx"\r\n2,\x1b[2J\n'.encode()
    for start in range(0, len(data), size):
        terminal.write(data[start : start + size])
    assert target.getvalue().decode() == 'id,name\r\n1,"茶\\u202e\\rx"\r\n2,\\u001b[2J\n'


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_file_is_escaped_for_a_terminal_only_and_json_always(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    reader, writer = pty.openpty() if is_terminal else os.pipe()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with inputs.target(None) as target:
            target.write("1,\u202e\x1b[2J\r\n".encode())
            target.flush()
        output.show({"name": "\u202e\x1b"}, as_json=True)
        output.show({"name": "\u202e\x1b[2J"}, as_json=False)
        stream.flush()
        text = _read(reader)
    assert ("1,\u202e\x1b[2J" in text) == (not is_terminal)
    assert '{"name":"\\u202e\\u001b"}' in text
    other_lines = text.replace("1,\u202e\x1b[2J", "")
    controls = {char for char in other_lines if unicodedata.category(char) in {"Cc", "Cf"}}
    assert controls <= {"\r", "\n"}


def _read(source: int) -> str:
    """Read up to the last written line."""
    data = b""
    while b"[2J" not in data.partition(b"}")[2]:
        data += os.read(source, 4096)
    os.close(source)
    return data.decode()


def test_messages_on_stderr_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("Ada \u202e\x1b[2J 茶")
    assert capsys.readouterr().err == "Ada \\u202e\\u001b[2J 茶\n"
