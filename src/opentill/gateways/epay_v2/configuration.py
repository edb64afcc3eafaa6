"""Create the adapter from the settings ``OPENTILL_GATEWAY_EPAY_V2_…``."""

import re
from collections.abc import Mapping
from typing import Final

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS
from opentill.core.payment_methods import METHODS
from opentill.gateways.epay import rsa_signature
from opentill.gateways.epay.configuration import read_types
from opentill.gateways.epay.rsa_signature import BadKey, PrivateKeyGiven
from opentill.gateways.epay.wire import DEFAULT_CURRENCY
from opentill.gateways.epay_v2.client import EpayV2Gateway, Options
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

_PREFIX: Final = "OPENTILL_GATEWAY_EPAY_V2_"
_USUAL: Final = "ALIPAY,WECHAT_PAY"
_PID: Final = re.compile(r"[0-9]{1,20}", re.ASCII)
_PATH: Final = re.compile(r"/(api(/[a-z]+(/[a-z]+)?)?|(submit|mapi|api)\.php)/?$", re.ASCII)


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> EpayV2Gateway:
    """Create the adapter, which connects to the configured server only.

    ``options`` have lower-case names such as ``epay_v2_url``. Raises ConfigurationError, which
    names the setting and the accepted values.
    """
    configured = read(options)
    return EpayV2Gateway(configured, Outgoing(server_policy(configured.url)))


def read(options: Mapping[str, str]) -> Options:
    """Read and check the settings. Raises ConfigurationError."""
    pid, currency = _get(options, "pid"), _get(options, "currency") or DEFAULT_CURRENCY
    if _PID.fullmatch(pid) is None:
        raise _invalid("pid", "the number of your account there")
    if currency not in EXPONENTS:
        raise _invalid("currency", "the ISO 4217 code of the currency that it takes, such as CNY")
    methods = read_types(_get(options, "methods") or _USUAL)
    if methods is None:
        raise _invalid(
            "methods",
            f"different ones of {', '.join(METHODS)} with commas between them, perhaps =type",
        )
    return Options(
        url=_address(_get(options, "url")),
        pid=pid,
        private_key=_private_key(_get(options, "private_key")),
        public_key=_public_key(_get(options, "public_key")),
        methods=methods,
        currency=currency,
        shows_codes=_one_of(options, "page", "jump", "web") == "web",
        repeats_refunds=_one_of(options, "refunds", "once", "repeat") == "repeat",
    )


def _get(options: Mapping[str, str], name: str) -> str:
    return options.get(f"epay_v2_{name}", "").strip()


def _invalid(name: str, expectation: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} must be {expectation}")


def _address(text: str) -> str:
    """Return the URL of the folder with ``api/``, ending in a slash; a path's URL is accepted."""
    try:
        address = settingvalues.web(text)
    except ValueError as error:
        raise _invalid("url", f"{error}: the server's, such as https://pay.example.com/") from None
    return _PATH.sub("", address).rstrip("/") + "/"


def _private_key(text: str) -> RSAPrivateKey:
    try:
        return rsa_signature.read_private_key(text)
    except BadKey:
        raise _invalid(
            "private_key", "your private RSA key of at least 2048 bits, in PEM or Base64"
        ) from None


def _public_key(text: str) -> RSAPublicKey:
    try:
        return rsa_signature.read_public_key(text)
    except PrivateKeyGiven:
        raise _invalid("public_key", "the platform's public key, not a private one") from None
    except BadKey:
        raise _invalid(
            "public_key",
            "the platform's public RSA key of at least 2048 bits, in PEM or Base64, as your account"
            " page there shows it",
        ) from None


def _one_of(options: Mapping[str, str], name: str, default: str, other: str) -> str:
    text = _get(options, name) or default
    if text not in (default, other):
        raise _invalid(name, f"{default} or {other}")
    return text
