"""Routing rules and gateway accounts in the audit log as people read them."""

from markupsafe import Markup

from opentill.console.account_labels import RANKING
from opentill.portal.labels import PAYMENT_METHOD
from opentill.portal.request import PageRequest
from opentill.web.translations import N_

_METHODS = dict[str, str](PAYMENT_METHOD.items())
_RANKINGS = dict[str, str](RANKING.items())
_EVERY = "every payment"


def write_rule(request: PageRequest, text: str) -> Markup:
    """Write a rule as ``gateways.rules`` records it: conditions, ranking and accounts."""
    conditions, _, rest = text.partition(": ")
    ranking, _, accounts = rest.partition(": ")
    gettext = request.localizer.gettext
    named = [write_account(request, each) for each in accounts.split(", ") if each]
    if not named:
        named = [gettext(_RANKINGS[ranking]) if ranking in _RANKINGS else _isolate(ranking)]
    return Markup("{} → {}").format(
        _write_conditions(request, conditions), Markup(", ").join(named)
    )


def write_account(request: PageRequest, account: str) -> Markup:
    """Write the name of a gateway account by its id, or by its gateway."""
    return _isolate(request.account_name(account))


def _write_conditions(request: PageRequest, text: str) -> Markup:
    if text == _EVERY:
        return request.localizer.gettext(N_("Every payment"))
    methods, _, rest = text.partition(" ")
    names = methods.split("|")
    if not all(name in _METHODS for name in names):
        return _isolate(text)
    written = Markup(", ").join(request.localizer.gettext(_METHODS[name]) for name in names)
    return written + Markup(" · ") + _isolate(rest) if rest else written


def _isolate(text: str) -> Markup:
    return Markup("<bdi>{}</bdi>").format(text)
