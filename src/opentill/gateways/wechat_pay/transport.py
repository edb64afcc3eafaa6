"""Signed requests to WeChat Pay, and verified responses."""

import logging
import secrets
import time
from collections.abc import Mapping
from typing import Any, BinaryIO, Final, Literal
from urllib.parse import urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from opentill.gateways.bills import DOWNLOAD_S, MOST_PACKED
from opentill.gateways.failures import FAILURES, status_of
from opentill.gateways.wechat_pay import keys, wire
from opentill.gateways.wechat_pay.certificates import BadSignature, PlatformKeys
from opentill.gateways.wechat_pay.keys import BadCertificate
from opentill.gateways.wechat_pay.wire import Account, Error, Product
from opentill.outgoing.client import Outgoing

_SCHEME: Final = "WECHATPAY2-SHA256-RSA2048"
_CERTIFICATES: Final = "/v3/certificates"
_UNSIGNED: Final = 401  # WeChat Pay signs no response to a request whose signature is wrong
_log: Final = logging.getLogger(__name__)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The account, its keys, and the products that it has."""

    url: str  # of the API, without a trailing slash
    account: Account
    private_key: RSAPrivateKey
    serial: str  # of the merchant certificate
    certificate: x509.Certificate | None  # the merchant certificate, if it is configured
    api_v3_key: bytes
    public_key_id: str  # "" if the account has platform certificates only
    public_key: RSAPublicKey | None
    products: tuple[Product, ...]

    def __repr__(self) -> str:
        """Omit the keys."""
        return f"Options(url={self.url!r}, mchid={self.account.mchid!r})"


class Reply(msgspec.Struct, frozen=True):
    """A response whose signature was verified."""

    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        """Whether WeChat Pay processed the request."""
        return wire.is_success(self.status)

    @property
    def error(self) -> Error:
        """The error of a request that was not processed."""
        return wire.read(self.body, Error) or Error(f"HTTP_{self.status}")


class NoReply(msgspec.Struct, frozen=True):
    """There is no response that can be trusted.

    ``refused``: WeChat Pay did not accept the request's signature, and so did nothing: UNREACHABLE.
    """

    status: Literal["UNREACHABLE", "UNKNOWN"]
    reason: str
    refused: bool = False


class Transport:
    """Sends signed requests and verifies the responses; it caches WeChat Pay's certificates."""

    def __init__(self, options: Options, outgoing: Outgoing) -> None:
        """``outgoing`` is closed with the transport."""
        self._options = options
        self._outgoing = outgoing
        self._base_path = urlsplit(options.url).path
        self.keys = PlatformKeys(
            options.api_v3_key, options.public_key_id, options.public_key, self._download
        )

    async def send(
        self, method: Literal["GET", "POST"], path: str, body: Any = None, *, timeout_s: float
    ) -> Reply | NoReply:
        """Send a request; log a failure without its content."""
        reply = await self._send(method, path, body, timeout_s)
        if isinstance(reply, NoReply):
            _log.warning("WeChat Pay: %s: %s", reply.status, reply.reason)
        return reply

    async def download(self, path: str, target: BinaryIO) -> int | str:
        """Download a file, which WeChat Pay does not sign; return the status, or why there is none.

        The request is signed.
        """
        headers = {"Authorization": self._authorization("GET", self._base_path + path, b"")}
        try:
            response = await self._outgoing.download(
                self._options.url + path,
                target,
                headers=headers,
                timeout_s=DOWNLOAD_S,
                max_bytes=MOST_PACKED,
            )
        except FAILURES as error:
            return str(error)
        return response.status

    async def close(self) -> None:
        """Close the connections."""
        await self._outgoing.close()

    async def _send(self, method: str, path: str, body: Any, timeout_s: float) -> Reply | NoReply:
        sent = await self._request(method, path, body, timeout_s)
        if isinstance(sent, NoReply):
            return sent
        status, headers, content = sent
        try:
            await self.keys.fetch(headers.get("wechatpay-serial", ""))
            self.keys.verify(headers, content, _now_ms())
        except BadSignature as error:
            code = (wire.read(content, Error) or Error()).code
            if status == _UNSIGNED and code == wire.WRONG_SIGNATURE:
                return NoReply("UNREACHABLE", f"HTTP {status} {code}", refused=True)
            return NoReply("UNKNOWN", f"HTTP {status}; the response is not trusted: {error}")
        return Reply(status, content)

    async def _request(
        self, method: str, path: str, body: Any, timeout_s: float
    ) -> tuple[int, dict[str, str], bytes] | NoReply:
        """Send a request and return status, headers and body, which are not verified yet."""
        options = self._options
        if options.certificate is not None:
            try:
                keys.check_time(options.certificate, "the merchant certificate", _now_ms())
            except BadCertificate as error:
                return NoReply("UNREACHABLE", str(error))
        content = b"" if body is None else msgspec.json.encode(body)
        headers = {
            "Accept": "application/json",
            "Authorization": self._authorization(method, self._base_path + path, content),
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if options.public_key_id:
            headers["Wechatpay-Serial"] = options.public_key_id
        try:
            response = await self._outgoing.send(
                method, options.url + path, headers=headers, body=content, timeout_s=timeout_s
            )
        except FAILURES as error:
            return NoReply(status_of(error), str(error))
        if response.cut:
            return NoReply("UNKNOWN", "the response is too long")
        return response.status, dict(response.headers), response.body

    def _authorization(self, method: str, path: str, content: bytes) -> str:
        """Return the header that signs a request ("签名生成")."""
        options = self._options
        timestamp, nonce = str(int(time.time())), secrets.token_hex(16)
        message = f"{method}\n{path}\n{timestamp}\n{nonce}\n".encode() + content + b"\n"
        signature = keys.sign(options.private_key, message)
        return (
            f'{_SCHEME} mchid="{options.account.mchid}",nonce_str="{nonce}",'
            f'signature="{signature}",timestamp="{timestamp}",serial_no="{options.serial}"'
        )

    async def _download(self) -> tuple[Mapping[str, str], bytes] | str:
        sent = await self._request("GET", _CERTIFICATES, None, _DOWNLOAD_TIMEOUT_S)
        if isinstance(sent, NoReply):
            return sent.reason
        status, headers, content = sent
        if not wire.is_success(status):
            return f"HTTP {status} {(wire.read(content, Error) or Error()).code}".strip()
        return headers, content


_DOWNLOAD_TIMEOUT_S: Final = 5.0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
