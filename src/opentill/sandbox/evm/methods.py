"""The methods of the node's JSON-RPC (https://ethereum.org/en/developers/docs/apis/json-rpc/).

Each function gets what the node sees (``View``) and the parameters, and returns the result or
raises ``RpcError``. Fields that this chain does not have, such as roots and blooms, are zero.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeGuard, cast

import msgspec

from opentill.sandbox.evm import chain
from opentill.sandbox.evm.chain import Block, Transfer
from opentill.sandbox.model import FaultKind
from opentill.sandbox.storage import Tx

INVALID_PARAMS: Final = -32602
NO_METHOD: Final = -32601
LIMIT_EXCEEDED: Final = -32005
REVERTED: Final = 3
TRANSFER_TOPIC: Final = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
_MOST_LOGS: Final = 10_000
_MOST_BLOCKS: Final = 10_000  # in one request for logs
_MOST_CHOICES: Final = 1_000  # addresses or topics in one request for logs
_BEHIND: Final = 100  # blocks
_CLIENT: Final = "OpenTillSandbox/v1"
_NUMBER: Final = re.compile(r"0x(?:0|[1-9a-f][0-9a-f]{0,15})", re.ASCII)
_HASH: Final = re.compile(r"0x[0-9a-f]{64}", re.ASCII)
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{40}", re.ASCII)
_DATA: Final = re.compile(r"0x(?:[0-9a-f]{2}){0,200}", re.ASCII)
_NEWEST: Final = ("latest", "pending", "safe", "finalized")
_ZERO_HASH: Final = "0x" + "0" * 64
_BLOOM: Final = "0x" + "0" * 512
_GAS: Final = "0xcf08"


class RpcError(Exception):
    """An error of JSON-RPC."""

    def __init__(self, code: int, message: str) -> None:
        """``code`` is one of JSON-RPC or of nodes."""
        super().__init__(message)
        self.code = code


class View(msgspec.Struct, frozen=True):
    """The chain as the node sees it in one request."""

    tx: Tx
    head: int
    fault: FaultKind | None = None

    @classmethod
    def take(cls, tx: Tx, now_s: int, period_s: int, fault: FaultKind | None) -> "View":
        """Return the view at a time; a node that is behind sees older blocks only."""
        newest = chain.head(tx, now_s, period_s)
        return cls(tx, max(0, newest - _BEHIND) if fault == "behind" else newest, fault)

    @property
    def prefix(self) -> str:
        """What makes the hashes of another chain."""
        return "other chain " if self.fault == "other_chain" else ""

    def block(self, number: int) -> Block:
        """Return a block up to the newest one."""
        return chain.block(self.tx, number, self.prefix)


def call(view: View, method: object, params: object) -> Any:
    """Return the result of a method. Raises RpcError."""
    if not isinstance(method, str) or method not in METHODS:
        raise RpcError(NO_METHOD, f"the method {str(method)[:80]} does not exist")
    values = as_array(params)
    if values is None:
        raise RpcError(INVALID_PARAMS, "params must be an array")
    if view.fault == "limit_exceeded":
        raise RpcError(LIMIT_EXCEEDED, f"query returned more than {_MOST_LOGS} results")
    return METHODS[method](view, values)


def as_array(value: object) -> list[Any] | None:
    """Return a value of JSON if it is an array, else None."""
    return value if _is_array(value) else None


def _is_array(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def as_object(value: object) -> dict[str, Any] | None:
    """Return a value of JSON if it is an object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _param(params: Sequence[Any], index: int, pattern: re.Pattern[str], name: str) -> str:
    value = params[index] if len(params) > index else None
    return _matching(value, pattern, name)


def _matching(value: object, pattern: re.Pattern[str], name: str) -> str:
    if not isinstance(value, str) or pattern.fullmatch(value.lower()) is None:
        raise RpcError(INVALID_PARAMS, f"invalid {name}")
    return value.lower()


def _block_number(view: View, value: object, default: str = "latest") -> int:
    """Return the number that a parameter names, which may be above the newest one."""
    text = default if value is None else value
    if text in _NEWEST:
        return view.head
    return 0 if text == "earliest" else int(_matching(text, _NUMBER, "block number"), 16)


def _chain_id(view: View, _params: Sequence[Any]) -> str:
    return hex(chain.CHAIN_ID + (view.fault == "other_chain"))


def _block_by_number(view: View, params: Sequence[Any]) -> dict[str, Any] | None:
    number = _block_number(view, params[0] if params else None)
    return _show_block(view, number, params) if number <= view.head else None


