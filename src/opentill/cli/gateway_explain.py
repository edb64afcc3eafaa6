"""``opentill gateways explain``: which accounts would take a payment, in which order, and why."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from opentill.cli import order_attempts, output, session

if TYPE_CHECKING:
    from opentill.gateways import Gateways, PaymentFacts
    from opentill.orders.payments.explanations import Explanation

_COLUMNS: Final = ("place", "account", "result", "why")
_MISFITS: Final = {
    "UNREADABLE": "its credentials cannot be read",
    "PAUSED": "it is paused",
    "BROKEN": "it has paused itself: {broken}",
    "RETIRED": "it is retired",
    "MODE": "it is for {other} money",
    "MERCHANT": "it belongs to another merchant",
    "METHOD": "it does not take {method} in {currency}",
    "AMOUNT": "the amount is outside its limits: {limits}",
    "DAY_LIMIT": "it has reached its limit of the day: {limits}",
    "PREPAID": "the merchant's prepaid balance is too low for the fee",
}
Device = Literal["desktop", "phone"]


def explain(
    *,
    amount: Annotated[str, typer.Option(help="Such as 10 or 9.99.")],
    currency: Annotated[str, typer.Option(help="Its ISO 4217 code.")],
    method: Annotated[str, typer.Option(help="Such as CREDIT_CARD or ALIPAY.")],
    merchant: Annotated[str, typer.Option(help="The id of the merchant that is paid.")] = "",
    device: Annotated[str, typer.Option(help="desktop or phone: where the customer pays.")] = (
        "desktop"
    ),
) -> output.Result:
    """Show which account would take a payment, which would follow, and why the others do not fit.

    Whether a provider can be reached is known to servers only.
    """
    payment = _payment(amount, currency, method, merchant, device)
    return output.Result(session.run(_explain(payment)), _COLUMNS, empty="there is no account")


def _payment(amount: str, currency: str, method: str, merchant: str, device: str) -> "PaymentFacts":
    """Return the payment that the options describe. Raises Invalid."""
    from opentill.core import money
    from opentill.core.errors import Invalid
    from opentill.core.payment_methods import BY_NAME
    from opentill.gateways import PaymentFacts

    code = currency.strip().upper()
    if code not in money.EXPONENTS:
        raise Invalid("currency", f"currency must be an ISO 4217 code, not {currency!r}")
    try:
        amount_minor = money.parse(amount.strip(), code)
    except ValueError as error:
        raise Invalid("amount", f"amount {error}") from None
    known_method = BY_NAME.get(method.strip().upper())
    if known_method is None:
        raise Invalid("method", f"method must be one of {', '.join(BY_NAME)}")
    if device not in {"desktop", "phone"}:
        raise Invalid("device", "device must be desktop or phone")
    return PaymentFacts(
        method=known_method,
        currency=code,
        amount_minor=amount_minor,
        merchant_id=merchant.strip() or None,
        on_phone=device == "phone",
    )


async def _explain(payment: "PaymentFacts") -> list[dict[str, Any]]:
    from opentill import gateways, merchants
    from opentill.gateways.accounts.follower import AccountFollower
    from opentill.orders.payments.explanations import explain as explain_payment

    settings = session.settings()
    adapters = gateways.load(settings.gateways, settings)
    async with session.database(settings) as db:
        follower = AccountFollower(db, adapters, settings, ())
        try:
            await follower.refresh()
            async with db.connection() as tx:
                if payment.merchant_id is not None:
                    await merchants.find(tx, payment.merchant_id)
                now = await session.now(tx)
                explanations = await explain_payment(tx, adapters, payment, now)
            return _records(adapters, payment, explanations)
        finally:
            await follower.close()
            for adapter in adapters.values():
                await adapter.close()


def _records(
    gateways: "Gateways", payment: "PaymentFacts", explanations: list["Explanation"]
) -> list[dict[str, Any]]:
    names = {each.account: each.name for each in explanations}
    records: list[dict[str, Any]] = []
    for each in explanations:
        result = "chosen" if each.place == 1 else "fits" if each.place else "does not fit"
        why = (
            _misfit_text(gateways, each.account, payment, each.misfit)
            if each.reason is None
            else order_attempts.reason_text(each.reason, names, gateways.rules.positions)
        )
        records.append(
            {
                "place": each.place,
                "id": each.account,
                "account": each.name,
                "result": result,
                "why": why,
            }
        )
    return records


def _misfit_text(
    gateways: "Gateways", name: str, payment: "PaymentFacts", misfit: str | None
) -> str:
    from opentill.gateways import accounts

    account, breaker = gateways.accounts.get(name), gateways.breaker(name)
    list_limits = accounts.day_limit_texts if misfit == "DAY_LIMIT" else accounts.limit_texts
    texts = [] if account is None else list_limits(account)
    return _MISFITS[misfit or ""].format(
        method=payment.method,
        currency=payment.currency,
        broken="" if breaker is None else breaker.broken_reason,
        other="test" if gateways.livemode else "real",
        limits=", ".join(texts),
    )
