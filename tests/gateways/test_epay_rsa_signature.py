"""The signature of Epay V2 matches the test vectors in both directions, and keys in every form."""

import base64
import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from opentill.gateways.epay import rsa_signature

VECTORS: Final[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "epay" / "v2" / "vectors.json").read_text()
)
MESSAGES: Final[list[dict[str, Any]]] = VECTORS["vectors"]
PRIVATE: Final = rsa_signature.read_private_key(VECTORS["merchant_private_key"])
PUBLIC: Final = rsa_signature.read_public_key(VECTORS["merchant_public_key"])


@pytest.mark.parametrize("vector", MESSAGES, ids=lambda vector: vector["name"])
def test_signatures_match_the_vectors(vector: dict[str, Any]) -> None:
    private = rsa_signature.read_private_key(VECTORS[f"{vector['signed_by']}_private_key"])
    public = rsa_signature.read_public_key(VECTORS[f"{vector['signed_by']}_public_key"])
    signed = vector["fields"] | {"sign": vector["sign"], "sign_type": "RSA"}
    assert rsa_signature.text_to_sign(signed) == vector["text"]
    assert rsa_signature.sign(signed, private) == vector["sign"]
    assert rsa_signature.verify(signed, public)
    assert not rsa_signature.verify(signed | {"extra": "1"}, public)
    assert not rsa_signature.verify(signed | {"timestamp": "1721206073"}, public)
    other = "platform" if vector["signed_by"] == "merchant" else "merchant"
    assert not rsa_signature.verify(
        signed, rsa_signature.read_public_key(VECTORS[f"{other}_public_key"])
    )


def test_openssl_verifies_a_signature(tmp_path: Path) -> None:
    fields = {"b": "VIP会员 +1", "a": 0, "empty": "", "blank": " \t", "rows": [{"x": 1}]}
    (tmp_path / "key").write_text(rsa_signature.pem_public_key(VECTORS["merchant_public_key"]))
    (tmp_path / "text").write_text("a=0&b=VIP会员 +1")
    (tmp_path / "sign").write_bytes(base64.b64decode(rsa_signature.sign(fields, PRIVATE)))
    command = ["openssl", "dgst", "-sha256", "-verify", "key", "-signature", "sign", "text"]
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout


def public_forms() -> dict[str, str]:
    """Return one public key in every form that clients use."""
    bare = VECTORS["merchant_public_key"]
    pkcs1 = PUBLIC.public_bytes(Encoding.PEM, PublicFormat.PKCS1).decode()
    body = "".join(pkcs1.splitlines()[1:-1])
    pem = rsa_signature.pem_public_key(bare)
    return {
        "bare SPKI": bare,
        "wrapped": "\n".join(bare[i : i + 76] for i in range(0, len(bare), 76)),
        "PEM": pem,
        "PEM of Windows": pem.replace("\n", "\r\n"),
        "PEM in one line": pem.replace("\n", ""),
        "PEM with written line breaks": pem.replace("\n", "\\n"),
        "PKCS #1 PEM": pkcs1,
        "bare PKCS #1": body,
        "with spaces": f"  {bare}\n",
    }


@pytest.mark.parametrize("form", list(public_forms()))
def test_a_public_key_is_read_in_every_form(form: str) -> None:
    key = rsa_signature.read_public_key(public_forms()[form])
    assert rsa_signature.bare_public_key(key) == VECTORS["merchant_public_key"]


@pytest.mark.parametrize("private_format", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_private_key_is_read_in_every_form_and_refused_as_a_public_one(
    private_format: PrivateFormat,
) -> None:
    pem = PRIVATE.private_bytes(Encoding.PEM, private_format, NoEncryption()).decode()
    for text in (pem, "".join(pem.splitlines()[1:-1])):
        key = rsa_signature.read_private_key(text)
        assert rsa_signature.bare_private_key(key) == VECTORS["merchant_private_key"]
        with pytest.raises(rsa_signature.PrivateKeyGiven):
            rsa_signature.read_public_key(text)


def test_other_keys_are_refused() -> None:
    small = rsa.generate_private_key(65537, 1024).public_key()  # noqa: S505 - refused for it
    curve = ec.generate_private_key(ec.SECP256R1()).public_key()
    der, spki = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    slow = rsa.RSAPublicNumbers(2**40 + 1, PUBLIC.public_numbers().n).public_key()
    for text in (
        "",
        "no key",
        "AAAA",
        "钥匙",
        VECTORS["merchant_public_key"][:-8],
        "A" * 9000,
        *(base64.b64encode(key.public_bytes(der, spki)).decode() for key in (small, curve, slow)),
    ):
        with pytest.raises(rsa_signature.BadKey):
            rsa_signature.read_public_key(text)
        with pytest.raises(rsa_signature.BadKey):
            rsa_signature.read_private_key(text)


def test_pem_and_bare_base64_are_the_same_key() -> None:
    pem = rsa_signature.pem_private_key(VECTORS["merchant_private_key"])
    assert (
        rsa_signature.bare_private_key(rsa_signature.read_private_key(pem))
        == (VECTORS["merchant_private_key"])
    )
    assert pem == PRIVATE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    assert max(map(len, pem.splitlines())) == 64


@pytest.mark.parametrize("sign", ["", "!", "AAAA", "A" * 2000, "签名"])
def test_a_text_that_is_no_signature_is_refused(sign: str) -> None:
    assert not rsa_signature.verify({"a": "1", "sign": sign}, PUBLIC)


def test_line_breaks_in_a_signature_are_ignored() -> None:
    vector = MESSAGES[0]
    sign = "\r\n".join(vector["sign"][i : i + 76] for i in range(0, 344, 76))
    assert rsa_signature.verify(vector["fields"] | {"sign": sign}, PUBLIC)


def test_a_generated_key_has_2048_bits_and_is_new() -> None:
    first, second = rsa_signature.generate(), rsa_signature.generate()
    assert first.key_size == second.key_size == 2048
    assert first.private_numbers().d != second.private_numbers().d
    stored = rsa_signature.bare_private_key(first)
    fields = {"a": "1"}
    signed = rsa_signature.sign(fields, rsa_signature.read_own_private_key(stored))
    assert rsa_signature.verify(fields | {"sign": signed}, first.public_key())
