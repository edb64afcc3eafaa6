"""Create the adapter from the settings ``OPENTILL_GATEWAY_WECHAT_PAY_…``."""

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, cast

from opentill.core import settingvalues
from opentill.core.errors import ConfigurationError
from opentill.gateways.wechat_pay import keys
from opentill.gateways.wechat_pay.certificates import PUBLIC_KEY_PREFIX
from opentill.gateways.wechat_pay.client import WeChatPayGateway
from opentill.gateways.wechat_pay.transport import Options
from opentill.gateways.wechat_pay.wire import PRODUCTS, Account, Product
from opentill.outgoing.client import Outgoing, Policy, ServerPolicy

T = TypeVar("T")
_PREFIX: Final = "OPENTILL_GATEWAY_WECHAT_PAY_"
URL: Final = "https://api.mch.weixin.qq.com"
USUAL_PRODUCTS: Final = "native"
_SERIAL: Final = re.compile(r"[0-9A-Fa-f]{1,40}", re.ASCII)


def make(options: Mapping[str, str], server_policy: ServerPolicy = Policy.only) -> WeChatPayGateway:
    """Create the adapter, which connects to the configured server only.

    ``options`` have lower-case names such as ``wechat_pay_mchid``. Raises ConfigurationError, which
    names the setting and the accepted values.
    """
    configured = read(options)
    return WeChatPayGateway(configured, Outgoing(server_policy(configured.url)))


def read(options: Mapping[str, str]) -> Options:
    """Read and check the settings. Raises ConfigurationError."""
    private_key = _key(options, "private_key", keys.read_private_key, "apiclient_key.pem")
    if private_key is None:
        raise _invalid("private_key", "the content of apiclient_key.pem")
    certificate = _key(options, "certificate", keys.read_certificate, "apiclient_cert.pem")
    serial = _get(options, "serial")
    if certificate is not None:
        if keys.public_key_of(certificate).public_numbers() != (
            private_key.public_key().public_numbers()
        ):
            raise _invalid(
                "certificate",
                f"that of the private key; {keys.serial_of(certificate)} is one of another key",
            )
        if serial and serial.upper().lstrip("0") != keys.serial_of(certificate):
            raise _invalid("serial", f"{keys.serial_of(certificate)}, or left out")
        serial = keys.serial_of(certificate)
    if not _SERIAL.fullmatch(serial):
        raise _invalid(
            "serial", "the serial number of the merchant certificate, or set CERTIFICATE instead"
        )
    public_key_id = _get(options, "public_key_id")
    public_key = _key(options, "public_key", keys.read_public_key, "pub_key.pem")
    if bool(public_key_id) != (public_key is not None):
        missing = "public_key" if public_key_id else "public_key_id"
        raise _invalid(missing, "set, since its other part is")
    if public_key_id and not re.fullmatch(
        rf"{PUBLIC_KEY_PREFIX}[0-9A-Za-z]{{1,64}}", public_key_id
    ):
        raise _invalid("public_key_id", f"the id that begins with {PUBLIC_KEY_PREFIX}")
    return Options(
        url=_address(_get(options, "url") or URL),
        account=Account(
            mchid=_matching(
                options, "mchid", r"[0-9]{6,32}", "the number of your merchant account"
            ),
            appid=_matching(
                options,
                "appid",
                r"[0-9A-Za-z_-]{6,32}",
                "the appid (wx…) that is bound to the account",
            ),
        ),
        private_key=private_key,
        serial=serial.upper(),
        certificate=certificate,
        api_v3_key=_matching(
            options, "api_v3_key", r"[!-~]{32}", "the APIv3 key of the account: 32 characters"
        ).encode(),
        public_key_id=public_key_id,
        public_key=public_key,
        products=_products(_get(options, "products") or USUAL_PRODUCTS),
    )


def _get(options: Mapping[str, str], name: str) -> str:
    return options.get(f"wechat_pay_{name}", "").strip()


def _invalid(name: str, expectation: str) -> ConfigurationError:
    return ConfigurationError(f"{_PREFIX}{name.upper()} must be {expectation}")


def _matching(options: Mapping[str, str], name: str, pattern: str, expectation: str) -> str:
    text = _get(options, name)
    if re.fullmatch(pattern, text) is None:
        raise _invalid(name, expectation)
    return text


def _key(
    options: Mapping[str, str], name: str, read_key: Callable[[str], T], file: str
) -> T | None:
    text = _get(options, name)
    if not text:
        return None
    try:
        return read_key(text)
    except ValueError as error:
        raise _invalid(name, f"the content of {file}, in PEM or Base64: {error}") from None


def _address(text: str) -> str:
    try:
        return settingvalues.web(text).rstrip("/")
    except ValueError as error:
        raise _invalid("url", f"{error}: that of WeChat Pay's API, such as {URL}") from None


def _products(text: str) -> tuple[Product, ...]:
    products = [product.strip() for product in text.split(",")]
    if not set(products) <= set(PRODUCTS) or len(set(products)) != len(products):
        raise _invalid("products", f"different ones of {', '.join(PRODUCTS)} with commas between")
    return tuple(cast("list[Product]", products))
