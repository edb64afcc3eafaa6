"""Which gateway takes a payment: what each is used for, the order of preference, who is away.

``OPENTILL_GATEWAYS`` is the order; ``OPENTILL_ROUTES`` puts others first for a method;
``OPENTILL_GATEWAY_<NAME>_METHODS`` narrows what a gateway is used for.
"""

import time
from collections.abc import Mapping
from typing import Final

from opentill.core.methods import by_method
from opentill.core.money import EXPONENTS
from opentill.core.operator import OperatorError
from opentill.gateways.model import (
    Gateway,
    Method,
    News,
    PaymentOutcome,
    PaymentRequest,
    RefundOutcome,
    RefundRequest,
)

_AWAY_S: Final = 30


class BadGateways(OperatorError, ValueError):
    """The gateways' configuration is wrong; the text names the variable."""


class Gateways(dict[str, Gateway]):
    """The gateways by name, in order of preference, as this process knows them."""

    def __init__(self, gateways: Mapping[str, Gateway], routes: Mapping[Method, tuple[str, ...]]):
        """``routes`` names, for a method, those that come before the others."""
        super().__init__(gateways)
        self.routes = routes
        self._away_until: dict[str, float] = {}  # of time.monotonic()

    def heard(self, name: str, *, reached: bool) -> None:
        """Remember whether a gateway could be reached; one that is away comes last for a while."""
        if reached:
            self._away_until.pop(name, None)
        else:
            self._away_until[name] = time.monotonic() + _AWAY_S

    def is_away(self, name: str) -> bool:
        """Tell whether a gateway could not be reached a moment ago."""
        return self._away_until.get(name, 0) > time.monotonic()


class Limited:
    """A gateway that is used for less than it takes: ``allowed`` methods, () for any currency."""

    def __init__(self, gateway: Gateway, allowed: Mapping[Method, tuple[str, ...]]) -> None:
        """Keep both; calls go through."""
        self.name = gateway.name
        self._gateway = gateway
        self._allowed = allowed

    def methods(self, currency: str) -> tuple[Method, ...]:
        """Return the allowed ones of the gateway's methods, in its order."""
        return tuple(
            method
            for method in self._gateway.methods(currency)
            if method in self._allowed and currency in (self._allowed[method] or (currency,))
        )

    async def pay(self, request: PaymentRequest) -> PaymentOutcome:
        """As the gateway."""
        return await self._gateway.pay(request)

    async def find_payment(self, attempt_id: str) -> PaymentOutcome:
        """As the gateway."""
        return await self._gateway.find_payment(attempt_id)

    async def refund(self, request: RefundRequest) -> RefundOutcome:
        """As the gateway."""
        return await self._gateway.refund(request)

    async def find_refund(self, refund_id: str) -> RefundOutcome:
        """As the gateway."""
        return await self._gateway.find_refund(refund_id)

    def read_callback(self, headers: Mapping[str, str], body: bytes, now: int) -> tuple[News, ...]:
        """As the gateway."""
        return self._gateway.read_callback(headers, body, now)

    async def close(self) -> None:
        """As the gateway."""
        await self._gateway.close()


def candidates(gateways: Mapping[str, Gateway], method: Method, currency: str) -> list[str]:
    """Return who takes the currency by the method, the preferred first, whoever is away last."""
    able = [name for name, gateway in gateways.items() if method in gateway.methods(currency)]
    if isinstance(gateways, Gateways):
        first = gateways.routes.get(method, ())
        able.sort(key=lambda name: first.index(name) if name in first else len(first))
        able.sort(key=gateways.is_away)
    return able


def find_for(gateways: Mapping[str, Gateway], method: Method, currency: str) -> Gateway | None:
    """Return the first gateway that takes the currency by the method, or None."""
    able = candidates(gateways, method, currency)
    return gateways[able[0]] if able else None


def offered(gateways: Mapping[str, Gateway], currency: str) -> tuple[Method, ...]:
    """Return the methods for the currency, in the gateways' order of preference, each once."""
    methods: dict[Method, None] = {}
    for gateway in gateways.values():
        methods |= dict.fromkeys(gateway.methods(currency))
    return tuple(methods)


def limited(gateway: Gateway, name: str, text: str | None) -> Gateway:
    """Narrow a gateway to what its METHODS variable says. Raises BadGateways."""
    if text is None:
        return gateway
    variable = f"OPENTILL_GATEWAY_{name.upper()}_METHODS"
    try:
        allowed = by_method(text)
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
    return Limited(gateway, allowed)


def routed(gateways: Mapping[str, Gateway], text: str) -> Gateways:
    """Put the gateways together with the order that OPENTILL_ROUTES says. Raises BadGateways."""
    routes = by_method(text) if text else {}
    for method, names in routes.items():
        for name in names:
            if name not in gateways:
                available = ", ".join(gateways)
                msg = f"OPENTILL_ROUTES names {name!r}; OPENTILL_GATEWAYS has: {available}"
                raise BadGateways(msg)
            if not any(method in gateways[name].methods(currency) for currency in EXPONENTS):
                msg = f"OPENTILL_ROUTES has {method}:{name}, which it does not take"
                raise BadGateways(msg)
    return Gateways(gateways, routes)
