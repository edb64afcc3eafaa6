"""Accounts and gateways in memory, for tests of the choice of accounts."""

from typing import Any, Final

from opentill.core.ids import new_id
from opentill.gateways import Gateways
from opentill.gateways.account import GatewayAccount
from opentill.gateways.routing import parse_allowed
from opentill.gateways.rules import RoutingRule
from opentill.gateways.sandbox import SandboxGateway

ADAPTER: Final = SandboxGateway("http://127.0.0.1:1", "s" * 32)
FIELDS: Final[dict[str, Any]] = {
    "gateway": "sandbox", "merchant_id": None, "livemode": False, "status": "ACTIVE",
    "credential_hints": "{}", "previous_until": None, "methods": "", "limit_currencies": [],
    "smallest_minor": [], "largest_minor": [], "day_minor": [], "day_number": [],
    "cost_currencies": [], "cost_rate_bp": [], "cost_fixed_minor": [],
    "priority": 100, "weight": 100,
    "break_below_percent": None, "break_slower_ms": None, "break_texts": [], "break_minutes": 10,
    "broken_at": None, "broken_reason": None, "retry_at": None, "revision": 1,
    "created_at": 1, "updated_at": 1,
}  # fmt: skip


def create_account(label: str, **changes: Any) -> GatewayAccount:
    """Return an account; its id is the label."""
    fields: dict[str, Any] = {**FIELDS, "id": label, "label": label, **changes}
    return GatewayAccount(**fields)


def create_gateways(*accounts: GatewayAccount, livemode: bool = False) -> Gateways:
    """Return gateways with the sandbox bank of the environment and accounts."""
    gateways = Gateways({"sandbox": ADAPTER}, {}, {}, livemode=livemode)
    for account in accounts:
        allowed = parse_allowed(ADAPTER, "sandbox", account.methods) if account.methods else None
        gateways.put_account(account, ADAPTER, allowed, None)
    return gateways


def create_rule(**changes: Any) -> RoutingRule:
    """Return a rule that names the account b, unless changed."""
    fields: dict[str, Any] = {
        "id": new_id("rr"), "position": 1, "methods": [], "currencies": [], "smallest_minor": None,
        "largest_minor": None, "merchant_id": None, "device": None, "ranking": "ACCOUNTS",
        "accounts": ["b"], "exploration_percent": None, "is_only": False, "created_at": 1,
    }  # fmt: skip
    return RoutingRule(**fields | changes)
