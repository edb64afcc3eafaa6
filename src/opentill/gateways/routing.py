"""The choice of gateways for a payment, by methods, order of preference and reachability.

``OPENTILL_GATEWAYS`` is the default order, ``OPENTILL_ROUTES`` overrides it for a method, and
``OPENTILL_GATEWAY_<NAME>_METHODS`` restricts the methods of a gateway.
"""

import time
from collections.abc import Mapping
from typing import Final

from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS
from opentill.core.payment_methods import parse_methods
from opentill.gateways.model import Gateway, Method

_UNREACHABLE_S: Final = 30


class BadGateways(ConfigurationError, ValueError):
    """The configuration of the gateways is wrong; the message names the variable."""


class Gateways(dict[str, Gateway]):
    """The gateways by name, in order of preference."""

    def __init__(
        self,
        gateways: Mapping[str, Gateway],
        routes: Mapping[Method, tuple[str, ...]],
        allowed: Mapping[str, Mapping[Method, tuple[str, ...]]],
    ) -> None:
        """``routes`` maps a method to the gateways that come first, in their order.

        ``allowed`` maps each restricted gateway to its methods, and each of these to its
        currencies, () for any currency.
        """
        super().__init__(gateways)
        self.routes = routes
        self.allowed = allowed
        self._unreachable_until: dict[str, float] = {}  # monotonic time in seconds, by gateway

    def record_reachability(self, name: str, *, reached: bool) -> None:
        """Record whether a gateway was reached; an unreachable one is tried last for 30 seconds."""
        if reached:
            self._unreachable_until.pop(name, None)
        else:
            self._unreachable_until[name] = time.monotonic() + _UNREACHABLE_S

    def is_unreachable(self, name: str) -> bool:
        """Whether a gateway was unreachable within the last 30 seconds."""
        return self._unreachable_until.get(name, 0) > time.monotonic()


def methods_of(gateways: Mapping[str, Gateway], name: str, currency: str) -> tuple[Method, ...]:
    """Return the methods that a gateway supports and the settings allow for a currency."""
    supported = gateways[name].methods(currency)
    allowed = gateways.allowed.get(name) if isinstance(gateways, Gateways) else None
    if allowed is None:
        return supported
    return tuple(
        method
        for method in supported
        if method in allowed and currency in (allowed[method] or (currency,))
    )


def candidates(gateways: Mapping[str, Gateway], method: Method, currency: str) -> list[str]:
    """Return the gateways for a method and currency, the preferred first, unreachable ones last."""
    names = [name for name in gateways if method in methods_of(gateways, name, currency)]
    if isinstance(gateways, Gateways):
        first = gateways.routes.get(method, ())
        names.sort(key=lambda name: first.index(name) if name in first else len(first))
        names.sort(key=gateways.is_unreachable)
    return names


def offered_methods(gateways: Mapping[str, Gateway], currency: str) -> tuple[Method, ...]:
    """Return the methods for the currency, in the gateways' order of preference, each once."""
    methods: dict[Method, None] = {}
    for name in gateways:
        methods |= dict.fromkeys(methods_of(gateways, name, currency))
    return tuple(methods)


def read_methods(gateway: Gateway, name: str, text: str) -> Mapping[Method, tuple[str, ...]]:
    """Read a METHODS variable: methods and their currencies. Raises BadGateways."""
    variable = f"OPENTILL_GATEWAY_{name.upper()}_METHODS"
    try:
        allowed = parse_methods(text)
    except ValueError as error:
        msg = f"{variable} is {text!r}; it must be {error}, such as CREDIT_CARD,ALIPAY:CNY|HKD"
        raise BadGateways(msg) from None
    for method, currencies in allowed.items():
        for currency in currencies:
            if currency not in EXPONENTS:
                msg = f"{variable} has {currency!r}, which is no ISO 4217 currency"
                raise BadGateways(msg)
            if method not in gateway.methods(currency):
                msg = f"{variable} has {method}:{currency}, which {name} does not take"
                raise BadGateways(msg)
        if not any(method in gateway.methods(currency) for currency in EXPONENTS):
            msg = f"{variable} has {method}, which {name} does not take"
            raise BadGateways(msg)
    return allowed


def build_gateways(
    gateways: Mapping[str, Gateway], options: Mapping[str, str], text: str
) -> Gateways:
    """Combine the gateways with their settings. Raises BadGateways.

    ``options`` has the METHODS variables, ``text`` is OPENTILL_ROUTES.
    """
    allowed = {
        name: read_methods(gateway, name, options[f"{name}_methods"])
        for name, gateway in gateways.items()
        if f"{name}_methods" in options
    }
    routes = parse_methods(text) if text else {}
    configured = Gateways(gateways, routes, allowed)
    for method, names in routes.items():
        for name in names:
            if name not in gateways:
                available = ", ".join(gateways)
                msg = f"OPENTILL_ROUTES names {name!r}; OPENTILL_GATEWAYS has: {available}"
                raise BadGateways(msg)
            if not any(method in methods_of(configured, name, currency) for currency in EXPONENTS):
                msg = f"OPENTILL_ROUTES has {method}:{name}, which it does not take"
                raise BadGateways(msg)
    return configured
