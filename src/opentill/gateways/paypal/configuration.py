"""Create the adapter from the settings ``OPENTILL_GATEWAY_PAYPAL_…``."""

import re
from collections.abc import Mapping
from typing import Final

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.paypal.certificates import Certificates, read_chain
from opentill.gateways.paypal.client import PayPalGateway
from opentill.gateways.paypal.transport import Options
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

_PREFIX: Final = "OPENTILL_GATEWAY_PAYPAL_"
URL: Final = "https://api-m.paypal.com"
SANDBOX_URL: Final = "https://api-m.sandbox.paypal.com"


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> PayPalGateway:
    """Create the adapter, which connects to PayPal, or to another configured server, only.

    ``options`` have lower-case names such as ``paypal_client_id``. Raises ConfigurationError, which
    names the setting and the accepted values.
    """
    configured = read(options)
    return PayPalGateway(
        configured,
        Outgoing(server_policy(configured.url)),
        make_certificates(configured, server_policy=server_policy),
    )


def make_certificates(
    options: Options, pause_s: float | None = None, server_policy: ServerPolicy = Policy.only
) -> Certificates:
    """Create the verifier of webhooks; ``pause_s`` is that between downloads."""
    is_paypal = mode_of_credentials("paypal", {"url": options.url}) is not None
    # Certificates are at another host than the API. Their addresses are checked before.
    outgoing = Outgoing(Policy() if is_paypal else server_policy(options.url))
    pauses = {} if pause_s is None else {"pause_s": pause_s}
    return Certificates(options.url, options.trusted, outgoing, **pauses)


def read(options: Mapping[str, str]) -> Options:
    """Read and check the settings. Raises ConfigurationError."""
    trusted = _get(options, "ca")
    if trusted:
        trusted = trusted.replace("\\n", "\n")
        try:
            read_chain(trusted.encode())
        except ValueError as error:
            raise _invalid("ca", f"certificates of authorities in PEM: {error}") from None
    return Options(
        url=_address(_get(options, "url") or URL),
        client_id=_matching(
            options, "client_id", r"[!-9;-~]{10,200}", "the client ID of your app at PayPal"
        ),
        client_secret=_matching(
            options, "client_secret", r"[!-~]{10,200}", "the secret of your app at PayPal"
        ),
        webhook_id=_matching(
            options, "webhook_id", r"[0-9A-Za-z]{1,50}", "the id of the app's webhook"
        ),
        merchant_id=_matching(
            options,
            "merchant_id",
            r"[0-9A-Z]{5,20}|",
            "the merchant ID of your PayPal account, or left out",
        ),
        trusted=trusted.encode() or None,
    )


def _get(options: Mapping[str, str], name: str) -> str:
    return options.get(f"paypal_{name}", "").strip()


def _invalid(name: str, expectation: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} must be {expectation}")


def _matching(options: Mapping[str, str], name: str, pattern: str, expectation: str) -> str:
    text = _get(options, name)
    if re.fullmatch(pattern, text) is None:
        raise _invalid(name, expectation)
    return text


def _address(text: str) -> str:
    try:
        return settingvalues.web(text).rstrip("/")
    except ValueError as error:
        reason = f"{error}: that of PayPal's API, {URL} or, for tests, {SANDBOX_URL}"
        raise _invalid("url", reason) from None
