"""The permissions table, which menus, pages and the API share.

A row lists the roles that have a permission. Members have a role at a merchant; staff have one at
the deployment, and read access to every merchant's pages. A row with ``proof`` also needs a
step-up: proof of identity within the last ten minutes. The scopes of a row restrict API keys
(contract.md#key-scopes); a person can give a key a scope only if they have the permission of each
row that lists it.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, get_args

MerchantRole = Literal["owner", "finance", "support", "developer", "viewer"]
StaffRole = Literal["admin", "finance", "support", "auditor"]
Permission = Literal[
    "home.read",
    "payments.read",
    "payments.refund",
    "payments.note",
    "payments.export",
    "customers.read",
    "products.read",
    "products.write",
    "sessions.write",
    "balance.read",
    "balance.prepay",
    "payouts.read",
    "payouts.account",
    "disputes.read",
    "disputes.respond",
    "keys.read",
    "keys.manage",
    "endpoints.read",
    "endpoints.manage",
    "endpoints.secrets",
    "events.read",
    "events.resend",
    "events.test",
    "requests.read",
    "epay.read",
    "epay.manage",
    "mails.read",
    "mails.resend",
    "settings.read",
    "settings.manage",
    "gateways.read",
    "gateways.manage",
    "team.read",
    "team.manage",
    "agreement.read",
    "agreement.accept",
    # Only staff have the following permissions.
    "console.read",
    "merchants.read",
    "merchants.manage",
    "terms.manage",
    "payouts.manage",
    "balance.adjust",
    "orders.manage",
    "orders.decide",
    "orders.refund",
    "disputes.decide",
    "approvals.decide",
    "people.read",
    "people.manage",
    "deployment.manage",
    "audit.read",
    "rates.read",
    "rates.manage",
    "deployment.read",
]

MERCHANT_ROLES: Final[tuple[MerchantRole, ...]] = get_args(MerchantRole)
STAFF_ROLES: Final[tuple[StaffRole, ...]] = get_args(StaffRole)


class Rule(NamedTuple):
    """A permission, the roles that have it, and whether it needs a step-up."""

    permission: Permission
    members: str  # the merchant's roles that have it, separated by spaces
    staff: str  # the staff's roles that have it, separated by spaces
    proof: bool = False
    scopes: str = ""  # the scopes of API keys that include it, such as "orders:read"


_ALL: Final = " ".join(MERCHANT_ROLES)
_STAFF: Final = " ".join(STAFF_ROLES)

RULES: Final = (
    #     permission           members' roles                       staff roles
    Rule("home.read", _ALL, _STAFF),
    Rule(
        "payments.read",
        _ALL,
        _STAFF,
        scopes="orders:read refunds:read checkouts:read payment-links:read",
    ),
    Rule("payments.refund", "owner finance support", "", scopes="refunds:write"),
    Rule("payments.note", "owner finance support", ""),
    Rule("payments.export", "owner finance", "admin finance", scopes="orders:export"),
    Rule("customers.read", "owner finance support viewer", _STAFF),
    Rule("products.read", _ALL, _STAFF, scopes="products:read"),
    Rule("products.write", "owner developer", "", scopes="products:write"),
    Rule(
        "sessions.write",
        "owner finance support developer",
        "",
        scopes="checkouts:write payment-links:write",
    ),
    Rule("balance.read", "owner finance viewer", _STAFF, scopes="balance:read"),
    Rule("balance.prepay", "owner finance", "", proof=True),
    Rule("payouts.read", "owner finance viewer", _STAFF, scopes="payouts:read"),
    Rule("payouts.account", "owner", "", proof=True),
    Rule("disputes.read", "owner finance support viewer", _STAFF, scopes="disputes:read"),
    Rule("disputes.respond", "owner support", ""),
    Rule("keys.read", "owner developer viewer", _STAFF),
    Rule("keys.manage", "owner developer", "", proof=True),
    Rule("endpoints.read", "owner developer support viewer", _STAFF, scopes="webhooks:read"),
    Rule("endpoints.manage", "owner developer", "", proof=True, scopes="webhooks:write"),
    Rule("endpoints.secrets", "owner developer", "", proof=True, scopes="webhooks:write"),
    Rule("events.read", "owner developer support viewer", _STAFF, scopes="events:read"),
    Rule("events.resend", "owner developer support", "", scopes="events:write"),
    Rule("events.test", "owner developer", "", scopes="events:write"),
    Rule("requests.read", "owner developer viewer", _STAFF),
    Rule("epay.read", "owner developer viewer", _STAFF),
    Rule("epay.manage", "owner developer", "", proof=True),
    Rule("mails.read", "owner finance support viewer", _STAFF),
    Rule("mails.resend", "owner finance support", ""),
    Rule("settings.read", _ALL, _STAFF),
    Rule("settings.manage", "owner", ""),
    Rule("gateways.read", "owner finance developer viewer", _STAFF),
    Rule("gateways.manage", "owner", "", proof=True),
    Rule("team.read", _ALL, _STAFF),
    Rule("team.manage", "owner", "", proof=True),
    Rule("agreement.read", _ALL, _STAFF),
    Rule("agreement.accept", "owner", "", proof=True),
    Rule("console.read", "", _STAFF),
    Rule("merchants.read", "", _STAFF),
    Rule("merchants.manage", "", "admin", proof=True),
    Rule("terms.manage", "", "admin", proof=True),
    Rule("payouts.manage", "", "admin finance", proof=True),
    Rule("balance.adjust", "", "admin finance", proof=True),
    Rule("orders.manage", "", "admin finance support"),
    Rule("orders.decide", "", "admin finance", proof=True),
    Rule("orders.refund", "", "admin finance support", proof=True),
    Rule("disputes.decide", "", "admin support", proof=True),
    Rule("approvals.decide", "", "admin finance", proof=True),
    Rule("people.read", "", "admin auditor"),
    Rule("people.manage", "", "admin", proof=True),
    Rule("deployment.manage", "", "admin", proof=True),
    Rule("audit.read", "", "admin auditor"),
    Rule("rates.read", "", _STAFF),
    Rule("rates.manage", "", "admin finance", proof=True),
    Rule("deployment.read", "", _STAFF),
)

_MEMBERS: Final = {rule.permission: frozenset(rule.members.split()) for rule in RULES}
_OF_STAFF: Final = {rule.permission: frozenset(rule.staff.split()) for rule in RULES}
# Beginning of a command's name → the permission that the command needs. The longest beginning that
# matches counts. The console's pages for the same actions need the same permissions.
COMMANDS: Final[Mapping[str, Permission]] = {
    "merchants": "merchants.manage",
    "merchants set": "terms.manage",
    "keys": "merchants.manage",
    "epay": "merchants.manage",
    "epay resend": "orders.manage",
    "epay rotate-platform-key": "deployment.manage",
    "webhooks": "merchants.manage",
    "webhooks resend": "orders.manage",
    "links": "merchants.manage",
    "people": "people.manage",
    "mail": "orders.manage",
    "orders": "orders.manage",
    "orders confirm": "orders.decide",
    "orders refund": "orders.refund",
    "orders revoke": "orders.decide",
    "orders given-back": "orders.decide",
    "refunds": "orders.decide",
    "refunds handled": "orders.manage",
    "deposits": "orders.decide",
    "disputes": "disputes.decide",
    "approvals": "approvals.decide",
    "balance": "balance.adjust",
    "balance approve": "approvals.decide",
    "payouts": "payouts.manage",
    "payouts approve": "approvals.decide",
    "settle": "balance.adjust",
    "reconcile": "balance.adjust",
    "rates": "rates.manage",
    "gateways": "deployment.manage",
    "secret-key": "deployment.manage",
    "skip-messages": "deployment.manage",
}
SCOPES: Final = tuple(dict.fromkeys(" ".join(rule.scopes for rule in RULES).split()))
NEED_PROOF: Final = frozenset(rule.permission for rule in RULES if rule.proof)


def member_may(role: MerchantRole, permission: Permission) -> bool:
    """Whether a member with this role has a permission at their merchant."""
    return role in _MEMBERS[permission]


def staff_may(role: StaffRole, permission: Permission) -> bool:
    """Whether staff with this role have a permission, at any merchant."""
    return role in _OF_STAFF[permission]


def member_may_give(role: MerchantRole, scope: str) -> bool:
    """Whether a member with this role may give a scope to an API key of their merchant."""
    return all(member_may(role, rule.permission) for rule in RULES if scope in rule.scopes.split())


def command_permission(command: str) -> Permission:
    """Return the permission that a command needs. Raises KeyError for an unknown command."""
    words = command.split()
    for count in range(len(words), 0, -1):
        if permission := COMMANDS.get(" ".join(words[:count])):
            return permission
    raise KeyError(command)
