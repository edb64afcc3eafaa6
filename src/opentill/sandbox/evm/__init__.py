"""A node of a simulated EVM chain, and the wallet of its customers."""

from opentill.sandbox.evm.chain import CHAIN_ID, TOKENS
from opentill.sandbox.evm.keys import CREDENTIAL_FILE, create, load
from opentill.sandbox.evm.node import PATH, Evm

__all__ = ["CHAIN_ID", "CREDENTIAL_FILE", "PATH", "TOKENS", "Evm", "create", "load"]
