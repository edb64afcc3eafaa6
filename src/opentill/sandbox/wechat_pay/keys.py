"""The keys and certificates of the simulated WeChat Pay and of its only merchant.

The files are in the bank's data directory. Those of ``SETTINGS`` are for the shop.
"""

import base64
import secrets
import shutil
import string
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

FOLDER: Final = "wechat_pay"
MCHID: Final = "1900000001"
APPID: Final = "wxd678efh567hg6787"
PUBLIC_KEY_ID: Final = "PUB_KEY_ID_0119000000012026000000001"
# File → the setting of the shop that it is for, without OPENTILL_GATEWAY_WECHAT_PAY_ and _FILE.
SETTINGS: Final = {
    "apiclient_key.pem": "PRIVATE_KEY",
    "apiclient_cert.pem": "CERTIFICATE",
    "api_v3_key.txt": "API_V3_KEY",
}
PUBLIC_KEY: Final = "pub_key.pem"  # the file of the key that the merchant may use instead
ALGORITHM: Final = "AEAD_AES_256_GCM"
_OWN_KEY: Final = "own_private_key.pem"  # of ``pub_key.pem``
_PLATFORM: Final = ("platform_1", "platform_2")  # the second one is for ``Merchant.rotate``
_EXPIRED: Final = "platform_expired"
_VALID_DAYS: Final = 1825


class SigningKey:
    """A key by which WeChat Pay signs, and its serial number or id."""

    def __init__(self, key: rsa.RSAPrivateKey, certificate: x509.Certificate | None) -> None:
        """``certificate`` is None for the key of ``pub_key.pem``."""
        self.key, self.certificate = key, certificate
        self.serial = PUBLIC_KEY_ID if certificate is None else serial_of(certificate)

    def sign(self, timestamp: int, nonce: str, body: bytes) -> str:
        """Return the signature of a response or notification."""
        message = f"{timestamp}\n{nonce}\n".encode() + body + b"\n"
        return base64.b64encode(self.key.sign(message, PKCS1v15(), SHA256())).decode()


class Merchant:
    """The merchant's certificate and APIv3 key, and WeChat Pay's keys."""

    def __init__(self, folder: Path) -> None:
        """Read the files of ``create``."""
        certificate = x509.load_pem_x509_certificate((folder / "apiclient_cert.pem").read_bytes())
        key = certificate.public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            msg = f"{folder} has no RSA certificate of the merchant"
            raise TypeError(msg)
        self.serial, self._key = serial_of(certificate), key
        self._api_v3_key = (folder / "api_v3_key.txt").read_bytes().strip()
        self.own = SigningKey(_read_key(folder / _OWN_KEY), None)
        self._platform = [_read_pair(folder, name) for name in _PLATFORM]
        self.expired = _read_pair(folder, _EXPIRED)

    @property
    def current(self) -> SigningKey:
        """The key of the platform certificate that signs now."""
        return self._platform[0]

    @property
    def listed(self) -> list[SigningKey]:
        """The platform certificates that the merchant can download.

        The expired one is among them, so that its use can be recognized.
        """
        return [self._platform[0], self.expired]

    def rotate(self) -> None:
        """Sign with the other platform certificate from now on, and list only that."""
        self._platform.reverse()

    def is_signed(self, message: bytes, signature: str) -> bool:
        """Whether the merchant signed a request."""
        try:
            self._key.verify(
                base64.b64decode(signature, validate=True), message, PKCS1v15(), SHA256()
            )
        except (ValueError, InvalidSignature):
            return False
        return True

    def encrypt(self, plain: bytes, associated_data: str) -> dict[str, str]:
        """Return an encrypted resource."""
        nonce = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(12))
        data = AESGCM(self._api_v3_key).encrypt(nonce.encode(), plain, associated_data.encode())
        return {
            "algorithm": ALGORITHM,
            "ciphertext": base64.b64encode(data).decode(),
            "nonce": nonce,
            "associated_data": associated_data,
        }


def load(data_dir: Path) -> Merchant | None:
    """Read the files of ``create``; None if there are none."""
    folder = data_dir / FOLDER
    return Merchant(folder) if folder.is_dir() else None


def create(data_dir: Path) -> Path:
    """Create the keys and certificates unless there are some; return their folder."""
    folder = data_dir / FOLDER
    if folder.is_dir():
        return folder
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Only its owner can read it.
    parts = Path(tempfile.mkdtemp(prefix=".wechat_pay-", dir=data_dir))
    try:
        for name, content in _make_files().items():
            (parts / name).write_bytes(content)
        parts.rename(folder)
    except BaseException:
        shutil.rmtree(parts, ignore_errors=True)
        raise
    return folder


def _make_files() -> dict[str, bytes]:
    now = datetime.now(UTC)
    start, end = now - timedelta(hours=1), now + timedelta(days=_VALID_DAYS)
    merchant_key, own_key = new_key(), new_key()
    key = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(32))
    files = {
        "apiclient_key.pem": _pem(merchant_key),
        "apiclient_cert.pem": certificate_of(merchant_key, MCHID, start, end),
        "api_v3_key.txt": key.encode(),
        PUBLIC_KEY: public_pem(own_key.public_key()),
        _OWN_KEY: _pem(own_key),
    }
    name = "Sandbox Tenpay.com sign"
    for part in _PLATFORM:
        platform_key = new_key()
        files[f"{part}.key"] = _pem(platform_key)
        files[f"{part}.crt"] = certificate_of(platform_key, name, start, end)
    expired_key, yesterday = new_key(), now - timedelta(days=1)
    files[f"{_EXPIRED}.key"] = _pem(expired_key)
    files[f"{_EXPIRED}.crt"] = certificate_of(
        expired_key, name, yesterday - timedelta(days=_VALID_DAYS), yesterday
    )
    return files


def certificate_of(key: rsa.RSAPrivateKey, name: str, start: datetime, end: datetime) -> bytes:
    """Return a self-signed certificate as PEM; shops do not check the issuer."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "CN"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "OpenTill Sandbox"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), x509.random_serial_number(), start, end
    )
    return builder.sign(key, SHA256()).public_bytes(Encoding.PEM)


def serial_of(certificate: x509.Certificate) -> str:
    """Return the serial number in hexadecimal digits; WeChat Pay's have 40."""
    return f"{certificate.serial_number:040X}"


def new_key() -> rsa.RSAPrivateKey:
    """Return a new key of 2048 bits."""
    return rsa.generate_private_key(65537, 2048)


def public_pem(key: rsa.RSAPublicKey) -> bytes:
    """Return a public key as PEM."""
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read_key(path: Path) -> rsa.RSAPrivateKey:
    # The bank wrote this key itself. To check that its primes are primes takes 30 ms.
    key = load_pem_private_key(path.read_bytes(), None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, rsa.RSAPrivateKey):
        msg = f"{path} has no RSA key"
        raise TypeError(msg)
    return key


def _read_pair(folder: Path, name: str) -> SigningKey:
    certificate = x509.load_pem_x509_certificate((folder / f"{name}.crt").read_bytes())
    return SigningKey(_read_key(folder / f"{name}.key"), certificate)
