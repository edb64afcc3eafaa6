"""Requests and webhooks agree with PayPal's own clients; certificates and settings are checked."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from importlib import import_module, resources
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from opentill.core.errors import ConfigurationError
from opentill.core.ids import new_id
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.gateways import masked_settings
from opentill.gateways.account_modes import mode_of_credentials
from opentill.gateways.paypal import PayPalGateway, configuration, wire
from opentill.gateways.paypal.certificates import BadSignature, Certificates, public_key_of
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import paypal
from opentill.sandbox.paypal import keys
from support.paypal_shop import EUR, PayPalShop

# PayPal's clients have no types.
sdk: Any = import_module("paypalserversdk.paypal_serversdk_client")
sdk_configuration: Any = import_module("paypalserversdk.configuration")
sdk_auth: Any = import_module("paypalserversdk.http.auth.o_auth_2")
order_request: Any = import_module("paypalserversdk.models.order_request")
refund_request: Any = import_module("paypalserversdk.models.refund_request")
notifications: Any = import_module("paypalrestsdk.notifications")
openssl: Any = import_module("OpenSSL.crypto")

# PayPal's own certificate of 2017, from the tests of its SDK for Java (github.com/paypal/
# PayPal-Java-SDK, rest-api-sdk/src/test/resources/testClientCert.crt).
PAYPALS_CERTIFICATE: Final = (Path(__file__).parent / "paypal_certificate.pem").read_bytes()


@pytest.fixture
async def gateway(paypal_shop: PayPalShop) -> AsyncIterator[PayPalGateway]:
    """Our gateway."""
    gateway = paypal_shop.gateway()
    yield gateway
    await gateway.close()


@pytest.fixture
def client(paypal_shop: PayPalShop) -> Any:
    """PayPal's client, which calls the sandbox bank."""

    class Configuration(sdk_configuration.Configuration):  # type: ignore[misc]
        def get_base_uri(self, server: Any = None) -> str:
            return paypal_shop.bank_url

    credentials = sdk_auth.ClientCredentialsAuthCredentials(
        o_auth_client_id=paypal.CLIENT_ID,
        o_auth_client_secret=paypal_shop.file(paypal.CREDENTIAL_FILE),
    )
    configured = Configuration(client_credentials_auth_credentials=credentials)
    return sdk.PaypalServersdkClient(config=configured)


async def test_paypals_client_pays_and_refunds_at_the_sandbox_bank(
    paypal_shop: PayPalShop, gateway: PayPalGateway, client: Any
) -> None:
    request = paypal_shop.request()
    body = order_request.OrderRequest.from_dictionary(wire.order_body(request))
    refund = paypal_shop.refund_request(request.attempt_id, "", 400)
    refund_body = refund_request.RefundRequest.from_dictionary(wire.refund_body(refund))

    def pay() -> tuple[Any, Any, Any, Any]:
        options = {"body": body, "paypal_request_id": "1", "prefer": "return=representation"}
        created = client.orders.create_order(options).body
        assert created.status == "PAYER_ACTION_REQUIRED"
        url = next(link.href for link in created.links if link.rel == "payer-action")
        start = len(paypal_shop.receiver.received)
        paypal_shop.approve(url)
        options = {"id": created.id, "prefer": "return=representation"}
        captured = client.orders.capture_order(options).body
        capture = captured.purchase_units[0].payments.captures[0]
        refunded = client.payments.refund_captured_payment(
            {"capture_id": capture.id, "body": refund_body, "paypal_request_id": refund.refund_id}
        ).body
        repeated = client.payments.refund_captured_payment(
            {"capture_id": capture.id, "body": refund_body, "paypal_request_id": refund.refund_id}
        ).body
        assert repeated.id == refunded.id
        notices = paypal_shop.wait_for_notices(start, 3)
        return (
            client.payments.get_captured_payment({"capture_id": capture.id}).body,
            (client.payments.get_refund({"refund_id": refunded.id}).body),
            created.id,
            notices,
        )

    capture, refunded, order_id, notices = await asyncio.to_thread(pay)
    assert (capture.status, capture.amount.value) == ("PARTIALLY_REFUNDED", "9.99")
    assert (refunded.status, refunded.amount.value) == ("COMPLETED", "4.00")
    # Our gateway reads the same webhooks and the same state.
    await gateway.fetch_keys(notices[0][0])
    now_ms = time.time_ns() // 1_000_000
    events = [
        event
        for headers, content in notices
        for event in gateway.read_callback(headers, content, now_ms)
    ]
    assert {event.attempt_id for event in events} == {request.attempt_id}
    paid = await gateway.find_payment(request.attempt_id, order_id)
    assert (paid.status, paid.provider_ref) == ("SUCCEEDED", capture.id)
    outcome = await gateway.find_refund(refund.refund_id, capture.id)
    assert (outcome.status, outcome.provider_ref) == ("SUCCEEDED", refunded.id)


