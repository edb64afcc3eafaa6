"""The signature of Epay V2: RSA (PKCS #1 v1.5) with SHA-256 over the sorted fields.

The signed text is that of V1, without a key at its end: each field except ``sign``, ``sign_type``
and the blank ones, sorted by name, ``name=value`` joined with ``&``. Lists are not signed. Clients
exchange keys as one line of Base64 without PEM armour, and some as PEM.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
)

SIGN_TYPE: Final = "RSA"
# Characters that PHP's trim() removes. A value of such characters alone is blank, and not signed.
BLANK: Final = " \t\n\r\0\x0b"
BITS: Final = 2048
_MAX_BITS: Final = 4096
_MAX_EXPONENT: Final = 2**32  # larger exponents make each verification slow
_EXPONENT: Final = 65537
_MAX_KEY_TEXT: Final = 8192  # characters; a private key of 4096 bits in PEM has 3,300
_MAX_SIGNATURE_TEXT: Final = 1024  # characters; a signature of 4096 bits in Base64 has 684
_PEM_WIDTH: Final = 64
_UNSIGNED: Final = frozenset({"sign", "sign_type"})
_ARMOUR: Final = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]{1,40})-----", re.ASCII)


class BadKey(Exception):
    """A text that is not an acceptable public key."""


class PrivateKeyGiven(BadKey):
    """A private key where a public one is expected: it must not leave its owner."""


def text_to_sign(fields: Mapping[str, Any]) -> str:
    """Return the text that is signed: numbers in decimal, without blank values and lists."""
    signed = sorted(
        (name.encode(), name, str(value))
        for name, value in fields.items()
        if name not in _UNSIGNED and not isinstance(value, list) and str(value).strip(BLANK)
    )
    return "&".join(f"{name}={value}" for _, name, value in signed)


def sign(fields: Mapping[str, Any], key: RSAPrivateKey) -> str:
    """Return the signature of fields in Base64."""
    return sign_text(text_to_sign(fields), key)


def sign_text(text: str, key: RSAPrivateKey) -> str:
    """Return the signature of a text in Base64."""
    return base64.b64encode(key.sign(text.encode(), PKCS1v15(), SHA256())).decode()


def verify(fields: Mapping[str, Any], key: RSAPublicKey) -> bool:
    """Whether ``fields["sign"]`` signs the other fields."""
    signature = decode_signature(str(fields.get("sign", "")))
    try:
        key.verify(signature, text_to_sign(fields).encode(), PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


def decode_signature(text: str) -> bytes:
    """Return the bytes of a signature in Base64, b"" if the text is none.

    Line breaks are ignored, because the Base64 encoders of some languages add them.
    """
    if len(text) > _MAX_SIGNATURE_TEXT:
        return b""
    try:
        return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)
    except ValueError:  # a binascii.Error is a ValueError too
        return b""


def generate() -> RSAPrivateKey:
    """Generate a key pair, which takes some tenths of a second."""
    return generate_private_key(_EXPONENT, BITS)


def read_public_key(text: str) -> RSAPublicKey:
    """Read a public key in PEM or bare Base64, as SPKI or PKCS #1. Raises BadKey."""
    der = _read_der(text)
    try:
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm):
        if _is_private(der):
            raise PrivateKeyGiven from None
        raise BadKey from None
    if not isinstance(key, RSAPublicKey) or not BITS <= key.key_size <= _MAX_BITS:
        raise BadKey
    if key.public_numbers().e >= _MAX_EXPONENT:
        raise BadKey
    return key


def read_private_key(text: str) -> RSAPrivateKey:
    """Read a private key in PEM or bare Base64, as PKCS #8 or PKCS #1. Raises BadKey."""
    try:
        key = load_der_private_key(_read_der(text), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey from None
    if not isinstance(key, RSAPrivateKey) or not BITS <= key.key_size <= _MAX_BITS:
        raise BadKey
    return key


def read_own_private_key(text: str) -> RSAPrivateKey:
    """Read a private key that ``bare_private_key`` wrote, without the slow check of its numbers."""
    der = base64.b64decode(text, validate=True)
    # Only RSA keys are stored.
    return cast(
        "RSAPrivateKey", load_der_private_key(der, None, unsafe_skip_rsa_key_validation=True)
    )


def _is_private(der: bytes) -> bool:
    try:
        load_der_private_key(der, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
    return True


def _read_der(text: str) -> bytes:
    """Decode PEM or Base64; line breaks may be missing, or be written as backslash-n."""
    if len(text) > _MAX_KEY_TEXT:
        raise BadKey
    plain = "".join(_ARMOUR.sub("", text.replace("\\r", "").replace("\\n", "\n")).split())
    try:
        return base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError):
        raise BadKey from None


def bare_public_key(key: RSAPublicKey) -> str:
    """Return a public key (SPKI) as one line of Base64 without PEM armour."""
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(der).decode()


def bare_private_key(key: RSAPrivateKey) -> str:
    """Return a private key (PKCS #8) as one line of Base64 without PEM armour."""
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return base64.b64encode(der).decode()


def pem_public_key(bare: str) -> str:
    """Return a bare public key as PEM."""
    return _pem(bare, "PUBLIC KEY")


def pem_private_key(bare: str) -> str:
    """Return a bare private key as PEM."""
    return _pem(bare, "PRIVATE KEY")


def _pem(bare: str, label: str) -> str:
    lines = (bare[start : start + _PEM_WIDTH] for start in range(0, len(bare), _PEM_WIDTH))
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
