"""The sandbox bank's chain for tests, with the methods of ``ganache.Ganache``."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from opentill.sandbox import evm
from opentill.sandbox.evm.chain import WALLET
from support.ports import free_socket
from support.sandbox_bank import SECRET, running_bank


class SandboxChain:
    """A running chain, and the wallets of its customers."""

    def __init__(self, bank_url: str, key: str) -> None:
        """``key`` is in the node's address."""
        self.bank_url = bank_url
        self.url = f"{bank_url}{evm.PATH}/{key}"
        headers = {"Authorization": f"Bearer {SECRET}"}
        self.api = httpx2.Client(base_url=bank_url, headers=headers, timeout=60, trust_env=False)
        others = (hashlib.sha256(bytes([number])).hexdigest()[:40] for number in range(1, 10))
        self.accounts = [WALLET, *(f"0x{digits}" for digits in others)]
        self.usdt, self.usdc, self.other = (
            evm.TOKENS[name].address for name in ("USDT", "USDC", "OTHER")
        )

    def close(self) -> None:
        """Close the connections."""
        self.api.close()

    def call(self, method: str, *params: Any) -> Any:
        """Call a method of the node. Raises RuntimeError with the node's error."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        reply = self.api.post(self.url, json=body).json()
        if "error" in reply:
            raise RuntimeError(reply["error"]["message"])
        return reply["result"]

    def _post(self, path: str, **fields: Any) -> dict[str, Any]:
        response = self.api.post(path, json=fields)
        assert response.status_code == 201, response.text
        content: dict[str, Any] = response.json()
        return content

    def transfer(self, token: str, to: str, units: int, sender: int = 0) -> str:
        """Send units of a token; return the hash of the transaction."""
        decimals = 18 if token == self.usdc else 6
        amount = f"{units // 10**decimals}.{units % 10**decimals:0{decimals}d}"
        order = {"token": token, "to": to, "amount": amount, "sender": self.accounts[sender]}
        return str(self._post("/evm/transfers", **order)["transaction"])

    def mine(self, blocks: int = 1) -> None:
        """Add empty blocks."""
        self._post("/evm/blocks", blocks=blocks)

    def reorganize(self, blocks: int, *, keep: bool = False) -> None:
        """Replace the newest blocks; ``keep``: the new ones have the same transfers."""
        self._post("/evm/reorganizations", blocks=blocks, keep=keep)

    def inject_fault(self, kind: str, **options: Any) -> None:
        """Let the node fail."""
        self._post("/faults", operation="node", kind=kind, **options)

    @property
    def height(self) -> int:
        """The number of the newest block."""
        return int(self.call("eth_blockNumber"), 16)

    @contextmanager
    def fork(self) -> Iterator[None]:
        """Replace all blocks that are added in the block by others: a reorganization."""
        height = self.height
        yield
        self.reorganize(self.height - height)


@contextmanager
def running_sandbox_chain(data_dir: Path) -> Iterator[SandboxChain]:
    """Run a bank with a chain on loopback."""
    folder = evm.create(data_dir)
    with running_bank(data_dir, free_socket()) as url:
        chain = SandboxChain(url, (folder / evm.CREDENTIAL_FILE).read_text())
        try:
            yield chain
        finally:
            chain.close()
