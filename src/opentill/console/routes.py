"""Why a payment attempt went to its gateway account, for the page of a payment."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup, escape

from opentill.gateways import Gateways
from opentill.gateways.choice import Basis, Obstacle, RouteReason, decode_reason
from opentill.orders import PaymentAttempt
from opentill.portal.model import CONSOLE_PATH
from opentill.portal.payment_timeline import Fact
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

BASIS: Final[Mapping[Basis, str]] = {
    "ONLY": N_("the only account that fits"),
    "OWN": N_("the merchant’s own account"),
    "ENVIRONMENT": N_("order of the gateways in the settings"),
    "PRIORITY": N_("priority {priority}"),
    "WEIGHT": N_("priority {priority}, at random with weight {weight}"),
    "LISTED": N_("named by the rule"),
    "COST": N_("lowest cost"),
    "SUCCESS_RATE": N_("best success rate: {percent}"),
    "EXPLORATION": N_("test of the success rate: {percent}"),
    "TEST": N_("test payment of this account"),
}
_BY_WEIGHT: Final = N_("at random with weight {weight}")  # by a rule, whatever the priority
OBSTACLE: Final[Mapping[Obstacle, str]] = {
    "UNREACHABLE": N_("{account} could not be reached"),
    "DAY_LIMIT": N_("{account} has reached its limit of the day"),
    "PREPAID": N_("the prepaid balance was too low for the fee of {account}"),
    "BROKEN": N_("{account} refused it with an error that pauses the account"),
}


def attempt_facts(request: PageRequest, attempt: PaymentAttempt) -> tuple[Fact, ...]:
    """Return the account of an attempt, and why it was chosen, if that is known."""
    account = (N_("Gateway"), request.account_name(attempt.gateway))
    reason = decode_reason(attempt.route)
    if reason is None:
        return (account,)
    return account, (N_("Why this gateway"), reason_text(request, reason))


def reason_text(request: PageRequest, reason: RouteReason) -> Markup:
    """Return why a payment goes to an account; a rule is a link to its line in the list."""
    _ = request.localizer.gettext
    is_by_weight_only = reason.by == "WEIGHT" and reason.priority is None
    text = _BY_WEIGHT if is_by_weight_only else BASIS[reason.by]
    values = {
        "priority": request.localizer.number(reason.priority or 0),
        "weight": request.localizer.number(reason.weight or 0),
        "percent": f"{reason.success_percent}%",
    }
    used = {name: value for name, value in values.items() if f"{{{name}}}" in text}
    rule = [] if reason.rule is None else [_rule_text(request, reason.rule)]
    passed = (
        _(OBSTACLE[each.why], account=request.account_name(each.account)) for each in reason.passed
    )
    reasons = Markup("; ").join([*rule, _(text, **used), *passed])
    return reasons if rule else reasons[:1].upper() + reasons[1:]


def _rule_text(request: PageRequest, rule_id: str) -> Markup:
    """Name a rule by its position, which may have changed since; a removed one by its id."""
    _, gateways = request.localizer.gettext, request.app.gateways
    position = gateways.rules.positions.get(rule_id) if isinstance(gateways, Gateways) else None
    if position is None:
        return escape(_("Rule {rule}, removed since", rule=f"rr_…{rule_id[-6:]}"))
    text = _("Rule {rule}", rule=request.localizer.number(position))
    if not request.may("deployment.read"):
        return escape(text)
    place = f"{CONSOLE_PATH}/routing-rules#{rule_id}"
    return Markup('<a href="{}">{}</a>').format(place, text)
