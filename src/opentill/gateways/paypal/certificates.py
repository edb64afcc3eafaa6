"""Verification of webhooks by PayPal's certificate, without asking PayPal about each of them.

PayPal signs ``transmission id|time|webhook id|CRC-32 of the body`` with RSA and SHA-256. A header
names the address of the certificate, which is fetched only from PayPal's own hosts, must be issued
to ``messageverificationcerts…paypal.com`` by a trusted authority, and is cached.

Sources: developer.paypal.com, "Integrate webhooks" (self verification); PayPal's retired SDKs for
Python and Java, which check the issuer and the name of the certificate.
"""

import asyncio
import base64
import binascii
import contextlib
import functools
import logging
import re
import ssl
import time
import warnings
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from opentill.gateways.failures import FAILURES
from opentill.outgoing.client import Outgoing

T = TypeVar("T")
ALGORITHM: Final = "SHA256withRSA"
_PATH: Final = "/v1/notifications/certs/"
_LIVE: Final = "messageverificationcerts.paypal.com"
_SANDBOX: Final = "messageverificationcerts.sandbox.paypal.com"
_HOSTS: Final = {
    "api.paypal.com": _LIVE,
    "api-m.paypal.com": _LIVE,
    "api.sandbox.paypal.com": _SANDBOX,
    "api-m.sandbox.paypal.com": _SANDBOX,
}
_NAME: Final = re.compile(r"[0-9A-Za-z_-]{1,100}", re.ASCII)
_HEADERS: Final = ("transmission-id", "transmission-time", "transmission-sig", "cert-url")
_MOST_HEADER: Final = 1024
# PayPal repeats a webhook for three days, and has replaced certificates under the same address.
_MAX_AGE_MS: Final = 4 * 86_400_000
_MAX_AHEAD_MS: Final = 300_000
_FRESH_S: Final = 6 * 3600.0
# A forged address causes a download at most this often.
_PAUSE_S: Final = 5.0
_DOWNLOAD_S: Final = 5.0
_MOST_BYTES: Final = 64 * 1024
_MOST_CERTIFICATES: Final = 10  # in a file
_MOST_CACHED: Final = 8
_BITS: Final = 2048
_log: Final = logging.getLogger(__name__)


class BadSignature(Exception):
    """A webhook is not signed by PayPal, or too old; the message says why."""


class _Chain(msgspec.Struct, frozen=True):
    """The certificate of an address and those of its issuers."""

    leaf: x509.Certificate
    issuers: list[x509.Certificate]
    fetched_at: float  # monotonic time in seconds


