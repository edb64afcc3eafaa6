"""Requests to a node in the JSON-RPC of Ethereum (https://ethereum.org/en/developers/docs/apis/json-rpc/).

The address of a node usually contains a key, so no error quotes it. Sizes, times and numbers of
responses are limited, and every value is checked before it is used.
"""

import re
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

import msgspec

from opentill.gateways.deposits import ChainFailure
from opentill.gateways.failures import FAILURES, MALFORMED
from opentill.outgoing.client import Outgoing

T = TypeVar("T")

_TIMEOUT_S: Final = 8.0
_MOST_BYTES: Final = 256 * 1024
MOST_LOG_BYTES: Final = 8 * 1024 * 1024
_LONGEST_MESSAGE: Final = 200
_NUMBER: Final = re.compile(r"0x[0-9a-f]{1,16}", re.ASCII)
_HASH: Final = re.compile(r"0x[0-9a-f]{64}", re.ASCII)
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{40}", re.ASCII)
_HEADERS: Final = {"Content-Type": "application/json", "Accept": "application/json"}


class Refused(ChainFailure):
    """The node understood a request and did not process it, such as one for too many blocks."""


class Error(msgspec.Struct, frozen=True):
    """An error of JSON-RPC."""

    code: int = 0
    message: str = ""


class Log(msgspec.Struct, frozen=True, rename="camel"):
    """A log of a transaction."""

    address: str
    topics: list[str]
    data: str
    block_number: str
    block_hash: str
    transaction_hash: str
    log_index: str
    removed: bool = False


class Header(msgspec.Struct, frozen=True):
    """The header of a block."""

    number: str
    hash: str
    timestamp: str


class Receipt(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a transaction that is in a block."""

    status: str
    block_number: str
    block_hash: str
    transaction_hash: str
    logs: list[Log]


class _Reply(msgspec.Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    result: msgspec.Raw = msgspec.Raw(b"")
    error: Error | None = None


def number(text: str) -> int:
    """Return a number below 2**64. Raises ChainFailure."""
    if _NUMBER.fullmatch(text) is None:
        msg = "the node returned a number in another form"
        raise ChainFailure(msg)
    return int(text, 16)


def hash_of(text: str) -> str:
    """Return a hash in lower case. Raises ChainFailure."""
    if _HASH.fullmatch(text.lower()) is None:
        msg = "the node returned a hash in another form"
        raise ChainFailure(msg)
    return text.lower()


def address_of(text: str) -> str:
    """Return an address in lower case. Raises ChainFailure."""
    if _ADDRESS.fullmatch(text.lower()) is None:
        msg = "the node returned an address in another form"
        raise ChainFailure(msg)
    return text.lower()


class Node:
    """A node, or a service that has many."""

    def __init__(self, url: str, outgoing: Outgoing, timeout_s: float = _TIMEOUT_S) -> None:
        """``url`` is secret. ``outgoing`` is closed with the node."""
        self._url = url
        self._outgoing = outgoing
        self._timeout_s = timeout_s

    async def call(
        self, method: str, params: list[Any], kind: type[T], most_bytes: int = _MOST_BYTES
    ) -> T:
        """Call a method and return its result. Raises ChainFailure, and Refused for an error."""
        return self._decode(method, await self._result(method, params, most_bytes), kind)

    async def find(
        self, method: str, params: list[Any], kind: type[T], most_bytes: int = _MOST_BYTES
    ) -> T | None:
        """Call a method that returns null for an unknown object, as ``call`` does."""
        result = await self._result(method, params, most_bytes)
        return None if bytes(result) == b"null" else self._decode(method, result, kind)

    def _decode(self, method: str, result: msgspec.Raw, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(result, type=kind)
        except MALFORMED:
            msg = f"{method}: the result is in another form"
            raise ChainFailure(msg) from None

    async def _result(self, method: str, params: list[Any], most_bytes: int) -> msgspec.Raw:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            response = await self._outgoing.send(
                "POST",
                self._url,
                headers=_HEADERS,
                body=msgspec.json.encode(request),
                timeout_s=self._timeout_s,
                max_bytes=most_bytes,
            )
        except FAILURES as error:
            # The sentence is one of ``outgoing`` and does not quote the address with its key. The
            # error that caused it may.
            raise ChainFailure(f"{error}"[:_LONGEST_MESSAGE]) from None
        if response.cut:
            msg = f"{method}: the response is longer than {most_bytes} bytes"
            raise Refused(msg)
        try:
            reply = msgspec.json.decode(response.body, type=_Reply)
        except MALFORMED:
            # Services refuse with texts of their own, often HTTP 401, 403 or 429.
            msg = f"{method}: HTTP {response.status}"
            if response.status == HTTPStatus.OK:
                msg = f"{method}: the response is no JSON-RPC"
            raise ChainFailure(msg) from None
        if reply.error is not None:
            message = _plain(reply.error.message, self._url)
            msg = f"{method}: {reply.error.code} {message}".rstrip()
            raise Refused(msg)
        return reply.result

    async def close(self) -> None:
        """Close the connections."""
        await self._outgoing.close()


def _plain(message: str, url: str) -> str:
    """Return the printable beginning of a node's message, without the address that was called."""
    for part in (url, *(part for part in re.split(r"[/?&=]", url) if len(part) >= 16)):  # noqa: PLR2004 - keys are longer
        message = message.replace(part, "…")
    return "".join(each if each.isprintable() else " " for each in message)[:_LONGEST_MESSAGE]
