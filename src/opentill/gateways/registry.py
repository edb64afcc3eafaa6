"""The registry of gateways: built-in ones by name, others through entry points.

Another package adds a gateway with an entry point in the group ``opentill.gateways``: a callable
that takes the ``Settings`` and returns a ``Gateway``. It cannot replace a built-in gateway.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol

import msgspec

from opentill.core.errors import ConfigurationError
from opentill.core.settings import GATEWAY_PREFIX, SANDBOX, Settings
from opentill.gateways.manual import ManualGateway, instructions
from opentill.gateways.model import Gateway
from opentill.gateways.options import OPTIONS, Option
from opentill.gateways.routing import (
    BadGateways,
    Gateways,
    Methods,
    build_gateways,
    gateway_of,
    parse_allowed,
)
from opentill.gateways.sandbox import SandboxGateway
from opentill.outgoing.client import Forbidden, Policy, ServerPolicy, merchant_server_policy

Factory = Callable[[Settings], Gateway]


class BuiltIn(Protocol):
    """Creates a built-in adapter, which may only call servers that a policy allows."""

    def __call__(self, settings: Settings, server_policy: ServerPolicy = ..., /) -> Gateway:
        """Create the adapter. Raises ConfigurationError."""
        ...


ENTRY_POINTS: Final = "opentill.gateways"
# Only the adapters can read the methods of these gateways, which contain the server's types.
_OWN_METHODS: Final = frozenset({"epay", "epay_v2"})


def _sandbox(settings: Settings, server_policy: ServerPolicy = Policy.only, /) -> Gateway:
    url, secret = settings.sandbox_url, settings.sandbox_secret
    return SandboxGateway(url, secret, server_policy=server_policy)


def _manual(settings: Settings, _server_policy: ServerPolicy = Policy.only, /) -> Gateway:
    return ManualGateway(instructions(settings.gateway_options))


def _imported_late(gateway: str) -> BuiltIn:
    """Return the factory of an adapter that is imported when it is needed: most are not."""

    def create(settings: Settings, server_policy: ServerPolicy = Policy.only, /) -> Gateway:
        module = import_module(f"opentill.gateways.{gateway}.configuration")
        adapter: Gateway = module.make(settings.gateway_options, server_policy)
        return adapter

    return create


BUILT_IN: Final[dict[str, BuiltIn]] = {
    "manual": _manual,
    "sandbox": _sandbox,
    "stripe": _imported_late("stripe"),
    "epay": _imported_late("epay"),
    "epay_v2": _imported_late("epay_v2"),
    "alipay": _imported_late("alipay"),
    "wechat_pay": _imported_late("wechat_pay"),
    "paypal": _imported_late("paypal"),
    "evm": _imported_late("evm"),
    "epusdt": _imported_late("epusdt"),
}
# Gateways that cannot always report the result of a refund, so that an operator may record it.
_OPERATOR_MAY_REPORT: Final = frozenset({"epay", "epay_v2", "epusdt", "evm", "manual"})


def self_reporting(gateways: Collection[str]) -> frozenset[str]:
    """Return those of the gateways or accounts that report the result of every refund themselves.

    ``gateways`` has names of gateways, or is the mapping of a process with all its accounts.
    """
    if not isinstance(gateways, Gateways):
        return frozenset(gateways) - _OPERATOR_MAY_REPORT
    return frozenset(
        name for name in gateways if gateway_of(gateways, name) not in _OPERATOR_MAY_REPORT
    )


def _from_outside(entry: EntryPoint, settings: Settings) -> Gateway:
    try:
        factory: Factory = entry.load()
        return factory(settings)
    except Exception as error:
        msg = f"the gateway {entry.name!r} cannot be made: {type(error).__name__}: {error}"
        raise BadGateways(msg) from error


def load(names: tuple[str, ...], settings: Settings) -> Gateways:
    """Create the named gateways, in the order of the names.

    Raises ConfigurationError, whose message names the wrong variable.
    """
    if SANDBOX in names and settings.sandbox_refused:
        raise BadGateways(settings.sandbox_refused)
    others = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    available = ", ".join(sorted({*BUILT_IN, *others}))
    gateways: dict[str, Gateway] = {}
    for name in names:
        if name in BUILT_IN:
            gateways[name] = BUILT_IN[name](settings)
        elif name in others:
            gateways[name] = _from_outside(others[name], settings)
        else:
            msg = f"OPENTILL_GATEWAYS names {name!r}; available are: {available}."
            raise BadGateways(msg)
    options = dict(settings.gateway_options)
    for name in _OWN_METHODS:
        options.pop(f"{name}_methods", None)
    return build_gateways(gateways, options, settings.routes, livemode=settings.livemode)


# ── accounts in the database ──

# The sandbox bank's settings are no options of the environment, but credentials of an account.
_SANDBOX_CREDENTIALS: Final = (
    Option(SANDBOX, "sandbox_url", "the bank's address", secret=False),
    Option(SANDBOX, "sandbox_secret", "shared with the bank"),
)
# Payments through this gateway are confirmed by the operator, so it has one account.
_WITHOUT_ACCOUNTS: Final = frozenset({"manual"})
_CREDENTIAL: Final = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)
# The credentials that are addresses of servers, which adapters call.
ADDRESSES: Final = ("url", "api_base", "rpc_url")


class BadCredentials(ValueError):
    """Credentials of an account are missing or wrong; ``field`` names the one."""

    def __init__(self, field: str, reason: str) -> None:
        """``reason`` continues the field's name and contains no secret."""
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