class Certificates:
    """PayPal's certificates, which are downloaded when a webhook names one."""

    def __init__(
        self,
        url: str,
        trusted: bytes | None,
        outgoing: Outgoing,
        pause_s: float = _PAUSE_S,
    ) -> None:
        """``url`` is that of the API, whose mode the certificate must have.

        ``trusted`` is PEM with the authorities, None for those that are trusted for TLS.
        ``outgoing`` is closed with the adapter. Raises ValueError for wrong PEM.
        """
        origin = urlsplit(url)
        self._hosts = frozenset(
            host for host, name in _HOSTS.items() if name == _HOSTS.get(origin.netloc)
        )
        self._own_prefix = "" if self._hosts else url + _PATH
        self._subject = x509.DNSName(_HOSTS.get(origin.netloc, _SANDBOX))
        self._trusted = None if trusted is None else Store(read_chain(trusted))
        self._outgoing = outgoing
        self._pause_s = pause_s
        self._chains: dict[str, _Chain] = {}
        self._failures: dict[str, str] = {}
        self._tried_at = float("-inf")
        self._lock = asyncio.Lock()

    async def fetch(self, url: str) -> None:
        """Download a certificate unless it is cached, at most every five seconds."""
        if not self._is_allowed(url) or not self._needs_download(url):
            return
        async with self._lock:
            if self._needs_download(url):
                await self._download(url)

    async def close(self) -> None:
        """Close the connections."""
        await self._outgoing.close()

    def verify(self, headers: Mapping[str, str], body: bytes, webhook_id: str, now_ms: int) -> None:
        """Verify signature, certificate and age of a webhook (``now_ms``: real time, Unix ms).

        Raises BadSignature. ``fetch`` must have been called with its certificate's address before.
        """
        transmission_id, sent_at, signature, url = (
            headers.get(f"paypal-{name}", "") for name in _HEADERS
        )
        if not (transmission_id and sent_at and signature and url):
            msg = "it has no signature of PayPal"
            raise BadSignature(msg)
        if max(len(transmission_id), len(sent_at), len(signature)) > _MOST_HEADER:
            msg = "its headers are too long"
            raise BadSignature(msg)
        if headers.get("paypal-auth-algo", "") != ALGORITHM:
            msg = f"its PAYPAL-AUTH-ALGO is not {ALGORITHM}"
            raise BadSignature(msg)
        key = self._find_key(url, now_ms)
        message = f"{transmission_id}|{sent_at}|{webhook_id}|{zlib.crc32(body)}"
        if not _is_signed(key, message.encode(), signature):
            msg = "its signature does not fit, or it is for another webhook"
            raise BadSignature(msg)
        _check_age(sent_at, now_ms)

    def _is_allowed(self, url: str) -> bool:
        """Whether an address is one of PayPal's for certificates of our mode."""
        if self._own_prefix:
            prefix, name = self._own_prefix, url.removeprefix(self._own_prefix)
            return url.startswith(prefix) and _NAME.fullmatch(name) is not None
        return any(
            url.startswith(f"https://{host}{_PATH}")
            and _NAME.fullmatch(url.removeprefix(f"https://{host}{_PATH}"))
            for host in self._hosts
        )

    def _needs_download(self, url: str) -> bool:
        now = time.monotonic()
        chain = self._chains.get(url)
        if chain is not None and now < chain.fetched_at + _FRESH_S:
            return False
        return now >= self._tried_at + self._pause_s

    async def _download(self, url: str) -> None:
        self._tried_at = time.monotonic()
        reason = ""
        try:
            response = await self._outgoing.send(
                "GET", url, timeout_s=_DOWNLOAD_S, max_bytes=_MOST_BYTES
            )
            if response.cut or response.status != 200:  # noqa: PLR2004 - OK
                reason = "the file is too long" if response.cut else f"HTTP {response.status}"
            else:
                leaf, *issuers = read_chain(response.body)
                _store(self._chains, url, _Chain(leaf, issuers, time.monotonic()))
        except (*FAILURES, ValueError) as error:
            reason = str(error)
        if reason:
            _log.error("PayPal: the certificate cannot be downloaded: %s", reason)
            _store(self._failures, url, reason)
        else:
            self._failures.pop(url, None)

    def _find_key(self, url: str, now_ms: int) -> RSAPublicKey:
        if not self._is_allowed(url):
            msg = "its PAYPAL-CERT-URL is none of PayPal's for this account"
            raise BadSignature(msg)
        chain = self._chains.get(url)
        if chain is None:
            reason = self._failures.get(url, "another download was just tried")
            msg = f"its certificate cannot be downloaded: {reason}"
            raise BadSignature(msg)
        now = datetime.fromtimestamp(now_ms / 1000, UTC)
        start, end = chain.leaf.not_valid_before_utc, chain.leaf.not_valid_after_utc
        if not start <= now <= end:
            msg = f"its certificate is valid from {start:%Y-%m-%d} to {end:%Y-%m-%d} only"
            raise BadSignature(msg)
        if self._trusted is None:
            self._trusted = _tls_authorities()
        policy = PolicyBuilder().store(self._trusted).time(now)
        try:
            policy.build_server_verifier(self._subject).verify(chain.leaf, chain.issuers)
        except VerificationError:
            msg = (
                f"its certificate is not issued to {self._subject.value} by a trusted authority;"
                " OPENTILL_GATEWAY_PAYPAL_CA can name others"
            )
            raise BadSignature(msg) from None
        return public_key_of(chain.leaf)


def read_chain(pem: bytes) -> list[x509.Certificate]:
    """Read the certificates of a PEM file, ours first. Raises ValueError."""
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError:
        msg = "it has no X.509 certificates in PEM"
        raise ValueError(msg) from None
    if len(certificates) > _MOST_CERTIFICATES:
        msg = f"it has more than {_MOST_CERTIFICATES} certificates"
        raise ValueError(msg)
    return certificates


def public_key_of(certificate: x509.Certificate) -> RSAPublicKey:
    """Return the key of a certificate. Raises BadSignature if it is no RSA key of 2048 bits."""
    try:
        key: object = certificate.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey) or key.key_size < _BITS:
        msg = f"its certificate has no RSA key of at least {_BITS} bits"
        raise BadSignature(msg)
    return key


@functools.cache
def _tls_authorities() -> Store:
    """Return the authorities that this machine trusts for TLS; to read them takes 20 ms."""
    roots: list[x509.Certificate] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old roots that break a rule of X.509
        for der in ssl.create_default_context().get_ca_certs(binary_form=True):
            with contextlib.suppress(ValueError):  # one that cannot be read is not trusted
                roots.append(x509.load_der_x509_certificate(der))
    return Store(roots)


def _is_signed(key: RSAPublicKey, message: bytes, signature: str) -> bool:
    try:
        key.verify(base64.b64decode(signature, validate=True), message, PKCS1v15(), SHA256())
    except (binascii.Error, ValueError, InvalidSignature):
        return False
    return True


def _check_age(sent_at: str, now_ms: int) -> None:
    try:
        moment = datetime.fromisoformat(sent_at)
        age_ms = now_ms - moment.timestamp() * 1000 if moment.tzinfo else None
    except (ValueError, OverflowError):
        age_ms = None
    if age_ms is None:
        msg = "its PAYPAL-TRANSMISSION-TIME is no time"
        raise BadSignature(msg)
    if not -_MAX_AHEAD_MS <= age_ms <= _MAX_AGE_MS:
        msg = "it was sent more than four days ago, or in the future"
        raise BadSignature(msg)


def _store(cache: dict[str, T], url: str, value: T) -> None:
    """Store a value; remove the oldest if there are too many."""
    cache.pop(url, None)
    while len(cache) >= _MOST_CACHED:
        cache.pop(next(iter(cache)))
    cache[url] = value
