"""Alipay's keys, certificates and signatures (RSA2: SHA256withRSA).

An account signs by plain public keys, or by certificates. With certificates, each request names the
application's certificate and Alipay's root certificates by serial number, and each response names
the certificate of its signature (https://opendocs.alipay.com/common/056zub).
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_der_public_key

SIGN_TYPE: Final = "RSA2"
_ARMOR: Final = re.compile(r"-----(?:BEGIN|END) [A-Z0-9 ]{1,40}-----", re.ASCII)
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.ASCII | re.DOTALL
)
_MIN_BITS: Final = 2048  # RSA2 requires it
# Object identifiers of RSA signatures begin like this. Alipay's root file has SM2 certificates too,
# which do not count (`getRootCertSN` in Alipay's SDKs).
_RSA_SIGNATURES: Final = "1.2.840.113549.1.1."
# The longest name in an error message; names come from files that operators choose.
_MOST_NAME: Final = 100
_MOST_SIGNATURE: Final = 1024  # characters of Base64; a key of 4096 bits needs 684


class BadCertificate(Exception):
    """A certificate cannot be used; the message says which one, and until when it is valid."""


class Certificates(msgspec.Struct, frozen=True):
    """The certificates of an account, by their serial numbers as Alipay computes them."""

    app_sn: str
    root_sn: str
    alipay_sn: str
    alipay: x509.Certificate


class Credentials(msgspec.Struct, frozen=True):
    """Our application's private key and Alipay's public key; ``certificates`` if they are used."""

    private_key: RSAPrivateKey
    alipay_key: RSAPublicKey
    certificates: Certificates | None = None

    def __repr__(self) -> str:
        """Omit the keys."""
        return f"Credentials(by_certificates={self.certificates is not None})"

    def sign(self, params: Mapping[str, str]) -> str:
        """Return the signature of a request: all parameters except ``sign``."""
        content = content_of(params, without=("sign",))
        return base64.b64encode(
            self.private_key.sign(content.encode(errors="replace"), PKCS1v15(), SHA256())
        ).decode()

    def verify(self, content: bytes, sign: str, cert_sn: str, now: datetime) -> str:
        """Return "" if Alipay signed the content, otherwise the reason why it does not count.

        ``cert_sn`` is the serial number of the certificate that the sender names, "" if it names
        none.
        """
        certificates = self.certificates
        if certificates is not None:
            if cert_sn and cert_sn != certificates.alipay_sn:
                named = cert_sn[:64] if cert_sn.isascii() and cert_sn.isalnum() else "another one"
                return (
                    f"Alipay signed by its certificate {named}, but the configured one is"
                    f" {certificates.alipay_sn}; download it again"
                )
            try:
                check_time(certificates.alipay, "Alipay's certificate", now)
            except BadCertificate as error:
                return str(error)
        return "" if is_signed(self.alipay_key, content, sign) else "the signature is not Alipay's"


def content_of(params: Mapping[str, str], without: tuple[str, ...]) -> str:
    """Return the text that is signed: ``name=value`` sorted by name, without empty values."""
    return "&".join(
        f"{name}={value}" for name, value in sorted(params.items()) if value and name not in without
    )


def is_signed(key: RSAPublicKey, content: bytes, sign: str) -> bool:
    """Whether ``sign``, in Base64, is a signature of the content."""
    if len(sign) > _MOST_SIGNATURE:
        return False
    try:
        key.verify(base64.b64decode(sign, validate=True), content, PKCS1v15(), SHA256())
    except (binascii.Error, ValueError, InvalidSignature):
        return False
    return True


def read_private_key(text: str) -> RSAPrivateKey:
    """Read a key in PEM or bare Base64, in PKCS#1 or PKCS#8. Raises ValueError."""
    try:
        key = load_der_private_key(_der_of(text), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        msg = "it must be an RSA private key in PEM or Base64, without a passphrase"
        raise ValueError(msg) from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < _MIN_BITS:
        msg = "it must be an RSA key of at least 2048 bits"
        raise ValueError(msg)
    return key


def read_public_key(text: str) -> RSAPublicKey:
    """Read a key in PEM or bare Base64. Raises ValueError."""
    try:
        key = load_der_public_key(_der_of(text))
    except (ValueError, UnsupportedAlgorithm):
        msg = "it must be an RSA public key in PEM or Base64"
        raise ValueError(msg) from None
    if not isinstance(key, RSAPublicKey) or key.key_size < _MIN_BITS:
        msg = "it must be an RSA key of at least 2048 bits"
        raise ValueError(msg)
    return key


def _der_of(text: str) -> bytes:
    """Return the DER of PEM or Base64; line breaks may be missing, or be written as backslash-n."""
    plain = "".join(_ARMOR.sub("", text.replace("\\n", "\n")).split())
    return base64.b64decode(plain, validate=True)


def read_certificates(text: str) -> list[x509.Certificate]:
    """Read all certificates of a PEM file. Raises ValueError if there is none."""
    read = (_read_certificate(match[0]) for match in _CERTIFICATE.finditer(_unescape(text)))
    certificates = [certificate for certificate in read if certificate is not None]
    if not certificates:
        msg = "it must be a certificate in PEM (-----BEGIN CERTIFICATE-----)"
        raise ValueError(msg)
    return certificates


def _unescape(text: str) -> str:
    return text.replace("\\n", "\n")


def _read_certificate(pem: str) -> x509.Certificate | None:
    """Return a certificate; None for one that the library cannot read, such as one of SM2."""
    try:
        return x509.load_pem_x509_certificate(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None


def serial_of(certificate: x509.Certificate) -> str:
    """Return the serial number as Alipay computes it: MD5 of the issuer and the decimal number.

    ``getCertSN`` in Alipay's SDKs; the issuer is written as in RFC 4514, most specific part first.
    """
    text = certificate.issuer.rfc4514_string() + str(certificate.serial_number)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def root_serial_of(certificates: list[x509.Certificate]) -> str:
    """Return ``alipay_root_cert_sn``: the serials of all RSA certificates, joined by ``_``."""
    return "_".join(map(serial_of, _signed_by_rsa(certificates)))


def _signed_by_rsa(certificates: list[x509.Certificate]) -> Iterator[x509.Certificate]:
    return (
        certificate
        for certificate in certificates
        if certificate.signature_algorithm_oid.dotted_string.startswith(_RSA_SIGNATURES)
    )


def public_key_of(certificate: x509.Certificate) -> RSAPublicKey:
    """Return the certificate's key. Raises ValueError if it is not an RSA key of 2048 bits."""
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey) or key.key_size < _MIN_BITS:
        msg = "it must be the certificate of an RSA key of at least 2048 bits"
        raise ValueError(msg)
    return key


def check_time(certificate: x509.Certificate, which: str, now: datetime) -> None:
    """Raise BadCertificate unless the certificate is valid at ``now``."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    name = f"{which} ({name_of(certificate)})"
    if now > end:
        msg = f"{name} was valid until {end:%Y-%m-%d %H:%M} UTC"
        raise BadCertificate(msg)
    if now < start:
        msg = f"{name} is valid from {start:%Y-%m-%d %H:%M} UTC"
        raise BadCertificate(msg)


def name_of(certificate: x509.Certificate) -> str:
    """Return the certificate's subject, for messages."""
    text = certificate.subject.rfc4514_string() or f"number {certificate.serial_number}"
    return "".join(c for c in text if c.isprintable())[:_MOST_NAME]


def check_chain(
    chain: list[x509.Certificate], roots: list[x509.Certificate], now: datetime
) -> None:
    """Raise BadCertificate unless ``chain`` leads from its first certificate to one of ``roots``.

    Each certificate on the way must be valid at ``now``.
    """
    certificate, others = chain[0], chain[1:]
    for _ in range(len(chain) + 1):
        check_time(certificate, "the certificate", now)
        if any(_issued_by(certificate, root) for root in roots):
            return
        issuer = next((other for other in others if _issued_by(certificate, other)), None)
        if issuer is None:
            break
        others = [other for other in others if other is not issuer]
        certificate = issuer
    msg = f"the certificate {name_of(chain[0])} does not come from the root certificates"
    raise BadCertificate(msg)


def _issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def utc_now() -> datetime:
    """Return real time, by which certificates expire."""
    return datetime.now(UTC)
