"""Sentences for the objects of audit log entries whose texts have a known form.

Values are groups of a pattern; their names say how ``audit_entries.py`` writes them.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from opentill.web.translations import N_, NC_


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
_REQUEST: Final = (
    _sentence(
        r"areq_\w+: (?P<kind>[a-z-]+) of (?P<amount>-?[0-9.]+ [A-Z]{3}) for (?P<id>\w+)"
        r"(, waiting)?",
        N_("{kind}: {amount} for {id}"),
    ),
    _sentence(
        r"areq_\w+: (?P<kind>[a-z-]+) of (?P<amount>-?[0-9.]+ [A-Z]{3}) for (?P<id>\w+),"
        r" asked for by (?P<who>.+)",
        N_("{kind}: {amount} for {id}, requested by {who}"),
    ),
)
_RULE: Final = (
    _sentence(
        r"rr_\w+: (?P<number>[0-9]+): (?P<rule>.+), before: (?P<old_rule>.+)",
        N_("Rule {number}: {rule}, before: {old_rule}"),
    ),
    _sentence(r"rr_\w+: (?P<number>[0-9]+): (?P<rule>.+)", N_("Rule {number}: {rule}")),
)
_ACCOUNT: Final = (
    _sentence(r"(?P<account>\w+): account of the environment", N_("{account}, of the settings")),
    _sentence(
        r"(?P<account>\w+): account of the environment(: |, )?(?P<text>.+)",
        N_("{account}, of the settings: {text}"),
    ),
)
_ENDPOINT: Final = _sentence(r"(?P<id>whe_\w+) (?P<text>https?://\S+)", "{text}")
_INVITED_STAFF: Final = _sentence(
    r"inv_\w+ (?P<text>\S+) as staff, (?P<staff_role>\w+)", N_("{text} as staff: {staff_role}")
)
_INVITED: Final = _sentence(r"inv_\w+ (?P<text>\S+) as (?P<role>\w+)", N_("{text} as {role}"))
# Action → sentences, of which the first that matches is used.
SENTENCES: Final[Mapping[str, tuple[Sentence, ...]]] = {
    **dict.fromkeys(("approvals approve", "approvals reject", "approvals request"), _REQUEST),
    **dict.fromkeys(
        (
            "gateways rules add",
            "gateways rules move",
            "gateways rules remove",
            "gateways rules set",
        ),
        _RULE,
    ),
    **dict.fromkeys(
        (
            "gateways break",
            "gateways mend",
            "gateways pause",
            "gateways resume",
            "gateways set",
        ),
        _ACCOUNT,
    ),
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
            r"key_\w+ (?P<hint>\S+), until (?P<time>.+) becomes key_\w+ (?P<text>.+)",
            N_("{hint} is now {text}, and ends at {time}"),
        ),
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
