"""The adapter for Alipay's Open Platform (openapi ``gateway.do``, RSA2), without Alipay's SDK."""

from opentill.gateways.alipay.client import AlipayGateway

__all__ = ["AlipayGateway"]
