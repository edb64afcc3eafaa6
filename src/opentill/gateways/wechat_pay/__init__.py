"""The adapter for WeChat Pay's API v3 of direct merchants, without WeChat Pay's SDK."""

from opentill.gateways.wechat_pay.client import WeChatPayGateway

__all__ = ["WeChatPayGateway"]
