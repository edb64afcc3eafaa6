"""Strict JSON: which bodies are accepted, and that Python's json reads them alike."""

import json
import time
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from opentill.core.errors import Invalid
from opentill.http import querystring, strictjson


class Body(msgspec.Struct):
    """The fields that these tests accept in a body."""

    name: Annotated[str, Meta(max_length=5, description="text")]
    count: Annotated[int, Meta(ge=1, description="a whole number from 1")] | None = None


class Search(msgspec.Struct):
    """The parameters that these tests accept in a query."""

    page: Annotated[int, Meta(ge=1, description="a whole number from 1")] = 1
    text: Annotated[str, Meta(description="text")] | None = None


_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(_VALUES, st.booleans())
def test_accepted_json_can_be_stored_and_is_not_deeply_nested(value: Any, ascii_: bool) -> None:
    try:
        body = json.dumps(value, ensure_ascii=ascii_).encode()
    except UnicodeEncodeError:
        return
    depth = _depth(value)
    storable = "\\u0000" not in json.dumps(value) and not any(
        "\ud800" <= c <= "\udfff" for c in _text(value)
    )
    try:
        strictjson.check(body)
    except Invalid:
        assert depth > strictjson.MAX_DEPTH or not storable
    else:
        assert depth <= strictjson.MAX_DEPTH
        assert storable or not isinstance(value, dict)


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(body: bytes) -> None:
    try:
        strictjson.decode(body, Body)
    except Invalid as refused:
        assert refused.field
        assert refused.reason


@given(st.text(alphabet='[]{}",:\\u0019adtrufelsn ', max_size=100))
def test_almost_json_is_decoded_or_refused(text: str) -> None:
    try:
        strictjson.check(text.encode())
    except Invalid:
        return
    json.loads(text)


@given(st.binary(max_size=100))
def test_any_query_string_is_decoded_or_refused(query: bytes) -> None:
    try:
        search = querystring.read(query, Search)
    except Invalid as refused:
        assert refused.field
        assert refused.field.isprintable()
        assert len(refused.field) <= 64
    else:
        assert search.page >= 1


@pytest.mark.parametrize(
    "body",
    [b"[" * 17 + b'"' + b'\\"' * 32_000, b"[" * 17 + b'"' * 65_000, b"[" * 17 + b"\\" * 65_000,
     b'"' + b"\\" * 65_000 + b"[" * 17, b"{" * 65_536, b'{"a":' * 13_000],
)  # fmt: skip
def test_nesting_depth_is_counted_in_linear_time(body: bytes) -> None:
    started = time.process_time()  # process_time() ignores the load of other processes
    with pytest.raises(Invalid):
        strictjson.check(body)
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{}", "name"),
        (b'{"name":7}', "name"),
        (b'{"name":"sixsix"}', "name"),
        (b'{"name":"x","count":0}', "count"),
        (b"[]", "body"),
        (b'{"":1,"":2}', "body"),
        (b'{"%s":1,"%s":2}' % (b"k" * 65, b"k" * 65), "body"),
        (b'{"\\ud800":1,"\\ud800":2}', "body"),
        (b'{"%s":"\\u0000"}' % (b"k" * 65), "body"),
        (b'{"x":["\\u0000"]}', "x"),
        (b'{"x":{"\\ud800":1}}', "x"),
    ],
)
def test_the_error_names_the_field(body: bytes, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        strictjson.decode(body, Body)
    assert refused.value.field == field


def test_brackets_in_text_do_not_count_as_nesting() -> None:
    strictjson.check(b'{"a":"%s\\"%s"}' % (b"[" * 50, b"{" * 50))
    assert strictjson.decode(b'{"name":"x","unknown":[]}', Body) == Body(name="x")
