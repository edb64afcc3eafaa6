"""The keys and certificates of the simulated Alipay and of its only application.

Alipay's own sandbox gives a developer an application with keys that it has made; so does this one.
The files are in the bank's data directory; the shop uses those that have public names here.
"""

import base64
import hashlib
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

FOLDER: Final = "alipay"
APP_ID: Final = "2021000000000001"
SELLER_ID: Final = "2088000000000001"
PRIVATE_KEY: Final = "app_private_key.pem"
PUBLIC_KEY: Final = "alipay_public_key.pem"
_APP_CERT: Final = "app_cert.crt"
_CERT: Final = "alipay_cert.crt"
_ROOT_CERT: Final = "alipay_root_cert.crt"
# File → the setting that it is for, without OPENTILL_GATEWAY_ALIPAY_ and _FILE.
CERTIFICATES: Final = {_APP_CERT: "APP_CERT", _CERT: "CERT", _ROOT_CERT: "ROOT_CERT"}
_OWN_KEY: Final = "own_private_key.pem"
_OLD_KEY: Final = "old_private_key.pem"
_OLD_CERT: Final = "old_cert.crt"
_VALID_DAYS: Final = 3650


class App(msgspec.Struct, frozen=True):
    """The application's public key and certificate numbers, and Alipay's keys."""

    public_key: rsa.RSAPublicKey
    app_cert_sn: str
    root_cert_sn: str
    own_key: rsa.RSAPrivateKey
    own_cert_sn: str
    old_key: rsa.RSAPrivateKey  # whose certificate has expired
    old_cert_sn: str

    def sign(self, content: bytes, *, by_old_key: bool = False) -> str:
        """Return Alipay's signature of a response or notification."""
        key = self.old_key if by_old_key else self.own_key
        return base64.b64encode(key.sign(content, PKCS1v15(), SHA256())).decode()

    def is_signed(self, content: bytes, sign: str) -> bool:
        """Whether the application signed a request."""
        try:
            self.public_key.verify(
                base64.b64decode(sign, validate=True), content, PKCS1v15(), SHA256()
            )
        except (ValueError, InvalidSignature):
            return False
        return True


def load(data_dir: Path) -> App | None:
    """Read the files of ``create``; None if there are none."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return None
    app_cert = x509.load_pem_x509_certificate((folder / _APP_CERT).read_bytes())
    public_key = app_cert.public_key()
    if not isinstance(public_key, rsa.RSAPublicKey):
        msg = f"{folder} has no RSA certificate of the application"
        raise TypeError(msg)
    roots = x509.load_pem_x509_certificates((folder / _ROOT_CERT).read_bytes())
    own_cert = x509.load_pem_x509_certificates((folder / _CERT).read_bytes())[0]
    old_cert = x509.load_pem_x509_certificate((folder / _OLD_CERT).read_bytes())
    return App(
        public_key,
        _serial(app_cert),
        "_".join(
            _serial(root) for root in roots if isinstance(root.public_key(), rsa.RSAPublicKey)
        ),
        _read_key(folder / _OWN_KEY),
        _serial(own_cert),
        _read_key(folder / _OLD_KEY),
        _serial(old_cert),
    )


def create(data_dir: Path) -> Path:
    """Create the keys and certificates unless there are some; return their folder."""
    folder = data_dir / FOLDER
    if folder.is_dir():
        return folder
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    parts = Path(tempfile.mkdtemp(prefix=".alipay-", dir=data_dir))  # only its owner can read it
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
    end = now + timedelta(days=_VALID_DAYS)
    root_key, middle_key, own_key, old_key, app_key = (
        rsa.generate_private_key(65537, 2048) for _ in range(5)
    )
    root_name, middle_name = _name("Sandbox Root Authority"), _name("Sandbox Authority Class 2 R1")
    root = _certificate(root_name, root_key.public_key(), root_name, root_key, now, end)
    middle = _certificate(middle_name, middle_key.public_key(), root_name, root_key, now, end)
    # Alipay's root file has certificates of other algorithms too, which serial numbers leave out.
    other_key, other_name = ec.generate_private_key(ec.SECP256R1()), _name("Sandbox Root Other")
    other = _certificate(other_name, other_key.public_key(), other_name, other_key, now, end)
    own = _certificate(
        _name("Sandbox Alipay"), own_key.public_key(), middle_name, middle_key, now, end
    )
    app = _certificate(
        _name(f"{SELLER_ID}-{APP_ID}"), app_key.public_key(), middle_name, middle_key, now, end
    )
    yesterday = now - timedelta(days=1)
    old = _certificate(
        _name("Sandbox Alipay"), old_key.public_key(), middle_name, middle_key,
        yesterday - timedelta(days=365), yesterday,
    )  # fmt: skip
    return {
        PRIVATE_KEY: _pem(app_key),
        PUBLIC_KEY: own_key.public_key().public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        ),
        _APP_CERT: app,
        _CERT: own + b"\n" + middle,
        _ROOT_CERT: root + b"\n" + other,
        _OWN_KEY: _pem(own_key),
        _OLD_KEY: _pem(old_key),
        _OLD_CERT: old,
    }


def _name(common_name: str) -> x509.Name:
    """Return a name with the parts that names in Alipay's certificates have."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "CN"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "OpenTill Sandbox"),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "Certification Authority"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _certificate(
    subject: x509.Name,
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    start: datetime,
    end: datetime,
) -> bytes:
    builder = x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), start - timedelta(hours=1), end
    )
    return builder.sign(issuer_key, SHA256()).public_bytes(Encoding.PEM)


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read_key(path: Path) -> rsa.RSAPrivateKey:
    # The bank wrote this key itself. To check that its primes are primes takes 30 ms.
    key = load_pem_private_key(path.read_bytes(), None, unsafe_skip_rsa_key_validation=True)
    if not isinstance(key, rsa.RSAPrivateKey):
        msg = f"{path} has no RSA key"
        raise TypeError(msg)
    return key


def _serial(certificate: x509.Certificate) -> str:
    """Return the MD5 of the issuer, its last part first, and the decimal serial number."""
    issuer = ",".join(part.rfc4514_string() for part in reversed(certificate.issuer.rdns))
    text = f"{issuer}{certificate.serial_number}"
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
