"""Create the adapter from the settings ``OPENTILL_GATEWAY_EPUSDT_…``."""

import re
from collections.abc import Mapping
from typing import Final

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.core.money import EXPONENTS
from opentill.gateways.epusdt.client import BepusdtGateway, EpusdtGateway, Options
from opentill.gateways.epusdt.wire import MOST_DECIMALS
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

_PREFIX: Final = "OPENTILL_GATEWAY_EPUSDT_"
_CURRENCY: Final = "CNY"
_FORK: Final = "bepusdt"
_TOKEN: Final = re.compile(r"[!-~]{8,128}", re.ASCII)
_FORK_PARAMETERS: Final = {
    "trade_type": (
        re.compile(r"[a-z0-9]{2,10}\.[a-z0-9]{2,15}", re.ASCII),
        "a token and its network as the server names them, such as usdt.trc20",
    ),
    "rate": (
        re.compile(r"[~+-]?[0-9]{1,6}(?:\.[0-9]{1,6})?", re.ASCII),
        "units of the currency for a token, such as 7.2, or a change of the rate, such as ~1.02",
    ),
}
# The API token of the documents' example, which anybody can read.
_EXAMPLE: Final = "epusdt_password_xasddawqe"


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> EpusdtGateway:
    """Create the adapter, which connects to the configured server only.

    ``options`` have lower-case names such as ``epusdt_url``. Raises ConfigurationError, which names
    the setting and the accepted values.
    """
    configured = read(options)
    kind = EpusdtGateway if configured.fork is None else BepusdtGateway
    return kind(configured, Outgoing(server_policy(configured.url)))


def read(options: Mapping[str, str]) -> Options:
    """Read and check the settings. Raises ConfigurationError."""
    server = _get(options, "server") or "epusdt"
    if server not in ("epusdt", _FORK):
        raise _invalid("server", f"epusdt or {_FORK}")
    token = _get(options, "token")
    if _TOKEN.fullmatch(token) is None or token == _EXAMPLE:
        raise _invalid(
            "token", "the API token (api_auth_token, auth_token) of 8 to 128 characters, not the"
            " one of an example or a fresh installation: who knows it can report payments",
        )  # fmt: skip
    return Options(
        url=_address(_get(options, "url")),
        token=token,
        currency=_currency(_get(options, "currency") or _CURRENCY),
        fork=_fork_parameters(options, is_fork=server == _FORK),
    )


def _get(options: Mapping[str, str], name: str) -> str:
    return options.get(f"epusdt_{name}", "").strip()


def _invalid(name: str, expectation: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} must be {expectation}")


def _address(text: str) -> str:
    """Return the server's URL, ending in a slash; the URL of an operation is accepted."""
    try:
        address = settingvalues.web(text)
    except ValueError as error:
        raise _invalid("url", f"{error}: the server's, such as https://usdt.example.com/") from None
    return re.sub(r"/api/v1/order/create-transaction$", "", address).rstrip("/") + "/"


def _currency(text: str) -> str:
    if EXPONENTS.get(text, MOST_DECIMALS + 1) > MOST_DECIMALS:
        raise _invalid(
            "currency",
            "the ISO 4217 code of the currency of the server's amounts, with at most two decimals,"
            " such as CNY",
        )
    return text


def _fork_parameters(options: Mapping[str, str], *, is_fork: bool) -> dict[str, str] | None:
    """Return the parameters that only the fork knows, None for the original server."""
    params: dict[str, str] = {}
    for name, (pattern, expectation) in _FORK_PARAMETERS.items():
        text = _get(options, name)
        if not text:
            continue
        if not is_fork:
            raise _invalid(name, f"empty unless {_PREFIX}SERVER is {_FORK}")
        if pattern.fullmatch(text) is None:
            raise _invalid(name, expectation)
        params[name] = text
    return params if is_fork else None
