"""The payment methods there are: gateways offer them, fees depend on them."""

from typing import Final, Literal, get_args

Method = Literal["CREDIT_CARD", "ALIPAY", "WECHAT_PAY", "PAYNOW", "CRYPTO", "BANK_TRANSFER"]
METHODS: Final[tuple[Method, ...]] = get_args(Method)
