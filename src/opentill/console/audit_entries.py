"""The entries of the audit log as people read them: names of actions, and details as sentences.

The log stores an action as a code and its object as text, which the hashes protect. ``ACTION`` has
a name for each code, and ``audit_sentences.py`` the sentences for texts of a known form. Other
texts are shown as they are, with ids as links.
"""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final

from markupsafe import Markup, escape

from opentill.console.audit_routing import write_account, write_rule
from opentill.console.audit_sentences import SENTENCES
from opentill.console.labels import MERCHANT_STATUS, MOVEMENT_KIND
from opentill.console.merchant_labels import CAPABILITY, TERM
from opentill.core.money import EXPONENTS, Money
from opentill.merchants import AuditRow
from opentill.portal.labels import ROLE, STAFF_ROLE
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_

ACTION: Final[Mapping[str, str]] = {
    "agreement accept": N_("Agreement accepted"),
    "approvals approve": N_("Request approved"),
    "approvals reject": N_("Request rejected"),
    "approvals request": N_("Approval requested"),
    "balance approve": N_("Adjustment approved"),
    "balance correct": N_("Balance corrected"),
    "balance fee": N_("Fee charged"),
    "balance freeze": N_("Money held"),
    "balance prepay": N_("Money moved to the prepaid balance"),
    "balance recharge": N_("Balance recharged"),
    "balance reject": N_("Adjustment rejected"),
    "balance topup": N_("Prepaid balance topped up"),
    "balance unfreeze": N_("Money released"),
    "balance unprepay": N_("Money moved back from the prepaid balance"),
    "deposits handled": N_("Token transfer handled"),
    "deposits refunded": N_("Refund in tokens recorded"),
    "disputes deadline": N_("Dispute deadline changed"),
    "disputes dismiss": N_("Unmatched dispute dismissed"),
    "disputes evidence": N_("Evidence added"),
    "disputes evidence removed": N_("Evidence removed"),
    "disputes forward": N_("Dispute response forwarded to the bank"),
    "disputes lose": N_("Dispute recorded as lost"),
    "disputes note": N_("Note added to a dispute"),
    "disputes open": N_("Dispute opened"),
    "disputes recover": N_("Dispute money recovered"),
    "disputes respond": N_("Dispute responded to"),
    "disputes win": N_("Dispute recorded as won"),
    "epay disable": N_("Epay turned off"),
    "epay enable": N_("Epay turned on"),
    "epay import": N_("Epay server imported"),
    "epay key-pair": N_("Epay V2 key pair generated"),
    "epay public-key": N_("Epay V2 public key replaced"),
    "epay resend": N_("Epay notification sent again"),
    "epay rotate": N_("Epay key replaced"),
    "epay rotate-platform-key": N_("The platform’s Epay key replaced"),
    "epay versions": N_("Epay versions changed"),
    "gateways add": N_("Gateway account added"),
    "gateways break": N_("Gateway account paused itself"),
    "gateways mend": N_("Gateway account works again"),
    "gateways pause": N_("Gateway account paused"),
    "gateways resume": N_("Gateway account resumed"),
    "gateways retire": N_("Gateway account retired"),
    "gateways rotate": N_("Gateway credentials replaced"),
    "gateways rules add": N_("Routing rule added"),
    "gateways rules move": N_("Routing rule moved"),
    "gateways rules remove": N_("Routing rule removed"),
    "gateways rules set": N_("Routing rule changed"),
    "gateways set": N_("Gateway account changed"),
    "gateways test": N_("Test payment opened"),
    "keys create": N_("API key created"),
    "keys regenerate": N_("API key replaced"),
    "keys rename": N_("API key renamed"),
    "keys revoke": N_("API key revoked"),
    "links add": N_("Payment link created"),
    "links set": N_("Payment link changed"),
    "mail reread": N_("Events turned into emails again"),
    "mail resend": N_("Email sent again"),
    "mail set": N_("Email settings changed"),
    "merchants apply": N_("Merchant applied"),
    "merchants approve": N_("Merchant approved"),
    "merchants capability": N_("Payments, refunds or payouts turned on or off"),
    "merchants close": N_("Merchant closed"),
    "merchants create": N_("Merchant created"),
    "merchants decline": N_("Merchant declined"),
    "merchants gateways": N_("Gateways of own accounts chosen"),
    "merchants note": N_("Note added to a merchant"),
    "merchants resume": N_("Merchant resumed"),
    "merchants set": N_("Terms changed"),
    "merchants suspend": N_("Merchant suspended"),
    "orders confirm": N_("Payment confirmed"),
    "orders given-back": N_("Second payment recorded as refunded"),
    "orders note": N_("Note added to a payment"),
    "orders refund": N_("Payment refunded"),
    "orders revoke": N_("Payment revoked"),
    "payments export": N_("Payments downloaded"),
    "payouts account": N_("Bank account changed"),
    "payouts approve": N_("Payout approved"),
    "payouts confirm-account": N_("Bank account confirmed"),
    "payouts create": N_("Payout created"),
    "payouts failed": N_("Payout failed"),
    "payouts file": N_("Bank file downloaded"),
    "payouts paid": N_("Payout marked as paid"),
    "payouts reject": N_("Payout rejected"),
    "payouts report": N_("Bank report uploaded"),
    "payouts request": N_("Payout requested"),
    "payouts returned": N_("Payout returned"),
    "payouts run": N_("Payout run started"),
    "people accept": N_("Invitation accepted"),
    "people factor failed": N_("Wrong second factor"),
    "people factors ask": N_("Reset of second factors requested"),
    "people factors begin": N_("Reset of second factors started"),
    "people factors end": N_("Second factors reset"),
    "people factors stop": N_("Reset of second factors stopped"),
    "people invite": N_("Person invited"),
    "people logout": N_("Logged out everywhere"),
    "people passkey add": N_("Passkey added"),
    "people passkey remove": N_("Passkey removed"),
    "people email": N_("Email address changed"),
    "people password": N_("Password changed"),
    "people rename": N_("Person renamed"),
    "people recovery codes": N_("Recovery codes created"),
    "people remove": N_("Person removed"),
    "people reset": N_("Password reset link created"),
    "people role": N_("Role changed"),
    "people second factor": N_("Authenticator changed"),
    "people set anew": N_("Account taken over by its owner"),
    "people visit": N_("Dashboard viewed as staff"),
    "people withdraw": N_("Invitation withdrawn"),
    "products add": N_("Product created"),
    "products archive": N_("Product archived"),
    "products restore": N_("Product restored"),
    "products set": N_("Product changed"),
    "profile logo": N_("Logo changed"),
    "profile set": N_("Business details changed"),
    "rates import": N_("Exchange rates imported"),
    "rates set": N_("Exchange rate set"),
    "reconcile": N_("Settlement report compared"),
    "reconcile reopen": N_("Difference opened again"),
    "reconcile resolve": N_("Difference resolved"),
    "refund refused": N_("Refund recorded as failed"),
    "refund succeeded": N_("Refund recorded as done"),
    "refunds dismiss": N_("Refund report dismissed"),
    "refunds handled": N_("Failed refund handled"),
    "refunds record": N_("Refund at the gateway recorded"),
    "refunds reversed": N_("Refund reversed"),
    "secret-key replace": N_("Encryption key replaced"),
    "sessions end": N_("Checkout session ended"),
    "sessions open": N_("Checkout session created"),
    "webhooks add": N_("Webhook endpoint added"),
    "webhooks disable": N_("Webhook endpoint disabled"),
    "webhooks remove": N_("Webhook endpoint removed"),
    "webhooks resend": N_("Event sent again"),
    "webhooks reveal": N_("Webhook secret viewed"),
    "webhooks rotate": N_("Webhook secret replaced"),
    "webhooks set": N_("Webhook endpoint changed"),
    "webhooks test": N_("Test event sent"),
}
_AMOUNT: Final = re.compile(r"(-?[0-9]{1,18}(?:\.[0-9]{1,4})?) ([A-Z]{3})", re.ASCII)
_ID: Final = re.compile(r"\b([a-z]{2,6})_[0-9a-z]{14,}([0-9a-z]{6})\b", re.ASCII)
_DIGEST: Final = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{32,}\b", re.ASCII)
_NAMED_PERSON: Final = re.compile(r" \(per_[0-9a-z]+\)", re.ASCII)
# Group → the names of its values.
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "kind": dict(MOVEMENT_KIND.items()),
    "role": dict(ROLE.items()),
    "staff_role": dict(STAFF_ROLE.items()),
}
# The prefix of an id → the path below /console of the page that shows its object.
_PAGES: Final[Mapping[str, str]] = {
    "dif": "reconciliation",
    "dp": "disputes",
    "mer": "merchants",
    "order": "payments",
    "per": "people",
    "po": "payouts",
    "run": "payout-runs",
}
_STATUSES: Final = re.compile(r"(?:(\w+): )?([A-Z]+) → ([A-Z]+), off: (.+)", re.ASCII)
_TERMS: Final = re.compile(r"version [0-9]+: (.+)", re.ASCII)
_TERM: Final = re.compile(r"(?:^|, )([a-z_]+)=", re.ASCII)


