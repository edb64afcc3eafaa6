"""USDT and USDC on EVM chains: one receiving address for each payment, monitored by OpenTill."""

from opentill.gateways.evm.client import EvmGateway

__all__ = ["EvmGateway"]
