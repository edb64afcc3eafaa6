"""The adapter for any Epay V1 server upstream (易支付): ALIPAY, WECHAT_PAY and what else it has."""

from opentill.gateways.epay.client import EpayGateway

__all__ = ["EpayGateway"]