def name(localizer: Localizer, action: str) -> Markup:
    """Return the name of an action; an unknown one is its code."""
    return localizer.gettext(ACTION[action]) if action in ACTION else escape(action)


def details(request: PageRequest, row: AuditRow) -> Markup:
    """Describe the object of an entry in the reader's language, "" if its action says all."""
    localizer = request.localizer
    if row.action.startswith("merchants ") and (match := _STATUSES.fullmatch(row.subject)):
        return _write_status(localizer, match)
    if row.action == "merchants set" and (match := _TERMS.fullmatch(row.subject)):
        return _write_terms(localizer, match[1])
    for sentence in SENTENCES.get(row.action, ()):
        if match := sentence.pattern.fullmatch(row.subject):
            values = {
                group: _write_value(request, group, value)
                for group, value in match.groupdict().items()
                if value is not None
            }
            return localizer.gettext(sentence.text, **values) if sentence.text else Markup("")
    return link_ids(request, row.subject)


def _write_value(request: PageRequest, group: str, value: str) -> Markup:
    localizer, name = request.localizer, group.removeprefix("new_").removeprefix("old_")
    if name in _WRITERS:
        return _WRITERS[name](request, value)
    if value in _NAMES.get(name, {}):
        return localizer.gettext(_NAMES[name][value])
    match name:
        case "amount":
            return _write_amounts(localizer, escape(value))
        case "number" | "count":
            return escape(localizer.number(int(value)))
        case _:
            return Markup("<bdi>{}</bdi>").format(value)


