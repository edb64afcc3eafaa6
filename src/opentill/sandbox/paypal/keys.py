"""The account and the certificates of the simulated PayPal.

The files are in the bank's data directory: the app's secret and the root certificate are for the
shop. PayPal signs webhooks by a certificate that an intermediate authority has issued.
"""

import base64
import secrets
import shutil
import tempfile
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

FOLDER: Final = "paypal"
CLIENT_ID: Final = "AcSandboxClientOfOpenTill0000000000000000000001"
MERCHANT_ID: Final = "SBXMERCHANT01"
WEBHOOK_ID: Final = "0SB00000WH0000001"
SUBJECT: Final = "messageverificationcerts.sandbox.paypal.com"
CREDENTIAL_FILE: Final = "client_secret.txt"  # the file of the app's secret
ROOT_FILE: Final = "root.crt"  # the file of the authority that the shop must trust
_WEBHOOK: Final = "webhook_url.txt"
_CURRENT: Final = "CERT-360caa42-5a4db0c5"
_EXPIRED: Final = "CERT-360caa42-0e4b17ed"
_VALID_DAYS: Final = 365


class Signer:
    """A certificate of PayPal's, with its key and its name in addresses."""

    def __init__(self, folder: Path, name: str) -> None:
        """Read the files of ``create``."""
        # The bank wrote this key itself. To check that its primes are primes takes 30 ms.
        key = load_pem_private_key(
            (folder / f"{name}.key").read_bytes(), None, unsafe_skip_rsa_key_validation=True
        )
        if not isinstance(key, rsa.RSAPrivateKey):
            msg = f"{folder} has no RSA key of {name}"
            raise TypeError(msg)
        self.name, self._key = name, key
        self.chain = (folder / f"{name}.crt").read_bytes()

    def sign(self, transmission_id: str, sent_at: str, webhook_id: str, body: bytes) -> str:
        """Return the signature of a webhook."""
        message = f"{transmission_id}|{sent_at}|{webhook_id}|{zlib.crc32(body)}".encode()
        return base64.b64encode(self._key.sign(message, PKCS1v15(), SHA256())).decode()


class Account:
    """The app of the shop, and PayPal's certificates."""

    def __init__(self, folder: Path) -> None:
        """Read the files of ``create``."""
        self.secret = (folder / CREDENTIAL_FILE).read_text().strip()
        self.webhook_url = (folder / _WEBHOOK).read_text().strip()
        self.current, self.expired = Signer(folder, _CURRENT), Signer(folder, _EXPIRED)

    def chain_of(self, name: str) -> bytes | None:
        """Return the file of a certificate by its name, None if there is none."""
        signers = (self.current, self.expired)
        return next((signer.chain for signer in signers if signer.name == name), None)


def load(data_dir: Path) -> Account | None:
    """Read the files of ``create``; None if there are none."""
    folder = data_dir / FOLDER
    return Account(folder) if folder.is_dir() else None


def create(data_dir: Path, webhook_url: str = "") -> Path:
    """Create secret and certificates unless there are some; return their folder.

    ``webhook_url`` is the shop's address for webhooks, "" if the shop creates its webhook by the
    API.
    """
    folder = data_dir / FOLDER
    if not folder.is_dir():
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only its owner can read it.
        parts = Path(tempfile.mkdtemp(prefix=".paypal-", dir=data_dir))
        try:
            for name, content in _make_files().items():
                (parts / name).write_bytes(content)
            (parts / _WEBHOOK).write_text(webhook_url)
            parts.rename(folder)
        except BaseException:
            shutil.rmtree(parts, ignore_errors=True)
            raise
    elif webhook_url:
        (folder / _WEBHOOK).write_text(webhook_url)
    return folder


def _make_files() -> dict[str, bytes]:
    now = datetime.now(UTC)
    yesterday, end = now - timedelta(days=1), now + timedelta(days=_VALID_DAYS)
    start = yesterday - timedelta(days=_VALID_DAYS)
    root_key, issuer_key = new_key(), new_key()
    root = issue("OpenTill Sandbox Root", root_key, None, root_key, start, end)
    issuer = issue("OpenTill Sandbox CA", issuer_key, root, root_key, start, end)
    files = {
        CREDENTIAL_FILE: f"EB{secrets.token_urlsafe(40)}".encode(),
        ROOT_FILE: root.public_bytes(Encoding.PEM),
    }
    for name, until in ((_CURRENT, end), (_EXPIRED, yesterday)):
        key = new_key()
        leaf = issue(SUBJECT, key, issuer, issuer_key, start, until)
        chain = (leaf, issuer)
        files[f"{name}.crt"] = b"".join(one.public_bytes(Encoding.PEM) for one in chain)
        files[f"{name}.key"] = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return files


def issue(
    name: str,
    key: rsa.RSAPrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: rsa.RSAPrivateKey,
    start: datetime,
    end: datetime,
) -> x509.Certificate:
    """Return a certificate: that of a server if ``name`` is a host, else that of an authority.

    ``issuer`` None: it is self-signed.
    """
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "OpenTill Sandbox"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    is_authority = "." not in name
    builder = (
        x509.CertificateBuilder(
            subject if issuer is None else issuer.subject,
            subject,
            key.public_key(),
            x509.random_serial_number(),
            start,
            end,
        )
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(_usage(is_authority=is_authority), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if not is_authority:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False
        ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return builder.sign(issuer_key, SHA256())


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not is_authority,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def new_key() -> rsa.RSAPrivateKey:
    """Return a new key of 2048 bits."""
    return rsa.generate_private_key(65537, 2048)
