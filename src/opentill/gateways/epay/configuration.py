"""Create the adapter from the settings ``OPENTILL_GATEWAY_EPAY_…``."""

import re
from collections.abc import Mapping
from typing import Final, cast

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS
from opentill.core.payment_methods import METHODS, Method
from opentill.gateways.epay.client import EpayGateway, Options
from opentill.gateways.epay.wire import DEFAULT_CURRENCY, TYPES
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

_PREFIX: Final = "OPENTILL_GATEWAY_EPAY_"
_USUAL: Final = "ALIPAY,WECHAT_PAY"
_TYPE: Final = re.compile(r"[A-Za-z0-9_]{1,32}", re.ASCII)


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> EpayGateway:
    """Create the adapter, which connects to the configured server only.

    ``options`` have lower-case names such as ``epay_url``. Raises ConfigurationError, which names
    the setting and the accepted values.
    """
    configured = read(options)
    return EpayGateway(configured, Outgoing(server_policy(configured.url)))


def read(options: Mapping[str, str]) -> Options:
    """Read and check the settings. Raises ConfigurationError."""
    return Options(
        url=_address(options.get("epay_url", "")),
        pid=_matching(options, "pid", r"[0-9]{1,20}", "the number of your account there"),
        key=_matching(options, "key", r"[!-~]{8,128}", "the key of your account there"),
        methods=_methods(options.get("epay_methods") or _USUAL),
        currency=_currency(options.get("epay_currency") or DEFAULT_CURRENCY),
        by_server=_one_of(options, "mode", "mapi", "submit") == "mapi",
        query_by_post=_one_of(options, "query", "get", "post") == "post",
    )


def _invalid_setting(name: str, expectation: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} must be {expectation}")


def _address(text: str) -> str:
    """Return the URL of the folder with submit.php, ending in a slash; a file's URL is accepted."""
    try:
        address = settingvalues.web(text)
    except ValueError as error:
        raise _invalid_setting(
            "url", f"{error}: the server's, such as https://pay.example.com/"
        ) from None
    return re.sub(r"/(submit|mapi|api)\.php$", "", address).rstrip("/") + "/"


def _matching(options: Mapping[str, str], name: str, pattern: str, expectation: str) -> str:
    text = options.get(f"epay_{name}", "")
    if re.fullmatch(pattern, text) is None:
        raise _invalid_setting(name, expectation)
    return text


def _one_of(options: Mapping[str, str], name: str, default: str, other: str) -> str:
    text = options.get(f"epay_{name}") or default
    if text not in (default, other):
        raise _invalid_setting(name, f"{default} or {other}")
    return text


def _currency(text: str) -> str:
    if text not in EXPONENTS:
        raise _invalid_setting(
            "currency", "the ISO 4217 code of the currency that it takes, such as CNY"
        )
    return text


def _methods(text: str) -> dict[Method, str]:
    types = read_types(text)
    if types is None:
        expectation = (
            f"different ones of {', '.join(METHODS)} with commas between them, perhaps =type"
        )
        raise _invalid_setting("methods", expectation)
    return types


def read_types(text: str) -> dict[Method, str] | None:
    """Read ``ALIPAY,WECHAT_PAY=wxpay2``: methods, with the server's type if it differs.

    Returns None for anything else.
    """
    types: dict[Method, str] = {}
    for part in text.split(","):
        method, _, kind = part.strip().partition("=")
        typed_method = cast("Method", method)
        if method not in METHODS or typed_method in types:
            return None
        types[typed_method] = kind or TYPES[typed_method]
    return types if all(map(_TYPE.fullmatch, types.values())) else None
