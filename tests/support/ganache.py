"""A real EVM chain for tests: Ganache, which runs offline, with tokens of the tests.

Ganache derives its accounts from a mnemonic. Ten of them are ours, so that tests compare its
derivation with that of the adapter; they send all transactions.
"""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from support.javascript import npm_ci
from support.once import once
from support.ports import free_socket
from support.sandbox_bank import wait_until

# The usual mnemonic of test chains, and the public keys m/44'/60'/0' and m/44'/60'/0'/0 of it.
MNEMONIC: Final = "test test test test test test test test test test test junk"
ACCOUNT_XPUB: Final = (
    "xpub6Ce9NcJvTk36xtLSrJLZqE7wtgA5deCeYs7rSQtreh4cj6ByPtrg"
    "9sD7V2FNFLPnf8heNP3FGkeV9qwfzvZNSd54JoNXVsXFYSYwHsnJxqP"
)
XPUB: Final = (
    "xpub6DyUKdwoLWmUJ4Tn9Bbsdtx7B5Ws18mEN19e5HT52ikE53FiUheS"
    "QXrZUNPovqfyKmw4579A1Mm3GXXKM39N64uooBfJ4tNAzFsEbodRTx4"
)
CHAIN_ID: Final = 1337
_FOLDER: Final = Path(__file__).parent.parent / "gateways" / "ganache"
_TRANSFER: Final = "0xa9059cbb"  # transfer(address,uint256)


def install_ganache(factory: pytest.TempPathFactory) -> Path:
    """Install Ganache from its lock file, once for all pytest workers; return its program."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")

    def install(folder: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(_FOLDER / name, folder)
        npm_ci(folder)

    return once(factory, "ganache", install) / "node_modules" / ".bin" / "ganache"


def _word(value: int | str) -> str:
    return f"{value:064x}" if isinstance(value, int) else value[2:].lower().rjust(64, "0")


class Ganache:
    """A running chain, and the wallets of its customers."""

    def __init__(self, url: str) -> None:
        """Deploy USDT with 6 decimals, USDC with 18, and a worthless token."""
        self.url = url
        self._http = httpx2.Client(base_url=url, timeout=60, trust_env=False)
        self.accounts: list[str] = self.call("eth_accounts")
        self.usdt, self.usdc = self.deploy("USDT", 6), self.deploy("USDC", 18)
        self.other = self.deploy("USDT", 6)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def call(self, method: str, *params: Any) -> Any:
        """Call a method of the node. Raises RuntimeError with the node's error."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        reply = self._http.post("/", json=body).json()
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["result"]

    def deploy(self, symbol: str, decimals: int) -> str:
        """Create a token; return its address, in lower case."""
        code = (_FOLDER / "test_token.hex").read_text().strip()
        name = symbol.encode().hex().ljust(64, "0")
        arguments = _word(64) + _word(decimals) + _word(len(symbol)) + name
        receipt = self._send({"data": f"0x{code}{arguments}"})
        return str(receipt["contractAddress"])

    def transfer(self, token: str, to: str, units: int, sender: int = 0) -> str:
        """Send units of a token; return the hash of the transaction."""
        data = _TRANSFER + _word(to) + _word(units)
        return str(self._send({"to": token, "data": data}, sender)["transactionHash"])

    def _send(self, transaction: dict[str, str], sender: int = 0) -> dict[str, Any]:
        fields = {"from": self.accounts[sender], "gas": "0x2dc6c0", **transaction}
        receipt: dict[str, Any] = self.call(
            "eth_getTransactionReceipt", self.call("eth_sendTransaction", fields)
        )
        assert receipt["status"] == "0x1", receipt
        return receipt

    def mine(self, blocks: int = 1) -> None:
        """Add empty blocks."""
        self.call("evm_mine", {"blocks": blocks})

    @property
    def height(self) -> int:
        """The number of the newest block."""
        return int(self.call("eth_blockNumber"), 16)

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Replace all blocks that are added in the block by others: a reorganisation.

        The chain is as long as before afterwards, with empty blocks.
        """
        snapshot, height = self.call("evm_snapshot"), self.height
        yield
        added = self.height - height
        assert self.call("evm_revert", snapshot)
        self.call("evm_increaseTime", 7)  # so that the blocks have other hashes
        self.mine(added)


@contextmanager
def running_ganache(program: Path) -> Iterator[Ganache]:
    """Run a chain of one's own on loopback."""
    with free_socket() as sock:
        port = sock.getsockname()[1]
    process = subprocess.Popen(
        [
            str(program), "--server.host", "127.0.0.1", "--server.port", str(port),
            "--chain.chainId", str(CHAIN_ID), "--wallet.mnemonic", MNEMONIC, "--logging.quiet",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"

    def is_ready() -> bool:
        assert process.poll() is None, "Ganache has ended"
        try:
            return httpx2.get(url, timeout=5, trust_env=False).status_code > 0
        except httpx2.HTTPError:
            return False

    try:
        wait_until(is_ready)
        chain = Ganache(url)
        try:
            yield chain
        finally:
            chain.close()
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def ganache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ganache]:
    """A chain for the tests of a module."""
    with running_ganache(install_ganache(tmp_path_factory)) as chain:
        yield chain
