"""Whether the money of an account is real, as far as its credentials say so.

Stripe's keys name their mode (https://docs.stripe.com/keys), providers have sandboxes at addresses
of their own, and test chains have numbers of their own. An address that is not the provider's, such
as that of an emulator or a proxy, says nothing: then a person must choose.
"""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from opentill.core.settings import SANDBOX

# Gateway → its credential with an address, and whether money at the provider's hosts is real. The
# first host is that of an account without the credential.
_HOSTS: Final[Mapping[str, tuple[str, Mapping[str, bool]]]] = {
    "stripe": ("api_base", {"api.stripe.com": True}),
    "paypal": (
        "url",
        {
            "api-m.paypal.com": True,
            "api.paypal.com": True,
            "api-m.sandbox.paypal.com": False,
            "api.sandbox.paypal.com": False,
        },
    ),
    "alipay": (
        "url",
        {
            "openapi.alipay.com": True,
            "openapi-sandbox.dl.alipaydev.com": False,
            "openapi.alipaydev.com": False,
        },
    ),
    "wechat_pay": ("url", {"api.mch.weixin.qq.com": True, "api2.mch.weixin.qq.com": True}),
}
_KEY_PARTS: Final = 3  # kind, mode and key


def mode_of_credentials(gateway: str, credentials: Mapping[str, str]) -> bool | None:
    """Return whether credentials are for real money; None if they do not say."""
    if gateway == SANDBOX:
        return False
    if gateway == "evm":
        from opentill.gateways.evm.configuration import mode_of

        return mode_of(credentials.get("chain_id", ""))
    if gateway not in _HOSTS:
        return None
    name, hosts = _HOSTS[gateway]
    address = credentials.get(name, "").strip()
    mode = hosts.get(urlsplit(address).netloc.lower()) if address else next(iter(hosts.values()))
    if gateway != "stripe":
        return mode
    key_mode = _mode_of_key(credentials.get("secret_key", ""))
    return None if key_mode and mode is None else key_mode


def _mode_of_key(key: str) -> bool | None:
    """Return the mode that one of Stripe's keys names."""
    words = key.split("_")
    return {"test": False, "live": True}.get(words[1]) if len(words) >= _KEY_PARTS else None
