"""Cells with untrusted text are no formulas in any program that opens the file."""

import json
import re

import msgspec
import pytest

from opentill.http import csvfile

CELLS = [
    # Each row: text, and the cell that contains it.
    ("Ada", "Ada"),
    ("ada@example.com", "ada@example.com"),
    ("a=b, c+d - e", "a=b, c+d - e"),
    ("a; b", "a; b"),
    ("=1+1", "'=1+1"),
    ("  =1+1", "'  =1+1"),
    ("-1", "'-1"),
    ("＝1", "'＝1"),
    ("\tx", "'\tx"),
    (" \r\nx", "' \r\nx"),
    ("\ufeff=1", "'\ufeff=1"),
    ("\u200b=1", "'\u200b=1"),
    ("\u2060\u200d+1", "'\u2060\u200d+1"),
    ("\u202e@x", "'\u202e@x"),
    ("\xa0=1", "'\xa0=1"),
    ("\u3000＠x", "'\u3000＠x"),
    ("\u00ad\ufe0f-1", "'\u00ad\ufe0f-1"),
    ("\U000e0001=1", "'\U000e0001=1"),
    ("\x01\x7f\x85=1", "'\x01\x7f\x85=1"),
    ("x;=1", "x;'=1"),
    ("x; \u200b=1;+2", "x;' \u200b=1;'+2"),
    ("x\t=1", "x\t'=1"),
    ("x\r=1", "x\r'=1"),
    ("x\n@y", "x\n'@y"),
    ('x"=1', "x\"'=1"),
    ("=a;=b", "'=a;'=b"),
]


@pytest.mark.parametrize(("text", "cell"), CELLS)
def test_no_cell_begins_a_formula_for_any_separator(text: str, cell: str) -> None:
    assert csvfile.format_cell(text) == cell
    for part in re.split(r'[;\t\r\n"]', csvfile.format_cell(text)):
        visible = "".join(char for char in part if char.isprintable() and not char.isspace())
        assert not visible.lstrip("\ufe0f\u3164").startswith(tuple("=+-@＝＋－＠")), part


METADATA = [{"a": "x;=1"}, {"a;=b": "; \u200b+c;d", "n": -1}, {"a": "=1"}, {}]


@pytest.mark.parametrize("value", METADATA)
def test_escaped_json_has_the_same_value(value: dict[str, object]) -> None:
    text = json.dumps(value, ensure_ascii=False)
    cell = csvfile.format_cell(msgspec.Raw(text.encode()))
    assert json.loads(cell) == value
    assert not re.search(r";[\s\u200b]*[=+@-]", cell)
    assert cell == text or ";" in text
