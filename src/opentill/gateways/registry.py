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


class Option(msgspec.Struct, frozen=True):
    """A setting of a built-in gateway: ``OPENTILL_GATEWAY_`` and ``name`` in capitals."""

    gateway: str
    name: str
    text: str
    secret: bool = True
    default: str = ""
    optional: bool = False  # most accounts do without it, though it has no default
    is_file: bool = False  # the content of a file, such as a key in PEM


_METHODS: Final = "what it is used for, such as CREDIT_CARD,ALIPAY:CNY|HKD"
_EVERY_METHOD: Final = "all that it takes"

OPTIONS: Final = (
    Option("stripe", "stripe_secret_key", "sk_… or rk_…, of Stripe's dashboard"),
    Option("stripe", "stripe_webhook_secret", "whsec_…; several with commas while one is rotated"),
    Option(
        "stripe", "stripe_api_base", "an emulator of Stripe", secret=False,
        default="https://api.stripe.com",
    ),
    Option("epay", "epay_url", "the Epay server: the folder of its submit.php", secret=False),
    Option("epay", "epay_pid", "the number of your account there", secret=False),
    Option("epay", "epay_key", "the key of your account there"),
    Option("epay", "epay_currency", "the one that the account takes", secret=False, default="CNY"),
    Option("epay", "epay_mode", "submit: it has no mapi.php", secret=False, default="mapi"),
    Option(
        "epay", "epay_query", "post: orders are queried without the key in an address",
        secret=False, default="get",
    ),
    Option("epusdt", "epusdt_url", "the epusdt server's address", secret=False),
    Option("epusdt", "epusdt_token", "the API token of the server (api_auth_token, auth_token)"),
    Option(
        "epusdt", "epusdt_server", "bepusdt: the server is that fork", secret=False,
        default="epusdt",
    ),
    Option(
        "epusdt", "epusdt_currency", "the currency of the server's amounts", secret=False,
        default="CNY",
    ),
    Option(
        "epusdt", "epusdt_trade_type", "with bepusdt, a token and its network, such as usdt.bep20;"
        " usdt.trc20 without it", secret=False, optional=True,
    ),
    Option(
        "epusdt", "epusdt_rate", "with bepusdt, how many units of the currency a token costs;"
        " the server's own rate without it", secret=False, optional=True,
    ),
    Option("alipay", "alipay_app_id", "the number of the application at Alipay", secret=False),
    Option(
        "alipay", "alipay_private_key", "the application's private key, in PEM or Base64",
        is_file=True,
    ),
    Option(
        "alipay", "alipay_public_key", "Alipay's public key, unless certificates are used",
        is_file=True,
    ),
    Option(
        "alipay", "alipay_app_cert", "the application's certificate, appCertPublicKey_….crt",
        optional=True, is_file=True,
    ),
    Option(
        "alipay", "alipay_cert", "Alipay's certificate, alipayCertPublicKey_RSA2.crt",
        optional=True, is_file=True,
    ),
    Option(
        "alipay", "alipay_root_cert", "Alipay's root certificates, alipayRootCert.crt",
        optional=True, is_file=True,
    ),
    Option(
        "alipay", "alipay_seller_id", "your Alipay account, 2088…, which receives payments;"
        " notifications about others are refused", secret=False, optional=True,
    ),
    Option(
        "alipay", "alipay_products", "the products of the account: page and wap are Alipay's pages"
        " for computers and phones, precreate is a QR code", secret=False, default="page,wap",
    ),
    Option(
        "alipay", "alipay_url", "Alipay's sandbox, for tests", secret=False,
        default="https://openapi.alipay.com/gateway.do",
    ),
    Option("wechat_pay", "wechat_pay_mchid", "the number of the merchant account", secret=False),
    Option("wechat_pay", "wechat_pay_appid", "wx…, which is bound to the account", secret=False),
    Option(
        "wechat_pay", "wechat_pay_private_key", "apiclient_key.pem, in PEM or Base64",
        is_file=True,
    ),
    Option(
        "wechat_pay", "wechat_pay_serial", "the serial number of the merchant certificate",
        secret=False,
    ),
    Option(
        "wechat_pay", "wechat_pay_certificate", "apiclient_cert.pem, instead of its number",
        optional=True, is_file=True,
    ),
    Option("wechat_pay", "wechat_pay_api_v3_key", "the APIv3 key, 32 characters"),
    Option(
        "wechat_pay", "wechat_pay_public_key_id", "PUB_KEY_ID_…; platform certificates are used"
        " without it", secret=False, optional=True,
    ),
    Option(
        "wechat_pay", "wechat_pay_public_key", "pub_key.pem, in PEM or Base64",
        optional=True, is_file=True,
    ),
    Option(
        "wechat_pay", "wechat_pay_products", "the products of the account: native is a QR code, h5"
        " opens WeChat on a phone", secret=False, default="native",
    ),
    Option(
        "wechat_pay", "wechat_pay_url", "another address of the API, for tests", secret=False,
        default="https://api.mch.weixin.qq.com",
    ),
    Option("paypal", "paypal_client_id", "the client ID of the app at PayPal", secret=False),
    Option("paypal", "paypal_client_secret", "the secret of the app at PayPal"),
    Option(
        "paypal", "paypal_webhook_id", "the id of the app's webhook, whose address is"
        " …/gateways/paypal/callback", secret=False,
    ),
    Option(
        "paypal", "paypal_merchant_id", "the id of your PayPal account, which receives payments;"
        " responses about others are not trusted", secret=False, optional=True,
    ),
    Option(
        "paypal", "paypal_ca", "the authorities, in PEM, whose certificates may sign webhooks;"
        " those for TLS without it", optional=True, is_file=True,
    ),
    Option(
        "paypal", "paypal_url", "PayPal's sandbox, for tests: https://api-m.sandbox.paypal.com",
        secret=False, default="https://api-m.paypal.com",
    ),
    Option("evm", "evm_rpc_url", "the node's address, https://… with its key"),
    Option("evm", "evm_chain_id", "the number of the chain, such as 1 for Ethereum", secret=False),
    Option(
        "evm", "evm_xpub", "the extended public key (xpub…) of the account that receives payments;"
        " never a private key"
    ),
    Option(
        "evm", "evm_tokens", "the tokens that are taken; USDT:0x…:6 where they are not known",
        secret=False, default="USDT,USDC",
    ),
    Option(
        "evm", "evm_confirmations", "the blocks after which a transfer counts; without it, as"
        " many as are usual on the chain", secret=False, optional=True,
    ),
    Option(
        "manual", "manual_instructions", "how to transfer money; …_EUR and the like for one"
        " currency, …_FILE for text in a file", secret=False,
    ),
    *(
        Option(name, f"{name}_methods", text, secret=False, default=default)
        for name, text, default in (
            ("stripe", _METHODS, _EVERY_METHOD),
            ("epusdt", _METHODS, _EVERY_METHOD),
            ("epay", "on offer; WECHAT_PAY=wxpay2 for a type of another name", "ALIPAY,WECHAT_PAY"),
            ("alipay", _METHODS, _EVERY_METHOD),
            ("wechat_pay", _METHODS, _EVERY_METHOD),
            ("paypal", _METHODS, _EVERY_METHOD),
            ("evm", _METHODS, _EVERY_METHOD),
            ("manual", _METHODS, _EVERY_METHOD),
            ("sandbox", _METHODS, _EVERY_METHOD),
        )
    ),
)  # fmt: skip


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
    "alipay": _imported_late("alipay"),
    "wechat_pay": _imported_late("wechat_pay"),
    "paypal": _imported_late("paypal"),
    "evm": _imported_late("evm"),
    "epusdt": _imported_late("epusdt"),
}
# Gateways that cannot always report the result of a refund, so that an operator may record it.
_OPERATOR_MAY_REPORT: Final = frozenset({"epay", "epusdt", "evm", "manual"})


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
    # Only the adapter can read this option, which also contains the server's types of the methods.
    options.pop("epay_methods", None)
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
    if methods and gateway == "epay":  # its adapter reads the methods, with the server's types
        options["epay_methods"] = methods
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
    if not methods or gateway == "epay":
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
