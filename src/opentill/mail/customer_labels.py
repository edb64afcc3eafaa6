"""Texts that mails to customers choose by a value: statuses, kinds, fields in error."""

from typing import Final

from opentill.web.translations import N_

PAYMENT_METHOD: Final = {
    "CREDIT_CARD": N_("Card"),
    "ALIPAY": N_("Alipay"),
    "WECHAT_PAY": N_("WeChat Pay"),
    "PAYNOW": N_("PayNow"),
    "CRYPTO": N_("Crypto"),
    "BANK_TRANSFER": N_("Bank transfer"),
}