async def test_paypals_client_reads_an_order_of_our_gateway(
    paypal_shop: PayPalShop, gateway: PayPalGateway, client: Any
) -> None:
    _, capture_id = await paypal_shop.pay(gateway, amount=Money(12300, "HUF"))
    capture = await asyncio.to_thread(
        client.payments.get_captured_payment, {"capture_id": capture_id}
    )
    assert (capture.body.status, capture.body.amount.value) == ("COMPLETED", "123")


def test_our_requests_have_only_fields_that_paypals_client_knows(paypal_shop: PayPalShop) -> None:
    body = wire.order_body(paypal_shop.request())
    read_body = order_request.OrderRequest.from_dictionary(body)
    unit, context = read_body.purchase_units[0], read_body.payment_source.paypal.experience_context
    sent_unit = body["purchase_units"][0]
    assert (read_body.intent, unit.custom_id, unit.invoice_id) == (
        "CAPTURE",
        sent_unit["custom_id"],
        sent_unit["invoice_id"],
    )
    sent_context = body["payment_source"]["paypal"]["experience_context"]
    for name, text in sent_context.items():
        assert getattr(context, name) == text


@pytest.mark.filterwarnings("ignore:X509:DeprecationWarning")
async def test_paypals_older_client_verifies_the_sandbox_banks_webhooks(
    paypal_shop: PayPalShop, gateway: PayPalGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = len(paypal_shop.receiver.received)
    await paypal_shop.start(gateway)
    ((headers, body),) = await asyncio.to_thread(paypal_shop.wait_for_notices, start)
    store = openssl.X509Store()
    for pem in (paypal_shop.file(paypal.ROOT_FILE).encode(), _issuer(paypal_shop)):
        store.add_cert(openssl.load_certificate(openssl.FILETYPE_PEM, pem))

    def verify(certificate: Any, signature: bytes, data: bytes, algorithm: str) -> None:
        # pyOpenSSL no longer has the function that PayPal's client calls.
        assert algorithm == "sha256WithRSAEncryption"
        key = certificate.to_cryptography().public_key()
        key.verify(signature, data, PKCS1v15(), SHA256())

    monkeypatch.setattr(openssl, "verify", verify, raising=False)
    event_class = notifications.WebhookEvent
    monkeypatch.setattr(event_class, "_get_certificate_store", lambda: store)

    def is_verified(content: str) -> bool:
        names = ("transmission-id", "transmission-time")
        transmission_id, sent_at = (headers[f"paypal-{name}"] for name in names)
        verified: bool = event_class.verify(
            transmission_id,
            sent_at,
            paypal_shop.webhook_id,
            content,
            headers["paypal-cert-url"],
            headers["paypal-transmission-sig"],
            headers["paypal-auth-algo"],
        )
        return verified

    assert await asyncio.to_thread(is_verified, body.decode())
    assert not await asyncio.to_thread(is_verified, body.decode() + " ")
    await gateway.fetch_keys(headers)
    assert gateway.read_callback(headers, body, time.time_ns() // 1_000_000)


def _issuer(shop: PayPalShop) -> bytes:
    account = keys.load(shop.folder.parent)
    assert account is not None
    issuer = x509.load_pem_x509_certificates(account.current.chain)[1]
    return issuer.public_bytes(Encoding.PEM)


# ── certificates ──

NOW_MS: Final = time.time_ns() // 1_000_000
URL: Final = "https://api-m.sandbox.paypal.com"


def find_key(chain: bytes, trusted: bytes | None, url: str = URL, now_ms: int = NOW_MS) -> object:
    """Return the key of a certificate that PayPal's host has sent. Raises BadSignature."""

    async def find() -> object:
        certificates = Certificates(url, trusted, Outgoing(Policy()))
        address = f"https://{url[8:].replace('api-m', 'api')}/v1/notifications/certs/CERT-1"
        leaf, *issuers = x509.load_pem_x509_certificates(chain)
        certificates._chains[address] = type_of_chain(leaf, issuers, 0.0)
        try:
            return certificates._find_key(address, now_ms)
        finally:
            await certificates.close()

    type_of_chain = import_module("opentill.gateways.paypal.certificates")._Chain
    return asyncio.run(find())


def _digicert(name: str) -> bytes:
    """Return a certificate of the authority that signed PayPal's; PayPal's client ships it."""
    return (resources.files("paypalrestsdk") / "data" / f"{name}.crt.pem").read_bytes()


def test_a_real_certificate_of_paypals_is_accepted_in_its_time() -> None:
    chain = PAYPALS_CERTIFICATE + _digicert("DigiCertSHA2ExtendedValidationServerCA")
    root = _digicert("DigiCertHighAssuranceEVRootCA")
    in_2018 = round(datetime(2018, 1, 1, tzinfo=UTC).timestamp() * 1000)
    key = find_key(chain, root, now_ms=in_2018)
    assert isinstance(key, rsa.RSAPublicKey)
    # Its issuer may be configured instead, if PayPal did not send it.
    issuer = _digicert("DigiCertSHA2ExtendedValidationServerCA")
    assert find_key(PAYPALS_CERTIFICATE, issuer, now_ms=in_2018)
    with pytest.raises(BadSignature, match="not issued to messageverificationcerts.sandbox"):
        find_key(PAYPALS_CERTIFICATE, root, now_ms=in_2018)
    with pytest.raises(BadSignature, match="valid from 2017-02-18 to 2019-04-26 only"):
        find_key(chain, root)
    with pytest.raises(BadSignature, match="not issued to messageverificationcerts.paypal.com"):
        find_key(chain, root, "https://api-m.paypal.com", in_2018)


class Authority:
    """An authority, and the certificates that it issues."""

    def __init__(self) -> None:
        """Create its key and its certificate."""
        now = datetime.now(UTC)
        self.start, self.end = now - timedelta(days=1), now + timedelta(days=1)
        self.key = keys.new_key()
        self.certificate = keys.issue("Root", self.key, None, self.key, self.start, self.end)
        self.pem = self.certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, key: rsa.RSAPrivateKey | None = None) -> bytes:
        """Return a certificate in PEM."""
        certificate = keys.issue(
            name, key or keys.new_key(), self.certificate, self.key, self.start, self.end
        )
        return certificate.public_bytes(Encoding.PEM)


def test_certificates_of_others_are_refused() -> None:
    ours, other = Authority(), Authority()
    assert find_key(ours.issue(keys.SUBJECT), ours.pem)
    refused = (
        (ours.issue(keys.SUBJECT), other.pem),
        (ours.issue("www.sandbox.paypal.com"), ours.pem),
        (ours.issue("messageverificationcerts.paypal.com"), ours.pem),
        (ours.issue("messageverificationcerts.sandbox.paypal.com.evil.example"), ours.pem),
        (ours.pem, ours.pem),
    )
    for chain, trusted in refused:
        with pytest.raises(BadSignature, match="is not issued to messageverificationcerts"):
            find_key(chain, trusted)
    # Without a setting, the authorities for TLS count, which do not include ours.
    with pytest.raises(BadSignature, match="OPENTILL_GATEWAY_PAYPAL_CA can name others"):
        find_key(ours.issue(keys.SUBJECT), None)


def test_a_key_that_is_too_small_or_of_another_kind_is_refused() -> None:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, keys.SUBJECT)])
    now = datetime.now(UTC)
    small = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it is to be refused
    for key in (small, ec.generate_private_key(ec.SECP256R1())):
        builder = x509.CertificateBuilder(
            name, name, key.public_key(), 1, now, now + timedelta(days=1)
        )
        with pytest.raises(BadSignature, match="no RSA key of at least 2048 bits"):
            public_key_of(builder.sign(key, SHA256()))