def account_gateways() -> tuple[str, ...]:
    """Return the names of the gateways that can have accounts in the database."""
    names = {*BUILT_IN, *(entry.name for entry in entry_points(group=ENTRY_POINTS))}
    return tuple(sorted(names - _WITHOUT_ACCOUNTS))


def merchants_gateways() -> tuple[str, ...]:
    """Return the names of the gateways of which merchants may add accounts themselves.

    Others do not take the policy that keeps requests out of the operator's networks.
    """
    return tuple(sorted(BUILT_IN.keys() - _WITHOUT_ACCOUNTS))


def credential_options(gateway: str) -> tuple[Option, ...] | None:
    """Return the credentials of a built-in gateway's account; None for another gateway's.

    An option's ``name`` without the gateway and an underscore is the name of the credential.
    """
    if gateway == SANDBOX:
        return _SANDBOX_CREDENTIALS
    if gateway not in BUILT_IN:
        return None
    methods = f"{gateway}_methods"
    return tuple(row for row in OPTIONS if row.gateway == gateway and row.name != methods)


def secret_names(gateway: str, names: Collection[str]) -> frozenset[str]:
    """Return the credentials that are never shown: all of a gateway that is not built in."""
    options = credential_options(gateway)
    if options is None:
        return frozenset(names)
    public = {row.name.removeprefix(f"{gateway}_") for row in options if not row.secret}
    return frozenset(names) - public


def build_account(
    gateway: str,
    credentials: Mapping[str, str],
    methods: str,
    settings: Settings,
    *,
    by_merchant: bool = False,
) -> tuple[Gateway, Methods | None]:
    """Create the adapter of an account and parse its methods, None for all of the gateway.

    ``by_merchant``: a merchant has entered the credentials, so that the adapter may call only
    addresses that merchants may name. Raises BadCredentials, also on ``gateway`` and ``methods``.
    """
    _check_names(gateway, credentials)
    policy: ServerPolicy = Policy.only
    if by_merchant and not _is_own_bank(gateway, credentials, settings):
        _check_addresses(credentials, settings)
        policy = partial(merchant_server_policy, settings)
    options = {f"{gateway}_{name}": value for name, value in credentials.items()}
    if methods and gateway in _OWN_METHODS:
        options[f"{gateway}_methods"] = methods
    if gateway == SANDBOX:
        if settings.sandbox_refused:
            raise BadCredentials("gateway", f"must be another one: {settings.sandbox_refused}")
        settings = msgspec.structs.replace(
            settings,
            sandbox_url=_required(credentials, "url"),
            sandbox_secret=_required(credentials, "secret"),
        )
    settings = msgspec.structs.replace(settings, gateway_options=options)
    adapter = _make_account(gateway, settings, policy)
    if not methods or gateway in _OWN_METHODS:
        return adapter, None
    try:
        return adapter, parse_allowed(adapter, gateway, methods)
    except ValueError as error:
        raise BadCredentials("methods", str(error)) from None


def _is_own_bank(gateway: str, credentials: Mapping[str, str], settings: Settings) -> bool:
    """Whether an account is one of this deployment's own sandbox bank."""
    url = credentials.get("url", "").rstrip("/")
    return gateway == SANDBOX and bool(url) and url == settings.sandbox_url.rstrip("/")


def _check_addresses(credentials: Mapping[str, str], settings: Settings) -> None:
    for name in ADDRESSES:
        if url := credentials.get(name, "").strip():
            try:
                merchant_server_policy(settings, url)
            except Forbidden as error:
                # The address may contain a key.
                raise BadCredentials(name, f"cannot be called: {error}") from None


def _check_names(gateway: str, credentials: Mapping[str, str]) -> None:
    options = credential_options(gateway)
    allowed = None if options is None else [row.name.removeprefix(f"{gateway}_") for row in options]
    for name in credentials:
        if allowed is None and _CREDENTIAL.fullmatch(name):
            continue
        if allowed is None or name not in allowed:
            choices = ", ".join(allowed or ()) or "lower-case letters, digits and underscores"
            field = name if _CREDENTIAL.fullmatch(name) else "credentials"
            raise BadCredentials(field, f"must be one of the credentials of {gateway}: {choices}")


def _required(credentials: Mapping[str, str], name: str) -> str:
    value = credentials.get(name, "")
    if not value:
        raise BadCredentials(name, "must be given")
    return value


def _make_account(gateway: str, settings: Settings, policy: ServerPolicy) -> Gateway:
    if gateway in _WITHOUT_ACCOUNTS or gateway not in account_gateways():
        choices = ", ".join(account_gateways())
        raise BadCredentials("gateway", f"must be one that can have accounts: {choices}")
    try:
        if gateway in BUILT_IN:
            return BUILT_IN[gateway](settings, policy)
        (entry,) = (row for row in entry_points(group=ENTRY_POINTS) if row.name == gateway)
        return _from_outside(entry, settings)
    except ConfigurationError as error:
        raise _bad_credentials(gateway, str(error)) from None


def _bad_credentials(gateway: str, message: str) -> BadCredentials:
    """Turn an adapter's message about a variable of the environment into one about a credential."""
    prefix = re.escape(f"{GATEWAY_PREFIX}{gateway.upper()}_")
    match = re.fullmatch(rf"{prefix}([A-Z0-9_]+) (.*)", message, re.DOTALL)
    if match is None:
        return BadCredentials("credentials", f"must be complete: {message}")
    reason = match[2].replace(f", since OPENTILL_GATEWAYS has {gateway}", "")
    return BadCredentials(match[1].lower(), reason)
