"""The address and the amounts that a customer sees who pays in tokens."""

from opentill import checkouts, deposits
from opentill.context import App
from opentill.core.money import EXPONENTS, Money
from opentill.gateways.deposits import SCALE, Token, takes_deposits
from opentill.pages.model import Deposit, TokenAmount


async def find_deposit(app: App, view: checkouts.PageView) -> Deposit | None:
    """Return where the last attempt of a payment is paid; None if it is not paid in tokens."""
    attempt = view.last_attempt
    gateway = None if attempt is None else app.gateways.get(attempt.gateway)
    if attempt is None or not takes_deposits(gateway):
        return None
    async with app.db.connection() as tx:
        progress = await deposits.find_progress(tx, attempt.id)
    if progress is None:
        return None
    received = int(progress.received)
    remaining = max(int(progress.due) - received, 0)

    def amount(token: Token) -> TokenAmount:
        units = -(-remaining // 10 ** (SCALE - token.decimals))
        uri = gateway.payment_uri(token, progress.address, units)
        return TokenAmount(token.symbol, token.text(units), uri)

    minor = received // 10 ** (SCALE - EXPONENTS[attempt.currency])
    return Deposit(
        network=gateway.network,
        address=gateway.show_address(progress.address),
        tokens=tuple(map(amount, gateway.tokens)),
        received=Money(minor, attempt.currency) if received else None,
    )
