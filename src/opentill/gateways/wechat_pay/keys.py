"""Keys, certificates, signatures and encryption of WeChat Pay's API v3.

Sources: pay.weixin.qq.com, "签名生成" (WECHATPAY2-SHA256-RSA2048), "签名验证", "证书和回调报文解密"
(AEAD_AES_256_GCM), "如何使用微信支付公钥验签".
"""

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    load_der_private_key,
    load_der_public_key,
)

_BITS: Final = 2048
_PEM: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]{1,40}-----(.*?)-----END [A-Z0-9 ]{1,40}-----", re.DOTALL
)
_NONCE_BYTES: Final = (8, 128)  # what AES-GCM of the library accepts; WeChat Pay's have 12
_UNREADABLE: Final = (ValueError, TypeError, UnsupportedAlgorithm)
_MOST_SIGNATURE: Final = 1024  # characters; a key of 4096 bits makes 684


class BadCertificate(Exception):
    """A certificate is not valid now; the message says which one and until when."""


def der_of(text: str) -> bytes:
    r"""Return the DER of a key or certificate in PEM or in bare Base64.

    The line ends of PEM may be spaces or ``\n``, as in settings of one line. Raises ValueError.
    """
    plain = text.replace("\\n", "\n").strip()
    match = _PEM.search(plain)
    encoded = "".join((plain if match is None else match[1]).split())
    try:
        return base64.b64decode(encoded, validate=True)
    except binascii.Error:
        msg = "it is neither PEM nor Base64"
        raise ValueError(msg) from None


def read_private_key(text: str) -> RSAPrivateKey:
    """Read a private RSA key, in PKCS #8 or PKCS #1. Raises ValueError."""
    der = der_of(text)
    try:
        key = load_der_private_key(der, password=None)
    except _UNREADABLE:
        key = None
    if not isinstance(key, RSAPrivateKey) or key.key_size < _BITS:
        msg = f"it is no private RSA key of at least {_BITS} bits without a password"
        raise ValueError(msg)
    return key


def read_public_key(text: str) -> RSAPublicKey:
    """Read a public RSA key. Raises ValueError."""
    der = der_of(text)
    try:
        key = load_der_public_key(der)
    except _UNREADABLE:
        key = None
    return _checked(key)


def read_certificate(text: str) -> x509.Certificate:
    """Read the certificate of an RSA key. Raises ValueError."""
    try:
        certificate = x509.load_der_x509_certificate(der_of(text))
    except ValueError:
        msg = "it is no X.509 certificate in PEM or Base64"
        raise ValueError(msg) from None
    public_key_of(certificate)
    return certificate


def _checked(key: object) -> RSAPublicKey:
    if not isinstance(key, RSAPublicKey) or key.key_size < _BITS:
        msg = f"it is no public RSA key of at least {_BITS} bits"
        raise ValueError(msg)
    return key


def public_key_of(certificate: x509.Certificate) -> RSAPublicKey:
    """Return the key of a certificate. Raises ValueError if it is no RSA key of 2048 bits."""
    try:
        key = certificate.public_key()
    except _UNREADABLE:
        key = None
    return _checked(key)


def serial_of(certificate: x509.Certificate) -> str:
    """Return the serial number as WeChat Pay writes it: hexadecimal digits in capitals."""
    return f"{certificate.serial_number:X}"


def check_time(certificate: x509.Certificate, which: str, now_ms: int) -> None:
    """Raise BadCertificate unless the certificate is valid (``now_ms`` in Unix ms)."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    name = f"{which} {serial_of(certificate)}"
    if now > end:
        msg = f"{name} was valid until {end:%Y-%m-%d %H:%M} UTC"
        raise BadCertificate(msg)
    if now < start:
        msg = f"{name} is valid only from {start:%Y-%m-%d %H:%M} UTC"
        raise BadCertificate(msg)


def sign(key: RSAPrivateKey, message: bytes) -> str:
    """Return the SHA-256 with RSA signature of a message, in Base64."""
    return base64.b64encode(key.sign(message, PKCS1v15(), SHA256())).decode()


def is_signed(key: RSAPublicKey, message: bytes, signature: str) -> bool:
    """Whether a Base64 signature fits a message.

    WeChat Pay probes with signatures that begin with ``WECHATPAY/SIGNTEST/``; they are invalid.
    """
    if len(signature) > _MOST_SIGNATURE:
        return False
    try:
        key.verify(base64.b64decode(signature, validate=True), message, PKCS1v15(), SHA256())
    except (ValueError, InvalidSignature):
        return False
    return True


def decrypt(key: bytes, nonce: str, ciphertext: str, associated_data: str) -> bytes:
    """Decrypt AEAD_AES_256_GCM. Raises ValueError if the key or the data is wrong."""
    nonce_bytes = nonce.encode()
    smallest, largest = _NONCE_BYTES
    if not smallest <= len(nonce_bytes) <= largest:
        msg = "its nonce has a wrong length"
        raise ValueError(msg)
    try:
        data = base64.b64decode(ciphertext, validate=True)
        return AESGCM(key).decrypt(nonce_bytes, data, associated_data.encode())
    except InvalidTag:
        msg = "it cannot be decrypted with the APIv3 key"
        raise ValueError(msg) from None
