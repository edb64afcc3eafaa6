"""``opentill gateways explain``: which accounts would take a payment, in which order, and why."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from opentill.cli import order_attempts, output, session

if TYPE_CHECKING:
    from opentill.db.database import Tx
    from opentill.gateways import Gateways, PaymentFacts

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
}
_EXHAUSTED: Final = "it has reached its limit of the day: {limits}"
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

    settings = session.settings()
    adapters = gateways.load(settings.gateways, settings)
    async with session.database(settings) as db:
        follower = AccountFollower(db, adapters, settings, ())
        try:
            await follower.refresh()
            async with db.connection() as tx:
                if payment.merchant_id is not None:
                    await merchants.find(tx, payment.merchant_id)
                exhausted = await _find_exhausted(tx, adapters, payment)
            return _records(adapters, payment, exhausted)
        finally:
            await follower.close()
            for adapter in adapters.values():
                await adapter.close()


async def _find_exhausted(tx: "Tx", gateways: "Gateways", payment: "PaymentFacts") -> set[str]:
    """Return the accounts whose limit of the day is too small for a payment."""
    from opentill.orders.payments import day_limits

    now = await session.now(tx)
    exhausted: set[str] = set()
    for account in gateways.accounts.values():
        if account.has_day_limit(payment.currency) and await day_limits.exceeds(
            tx, account.id, payment.currency, payment.amount_minor or 0, day_limits.day_of(now)
        ):
            exhausted.add(account.id)
    return exhausted


def _records(
    gateways: "Gateways", payment: "PaymentFacts", exhausted: set[str]
) -> list[dict[str, Any]]:
    from opentill.gateways import account_name
    from opentill.gateways.choice import PassedOver, find_misfit, find_routes

    names = {name: account_name(gateways, name) for name in (*gateways, *gateways.accounts)}
    routes = find_routes(gateways, payment)
    free = [route for route in routes if route.account not in exhausted]
    records: list[dict[str, Any]] = []
    passed = tuple(
        PassedOver(route.account, "DAY_LIMIT") for route in routes if route.account in exhausted
    )
    first_free = routes.index(free[0]) if free else 0
    for place, route in enumerate(free, 1):
        before = passed[:first_free] if place == 1 else ()
        records.append(
            {
                "place": place,
                "id": route.account,
                "account": names[route.account],
                "result": "chosen" if place == 1 else "fits",
                "why": order_attempts.reason_text(route.reason.after(before), names),
            }
        )
    for name, account in names.items():
        misfit = find_misfit(gateways, name, payment) if name in gateways else "UNREADABLE"
        if misfit is None and name not in exhausted:
            continue
        records.append(
            {
                "place": None,
                "id": name,
                "account": account,
                "result": "does not fit",
                "why": _misfit_text(gateways, name, payment, misfit),
            }
        )
    return records


def _misfit_text(
    gateways: "Gateways", name: str, payment: "PaymentFacts", misfit: str | None
) -> str:
    from opentill.gateways import accounts

    account = gateways.accounts.get(name)
    texts = [] if account is None else (
        accounts.day_limit_texts(account) if misfit is None else accounts.limit_texts(account)
    )  # fmt: skip
    return (_EXHAUSTED if misfit is None else _MISFITS[misfit]).format(
        method=payment.method,
        currency=payment.currency,
        broken="" if account is None else account.broken_reason,
        other="test" if gateways.livemode else "real",
        limits=", ".join(texts),
    )
