"""The sandbox bank's node and a real one return the same to the same calls."""

import re
from typing import Any, Final

import pytest

from deposits.chain_world import TestChain
from opentill.gateways.evm.chain import TRANSFER
from support.ganache import Ganache, ganache
from support.sandbox_chain import SandboxChain

__all__ = ["ganache"]
RECIPIENT: Final = f"0x{'c0ffee' * 6}0000"
UNITS: Final = 1_234_567
_HEX: Final = re.compile(r"0x[0-9a-f]*")
_BLOCK_FIELDS: Final = ("hash", "number", "parentHash", "timestamp", "transactions")


def padded(address: str) -> str:
    return f"0x{address[2:]:0>64}"


class Scene:
    """A chain after one transfer and an empty block."""

    def __init__(self, chain: TestChain) -> None:
        self.chain = chain
        self.hash = chain.transfer(chain.usdt, RECIPIENT, UNITS)
        self.number = chain.height
        chain.mine()

    def query(self, **changes: Any) -> dict[str, Any]:
        topics = [TRANSFER, None, [padded(RECIPIENT)]]
        return {"fromBlock": hex(self.number), "toBlock": "latest", "topics": topics} | changes

    def logs(self, **changes: Any) -> list[Any]:
        """Return logs with the chain's own values replaced by names."""
        names = {
            self.chain.usdt: "usdt", self.hash: "transaction", hex(self.number): "number",
            self.block["hash"]: "block", padded(self.chain.accounts[0]): "sender",
        }  # fmt: skip
        logs: list[dict[str, Any]] = self.chain.call("eth_getLogs", self.query(**changes))
        return [{name: _named(value, names) for name, value in each.items()} for each in logs]

    @property
    def block(self) -> dict[str, Any]:
        block: dict[str, Any] = self.chain.call("eth_getBlockByNumber", hex(self.number), False)
        return block

    def call_token(self, data: str) -> Any:
        return self.chain.call("eth_call", {"to": self.chain.usdt, "data": data}, "latest")


def _named(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_named(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def scenes(ganache: Ganache, sandbox_chain: SandboxChain) -> list[Scene]:
    return [Scene(ganache), Scene(sandbox_chain)]


def test_both_have_the_same_chain_and_the_same_tokens(scenes: list[Scene]) -> None:
    for real, ours in [[each.chain.call("eth_chainId") for each in scenes]]:
        assert real == ours == "0x539"
    for method in ("web3_clientVersion", "net_version", "eth_gasPrice", "eth_syncing"):
        real, ours = (each.chain.call(method) for each in scenes)
        assert type(real) is type(ours), method
    for data in ("0x313ce567", "0x95d89b41", f"0x70a08231{padded(RECIPIENT)[2:]}"):
        real, ours = (each.call_token(data) for each in scenes)
        assert real == ours, data
    nobody = {"to": f"0x{'12' * 20}", "data": "0x313ce567"}
    assert [each.chain.call("eth_call", nobody, "latest") for each in scenes] == ["0x", "0x"]
    assert all(each.chain.call("eth_getCode", each.chain.usdt, "latest") != "0x" for each in scenes)


def test_logs_are_the_same(scenes: list[Scene]) -> None:
    real, ours = scenes
    (log,) = ours.logs()
    (real_log,) = real.logs()
    assert log == {name: real_log[name] for name in log}
    empty = ({"topics": [padded(RECIPIENT)]}, {"address": f"0x{'12' * 20}"},
             {"topics": [TRANSFER, padded(RECIPIENT)]}, {"fromBlock": "0xffffff"},
             {"topics": [TRANSFER, None, None, padded(RECIPIENT)]})  # fmt: skip
    for changes in empty:
        assert [each.logs(**changes) for each in scenes] == [[], []], changes
    for scene in scenes:
        sender = padded(scene.chain.accounts[0])
        for changes in (
            {"address": scene.chain.usdt}, {"address": [scene.chain.usdt]},
            {"topics": [[TRANSFER]]}, {"topics": [TRANSFER, [sender]]},
            {"toBlock": hex(scene.number)}, {"topics": [None, None, padded(RECIPIENT)]},
        ):  # fmt: skip
            assert scene.logs(**changes) == scene.logs(), changes
        by_hash = {"blockHash": scene.block["hash"], "topics": [TRANSFER]}
        assert len(scene.chain.call("eth_getLogs", by_hash)) == 1


def test_blocks_and_transactions_have_the_same_form(scenes: list[Scene]) -> None:
    blocks = [each.block for each in scenes]
    for block, scene in zip(blocks, scenes, strict=True):
        assert block["transactions"] == [scene.hash]
        later = scene.chain.call("eth_getBlockByNumber", hex(scene.number + 1), False)
        assert later["parentHash"] == block["hash"]
        assert int(later["timestamp"], 16) >= int(block["timestamp"], 16)
        assert scene.chain.call("eth_getBlockByHash", block["hash"], False) == block
        assert scene.chain.call("eth_getBlockByNumber", hex(scene.number + 99), False) is None
        for name in ("latest", "earliest", "safe", "finalized"):
            assert scene.chain.call("eth_getBlockByNumber", name, False)["number"]
        full = scene.chain.call("eth_getBlockByNumber", hex(scene.number), True)
        sent = scene.chain.call("eth_getTransactionByHash", scene.hash)
        assert full["transactions"][0]["hash"] == sent["hash"] == scene.hash
        assert (sent["to"], sent["blockHash"]) == (scene.chain.usdt, block["hash"])
        assert sent["input"].startswith("0xa9059cbb")
        assert scene.chain.call("eth_getTransactionReceipt", f"0x{'00' * 32}") is None
        assert scene.chain.call("eth_getTransactionByHash", f"0x{'00' * 32}") is None
    for name in _BLOCK_FIELDS:
        assert len(str(blocks[0][name])) in range(len(str(blocks[1][name])) - 2, 99), name
    receipts = [each.chain.call("eth_getTransactionReceipt", each.hash) for each in scenes]
    real, ours = receipts
    assert set(ours) <= {*real, "effectiveGasPrice"}
    assert set(real) <= set(ours)
    for name, value in ours.items():
        if isinstance(value, str):
            assert _HEX.fullmatch(value)
            assert _HEX.fullmatch(real[name]), name
    assert (real["status"], ours["status"]) == ("0x1", "0x1")
    assert len(ours["logs"]) == len(real["logs"]) == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("eth_nothing", []),
        ("eth_getLogs", [{"fromBlock": "soon"}]),
        ("eth_call", [{"to": "nobody", "data": "0x"}, "latest"]),
    ],
)
def test_both_refuse_the_same(scenes: list[Scene], method: str, params: list[Any]) -> None:
    for scene in scenes:
        with pytest.raises(RuntimeError):
            scene.chain.call(method, *params)


def test_a_contract_reverts_at_both(scenes: list[Scene]) -> None:
    for scene in scenes:
        with pytest.raises(RuntimeError, match="revert"):
            scene.call_token("0x12345678")
