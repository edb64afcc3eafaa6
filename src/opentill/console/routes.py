"""Why a payment attempt went to its gateway account, for the page of a payment."""

from collections.abc import Mapping
from typing import Final

from opentill.gateways.choice import Basis, Obstacle, RouteReason, decode_reason
from opentill.orders import PaymentAttempt
from opentill.portal.payment_timeline import Fact
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

BASIS: Final[Mapping[Basis, str]] = {
    "ONLY": N_("the only account that fits"),
    "OWN": N_("the merchant’s own account"),
    "ENVIRONMENT": N_("order of the gateways in the settings"),
    "PRIORITY": N_("priority {priority}"),
    "WEIGHT": N_("priority {priority}, at random with weight {weight}"),
}
OBSTACLE: Final[Mapping[Obstacle, str]] = {
    "UNREACHABLE": N_("{account} could not be reached"),
    "DAY_LIMIT": N_("{account} has reached its limit of the day"),
}


def attempt_facts(request: PageRequest, attempt: PaymentAttempt) -> tuple[Fact, ...]:
    """Return the account of an attempt, and why it was chosen, if that is known."""
    account = (N_("Gateway"), request.account_name(attempt.gateway))
    reason = decode_reason(attempt.route)
    if reason is None:
        return (account,)
    return account, (N_("Why this gateway"), _text(request, reason))


def _text(request: PageRequest, reason: RouteReason) -> str:
    _ = request.localizer.gettext
    values = {"priority": reason.priority or 0, "weight": reason.weight or 0}
    basis = _(BASIS[reason.by], **{
        name: request.localizer.number(value)
        for name, value in values.items()
        if f"{{{name}}}" in BASIS[reason.by]
    })  # fmt: skip
    passed = (
        _(OBSTACLE[each.why], account=request.account_name(each.account)) for each in reason.passed
    )
    return "; ".join([basis, *passed])
