"""The header that names ignored fields, including those of nested structs."""

import re
from typing import Annotated, Any
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from opentill.http import ignored


class Price(msgspec.Struct):
    """A field of a line."""

    amount: str = ""


class Line(msgspec.Struct, rename="camel"):
    """A field of a cart."""

    unit_price: Price | None = None
    tags: list[str] = []


class Cart(msgspec.Struct, rename="camel"):
    """The body of a request."""

    lines: Annotated[list[Line] | None, Meta(description="lines")] = None
    metadata: msgspec.Raw = msgspec.Raw()


@pytest.mark.parametrize(
    ("tree", "names"),
    [
        ({"lines": [{"unitPrice": {"amount": "1"}, "tags": ["x"]}], "metadata": {"a": 1}}, None),
        ({"lines": [{"unit_price": {}}, {"sku": 1}, {"sku": 2}]}, "lines.unit_price,lines.sku"),
        ({"lines": [{"unitPrice": {"cents": 1}}], "x": 1}, "lines.unitPrice.cents,x"),
        ({"lines": {"sku": 1}}, "lines.sku"),
        ({"lines": "x", "metadata": []}, None),
        ([{"x": 1}], None),
        (None, None),
    ],
)
def test_a_nested_ignored_field_is_named_by_its_path(tree: Any, names: str | None) -> None:
    expected = () if names is None else ((b"opentill-ignored-fields", names.encode()),)
    assert ignored.build_header(tree, Cart) == expected


@given(st.dictionaries(st.text(max_size=200), st.none(), max_size=80))
def test_the_header_has_a_bounded_length_and_safe_characters(tree: Any) -> None:
    for _, value in ignored.build_header(tree, Cart):
        assert 0 < len(value) <= ignored.MAX_BYTES
        assert set(value.decode()) <= set(
            'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%,+"'
        )
        for name in value.decode().split(","):
            unquote(name, errors="strict")  # raises an error if a name was cut within a character
            assert not re.search("%(?![0-9A-F]{2})", name)


@pytest.mark.parametrize(
    ("name", "cut_name"),
    [
        ("a" * 62 + "é", "a" * 62),
        ("a" * 58 + "é", "a" * 58 + "%C3%A9"),
        ("a" * 61 + "🙂", "a" * 61),
        ("🙂" * 9, "%F0%9F%99%82" * 5),
        ("%" * 40, "%25" * 21),
        ("a" * 65, "a" * 64),
    ],
)
def test_a_long_name_is_cut_between_characters(name: str, cut_name: str) -> None:
    expected = ((b"opentill-ignored-fields", cut_name.encode()),)
    assert ignored.build_header({name: 1}, Cart) == expected