ADDRESSES: Final = (
    # Each row: the API's address, that of a certificate, and whether it may be downloaded
    ("https://api-m.paypal.com", "https://api.paypal.com/v1/notifications/certs/CERT-1a", True),
    ("https://api-m.paypal.com", "https://api-m.paypal.com/v1/notifications/certs/CERT-1a", True),
    ("https://api-m.paypal.com", "https://api.sandbox.paypal.com/v1/notifications/certs/1", False),
    (URL, "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42", True),
    (URL, "https://api.paypal.com/v1/notifications/certs/CERT-1", False),
    (URL, "http://api.sandbox.paypal.com/v1/notifications/certs/CERT-1", False),
    (URL, "https://api.sandbox.paypal.com:8443/v1/notifications/certs/CERT-1", False),
    (URL, "https://api.sandbox.paypal.com@evil.example/v1/notifications/certs/CERT-1", False),
    (URL, "https://api.sandbox.paypal.com.evil.example/v1/notifications/certs/CERT-1", False),
    (URL, "https://api.sandbox.paypal.com/v1/notifications/certs/../../x", False),
    (URL, "https://api.sandbox.paypal.com/v1/notifications/certs/", False),
    (URL, "https://api.sandbox.paypal.com/v1/notifications/certs/" + "a" * 101, False),
    ("https://till.example", "https://till.example/v1/notifications/certs/CERT-1", True),
    ("https://till.example", "https://api.paypal.com/v1/notifications/certs/CERT-1", False),
)


