"""The adapter for EVM chains, and nodes that fail, lie or flood."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from opentill.core.ids import first_id, new_id
from opentill.core.money import Money
from opentill.db.clock import now_ms
from opentill.gateways import BadCallback, PaymentRequest, RefundRequest
from opentill.gateways.deposits import ChainFailure
from opentill.gateways.evm import rpc
from opentill.gateways.evm.chain import TRANSFER
from opentill.gateways.evm.client import EvmGateway
from opentill.gateways.evm.configuration import make
from support.ganache import XPUB
from support.ports import free_socket, url_of
from support.sandbox_bank import serving

SECRET = "abcdefghijklmnopqrstuvwxyz0123456789"
USDT, OURS, THEIRS = f"0x{'12' * 20}", f"0x{'ab' * 20}", f"0x{'cd' * 20}"
HASH, OTHER_HASH = f"0x{'34' * 32}", f"0x{'56' * 32}"
DAY = 86_400_000
VARIABLE = "OPENTILL_GATEWAY_EVM_"


class FakeNode:
    """A node that returns what a test says, by method; a callable gets the parameters."""

    def __init__(self) -> None:
        self.results: dict[str, Any] = {"eth_chainId": "0x539", "eth_call": f"0x{6:064x}"}
        self.raw: tuple[int, bytes] | None = None
        self.calls: list[tuple[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        request = json.loads((await receive())["body"])
        method, params = request["method"], request["params"]
        self.calls.append((method, params))
        status, body = self.raw or (200, self._reply(method, params))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    def _reply(self, method: str, params: Any) -> bytes:
        result = self.results[method]
        result = result(params) if callable(result) else result
        reply = result if isinstance(result, dict) and "error" in result else {"result": result}
        return json.dumps({"jsonrpc": "2.0", "id": 1, **reply}).encode()


@pytest.fixture
def node_and_gateway() -> Iterator[tuple[FakeNode, EvmGateway]]:
    node, sock = FakeNode(), free_socket()
    options = {
        "evm_rpc_url": f"{url_of(sock)}/v2/{SECRET}",
        "evm_chain_id": "1337",
        "evm_xpub": XPUB,
        "evm_tokens": f"USDT:{USDT}:6",
    }
    with serving(node, sock):
        yield node, make(options)


def log(**changes: Any) -> dict[str, Any]:
    fields = {
        "address": USDT,
        "topics": [TRANSFER, f"0x{THEIRS[2:]:0>64}", f"0x{OURS[2:]:0>64}"],
        "data": f"0x{5:064x}",
        "blockNumber": "0x7",
        "blockHash": HASH,
        "transactionHash": OTHER_HASH,
        "logIndex": "0x0",
        "removed": False,
        "unknownField": [],
    }
    return fields | changes


def payment(**changes: Any) -> PaymentRequest:
    fields: dict[str, Any] = {
        "attempt_id": new_id("att"), "method": "CRYPTO", "amount": Money(1234, "USD"),
        "description": "Tea", "merchant_name": "Shop", "customer_email": "a@example.com",
        "customer_name": None, "payer_ip": "192.0.2.1", "return_url": "https://shop.example",
        "callback_url": "https://shop.example", "locale": "en", "address": OURS,
    }  # fmt: skip
    return PaymentRequest(**fields | changes)


async def test_a_payment_has_an_address_and_a_code(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway
    outcome = await gateway.pay(payment())
    assert outcome.status == "ACTION_REQUIRED"
    assert outcome.provider_ref.lower() == OURS
    # EIP-681: the contract, the chain, the recipient and the units.
    assert outcome.qr_text == (
        f"ethereum:{gateway.show_address(USDT)}@1337/transfer"
        f"?address={outcome.provider_ref}&uint256=12340000"
    )
    assert (await gateway.pay(payment(address=None))).status == "DECLINED"
    assert (await gateway.pay(payment(amount=Money(1, "EUR")))).status == "DECLINED"
    assert node.calls == []
    await gateway.close()


async def test_an_attempt_is_closed_only_while_its_address_is_empty(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway
    attempt_id, old_id = new_id("att"), first_id("att", now_ms() - 3 * DAY)
    assert (await gateway.find_payment(attempt_id)).status == "NOT_FOUND"
    assert (await gateway.find_payment(attempt_id, OURS)).status == "ACTION_REQUIRED"
    assert node.calls == []
    assert (await gateway.expire(attempt_id, OURS)).status == "ACTION_REQUIRED"
    assert (await gateway.find_payment(old_id, OURS)).status == "ACTION_REQUIRED"
    node.results["eth_call"] = f"0x{0:064x}"
    assert (await gateway.expire(attempt_id, OURS)).status == "DECLINED"
    assert (await gateway.find_payment(old_id, OURS)).status == "DECLINED"
    # The address is empty on another chain, too.
    node.results["eth_chainId"] = "0x1"
    outcome = await gateway.expire(attempt_id, OURS)
    assert (outcome.status, outcome.reason) == (
        "UNKNOWN",
        "the node is one of the chain 1, not 1337",
    )
    node.raw = (500, b"")
    outcome = await gateway.expire(attempt_id, OURS)
    assert (outcome.status, outcome.reason) == ("UNKNOWN", "eth_chainId: HTTP 500")
    await gateway.close()


async def test_refunds_wait_for_staff_and_nothing_is_called_back(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway
    request = RefundRequest(
        refund_id="re_1", attempt_id="att_1", provider_ref=OURS, amount=Money(1, "USD"),
        reason="", callback_url="",
    )  # fmt: skip
    assert (await gateway.refund(request)).status == "PENDING"
    assert (await gateway.find_refund("re_1", OURS)).status == "PENDING"
    with pytest.raises(BadCallback):
        gateway.read_callback({}, b"{}", 0)
    assert node.calls == []
    await gateway.close()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"eth_chainId": "0x1"}, f"one of the chain 1, not 1337: correct {VARIABLE}CHAIN_ID"),
        ({"eth_call": "0x"}, "has no contract at"),
        ({"eth_call": f"0x{18:064x}"}, f"has 18 decimals, not 6: correct {VARIABLE}TOKENS"),
        ({"eth_call": {"error": {"code": 3, "message": "no"}}}, "is no token (eth_call: 3 no)"),
        (
            {"eth_chainId": {"error": {"code": -32000, "message": f"key {SECRET} is unknown"}}},
            f"used (eth_chainId: -32000 key … is unknown): correct {VARIABLE}RPC_URL",
        ),
    ],
)  # fmt: skip
async def test_the_check_compares_chain_and_tokens(
    node_and_gateway: tuple[FakeNode, EvmGateway], changes: dict[str, Any], problem: str | None
) -> None:
    node, gateway = node_and_gateway
    node.results |= changes
    reported = await gateway.check()
    assert (reported is None) == (problem is None)
    assert problem is None or problem in str(reported)
    assert SECRET not in str(reported)
    await gateway.close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b"<html>no</html>"), (200, b""), (200, b"[" * 100_000), (200, b"\xff\xfe"),
        (200, b'{"jsonrpc":"2.0","id":1}'), (200, b'{"jsonrpc":"2.0","id":1,"result":[1]}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":{"number":"0x1","hash":"0x2","timestamp":"0x3"}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":null}'),
        (200, b'{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":1}}'),
        (200, b'{"jsonrpc":"2.0","id":1,"result":"' + b"a" * 300_000 + b'"}'),
        (200, json.dumps({"jsonrpc": "2.0", "result": {
            "number": "0x" + "f" * 60, "hash": HASH, "timestamp": "0x1"}}).encode()),
        (200, json.dumps({"jsonrpc": "2.0", "result": {
            "number": "0x1", "hash": HASH, "timestamp": "0x" + "f" * 16}}).encode()),
    ],
)  # fmt: skip
async def test_other_responses_are_failures(
    node_and_gateway: tuple[FakeNode, EvmGateway], status: int, body: bytes
) -> None:
    node, gateway = node_and_gateway
    node.raw = (status, body)
    with pytest.raises(ChainFailure) as error:
        await gateway.head()
    assert len(str(error.value)) < 400
    assert SECRET not in str(error.value)
    await gateway.close()


async def test_an_unreachable_node_is_a_failure_without_its_key() -> None:
    sock = free_socket()
    url = url_of(sock)
    sock.close()
    options = {
        "evm_rpc_url": f"{url}/{SECRET}", "evm_chain_id": "1337", "evm_xpub": XPUB,
        "evm_tokens": f"USDT:{USDT}:6",
    }  # fmt: skip
    gateway = make(options)
    with pytest.raises(ChainFailure) as error:
        await gateway.head()
    assert SECRET not in str(error.value)
    await gateway.close()


async def test_transfers_of_fungible_tokens_are_read(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway
    topics = log()["topics"]
    node.results["eth_getLogs"] = [
        log(),
        log(topics=[*topics, HASH]),  # a token that is not fungible
        log(topics=topics[:1]),
        log(data="0x"),
        log(data=f"0x{5:0128x}"),
        log(removed=True),
        log(topics=[topics[0], HASH, topics[2]]),  # no address
        log(address=USDT.upper().replace("X", "x"), logIndex="0x9"),
    ]
    transfers, end = await gateway.transfers([OURS], 1, 9)
    assert end == 9
    assert [(each.token, each.sender, each.units, each.log_index) for each in transfers] == [
        (USDT, THEIRS, 5, 0),
        (USDT, THEIRS, 5, 9),
    ]
    ((_, (query,)),) = node.calls
    assert query["fromBlock"] == "0x1"
    assert query["topics"] == [TRANSFER, None, [f"0x{OURS[2:]:0>64}"]]
    await gateway.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"blockNumber": "0xa"},
        {"blockNumber": "0x0"},
        {"topics": [TRANSFER, f"0x{OURS[2:]:0>64}", f"0x{THEIRS[2:]:0>64}"]},
        {"blockHash": "0x12"},
        {"address": "0x12"},
        {"logIndex": "7"},
    ],
)
async def test_logs_that_were_not_asked_for_are_a_failure(
    node_and_gateway: tuple[FakeNode, EvmGateway], changes: dict[str, Any]
) -> None:
    node, gateway = node_and_gateway
    node.results["eth_getLogs"] = [log(**changes)]
    with pytest.raises(ChainFailure):
        await gateway.transfers([OURS], 1, 9)
    await gateway.close()


async def test_long_ranges_are_halved_until_the_node_accepts_them(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway

    def respond(params: Any) -> Any:
        blocks = int(params[0]["toBlock"], 16) - int(params[0]["fromBlock"], 16) + 1
        if blocks > 10:
            return {"error": {"code": -32005, "message": "query returned more than 10000 results"}}
        return []

    node.results["eth_getLogs"] = respond
    read = 0
    while read < 100:
        _, end = await gateway.transfers([OURS], read + 1, 100)
        assert read < end <= read + 10
        read = end
    assert len(node.calls) < 60
    node.results["eth_getLogs"] = {"error": {"code": -32005, "message": "too much"}}
    with pytest.raises(rpc.Refused, match="too much"):
        await gateway.transfers([OURS], 1, 100)
    await gateway.close()


async def test_many_addresses_are_asked_for_in_parts(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway
    node.results["eth_getLogs"] = []
    await gateway.transfers([f"0x{number:040x}" for number in range(450)], 1, 9)
    assert [len(params[0]["topics"][2]) for _, params in node.calls] == [200, 200, 50]
    await gateway.close()


async def test_a_failed_or_unknown_transaction_has_no_transfers(
    node_and_gateway: tuple[FakeNode, EvmGateway],
) -> None:
    node, gateway = node_and_gateway
    receipt = {
        "status": "0x1", "blockNumber": "0x7", "blockHash": HASH, "transactionHash": OTHER_HASH,
        "logs": [log()],
    }  # fmt: skip
    node.results["eth_getTransactionReceipt"] = receipt
    assert len(await gateway.find_transfers(OTHER_HASH) or ()) == 1
    with pytest.raises(ChainFailure, match="another transaction"):
        await gateway.find_transfers(HASH)
    node.results["eth_getTransactionReceipt"] = receipt | {"status": "0x0"}
    assert await gateway.find_transfers(OTHER_HASH) is None
    node.results["eth_getTransactionReceipt"] = None
    assert await gateway.find_transfers(OTHER_HASH) is None
    await gateway.close()
