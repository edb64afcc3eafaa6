"""Create the adapter from the settings ``OPENTILL_GATEWAY_ALIPAY_…``."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final, TypeVar, cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.gateways.alipay import keys
from opentill.gateways.alipay.client import AlipayGateway, Options
from opentill.gateways.alipay.keys import BadCertificate, Certificates, Credentials
from opentill.gateways.alipay.wire import PRODUCTS, Product
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

T = TypeVar("T")
_PREFIX: Final = "OPENTILL_GATEWAY_"
DEFAULT_URL: Final = "https://openapi.alipay.com/gateway.do"
_DEFAULT_PRODUCTS: Final = "page,wap"
_APP_ID: Final = re.compile(r"[0-9]{8,32}", re.ASCII)
_SELLER_ID: Final = re.compile(r"2088[0-9]{12}", re.ASCII)
_CERTIFICATES: Final = ("alipay_app_cert", "alipay_cert", "alipay_root_cert")


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> AlipayGateway:
    """Create the adapter, which connects to the configured server only.

    ``options`` have lower-case names such as ``alipay_app_id``. Raises ConfigurationError, which
    names the setting and the accepted values.
    """
    configured = read(options, keys.utc_now())
    return AlipayGateway(configured, Outgoing(server_policy(configured.url)))


def read(options: Mapping[str, str], now: datetime) -> Options:
    """Read and check the settings; certificates must be valid at ``now``.

    Raises ConfigurationError.
    """
    app_id, seller_id = options.get("alipay_app_id", ""), options.get("alipay_seller_id", "")
    if not _APP_ID.fullmatch(app_id):
        raise _invalid("alipay_app_id", "must be the number of the application, such as 2021…")
    if seller_id and not _SELLER_ID.fullmatch(seller_id):
        raise _invalid("alipay_seller_id", "must be the number of an account: 16 digits, 2088…")
    return Options(
        url=_url(options.get("alipay_url") or DEFAULT_URL),
        app_id=app_id,
        credentials=_credentials(options, now),
        products=_products(options.get("alipay_products") or _DEFAULT_PRODUCTS),
        seller_id=seller_id,
    )


def _invalid(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} {reason}")


def _url(text: str) -> str:
    try:
        return settingvalues.web(text)
    except ValueError as error:
        raise _invalid("alipay_url", f"must be {error}, such as {DEFAULT_URL}") from None


def _products(text: str) -> tuple[Product, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if len(set(names)) != len(names) or not set(names) <= set(PRODUCTS):
        raise _invalid(
            "alipay_products", f"must be different ones of {', '.join(PRODUCTS)}, with commas"
        )
    return cast("tuple[Product, ...]", names)


def _credentials(options: Mapping[str, str], now: datetime) -> Credentials:
    """Read the keys: Alipay's public key, or all three certificates."""
    private_key = _read(options, "alipay_private_key", keys.read_private_key)
    own_numbers = private_key.public_key().public_numbers()
    if not any(options.get(name) for name in _CERTIFICATES):
        alipay_key = _read(options, "alipay_public_key", keys.read_public_key)
        if alipay_key.public_numbers() == own_numbers:
            reason = "is the public key of your own application; it must be Alipay's"
            raise _invalid("alipay_public_key", reason)
        return Credentials(private_key, alipay_key)
    if options.get("alipay_public_key"):
        reason = "must not be set together with certificates; remove it"
        raise _invalid("alipay_public_key", reason)
    app_chain = _read(options, "alipay_app_cert", keys.read_certificates)
    alipay_chain = _read(options, "alipay_cert", keys.read_certificates)
    roots = _read(options, "alipay_root_cert", keys.read_certificates)
    app_key = _key(app_chain[0], "alipay_app_cert")
    alipay_key = _key(alipay_chain[0], "alipay_cert")
    if app_key.public_numbers() != own_numbers:
        reason = f"({keys.name_of(app_chain[0])}) does not belong to {_PREFIX}ALIPAY_PRIVATE_KEY"
        raise _invalid("alipay_app_cert", reason)
    root_sn = keys.root_serial_of(roots)
    if not root_sn:
        raise _invalid("alipay_root_cert", "must have a certificate that is signed by RSA")
    try:
        keys.check_time(app_chain[0], "the certificate", now)
    except BadCertificate as error:
        raise _invalid("alipay_app_cert", f"is refused: {error}") from None
    try:
        keys.check_chain(alipay_chain, roots, now)
    except BadCertificate as error:
        raise _invalid("alipay_cert", f"is refused: {error}") from None
    return Credentials(
        private_key,
        alipay_key,
        Certificates(
            app_sn=keys.serial_of(app_chain[0]),
            root_sn=root_sn,
            alipay_sn=keys.serial_of(alipay_chain[0]),
            alipay=alipay_chain[0],
        ),
    )


def _key(certificate: x509.Certificate, name: str) -> RSAPublicKey:
    try:
        return keys.public_key_of(certificate)
    except ValueError as error:
        raise _invalid(name, f"is not acceptable: {error}") from None


def _read(options: Mapping[str, str], name: str, read_text: Callable[[str], T]) -> T:
    text = options.get(name, "")
    if not text.strip():
        others = ", with all three certificates or none" if name in _CERTIFICATES else ""
        raise _invalid(name, f"must be set, since OPENTILL_GATEWAYS has alipay{others}")
    try:
        return read_text(text)
    except ValueError as error:
        raise _invalid(name, f"is not acceptable: {error}") from None