@pytest.mark.parametrize(("api", "address", "is_allowed"), ADDRESSES)
async def test_certificates_come_from_paypals_hosts_only(
    api: str, address: str, is_allowed: bool
) -> None:
    certificates = Certificates(api, None, Outgoing(Policy()))
    assert certificates._is_allowed(address) == is_allowed
    await certificates.close()


# ── settings ──

OPTIONS: Final = {"client_id": "A" * 20, "client_secret": "E" * 20, "webhook_id": "0WH"}


def _read(**changes: str) -> Any:
    return configuration.read(
        {f"paypal_{name}": text for name, text in (OPTIONS | changes).items()}
    )


def test_the_settings_have_defaults() -> None:
    options = _read()
    assert (options.url, options.merchant_id, options.trusted) == (
        "https://api-m.paypal.com",
        "",
        None,
    )
    assert "E" * 20 not in repr(options)
    root = Authority().pem.decode()
    assert _read(ca=root.replace("\n", "\\n")).trusted == root.encode()


WRONG_SETTINGS: Final = (
    ({"client_id": ""}, "CLIENT_ID must be the client ID of your app"),
    ({"client_id": "has:colon:in:it"}, "CLIENT_ID must be the client ID of your app"),
    ({"client_secret": "short"}, "CLIENT_SECRET must be the secret of your app"),
    ({"webhook_id": "WH-1"}, "WEBHOOK_ID must be the id of the app's webhook"),
    ({"merchant_id": "a@b"}, "MERCHANT_ID must be the merchant ID of your PayPal account"),
    ({"ca": "?"}, "CA must be certificates of authorities in PEM"),
    ({"url": "ftp://x"}, "URL must be"),
)


@pytest.mark.parametrize(("changes", "expected"), WRONG_SETTINGS)
def test_wrong_settings_are_named(changes: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^OPENTILL_GATEWAY_PAYPAL_{expected}"):
        _read(**changes)


@pytest.mark.parametrize(
    ("url", "mode"),
    [("", True), ("https://api-m.paypal.com", True), (URL, False), ("http://127.0.0.1:1", None)],
)
def test_the_address_says_whether_money_is_real(url: str, mode: bool | None) -> None:
    assert mode_of_credentials("paypal", {"url": url} if url else {}) is mode


def test_every_setting_of_the_recipe_is_listed_with_its_text() -> None:
    recipe = Path(__file__).parents[2] / "docs" / "recipes" / "take-paypal.md"
    named = re.findall("OPENTILL_GATEWAY_[A-Z_0-9]*[A-Z]", recipe.read_text(encoding="utf-8"))
    named = {name.removesuffix("_FILE") for name in named}
    options = Settings(gateways=("paypal",))
    rows = masked_settings.masked_rows(options)
    assert named == {variable for variable, _, _ in rows if "PAYPAL" in variable}


def test_our_ids_are_in_the_form_that_paypal_accepts(paypal_shop: PayPalShop) -> None:
    refund = paypal_shop.refund_request(new_id("att"), "", 100, amount=Money(100, EUR))
    custom_id = wire.refund_body(refund)["custom_id"]
    assert re.fullmatch(r"[A-Za-z0-9-_.,]{1,127}", custom_id)
    ours = wire.Refund(id="1", status="COMPLETED", custom_id=custom_id)
    assert ours.our_ids == (refund.refund_id, refund.attempt_id)
