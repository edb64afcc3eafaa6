"""A receipt: what was paid, what was refunded, and who sold it to whom."""

from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from opentill.core.money import Money
from opentill.gateways.model import Method
from opentill.merchants import Seller
from opentill.receipts.tax import included_tax
from opentill.web.translations import N_

PAYMENT_METHOD: Final = {
    "CREDIT_CARD": N_("Card"),
    "ALIPAY": N_("Alipay"),
    "WECHAT_PAY": N_("WeChat Pay"),
    "PAYNOW": N_("PayNow"),
    "CRYPTO": N_("Cryptocurrency"),
    "BANK_TRANSFER": N_("Bank transfer"),
}


class ReceiptRefund(msgspec.Struct, frozen=True):
    """A refund that succeeded: its amount, its time, and the tax in it.

    ``tax`` is None if the merchant states no rate.
    """

    amount: Money
    at: int
    tax: Money | None = None


class Chargeback(msgspec.Struct, frozen=True):
    """A lost dispute: what the bank returned to the customer, and when it was decided."""

    amount: Money
    at: int


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of a paid session. Times are Unix ms; texts that are not known are "".

    Only the copies of the customer and of the merchant may show the customer's ``name``, "" if they
    entered none, and ``email`` in full: others see the address masked.
    """

    merchant_id: str
    number: str
    session_id: str
    order_id: str
    shop: str
    item: str
    quantity: int
    amount: Money
    paid_at: int
    shop_zone: ZoneInfo
    livemode: bool
    method: Method | None = None
    card: str = ""  # brand and last four digits
    email: str = ""
    name: str = ""
    reference: str = ""  # the shop's own number of the order
    refunded: Money
    refunds: list[ReceiptRefund] = []  # oldest first
    chargebacks: list[Chargeback] = []  # oldest first
    seller: Seller = Seller()
    contact: list[str] = []  # the shop's email address and help page
    accent: str | None = None  # #rrggbb
    logo_sha256: str | None = None

    @property
    def tax(self) -> Money | None:
        """The tax in the amount; None if the merchant states no rate."""
        return None if self.rate is None else included_tax(self.amount, self.rate)

    @property
    def price(self) -> Money:
        """The price of a single item."""
        return Money(self.amount.minor // self.quantity, self.amount.currency)

    @property
    def net(self) -> Money:
        """What is still paid after the refunds and chargebacks, at least nothing."""
        returned_minor = sum(each.amount.minor for each in self.chargebacks)
        left_minor = self.amount.minor - self.refunded.minor - returned_minor
        return Money(max(0, left_minor), self.amount.currency)

    @property
    def net_tax(self) -> Money | None:
        """The tax in what is still paid; None if the merchant states no rate."""
        return None if self.rate is None else included_tax(self.net, self.rate)

    @property
    def rate(self) -> Decimal | None:
        """The rate of the tax as a share, such as 0.19; None if the merchant states none."""
        return self.seller.rate


def masked(email: str) -> str:
    """Mask an email address so that its owner recognizes it, because receipts are passed on."""
    local, _, domain = email.rpartition("@")
    return f"{local[:1]}•••@{domain}"
