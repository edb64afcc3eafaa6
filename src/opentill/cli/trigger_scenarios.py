"""What makes each type of event happen, for ``opentill trigger``."""

from typing import Final, NamedTuple

_SUCCEEDS: Final = "4242424242424242"
_DISPUTED: Final = "4000000000000259"
_REFUNDS_FAIL: Final = "4000000000005126"


class Scenario(NamedTuple):
    """What makes an event happen: a payment with a card, or none, and then perhaps a refund."""

    card: str | None = _SUCCEEDS
    is_refunded: bool = False


SCENARIOS: Final[dict[str, Scenario]] = {
    "order.paid": Scenario(),
    "checkout.completed": Scenario(),
    "order.refunded": Scenario(is_refunded=True),
    "refund.failed": Scenario(_REFUNDS_FAIL, is_refunded=True),
    "dispute.created": Scenario(_DISPUTED),
    "order.closed": Scenario(None),
    "checkout.expired": Scenario(None),
}
# Types that no merchant can make happen by the API, and the commands of an operator that do.
OF_OPERATORS: Final[dict[str, str]] = {
    "order.settled": "opentill clock advance 8d, after order.paid",
    "dispute.closed": "opentill disputes win or lose, after dispute.created",
    "payout.paid": "opentill payouts create, then opentill payouts paid",
    "payout.failed": "opentill payouts create, then opentill payouts failed",
}
