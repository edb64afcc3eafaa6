"""Create the adapter from the settings ``OPENTILL_GATEWAY_STRIPE_…``."""

from collections.abc import Mapping
from typing import Final, NoReturn

import stripe

from opentill.core.errors import ConfigurationError
from opentill.gateways.stripe.client import StripeGateway
from opentill.outgoing.client import Forbidden, Outgoing, Policy, ServerPolicy

_KEYS: Final = ("sk_", "rk_")  # prefixes of secret keys and of restricted keys


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> StripeGateway:
    """Create the adapter, which connects only to Stripe's server or the one configured instead.

    Raises ConfigurationError, which names the variable and the accepted values.
    """
    key, *extra_keys = _required_values(options, "stripe_secret_key")
    if extra_keys or not key.startswith(_KEYS):
        _refuse("stripe_secret_key", "is not acceptable; it must be one key, sk_… or rk_…")
    secrets = tuple(_required_values(options, "stripe_webhook_secret"))
    base = options.get("stripe_api_base", stripe.DEFAULT_API_BASE)
    try:
        policy = server_policy(base)
    except Forbidden as error:
        _refuse("stripe_api_base", f"is {base!r}; {error}")
    return StripeGateway(key, secrets, base, Outgoing(policy))


def _required_values(options: Mapping[str, str], name: str) -> list[str]:
    """Return the comma-separated values of a required option."""
    parts = [part.strip() for part in options.get(name, "").split(",") if part.strip()]
    if not parts:
        _refuse(name, "must be set, since OPENTILL_GATEWAYS has stripe")
    if not all(part.isascii() and part.isprintable() and " " not in part for part in parts):
        _refuse(name, "is not acceptable; it must be printable characters without blanks")
    return parts


def _refuse(name: str, reason: str) -> NoReturn:
    message = f"OPENTILL_GATEWAY_{name.upper()} {reason}"
    raise ConfigurationError(message)
