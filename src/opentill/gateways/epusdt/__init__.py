"""The adapter for a server of the epusdt family, which takes USDT into the operator's wallets."""

from opentill.gateways.epusdt.client import EpusdtGateway

__all__ = ["EpusdtGateway"]