def _block_by_hash(view: View, params: Sequence[Any]) -> dict[str, Any] | None:
    text = _param(params, 0, _HASH, "block hash")
    number = chain.number_in_hash(text)
    if not 0 <= number <= view.head or view.block(number).hash != text:
        return None
    return _show_block(view, number, params)


def _show_block(view: View, number: int, params: Sequence[Any]) -> dict[str, Any]:
    block = view.block(number)
    is_full = len(params) > 1 and params[1] is True
    transfers = chain.transfers(view.tx, number, number, [], [], _MOST_LOGS)
    zeros = ("sha3Uncles", "transactionsRoot", "stateRoot", "receiptsRoot", "mixHash")
    return {
        **dict.fromkeys(zeros, _ZERO_HASH),
        "number": hex(number),
        "hash": block.hash,
        "parentHash": block.parent_hash,
        "timestamp": hex(block.time_s),
        "nonce": "0x" + "0" * 16,
        "logsBloom": _BLOOM,
        "miner": "0x" + "0" * 40,
        "difficulty": "0x0",
        "totalDifficulty": "0x0",
        "extraData": "0x",
        "size": "0x3e8",
        "gasLimit": "0x1c9c380",
        "gasUsed": _GAS if transfers else "0x0",
        "baseFeePerGas": "0x7",
        "uncles": [],
        "transactions": [
            _show_transaction(view, each) if is_full else each.transaction_hash
            for each in transfers
        ],
    }


def _logs(view: View, params: Sequence[Any]) -> list[dict[str, Any]]:
    query = as_object(params[0] if params else None)
    if query is None:
        raise RpcError(INVALID_PARAMS, "the filter must be an object")
    first, last = _block_range(view, query)
    tokens = _choices(query.get("address"), _ADDRESS, "address")
    topics = as_array(query.get("topics") or [])
    if topics is None or len(topics) > 4:  # noqa: PLR2004 - a log has at most four
        raise RpcError(INVALID_PARAMS, "invalid topics")
    kinds, senders, recipients = (
        _choices(topics[index] if len(topics) > index else None, _HASH, "topic")
        for index in range(3)
    )
    if last - first >= _MOST_BLOCKS:
        raise RpcError(LIMIT_EXCEEDED, f"block range is longer than {_MOST_BLOCKS}")
    is_other = bool(kinds) and TRANSFER_TOPIC not in kinds
    if is_other or len(topics) > 3 or view.fault == "missing_logs":  # noqa: PLR2004 - these logs have three
        return []
    receiving = [_unpadded(each) for each in recipients]
    matching = chain.transfers(
        view.tx, first, min(last, view.head), tokens, receiving, _MOST_LOGS + 1
    )
    if len(matching) > _MOST_LOGS:
        raise RpcError(LIMIT_EXCEEDED, f"query returned more than {_MOST_LOGS} results")
    logs = [
        _show_log(view, each) for each in matching if not senders or _padded(each.sender) in senders
    ]
    return [*logs, *logs] if view.fault == "duplicate_logs" else logs


def _block_range(view: View, query: Mapping[str, Any]) -> tuple[int, int]:
    if "blockHash" not in query:
        first = _block_number(view, query.get("fromBlock"))
        return first, _block_number(view, query.get("toBlock"))
    block = _block_by_hash(view, [query["blockHash"]])
    if block is None or "fromBlock" in query or "toBlock" in query:
        raise RpcError(INVALID_PARAMS, "unknown block, or a range besides it")
    number = int(block["number"], 16)
    return number, number


def _choices(value: object, pattern: re.Pattern[str], name: str) -> list[str]:
    """Return the values of a condition; an empty list stands for any value."""
    values = as_array(value)
    if values is None:
        values = [] if value is None else [value]
    if len(values) > _MOST_CHOICES:
        raise RpcError(LIMIT_EXCEEDED, f"more than {_MOST_CHOICES} values of {name}")
    return [_matching(each, pattern, name) for each in values]


def _show_log(view: View, transfer: Transfer) -> dict[str, Any]:
    units = transfer.value + (view.fault == "wrong_amount")
    return {
        "address": transfer.token,
        "topics": [TRANSFER_TOPIC, _padded(transfer.sender), _padded(transfer.recipient)],
        "data": f"0x{units:064x}",
        "blockNumber": hex(transfer.block_number),
        "blockHash": view.block(transfer.block_number).hash,
        "transactionHash": transfer.transaction_hash,
        "transactionIndex": "0x0",
        "logIndex": "0x0",
        "removed": False,
    }


