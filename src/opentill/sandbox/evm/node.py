"""The node's address, and the bank's own API by which test persons pay and change the chain."""

import hmac
import re
from typing import Annotated, Any, Final, NoReturn

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opentill.sandbox.api import require_secret
from opentill.sandbox.evm import chain, methods
from opentill.sandbox.evm.methods import RpcError, View
from opentill.sandbox.fault_responses import respond_in_dialect
from opentill.sandbox.http import json_response, read_body, read_json, store_of
from opentill.sandbox.model import FaultKind, Refusal
from opentill.sandbox.storage import Tx
from opentill.sandbox.timers import now_ms

PATH: Final = "/evm/node"
_MOST_CALLS: Final = 100  # in one request
_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600
_ADDRESS: Final = r"^0x[0-9a-fA-F]{40}\Z"
# The code that a wallet scans (EIP-681).
_URI: Final = re.compile(
    r"ethereum:(0x[0-9a-fA-F]{40})@([0-9]{1,15})/transfer"
    r"\?address=(0x[0-9a-fA-F]{40})&uint256=([0-9]{1,78})",
    re.ASCII,
)
Address = Annotated[str, msgspec.Meta(pattern=_ADDRESS)]
Blocks = Annotated[int, msgspec.Meta(ge=1, le=chain.MOST_BLOCKS)]


class TransferOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A payment of a test person: ``to``, ``token`` and ``amount``, or the code that they scanned.

    With ``uri``, the other fields replace what it says.
    """

    uri: Annotated[str, msgspec.Meta(max_length=300)] = ""
    to: Address = ""
    token: Annotated[str, msgspec.Meta(max_length=42)] = ""
    amount: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,40}(\.[0-9]{1,18})?\Z")] = ""
    sender: Address = chain.WALLET


class MiningOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Add empty blocks."""

    blocks: Blocks = 1


class ReorganizationOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Replace the newest blocks; ``keep``: the new ones have the same transfers."""

    blocks: Blocks
    keep: bool = False


class Evm:
    """The node and the wallet."""

    def __init__(self, key: str, period_s: int) -> None:
        """``key`` is in the node's address; a block is added every ``period_s`` seconds."""
        self._key, self._period_s = key, period_s
        self.routes = (
            Route(f"{PATH}/{{key}}", self.serve, methods=["POST"]),
            Route("/evm", self.show, methods=["GET"]),
            Route("/evm/transfers", self.send, methods=["POST"]),
            Route("/evm/blocks", self.mine, methods=["POST"]),
            Route("/evm/reorganizations", self.reorganize, methods=["POST"]),
        )

    # The node

    async def serve(self, request: Request) -> Response:
        """Serve JSON-RPC: one call, or several in an array."""
        key = request.path_params["key"].encode()
        if not hmac.compare_digest(key, self._key.encode()):
            return Response("invalid key", 401, media_type="text/plain")
        try:
            content = msgspec.json.decode(await read_body(request))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return json_response(_error(None, _PARSE_ERROR, "parse error"))
        several = methods.as_array(content)
        calls = [content] if several is None else several
        if not 0 < len(calls) <= _MOST_CALLS:
            message = f"an array must have 1 to {_MOST_CALLS} calls"
            return json_response(_error(None, _INVALID_REQUEST, message))
        first = (methods.as_object(calls[0]) or {}).get("method", "")

        def work(tx: Tx, fault: FaultKind | None) -> Response:
            view = View.take(tx, _now_s(), self._period_s, fault)
            replies = [_reply(view, each) for each in calls]
            return json_response(replies[0] if several is None else replies)

        return await respond_in_dialect(store_of(request), "node", str(first), work)

    # The wallet, and the bank's control of the chain

    async def show(self, request: Request) -> Response:
        """Return the newest block and the tokens."""
        require_secret(request)
        number = await store_of(request).do(lambda tx: chain.head(tx, _now_s(), self._period_s))
        return json_response({"chain_id": chain.CHAIN_ID, "block": number, "tokens": chain.TOKENS})

    async def send(self, request: Request) -> Response:
        """Pay an address; return the transaction and its block."""
        require_secret(request)
        order = await read_json(request, TransferOrder)
        token, recipient, units = _read_order(order)
        transfer = await store_of(request).do(
            lambda tx: chain.send(
                tx, token, order.sender.lower(), recipient, units, _now_s(), self._period_s
            )
        )
        view = {"transaction": transfer.transaction_hash, "block": transfer.block_number}
        return json_response(view, 201)

    async def mine(self, request: Request) -> Response:
        """Add empty blocks; return the number of the newest one."""
        require_secret(request)
        order = await read_json(request, MiningOrder, MiningOrder())
        first = await store_of(request).do(
            lambda tx: chain.mine(tx, order.blocks, _now_s(), self._period_s)
        )
        return json_response({"block": first + order.blocks - 1}, 201)

    async def reorganize(self, request: Request) -> Response:
        """Replace the newest blocks; return the number of the first new one."""
        require_secret(request)
        order = await read_json(request, ReorganizationOrder)
        first = await store_of(request).do(
            lambda tx: chain.reorganize(tx, order.blocks, _now_s(), self._period_s, keep=order.keep)
        )
        return json_response({"first": first}, 201)


def _now_s() -> int:
    return now_ms() // 1000


def _reply(view: View, request: object) -> dict[str, Any]:
    values = methods.as_object(request)
    if values is None or values.get("jsonrpc") != "2.0":
        return _error(None, _INVALID_REQUEST, "invalid request")
    number = values.get("id")
    try:
        result = methods.call(view, values.get("method"), values.get("params", []))
    except RpcError as error:
        return _error(number, error.code, str(error))
    return {"jsonrpc": "2.0", "id": number, "result": result}


def _error(number: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _read_order(order: TransferOrder) -> tuple[chain.Token, str, int]:
    """Return token, recipient and units of a payment. Raises Refusal."""
    scanned = _URI.fullmatch(order.uri)
    if order.uri and (scanned is None or int(scanned[2]) != chain.CHAIN_ID):
        _refuse(f"uri must be a transfer of a token on chain {chain.CHAIN_ID}.")
    contract = order.token or (scanned[1] if scanned else "")
    token = chain.TOKENS.get(contract) or chain.BY_ADDRESS.get(contract.lower())
    if token is None:
        _refuse(f"token must be one of {', '.join(chain.TOKENS)}, or its address.")
    recipient = order.to or (scanned[3] if scanned else "")
    if not recipient:
        _refuse("to must be an address.")
    units = int(scanned[4]) if scanned else 0
    if order.amount:
        whole, _, decimals = order.amount.partition(".")
        if len(decimals) > token.decimals:
            _refuse(f"amount must have at most {token.decimals} decimals.")
        units = int(whole + decimals.ljust(token.decimals, "0"))
    if not 0 < units <= chain.MOST_UNITS:
        _refuse("amount must be positive, and fit into 256 bits.")
    return token, recipient.lower(), units


def _refuse(message: str) -> NoReturn:
    raise Refusal(400, "invalid_request", message)
