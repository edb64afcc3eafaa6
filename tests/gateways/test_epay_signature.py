"""The Epay signature against vectors of independent clients."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from opentill.gateways.epay import signature

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "epay" / "vectors.json").read_text()
)
ROWS: list[dict[str, Any]] = VECTORS["vectors"]
BY_ID = {row["id"]: row for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_signatures_match_the_vectors(row: dict[str, Any]) -> None:
    assert signature.text_to_sign(row["params"]) == row["string_to_sign_without_key"]
    assert signature.sign(row["params"], row["key"]) == row["sign"]
    assert signature.verify(row["params"] | {"sign": row["sign"]}, row["key"])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_decoded_parameters_are_verified(row: dict[str, Any]) -> None:
    received = dict(parse_qsl(row["urlencoded"], keep_blank_values=True))
    assert signature.verify(received, row["key"])
    assert not signature.verify(received, row["key"] + "x")
    assert not signature.verify(received | {"extra": "1"}, row["key"])


@pytest.mark.parametrize("row", VECTORS["negative"], ids=lambda row: row["id"])
def test_nonstandard_signatures_are_refused(row: dict[str, Any]) -> None:
    base = BY_ID[row["base"]]
    assert not signature.verify(base["params"] | {"sign": row["sign"]}, base["key"])


@pytest.mark.parametrize(
    ("sign_type", "valid"),
    [
        ("", True),
        ("MD5", True),
        ("md5", True),
        (" Md5 ", True),
        ("  ", True),
        ("RSA", False),
        ("SHA256", False),
    ],
)
def test_md5_is_the_only_sign_type(sign_type: str, valid: bool) -> None:
    base = BY_ID["submit_basic"]
    signed = base["params"] | {"sign": base["sign"], "sign_type": sign_type}
    assert signature.verify(signed, base["key"]) is valid


def test_the_value_that_makes_a_signature_ambiguous_is_found() -> None:
    pair = VECTORS["ambiguity"]
    signs = {signature.sign(pair[which], pair["key"]) for which in "ab"}
    assert signs == {pair["sign"]}
    assert [name for name, value in pair["a"].items() if signature.embedded_fields(value)] == [
        "return_url"
    ]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("a&trade_status=TRADE_SUCCESS", [("trade_status", "TRADE_SUCCESS")]),
        ("https://m.example/r?a=1&money=1#x", [("money", "1#x")]),
        ("x&sign=0&y=1&pid=&type=a=b", [("sign", "0"), ("pid", ""), ("type", "a=b")]),
        ("x& trade_no =1", [("trade_no", "1")]),
        ("x&PID=1", [("pid", "1")]),
        ("x&&pid=1", [("pid", "1")]),
        ("uid=7&x=中 文", []),
        ("https://m.example/n?x=1&y=2", []),
        ("pid=1", []),
        ("a b+c&d=e%20f/#?中文", []),
        ("x&trade_status", []),
    ],
)
def test_embedded_protocol_fields_are_found(value: str, fields: list[tuple[str, str]]) -> None:
    assert signature.embedded_fields(value) == fields