def _find(view: View, params: Sequence[Any]) -> Transfer | None:
    transfer = chain.find_transfer(view.tx, _param(params, 0, _HASH, "transaction hash"))
    return transfer if transfer is not None and transfer.block_number <= view.head else None


def _receipt(view: View, params: Sequence[Any]) -> dict[str, Any] | None:
    transfer = _find(view, params)
    if transfer is None:
        return None
    return {
        **_place(view, transfer),
        "transactionHash": transfer.transaction_hash,
        "cumulativeGasUsed": _GAS,
        "gasUsed": _GAS,
        "effectiveGasPrice": "0x7",
        "contractAddress": None,
        "logs": [_show_log(view, transfer)],
        "logsBloom": _BLOOM,
        "status": "0x1",
    }


def _transaction(view: View, params: Sequence[Any]) -> dict[str, Any] | None:
    transfer = _find(view, params)
    return None if transfer is None else _show_transaction(view, transfer)


def _show_transaction(view: View, transfer: Transfer) -> dict[str, Any]:
    data = f"0xa9059cbb{_padded(transfer.recipient)[2:]}{transfer.value:064x}"
    return {
        **_place(view, transfer),
        "hash": transfer.transaction_hash,
        "nonce": "0x0",
        "value": "0x0",
        "gas": _GAS,
        "gasPrice": "0x7",
        "input": data,
        "chainId": hex(chain.CHAIN_ID),
        "v": "0x0",
        "r": "0x1",
        "s": "0x1",
    }


def _place(view: View, transfer: Transfer) -> dict[str, Any]:
    return {
        "type": "0x0",
        "from": transfer.sender,
        "to": transfer.token,
        "blockNumber": hex(transfer.block_number),
        "blockHash": view.block(transfer.block_number).hash,
        "transactionIndex": "0x0",
    }


def _call_contract(view: View, params: Sequence[Any]) -> str:
    request = as_object(params[0] if params else None)
    if request is None:
        raise RpcError(INVALID_PARAMS, "the call must be an object")
    token = chain.BY_ADDRESS.get(_matching(request.get("to"), _ADDRESS, "address"))
    data = _matching(request.get("data") or request.get("input"), _DATA, "data")
    if token is None:
        return "0x"
    number = _block_number(view, params[1] if len(params) > 1 else None)
    match data[:10]:
        case "0x313ce567":  # decimals()
            return f"0x{token.decimals:064x}"
        case "0x95d89b41" | "0x06fdde03":  # symbol(), name()
            text = token.symbol.encode()
            return f"0x{32:064x}{len(text):064x}{text.hex():0<64}"
        case "0x18160ddd":  # totalSupply()
            return f"0x{chain.MOST_UNITS:064x}"
        case "0x70a08231" if len(data) == 74:  # noqa: PLR2004 - balanceOf(address)
            units = chain.balance(view.tx, token.address, f"0x{data[34:]}", number)
            return f"0x{units:064x}"
        case _:
            raise RpcError(REVERTED, "execution reverted")


def _code(_view: View, params: Sequence[Any]) -> str:
    is_token = _param(params, 0, _ADDRESS, "address") in chain.BY_ADDRESS
    return "0xfe" if is_token else "0x"


def _padded(address: str) -> str:
    return f"0x{address[2:]:0>64}"


def _unpadded(topic: str) -> str:
    return f"0x{topic[26:]}" if topic.startswith("0x" + "0" * 24) else topic


METHODS: Final[Mapping[str, Callable[[View, Sequence[Any]], Any]]] = {
    "web3_clientVersion": lambda _view, _params: _CLIENT,
    "net_version": lambda _view, _params: str(chain.CHAIN_ID),
    "net_listening": lambda _view, _params: True,
    "eth_chainId": _chain_id,
    "eth_syncing": lambda _view, _params: False,
    "eth_accounts": lambda _view, _params: [],
    "eth_gasPrice": lambda _view, _params: "0x7",
    "eth_blockNumber": lambda view, _params: hex(view.head),
    "eth_getBlockByNumber": _block_by_number,
    "eth_getBlockByHash": _block_by_hash,
    "eth_getLogs": _logs,
    "eth_getTransactionReceipt": _receipt,
    "eth_getTransactionByHash": _transaction,
    "eth_call": _call_contract,
    "eth_getCode": _code,
    "eth_getBalance": lambda _view, _params: "0x0",
    "eth_getTransactionCount": lambda _view, _params: "0x0",
}
