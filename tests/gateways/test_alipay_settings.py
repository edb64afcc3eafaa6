"""The settings of the Alipay gateway: forms of keys, certificates, and what is refused."""

import base64
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from opentill.core.errors import ConfigurationError
from opentill.core.settings import Settings
from opentill.gateways import load, masked_settings, offered_methods
from opentill.gateways.alipay import configuration, keys
from opentill.gateways.alipay.keys import utc_now
from support.alipay_shop import AlipayShop, public_part

PKCS1: Final = PrivateFormat.TraditionalOpenSSL
PKCS8: Final = PrivateFormat.PKCS8


def private_key(shop: AlipayShop) -> Any:
    return load_pem_private_key(shop.file("app_private_key.pem").encode(), None)


def text_of(
    key: Any,
    encoding: Encoding,
    form: PrivateFormat,
    encryption: KeySerializationEncryption | None = None,
) -> str:
    content = key.private_bytes(encoding, form, encryption or NoEncryption())
    return str(base64.b64encode(content).decode() if encoding == Encoding.DER else content.decode())


def test_private_keys_are_read_in_all_their_forms(alipay_shop: AlipayShop) -> None:
    key = private_key(alipay_shop)
    for encoding in (Encoding.PEM, Encoding.DER):
        for form in (PKCS1, PKCS8):
            text = text_of(key, encoding, form)
            for written in (
                text,
                f"\n {text} \n",
                text.replace("\n", "\\n"),
                text.replace("\n", " "),
                text.replace("\n", "\r\n"),
            ):
                assert keys.read_private_key(written).private_numbers() == key.private_numbers()


def test_public_keys_are_read_in_all_their_forms(alipay_shop: AlipayShop) -> None:
    key = private_key(alipay_shop).public_key()
    for form in (PublicFormat.SubjectPublicKeyInfo, PublicFormat.PKCS1):
        for encoding in (Encoding.PEM, Encoding.DER):
            content = key.public_bytes(encoding, form)
            is_der = encoding == Encoding.DER
            text = base64.b64encode(content).decode() if is_der else content.decode()
            assert keys.read_public_key(text).public_numbers() == key.public_numbers()


def test_public_keys_are_enough(alipay_shop: AlipayShop) -> None:
    gateways = load(("alipay",), Settings(gateway_options=alipay_shop.options()))
    assert (offered_methods(gateways, "CNY"), offered_methods(gateways, "USD")) == (("ALIPAY",), ())


# Changes of the options by public keys, and part of the error.
REFUSED: Final[list[tuple[dict[str, Any], str]]] = [
    ({"app_id": ""}, "ALIPAY_APP_ID must be the number of the application"),
    ({"app_id": "wx12345678"}, "ALIPAY_APP_ID must be the number of the application"),
    ({"seller_id": "2099"}, "ALIPAY_SELLER_ID must be the number of an account"),
    ({"private_key": ""}, "ALIPAY_PRIVATE_KEY must be set, since OPENTILL_GATEWAYS has alipay"),
    ({"private_key": "secret-hunter2"}, "ALIPAY_PRIVATE_KEY is not acceptable"),
    ({"private_key": "不是钥匙"}, "ALIPAY_PRIVATE_KEY is not acceptable"),
    ({"public_key": " "}, "ALIPAY_PUBLIC_KEY must be set"),
    ({"public_key": "MIIB"}, "ALIPAY_PUBLIC_KEY is not acceptable: it must be an RSA public key"),
    ({"products": "page,app"}, "ALIPAY_PRODUCTS must be different ones of page, wap, precreate"),
    ({"products": "page,page"}, "ALIPAY_PRODUCTS must be different ones"),
    ({"products": ","}, "ALIPAY_PRODUCTS must be different ones"),
    ({"url": "gateway.do"}, "ALIPAY_URL must be"),
    ({"app_cert": "x"}, "ALIPAY_PUBLIC_KEY must not be set together with certificates"),
]


@pytest.mark.parametrize(("changes", "error"), REFUSED)
def test_unusable_settings_are_named(
    alipay_shop: AlipayShop, changes: dict[str, Any], error: str
) -> None:
    options = alipay_shop.options(**changes)
    with pytest.raises(ConfigurationError) as caught:
        configuration.read(options, utc_now())
    assert error in str(caught.value)
    assert str(caught.value).startswith("OPENTILL_GATEWAY_")
    assert "hunter2" not in str(caught.value)


def test_unusable_keys_are_refused(alipay_shop: AlipayShop) -> None:
    key = private_key(alipay_shop)
    own = public_part(alipay_shop.file("app_private_key.pem"))
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it is to be refused
    curve = ec.generate_private_key(ec.SECP256R1())
    password = BestAvailableEncryption(b"x")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"public_key": own}, "is the public key of your own application"),
        ({"private_key": own}, "it must be an RSA private key"),
        ({"private_key": text_of(weak, Encoding.PEM, PKCS8)}, "at least 2048 bits"),
        ({"private_key": text_of(curve, Encoding.PEM, PKCS8)}, "an RSA key"),
        ({"private_key": text_of(key, Encoding.PEM, PKCS8, password)}, "without a passphrase"),
    ]
    for changes, error in cases:
        with pytest.raises(ConfigurationError, match=error):
            configuration.read(alipay_shop.options(**changes), utc_now())


def test_wrong_certificates_are_refused_by_name(alipay_shop: AlipayShop) -> None:
    file = alipay_shop.file
    leaf = file("alipay_cert.crt").split("\n\n")[0]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"app_cert": ""}, "APP_CERT must be set, since .*, with all three certificates or none"),
        ({"root_cert": "x"}, "ROOT_CERT is not acceptable: it must be a certificate in PEM"),
        ({"app_cert": leaf}, "APP_CERT .*CN=Sandbox Alipay.* does not belong to .*PRIVATE_KEY"),
        ({"cert": file("old_cert.crt")}, "CERT is refused: .*Alipay.* was valid until 20"),
        ({"cert": leaf}, "CERT is refused: .*Alipay.* does not come from the root certificates"),
        ({"root_cert": file("app_cert.crt")}, "CERT is refused: .* does not come from the root"),
    ]
    for changes, error in cases:
        options = alipay_shop.options(by_certificates=True, **changes)
        with pytest.raises(ConfigurationError, match=error):
            configuration.read(options, utc_now())


def test_every_option_of_the_recipe_is_listed() -> None:
    recipe = Path(__file__).parents[2] / "docs" / "recipes" / "take-alipay.md"
    names = re.findall("OPENTILL_GATEWAY_[A-Z_]*[A-Z]", recipe.read_text())
    rows = masked_settings.masked_rows(Settings(gateways=("alipay",)))
    assert {name.removesuffix("_FILE") for name in names} == {
        name for name, _, _ in rows if name.startswith("OPENTILL_GATEWAY_ALIPAY_")
    }


@pytest.mark.parametrize(
    ("moment", "error"),
    [
        (utc_now() + timedelta(days=4000), "APP_CERT is refused: .* was valid until"),
        (utc_now() - timedelta(days=4000), "APP_CERT is refused: .* is valid from"),
    ],
)
def test_certificates_are_valid_for_a_time(
    alipay_shop: AlipayShop, moment: datetime, error: str
) -> None:
    with pytest.raises(ConfigurationError, match=error):
        configuration.read(alipay_shop.options(by_certificates=True), moment)
