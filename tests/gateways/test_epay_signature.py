"""The Epay signature matches the test vectors of independent clients."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from opentill.gateways.epay import signature

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "epay" / "vectors.json").read_text()
)
VALID_VECTORS: list[dict[str, Any]] = VECTORS["vectors"]
BY_ID = {vector["id"]: vector for vector in VALID_VECTORS}


@pytest.mark.parametrize("vector", VALID_VECTORS, ids=lambda vector: vector["id"])
def test_signatures_match_the_vectors(vector: dict[str, Any]) -> None:
    assert signature.text_to_sign(vector["params"]) == vector["string_to_sign_without_key"]
    assert signature.sign(vector["params"], vector["key"]) == vector["sign"]
    assert signature.verify(vector["params"] | {"sign": vector["sign"]}, vector["key"])


@pytest.mark.parametrize("vector", VALID_VECTORS, ids=lambda vector: vector["id"])
def test_decoded_parameters_are_verified(vector: dict[str, Any]) -> None:
    decoded = dict(parse_qsl(vector["urlencoded"], keep_blank_values=True))
    assert signature.verify(decoded, vector["key"])
    assert not signature.verify(decoded, vector["key"] + "x")
    assert not signature.verify(decoded | {"extra": "1"}, vector["key"])


@pytest.mark.parametrize("vector", VECTORS["negative"], ids=lambda vector: vector["id"])
def test_nonstandard_signatures_are_refused(vector: dict[str, Any]) -> None:
    base = BY_ID[vector["base"]]
    assert not signature.verify(base["params"] | {"sign": vector["sign"]}, base["key"])


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


def test_a_value_that_makes_a_signature_ambiguous_is_detected() -> None:
    pair = VECTORS["ambiguity"]
    signatures = {signature.sign(pair[name], pair["key"]) for name in "ab"}
    assert signatures == {pair["sign"]}
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
def test_embedded_protocol_fields_are_detected(value: str, fields: list[tuple[str, str]]) -> None:
    assert signature.embedded_fields(value) == fields
