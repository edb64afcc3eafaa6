"""The adapter for an upstream Epay V1 server (易支付): ALIPAY, WECHAT_PAY and other methods."""

from opentill.gateways.epay.client import EpayGateway

__all__ = ["EpayGateway"]
