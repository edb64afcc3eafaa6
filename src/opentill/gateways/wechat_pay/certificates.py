"""WeChat Pay's platform certificates and public key, by which its signatures are verified.

A merchant has certificates, which are downloaded and replaced after some years, or a public key,
which is configured; while a merchant changes from certificates to a key, WeChat Pay uses both
(pay.weixin.qq.com, "如何从平台证书切换成微信支付公钥"). ``Wechatpay-Serial`` says which one signed.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from opentill.gateways.wechat_pay import keys, wire
from opentill.gateways.wechat_pay.keys import BadCertificate

ALGORITHM: Final = "AEAD_AES_256_GCM"
PUBLIC_KEY_PREFIX: Final = "PUB_KEY_ID_"
# WeChat Pay asks for a download at least every 12 hours ("平台证书更新指引").
_FRESH_S: Final = 6 * 3600.0
# A forged serial number causes a download at most this often.
_PAUSE_S: Final = 30.0
_MOST_CERTIFICATES: Final = 20
_MOST_HEADER: Final = 1024
_log: Final = logging.getLogger(__name__)

# Downloads the certificates; returns headers and body, or the reason for the failure.
Download = Callable[[], Awaitable["tuple[Mapping[str, str], bytes] | str"]]


class BadSignature(Exception):
    """A message is not signed by WeChat Pay, or too old; the message says why."""


class PlatformKeys:
    """The keys of WeChat Pay that are configured or were downloaded."""

    def __init__(
        self,
        api_v3_key: bytes,
        public_key_id: str,
        public_key: RSAPublicKey | None,
        download: Download,
        pause_s: float = _PAUSE_S,
    ) -> None:
        """``public_key_id`` is "" if the merchant has certificates only."""
        self._api_v3_key = api_v3_key
        self.public_key_id = public_key_id
        self._public_key = public_key
        self._download = download
        self._pause_s = pause_s
        self._certificates: dict[str, x509.Certificate] = {}
        self._failure = "no platform certificate was downloaded yet"
        self._tried_at = self._loaded_at = float("-inf")  # monotonic time in seconds
        self._lock = asyncio.Lock()

    async def fetch(self, serial: str) -> None:
        """Download the certificates if one is unknown or they are old, at most every 30 seconds."""
        if not self._needs_download(serial):
            return
        async with self._lock:
            if self._needs_download(serial):
                await self._load()

    def _needs_download(self, serial: str) -> bool:
        if serial.startswith(PUBLIC_KEY_PREFIX):
            return False
        now = time.monotonic()
        if now < self._tried_at + self._pause_s:
            return False
        return _normal(serial) not in self._certificates or now > self._loaded_at + _FRESH_S

    async def _load(self) -> None:
        self._tried_at = time.monotonic()
        downloaded = await self._download()
        if isinstance(downloaded, str):
            self._failure = f"the platform certificates cannot be downloaded: {downloaded}"
            _log.error("WeChat Pay: %s", self._failure)
            return
        headers, body = downloaded
        try:
            certificates = self._read(body)
            # The response is signed by one of the certificates in it, which the APIv3 key protects.
            self._verify(headers, body, certificates, time.time_ns() // 1_000_000)
        except (BadSignature, ValueError) as error:
            self._failure = f"the platform certificates cannot be used: {error}"
            _log.error("WeChat Pay: %s", self._failure)
            return
        self._certificates, self._loaded_at, self._failure = certificates, self._tried_at, ""

    def _read(self, body: bytes) -> dict[str, x509.Certificate]:
        listed = wire.read(body, wire.Certificates)
        if listed is None or len(listed.data) > _MOST_CERTIFICATES:
            msg = "the list is not in WeChat Pay's format"
            raise ValueError(msg)
        certificates: dict[str, x509.Certificate] = {}
        for entry in listed.data:
            text = self.decrypt(entry.encrypt_certificate).decode(errors="replace")
            certificate = keys.read_certificate(text)
            if _normal(keys.serial_of(certificate)) != _normal(entry.serial_no):
                msg = "a certificate has another serial number than the list says"
                raise ValueError(msg)
            certificates[_normal(entry.serial_no)] = certificate
        return certificates

    def decrypt(self, resource: wire.Resource) -> bytes:
        """Decrypt a resource with the APIv3 key. Raises ValueError."""
        if resource.algorithm != ALGORITHM:
            msg = f"its algorithm is not {ALGORITHM}"
            raise ValueError(msg)
        return keys.decrypt(
            self._api_v3_key, resource.nonce, resource.ciphertext, resource.associated_data
        )

    def verify(self, headers: Mapping[str, str], body: bytes, now_ms: int) -> None:
        """Verify signature and age of a message (``now_ms``: real time, Unix ms).

        Raises BadSignature. ``fetch`` must have been called with the serial number before.
        """
        self._verify(headers, body, self._certificates, now_ms)

    def _verify(
        self,
        headers: Mapping[str, str],
        body: bytes,
        certificates: Mapping[str, x509.Certificate],
        now_ms: int,
    ) -> None:
        timestamp, nonce, signature, serial = (
            headers.get(f"wechatpay-{name}", "")
            for name in ("timestamp", "nonce", "signature", "serial")
        )
        if not (timestamp and nonce and signature and serial):
            msg = "it has no signature of WeChat Pay"
            raise BadSignature(msg)
        if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):  # noqa: PLR2004 - digits of Unix seconds for a long time
            msg = "its Wechatpay-Timestamp is no time"
            raise BadSignature(msg)
        if len(nonce) > _MOST_HEADER:
            msg = "its Wechatpay-Nonce is too long"
            raise BadSignature(msg)
        key = self._find_key(serial, certificates, now_ms)
        message = f"{timestamp}\n{nonce}\n".encode() + body + b"\n"
        if not keys.is_signed(key, message, signature):
            msg = "its signature does not fit"
            raise BadSignature(msg)
        if abs(now_ms - int(timestamp) * 1000) > wire.MAX_AGE_MS:
            msg = "its signature is more than five minutes old"
            raise BadSignature(msg)

    def _find_key(
        self, serial: str, certificates: Mapping[str, x509.Certificate], now_ms: int
    ) -> RSAPublicKey:
        shown = wire.printable(serial)[:80]
        if serial.startswith(PUBLIC_KEY_PREFIX):
            if self._public_key is None or serial != self.public_key_id:
                msg = f"it is signed by the public key {shown}, which is not the configured one"
                raise BadSignature(msg)
            return self._public_key
        certificate = certificates.get(_normal(serial))
        if certificate is None:
            reason = f", and {self._failure}" if self._failure else ", which was not listed"
            msg = f"it is signed by the platform certificate {shown}{reason}"
            raise BadSignature(msg)
        try:
            keys.check_time(certificate, "the platform certificate", now_ms)
        except BadCertificate as error:
            msg = f"it is signed by an invalid certificate: {error}"
            raise BadSignature(msg) from None
        return keys.public_key_of(certificate)


def _normal(serial: str) -> str:
    return serial.strip().upper().lstrip("0")
