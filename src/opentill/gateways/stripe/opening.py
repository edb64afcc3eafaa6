"""Makes the gateway out of a deployment's options."""

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Final
from urllib.parse import urlsplit

import stripe

from opentill.core.outgoing import Outgoing, Policy
from opentill.gateways.stripe.client import StripeGateway

ANYWHERE: Final = (ip_network("0.0.0.0/0"), ip_network("::/0"))


def make(options: Mapping[str, str]) -> StripeGateway:
    """Make the gateway. Raises ValueError that names the variable and says what is accepted."""
    key = _needed(options, "stripe_secret_key", ("sk_", "rk_"))
    secrets = _needed(options, "stripe_webhook_secret", ("",))
    base = options.get("stripe_api_base", stripe.DEFAULT_API_BASE)
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        msg = "OPENTILL_GATEWAY_STRIPE_API_BASE must be an http:// or https:// address"
        raise ValueError(msg)
    # Whoever runs the deployment named this one address: an emulator may be on loopback.
    own = "stripe_api_base" in options
    policy = Policy(
        allow_http=own and parts.scheme == "http", allowed_networks=ANYWHERE if own else ()
    )
    return StripeGateway(key[0], secrets, base, Outgoing(policy))


def _needed(options: Mapping[str, str], name: str, prefixes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the parts of an option that must be there, each beginning with one of ``prefixes``."""
    parts = tuple(part.strip() for part in options.get(name, "").split(",") if part.strip())
    variable = f"OPENTILL_GATEWAY_{name.upper()}"
    if not parts:
        msg = f"OPENTILL_GATEWAYS has stripe, so {variable} must be set"
        raise ValueError(msg)
    if not all(part.startswith(prefixes) and part.isascii() for part in parts):
        begin = " or ".join(prefixes)
        msg = f"{variable} is not acceptable; it must begin with {begin}"
        raise ValueError(msg)
    return parts
