"""The sandbox bank's chain: its node, its wallet, its blocks and its command."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from opentill.gateways.evm.configuration import make
from opentill.sandbox.evm import TOKENS, chain, methods
from opentill.sandbox.evm.methods import RpcError, View
from opentill.sandbox.storage import Store, Tx
from support.commands import ForkServer, without_settings
from support.ports import free_port
from support.sandbox_chain import SandboxChain, running_sandbox_chain

OURS = f"0x{'ab' * 20}"
USDT = TOKENS["USDT"].address


@pytest.fixture(scope="module")
def running_chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxChain]:
    with running_sandbox_chain(tmp_path_factory.mktemp("chain")) as running:
        yield running


def post(running: SandboxChain, content: bytes) -> Any:
    response = running.api.post(running.url, content=content)
    assert response.status_code == 200
    return response.json()


def test_what_is_no_json_rpc_is_refused(running_chain: SandboxChain) -> None:
    for content, code in (
        (b"", -32700), (b"[" * 20_000, -32700), (b"\xff", -32700), (b"[]", -32600), (b"7", -32600),
        (b'{"method":"eth_chainId"}', -32600), (b"[" + b"1," * 100 + b"1]", -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":[]}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":{}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[]}', -32602),
    ):  # fmt: skip
        assert post(running_chain, content)["error"]["code"] == code, content[:60]
    assert running_chain.api.post(running_chain.url, content=b"x" * 70_000).status_code == 413
    calls = [{"jsonrpc": "2.0", "id": n, "method": "eth_chainId", "params": []} for n in (1, 2)]
    replies = post(running_chain, msgspec.json.encode(calls))
    assert [(each["id"], each["result"]) for each in replies] == [(1, "0x539"), (2, "0x539")]
    other_key = running_chain.url.rpartition("/")[0] + "/another"
    assert running_chain.api.post(other_key, content=b"{}").status_code == 401


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"fromBlock": 7}, -32602), ({"address": "0x12"}, -32602), ({"topics": "all"}, -32602),
        ({"topics": [None] * 5}, -32602), ({"topics": [[["0x"]]]}, -32602),
        ({"blockHash": f"0x{'00' * 32}"}, -32602), ({"address": [USDT] * 1_001}, -32005),
        ({"fromBlock": "0x0", "toBlock": "0xfffff"}, -32005), ({"fromBlock": "0x01"}, -32602),
    ],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_is_refused(
    running_chain: SandboxChain, query: Any, code: int
) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "eth_getLogs", "params": [query]}
    assert post(running_chain, msgspec.json.encode(call))["error"]["code"] == code


def test_a_test_person_pays_what_they_scanned(running_chain: SandboxChain) -> None:
    uri = f"ethereum:{USDT}@1337/transfer?address={OURS}&uint256=1500000"
    sent = running_chain._post("/evm/transfers", uri=uri)
    receipt = running_chain.call("eth_getTransactionReceipt", sent["transaction"])
    assert receipt["blockNumber"] == hex(sent["block"])
    running_chain._post("/evm/transfers", uri=uri, amount="0.000001")
    running_chain._post("/evm/transfers", to=OURS, token="USDC", amount="2.000000000000000001")
    data = f"0x70a08231{OURS[2:]:0>64}"
    for token, units in ((USDT, 1_500_001), (TOKENS["USDC"].address, 2 * 10**18 + 1)):
        word = running_chain.call("eth_call", {"to": token, "data": data}, "latest")
        assert int(word, 16) == units
    before = running_chain.call("eth_call", {"to": USDT, "data": data}, hex(sent["block"] - 1))
    assert int(before, 16) == 0


@pytest.mark.parametrize(
    ("path", "order", "message"),
    [
        ("transfers", {"uri": "ethereum:0x12"}, "uri must"),
        ("transfers", {"uri": f"ethereum:{USDT}@1/transfer?address={OURS}&uint256=1"}, "1337"),
        ("transfers", {"to": OURS, "token": "DAI", "amount": "1"}, "token must"),
        ("transfers", {"token": "USDT", "amount": "1"}, "to must"),
        ("transfers", {"to": OURS, "token": "USDT"}, "amount must be positive"),
        ("transfers", {"to": OURS, "token": "USDT", "amount": "0.0000001"}, "6 decimals"),
        ("transfers", {"to": OURS, "token": "USDC", "amount": "9" * 40}, None),
        ("transfers", {"to": OURS, "token": "USDC", "amount": "-1"}, "$.amount"),
        ("transfers", {"to": "nobody", "token": "USDC", "amount": "1"}, "$.to"),
        ("blocks", {"blocks": 0}, "$.blocks"),
        ("blocks", {"blocks": 10_001}, "$.blocks"),
        ("reorganizations", {}, "blocks"),
    ],
)  # fmt: skip
def test_an_order_that_makes_no_sense_names_the_field(
    running_chain: SandboxChain, path: str, order: Any, message: str | None
) -> None:
    response = running_chain.api.post(f"/evm/{path}", json=order)
    if message is None:
        assert response.status_code == 201
        return
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]
    with httpx2.Client(base_url=running_chain.bank_url, trust_env=False) as stranger:
        assert stranger.post(f"/evm/{path}", json=order).status_code == 401


def test_a_reorganization_replaces_blocks_with_or_without_their_transfers(
    running_chain: SandboxChain,
) -> None:
    for keep in (True, False):
        sent = running_chain.transfer(USDT, OURS, 5)
        number = running_chain.height
        running_chain.mine(2)
        before = running_chain.call("eth_getBlockByNumber", hex(number), False)
        earlier = running_chain.call("eth_getBlockByNumber", hex(number - 1), False)
        running_chain.reorganize(3, keep=keep)
        assert running_chain.height == number + 2
        after = running_chain.call("eth_getBlockByNumber", hex(number), False)
        assert after["hash"] != before["hash"]
        assert after["parentHash"] == earlier["hash"]
        assert running_chain.call("eth_getBlockByHash", before["hash"], False) is None
        receipt = running_chain.call("eth_getTransactionReceipt", sent)
        assert (receipt and receipt["blockHash"]) == (after["hash"] if keep else None)


async def test_blocks_are_added_by_time_and_need_no_space(tmp_path: Path) -> None:
    store = Store(tmp_path / "bank.sqlite3", lambda _: None)
    await store.open()

    def work(tx: Tx) -> None:
        assert chain.head(tx, 1_000, 5) == 0
        assert chain.head(tx, 1_004, 5) == 0
        assert chain.head(tx, 10**6, 5) == (10**6 - 1_000) // 5
        sent = chain.send(tx, TOKENS["USDT"], chain.WALLET, OURS, 7, 2_001, 5)
        assert sent.block_number == 201
        times = [chain.block(tx, number).time_s for number in (0, 1, 200, 201)]
        assert times == [1_000, 1_005, 2_000, 2_001]
        assert chain.head(tx, 2_006, 5) == 202
        assert chain.mine(tx, 10, 2_006, 5) == 203
        assert chain.head(tx, 2_011, 5) == 213
        # A clock that goes back, as after a restart, makes no block older than the one before.
        assert chain.mine(tx, 1, 5, 5) == 213
        assert chain.block(tx, 213).time_s >= chain.block(tx, 212).time_s
        hashes = {chain.block(tx, number).hash for number in range(214)}
        assert len(hashes) == 214
        assert all(
            chain.block(tx, number).parent_hash == chain.block(tx, number - 1).hash
            for number in range(1, 214)
        )
        (counted,) = tx.all(dict[str, int], "select count(*) as n from evm_marks")
        assert counted["n"] == 4
        # A node that is behind or sees another chain.
        assert View.take(tx, 2_011, 5, "behind").head == 114
        other = View.take(tx, 2_011, 5, "other_chain")
        assert methods.call(other, "eth_chainId", []) == hex(1338)
        assert other.block(201).hash != chain.block(tx, 201).hash
        with pytest.raises(RpcError, match="more than 10000 results"):
            methods.call(View.take(tx, 2_011, 5, "limit_exceeded"), "eth_getLogs", [{}])

    await store.do(work)
    await store.close()


async def test_the_command_prints_the_settings_of_a_gateway(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    environ = without_settings(os.environ) | {
        "OPENTILL_DATA_DIR": str(tmp_path / "data"),
        "OPENTILL_SANDBOX_PORT": str(free_port()),
    }
    with (tmp_path / "log").open("wb") as log:
        process = fork_server.start(["sandbox", "--evm"], environ, tmp_path, log.fileno())
    assert process.stdout is not None
    prefix = "OPENTILL_GATEWAY_"
    try:
        lines = [process.stdout.readline().strip() for _ in range(6)]
        pairs = (one.removeprefix(prefix).partition("=") for one in lines if prefix in one)
        gateway = make({name.lower(): value for name, _, value in pairs})
        assert await gateway.check() is None
        block = await gateway.head()
        assert abs(block.time / 1000 - time.time()) < 120
        await gateway.close()
        assert (tmp_path / "data" / "evm").stat().st_mode & 0o77 == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()
