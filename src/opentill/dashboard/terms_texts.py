"""A merchant's terms in words: what each payment costs, and when its money becomes available."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import msgspec

from opentill import merchants
from opentill.core import money
from opentill.core.money import Money
from opentill.merchants import Merchant
from opentill.merchants.fee_schedule import Fee
from opentill.orders import pricing
from opentill.portal.labels import PAYMENT_METHOD, REFUND_FEE_POLICY
from opentill.web.language import Localizer
from opentill.web.translations import N_

_SAMPLE: Final = 100  # the example is the fee of a payment of this many units


class FeeText(msgspec.Struct, frozen=True):
    """The fee of some payments: which ones, the rate with its fixed part, and an example."""

    payments: str
    charge: str
    example: str


def describe_fees(localizer: Localizer, merchant: Merchant) -> list[FeeText]:
    """Return the fees by payment method and currency, and last the one of all other payments."""
    schedule = merchants.read_fees(merchant.fees)
    others = N_("All other payments") if schedule else N_("All payments")
    return [
        *(
            _describe(localizer, merchant, _payments(localizer, fee), fee.rate, fee)
            for fee in schedule
        ),
        _describe(localizer, merchant, localizer.gettext(others), merchant.platform_fee_rate, None),
    ]


def _payments(localizer: Localizer, fee: Fee) -> str:
    method = localizer.gettext(PAYMENT_METHOD[fee.method])
    if fee.currency is None:
        return method
    return localizer.gettext(N_("{method} in {currency}"), method=method, currency=fee.currency)


def _describe(
    localizer: Localizer, merchant: Merchant, payments: str, rate: Decimal, fee: Fee | None
) -> FeeText:
    settled = merchant.settlement_currency
    currency = (fee and fee.currency) or settled
    fixed_minor = fee.fixed_minor(currency, settled) if fee else 0
    minor = _SAMPLE * 10 ** money.exponent(currency)
    priced = pricing.price(
        minor,
        currency,
        settled_currency=currency,
        exchange_rate=Decimal(1),
        fee_rate=rate,
        fixed_minor=fixed_minor,
    )
    share = localizer.exact_percent(rate)
    charge = (
        f"{share} + {localizer.amount_with_code(Money(fixed_minor, currency))}"
        if fixed_minor
        else share
    )
    example = localizer.gettext(
        N_("{fee} of a payment of {amount}"),
        fee=localizer.amount(Money(priced.fee_minor, currency)),
        amount=localizer.amount(Money(minor, currency)),
    )
    return FeeText(payments, charge, example)


def describe_terms(localizer: Localizer, merchant: Merchant) -> Iterator[tuple[str, str]]:
    """Yield the other terms that move money: a name and a sentence for each."""
    _ = localizer.gettext

    def amount(minor: int) -> str:
        return localizer.amount(Money(minor, merchant.settlement_currency))

    yield _("Refunds"), _(REFUND_FEE_POLICY[merchant.refund_fee_policy])
    if merchant.dispute_fee_minor:
        yield (
            _("Disputes"),
            _(
                "{fee} for each dispute that you lose, beside the disputed amount.",
                fee=amount(merchant.dispute_fee_minor),
            ),
        )
    days = localizer.number(merchant.settlement_delay_days)
    weekdays = merchant.settlement_calendar == "WEEKDAYS"
    yield (
        _("Available"),
        _(
            N_("{days} weekdays after the payment.")
            if weekdays
            else N_("{days} days after the payment."),
            days=days,
        ),
    )
    if merchant.reserve_rate:
        yield (
            _("Rolling reserve"),
            _(
                "{rate} of each payment is held back for {days} days against chargebacks.",
                rate=localizer.exact_percent(merchant.reserve_rate),
                days=localizer.number(merchant.reserve_days),
            ),
        )