def _write_status(localizer: Localizer, match: re.Match[str]) -> Markup:
    """Write a change of a merchant's status or of a capability."""
    capability, old, new, off = match.groups()
    if capability in CAPABILITY:
        is_off = capability in off.split(", ")
        text = N_("{capability}: switched off") if is_off else N_("{capability}: switched on")
        return localizer.gettext(text, capability=localizer.gettext(CAPABILITY[capability]))
    names = [
        localizer.gettext(MERCHANT_STATUS[status]) if status in MERCHANT_STATUS else escape(status)
        for status in (old, new)
    ]
    return Markup(" → ").join(names)


def _write_terms(localizer: Localizer, text: str) -> Markup:
    """Write the changed terms of a merchant: the name and the value of each."""
    parts = _TERM.split(text)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return Markup(", ").join(
        Markup("{}: <bdi>{}</bdi>").format(
            localizer.gettext(TERM[term]) if term in TERM else term,
            _term_value(localizer, term, value),
        )
        for term, value in pairs
    )


def _term_value(localizer: Localizer, term: str, value: str) -> str:
    if term.endswith("_rate"):
        try:
            return localizer.exact_percent(Decimal(value))
        except InvalidOperation:
            return value
    return value


def _write_amounts(localizer: Localizer, text: Markup) -> Markup:
    def replace(match: re.Match[str]) -> str:
        if match[2] not in EXPONENTS:
            return match[0]
        minor = int(Decimal(match[1]).scaleb(EXPONENTS[match[2]]))
        return localizer.amount(Money(minor, match[2]))

    return Markup(_AMOUNT.sub(replace, text))  # noqa: S704 - the text is escaped


def link_ids(request: PageRequest, text: str) -> Markup:
    """Shorten ids and digests in a text, write its amounts, and link ids that have a page."""

    def replace(match: re.Match[str]) -> str:
        short = f'<code class="id" title="{match[0]}">{match[1]}_…{match[2]}</code>'
        page = _PAGES.get(match[1])
        return f'<a href="{request.console(page, match[0])}">{short}</a>' if page else short

    html = _ID.sub(replace, str(escape(_NAMED_PERSON.sub("", text))))
    html = _DIGEST.sub(r"\1…", html)
    return _write_amounts(request.localizer, Markup(html))  # noqa: S704 - the text is escaped


def _write_who(_: PageRequest, text: str) -> Markup:
    return Markup("<bdi>{}</bdi>").format(_NAMED_PERSON.sub("", text))


_WRITERS: Final[Mapping[str, Callable[[PageRequest, str], Markup]]] = {
    "account": write_account,
    "id": link_ids,
    "rule": write_rule,
    "who": _write_who,
}
