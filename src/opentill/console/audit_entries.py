"""The entries of the audit log as people read them: names of actions, and details as sentences.

The log stores an action as a code and its object as text, which the hashes protect. ``ACTION`` has
a name for each code, and ``SENTENCES`` the sentences for texts of a known form. Other texts are
shown as they are, with ids as links.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from opentill.console.labels import MERCHANT_STATUS
from opentill.console.merchant_labels import CAPABILITY, TERM
from opentill.core.money import EXPONENTS, Money
from opentill.merchants import AuditRow
from opentill.portal.labels import ROLE, STAFF_ROLE
from opentill.portal.request import PageRequest
from opentill.web.language import Localizer
from opentill.web.translations import N_, NC_

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
    "merchants capability": N_("Payments, refunds or payouts switched"),
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
_ROLES: Final[dict[str, str]] = dict(ROLE.items())
_STAFF_ROLES: Final[dict[str, str]] = dict(STAFF_ROLE.items())
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


class Sentence(NamedTuple):
    """A sentence for texts that match ``pattern``; the groups are its values, by name."""

    pattern: re.Pattern[str]
    text: str


def _sentence(pattern: str, text: str) -> Sentence:
    return Sentence(re.compile(pattern, re.ASCII), text)


_ADJUSTMENT: Final = (
    _sentence(r"mov_\w+: (?P<amount>-?[0-9.]+ [A-Z]{3}) \w+, done", "{amount}"),
    _sentence(
        r"mov_\w+: (?P<amount>-?[0-9.]+ [A-Z]{3}) \w+ for (?P<id>order_\w+), done",
        NC_("audit log", "{amount} for {id}"),
    ),
    _sentence(
        r"mov_\w+: (?P<amount>-?[0-9.]+ [A-Z]{3}) \w+( for order_\w+)?, waiting",
        N_("{amount}, waiting for approval"),
    ),
)
_ENDPOINT: Final = _sentence(r"(?P<id>whe_\w+) (?P<text>https?://\S+)", "{text}")
_INVITED_STAFF: Final = _sentence(
    r"inv_\w+ (?P<text>\S+) as staff, (?P<staff_role>\w+)", N_("{text} as staff: {staff_role}")
)
_INVITED: Final = _sentence(r"inv_\w+ (?P<text>\S+) as (?P<role>\w+)", N_("{text} as {role}"))
# Action → sentences, of which the first that matches is used.
SENTENCES: Final[Mapping[str, tuple[Sentence, ...]]] = {
    "agreement accept": (_sentence(r"version (?P<text>\S+) [0-9a-f]{64}", N_("Version {text}")),),
    **dict.fromkeys(
        (
            "balance correct",
            "balance fee",
            "balance freeze",
            "balance prepay",
            "balance recharge",
            "balance topup",
            "balance unfreeze",
            "balance unprepay",
        ),
        _ADJUSTMENT,
    ),
    "disputes deadline": (
        _sentence(r"(?P<id>dp_\w+) until (?P<text>.+)", N_("{id}: respond by {text}")),
    ),
    **dict.fromkeys(
        ("disputes evidence", "disputes evidence removed"),
        (_sentence(r"(?P<id>dp_\w+) (?P<text>.+) SHA-256 [0-9a-f]{64}", "{id}: {text}"),),
    ),
    "keys create": (
        _sentence(r"key_\w+ (?P<hint>\S+), named (?P<text>.+)", N_("“{text}”, {hint}")),
        _sentence(r"key_\w+ (?P<text>.+)", "{text}"),
    ),
    "keys regenerate": (
        _sentence(
            r"key_\w+ (?P<hint>\S+) becomes key_\w+ (?P<text>.+)", N_("{hint} is now {text}")
        ),
    ),
    "keys rename": (_sentence(r"key_\w+ (?P<text>.+)", "{text}"),),
    "keys revoke": (_sentence(r"key_\w+ (?P<text>.+)", "{text}"),),
    "merchants create": (
        _sentence(
            r"(?P<text>.+), settled in (?P<currency>[A-Z]{3})", N_("{text}, settled in {currency}")
        ),
    ),
    "merchants note": (_sentence(r"note (?P<number>[0-9]+)", N_("Note {number}")),),
    "payouts account": (
        _sentence(
            r"(?P<hint>.+) → (?P<text>.+), of (?P<holder>.+)",
            N_("Now {text} of {holder}, before {hint}"),
        ),
        _sentence(r"(?P<text>.+), of (?P<holder>.+)", N_("{text} of {holder}")),
    ),
    "payouts create": (
        _sentence(r"(?P<id>po_\w+): everything available", N_("{id} of everything available")),
        _sentence(r"(?P<id>po_\w+): (?P<amount>-?[0-9.]+ [A-Z]{3})", N_("{id} of {amount}")),
    ),
    "payouts paid": (
        _sentence(r"(?P<id>po_\w+) (?P<text>.+)", N_("{id}, bank’s reference {text}")),
    ),
    "payouts file": (
        _sentence(
            r"(?P<id>run_\w+): (?P<text>\w+), at most (?P<number>[0-9]+) payouts in"
            r" (?P<currency>[A-Z]{3})",
            N_("{id} as {text}; payouts in {currency}: {number}"),
        ),
    ),
    "payouts report": (_sentence(r"rec_\w+: .+", ""),),
    "payouts run": (
        _sentence(
            r"(?P<id>run_\w+): (?P<currency>[A-Z]{3}), paid on (?P<text>.+)",
            N_("{id} in {currency}, paid on {text}"),
        ),
    ),
    "people accept": (
        _sentence(r"inv_\w+ as staff, (?P<staff_role>\w+)", N_("As staff: {staff_role}")),
        _sentence(r"inv_\w+ as (?P<role>\w+)", NC_("audit log", "As {role}")),
    ),
    "people invite": (_INVITED_STAFF, _INVITED),
    "people logout": (
        _sentence(
            r"per_\w+ (?P<text>\S+): (?P<number>[0-9]+) logins",
            N_("{text}; logins ended: {number}"),
        ),
    ),
    "people remove": (
        _sentence(r"per_\w+ (?P<text>\S+), (?P<role>\w+)", "{text}, {role}"),
        _sentence(r"(?P<id>per_\w+), staff", "{id}"),
    ),
    "people role": (
        _sentence(
            r"per_\w+ (?P<text>\S+), staff: (?P<staff_role>\w+) becomes (?P<new_staff_role>\w+)",
            "{text}: {staff_role} → {new_staff_role}",
        ),
        _sentence(
            r"per_\w+ (?P<text>\S+), (?P<role>\w+) becomes (?P<new_role>\w+)",
            "{text}: {role} → {new_role}",
        ),
    ),
    "people second factor": (
        _sentence(r"per_\w+ set up", N_("Set up")),
        _sentence(r"per_\w+ removed", NC_("authenticator", "Removed")),
    ),
    "people visit": (_sentence(r"ses_\w+", ""),),
    "people withdraw": (_sentence(r"inv_\w+ (?P<text>\S+)", "{text}"),),
    "profile logo": (
        _sentence(r"[0-9a-f]{64} removed", NC_("logo", "Removed")),
        _sentence(r"[0-9a-f]{64} (?P<text>.+)", "{text}"),
    ),
    "rates import": (
        _sentence(
            r"(?P<number>[0-9]+) rates of (?P<count>[0-9]+) currencies, .*",
            N_("Rates: {number}, currencies: {count}"),
        ),
    ),
    "rates set": (
        _sentence(
            r"(?P<currency>[A-Z]{3}) (?P<other>[A-Z]{3}) (?P<text>[0-9.]+)( from .+)?",
            "1 {currency} = {text} {other}",
        ),
    ),
    "reconcile": (_sentence(r"rec_\w+: (?P<text>\S+) [0-9a-f]{64}", N_("Gateway {text}")),),
    "webhooks add": (_ENDPOINT,),
    "webhooks remove": (_ENDPOINT,),
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
    localizer = request.localizer
    match group.removeprefix("new_"):
        case "amount":
            return _write_amounts(localizer, escape(value))
        case "number" | "count":
            return escape(localizer.number(int(value)))
        case "role" if value in _ROLES:
            return localizer.gettext(_ROLES[value])
        case "staff_role" if value in _STAFF_ROLES:
            return localizer.gettext(_STAFF_ROLES[value])
        case "id":
            return link_ids(request, value)
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
