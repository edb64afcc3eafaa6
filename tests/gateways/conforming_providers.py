"""The simulated providers of the built-in adapters, as the conformance suite uses them."""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from gateways import stripe_gateways
from opentill.core.money import Money, parse
from opentill.gateways import Gateway, PaymentRequest
from opentill.gateways.conformance import Callback, Provider
from opentill.gateways.conformance.case import event_loop
from opentill.gateways.epay import configuration as epay
from opentill.gateways.epay.client import EpayGateway
from opentill.gateways.evm.chain import Chain
from opentill.gateways.evm.client import EvmGateway
from opentill.gateways.evm.configuration import read as read_evm
from opentill.gateways.evm.rpc import Node
from opentill.gateways.model import Method
from opentill.gateways.sandbox import SandboxGateway
from opentill.outgoing.client import Outgoing, Policy
from opentill.sandbox import epay_v2, evm
from support import epay_gateway_server, stripe_server
from support.alipay_shop import AlipayShop
from support.epay_gateway_server import EpayServer
from support.epay_v2_bank import EpayV2BankShop, stranger_public_key
from support.epusdt_shop import EpusdtShop
from support.ganache import XPUB
from support.paypal_shop import PayPalShop
from support.sandbox_bank import SECRET, Shop, wait_until
from support.sandbox_chain import SandboxChain
from support.stripe_server import StripeServer
from support.wallet_shop import WalletShop
from support.wechat_pay_shop import WeChatPayShop

TIMEOUT_S = 0.5
BAD_CARD = "4000000000000002"


def bank_sum(payment: dict[str, Any]) -> int | None:
    """Return what the sandbox bank took for a payment as its API shows it."""
    if "error" in payment:
        return None
    return int(payment["amount_minor"]) if payment["status"] == "succeeded" else 0


def bank_refunds(refunds: list[dict[str, Any]]) -> int:
    """Return the sum of the sandbox bank's refunds that it did or will do."""
    return sum(refund["amount_minor"] for refund in refunds if refund["status"] != "failed")


class SandboxProvider(Provider):
    """The sandbox bank, by its own API."""

    method: ClassVar[Method] = "CREDIT_CARD"
    amount = Money(999, "EUR")
    secrets = (SECRET,)

    def __init__(self, shop: Shop) -> None:
        """``shop`` is a shop at the bank."""
        self.shop, self.url = shop, shop.bank_url
        self.callback_url = f"{shop.receiver.url}/callback"

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter."""
        return SandboxGateway(url, SECRET + "!" if other_account else SECRET, TIMEOUT_S)

    def approve(self, attempt_id: str, page: str) -> None:
        """Pay by a good card."""
        assert urlsplit(page).path == f"/pay/{attempt_id}"
        self.shop.type_card(attempt_id, "4242424242424242")

    def decline(self, attempt_id: str, page: str) -> None:
        """Pay by a card that the bank declines."""
        assert page
        self.shop.type_card(attempt_id, BAD_CARD)

    def taken(self, attempt_id: str) -> int | None:
        """Return what the bank took."""
        return bank_sum(self.shop.find_payment(attempt_id))

    def refunded(self, attempt_id: str) -> int:
        """Return the refunds of a payment."""
        refunds = self.shop.api.get(f"/payments/{attempt_id}/refunds").json()
        return bank_refunds(refunds)

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the bank's callbacks."""

        def received() -> list[Callback]:
            return [
                Callback(headers=headers, body=body)
                for headers, body in list(self.shop.receiver.received)
                if attempt_id.encode() in body
            ]

        arrived: list[Callback] = wait_until(received)
        return arrived


class WalletProvider(Provider):
    """The sandbox bank by the dialect of a wallet, whose customers decide on their phones."""

    amount = Money(999, "CNY")

    def __init__(self, shop: WalletShop) -> None:
        """``shop`` is a shop at the bank."""
        self.wallet, self.url, self.callback_url = shop, shop.bank_url, shop.callback_url

    def approve(self, attempt_id: str, page: str) -> None:
        """Scan the code, and approve on the phone."""
        self.wallet.open(page)
        self.wallet.decide(attempt_id)

    def decline(self, attempt_id: str, page: str) -> None:
        """Scan the code, and refuse on the phone."""
        self.wallet.open(page)
        self.wallet.decide(attempt_id, "decline")

    def taken(self, attempt_id: str) -> int | None:
        """Return what the bank took."""
        return bank_sum(self.wallet.api.get(f"/payments/{attempt_id}").json())

    def refunded(self, attempt_id: str) -> int:
        """Return the refunds of a payment."""
        refunds = self.wallet.api.get(f"/payments/{attempt_id}/refunds").json()
        return bank_refunds(refunds)


class AlipayProvider(WalletProvider):
    """Alipay's dialect; the adapter shows QR codes."""

    method: ClassVar[Method] = "ALIPAY"

    def __init__(self, shop: AlipayShop) -> None:
        """``shop`` is a shop at the bank."""
        super().__init__(shop)
        self.shop = shop
        self.secrets = [_longest_line(shop.file("app_private_key.pem"))]

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account has another application at Alipay."""
        changes = {"app_id": "2021000000000999"} if other_account else {}
        return self.shop.gateway(
            timeout_s=TIMEOUT_S, products="precreate", url=f"{url}/alipay/gateway.do", **changes
        )

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the notifications."""
        return [Callback(fields=fields) for fields in self.shop.receiver.wait_for(attempt_id)]


class WeChatPayProvider(WalletProvider):
    """WeChat Pay's dialect; the adapter verifies by platform certificates."""

    method: ClassVar[Method] = "WECHAT_PAY"

    def __init__(self, shop: WeChatPayShop) -> None:
        """``shop`` is a shop at the bank."""
        super().__init__(shop)
        self.shop = shop
        self.secrets = [shop.file("api_v3_key.txt"), _longest_line(shop.file("apiclient_key.pem"))]

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account has another key for notifications."""
        changes = {"api_v3_key": "0" * 32} if other_account else {}
        gateway = self.shop.gateway(timeout_s=TIMEOUT_S, url=url, **changes)
        gateway._transport.keys._pause_s = 0  # between two downloads of certificates
        return gateway

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the notification, which is encrypted."""
        notices = self.shop.wait_for_notices(attempt_id)
        return [Callback(headers=headers, body=body) for headers, body in notices]


class EpusdtProvider(WalletProvider):
    """An epusdt server, which creates an order once, and has no refunds."""

    method: ClassVar[Method] = "CRYPTO"
    fork: ClassVar[bool] = False
    repeats_payments = False
    names_amounts = False
    refunds = False
    customers_decline = False

    def __init__(self, shop: EpusdtShop) -> None:
        """``shop`` is a shop at the bank."""
        super().__init__(shop)
        self.shop, self.secrets = shop, [shop.token]

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account has another token."""
        changes = {"token": "another-token-of-a-server"} if other_account else {}
        return self.shop.gateway(fork=self.fork, timeout_s=TIMEOUT_S, bank_url=url, **changes)

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the callback of the payment."""
        received = self.shop.receiver.wait_for(attempt_id)
        return [Callback(headers=headers, body=body) for headers, body in received]


class BepusdtProvider(EpusdtProvider):
    """The fork of epusdt, which repeats orders and cancels them."""

    fork = True
    repeats_payments = True


class EpayV2Provider(WalletProvider):
    """The bank as an Epay V2 server, which is not known to make a refund of one number once."""

    method: ClassVar[Method] = "ALIPAY"
    refunds_setting: ClassVar[str] = "once"
    repeats_refunds = False

    def __init__(self, shop: EpayV2BankShop) -> None:
        """``shop`` is a shop at the bank."""
        super().__init__(shop)
        self.shop, self.secrets = shop, [shop.file(epay_v2.PRIVATE_KEY)]

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account is one of a server with another key."""
        changes = {"refunds": self.refunds_setting}
        if other_account:
            changes["public_key"] = stranger_public_key()
        return self.shop.gateway(bank_url=url, timeout_s=TIMEOUT_S, **changes)

    def approve(self, attempt_id: str, page: str) -> None:
        """Open the page, and approve on the phone."""
        assert self.wallet.open(page).endswith(attempt_id)
        self.wallet.decide(attempt_id)

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the notification."""
        return [Callback(fields=fields) for fields in self.shop.receiver.wait_for(attempt_id)]


class RepeatingEpayV2Provider(EpayV2Provider):
    """The same, as a server that is known to make a refund of one number once, as OpenTill does."""

    refunds_setting = "repeat"
    repeats_refunds = True


class EvmProvider(Provider):
    """A node of the sandbox bank's chain, where customers send tokens to an address."""

    method: ClassVar[Method] = "CRYPTO"
    amount = Money(999, "USD")
    refunds = False
    customers_decline = False
    creates_payments = False
    calls_back = False
    deposits = True

    def __init__(self, chain: SandboxChain) -> None:
        """``chain`` is running."""
        self.chain, self.url = chain, chain.bank_url
        self.key = chain.url.rpartition("/")[2]
        self.secrets = (self.key, XPUB)
        self.addresses: dict[str, str] = {}

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; there are no callbacks that another account could not read."""
        assert not other_account
        settings = {
            "rpc_url": f"{url}{evm.PATH}/{self.key}",
            "chain_id": str(evm.CHAIN_ID),
            "xpub": XPUB,
            "tokens": f"USDT:{self.chain.usdt}:6,USDC:{self.chain.usdc}:18",
            "confirmations": "2",
        }
        configured = read_evm({f"evm_{name}": value for name, value in settings.items()})
        outgoing = Outgoing(Policy.only(configured.rpc_url))
        return EvmGateway(configured, Chain(Node(configured.rpc_url, outgoing, TIMEOUT_S)))

    def payment_request(self) -> PaymentRequest:
        """Return a request with an address that was reserved for it."""
        request = super().payment_request()
        address = self.addresses[request.attempt_id] = f"0x{secrets.token_hex(20)}"
        return msgspec.structs.replace(request, address=address)

    def approve(self, attempt_id: str, page: str) -> None:
        """Pay by the code, and wait for the confirmations."""
        assert self.addresses[attempt_id] in page.lower()
        self.chain._post("/evm/transfers", uri=page)
        self.chain.mine()

    def taken(self, attempt_id: str) -> int | None:
        """Return what is at the address of an attempt."""
        data = f"0x70a08231{self.addresses[attempt_id][2:]:0>64}"
        word = self.chain.call("eth_call", {"to": self.chain.usdt, "data": data}, "latest")
        return int(word, 16) // 10_000


class PayPalProvider(Provider):
    """PayPal's dialect, where customers approve orders that the adapter captures."""

    method: ClassVar[Method] = "CREDIT_CARD"
    amount = Money(999, "EUR")
    customers_decline = False

    def __init__(self, shop: PayPalShop) -> None:
        """``shop`` is a shop at the bank."""
        self.shop, self.url, self.start = shop, shop.bank_url, 0
        self.callback_url = f"{shop.receiver.url}/gateways/paypal/callback"
        self.secrets = [shop.options()["paypal_client_secret"]]

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account has another webhook."""
        changes = {"webhook_id": "0WH00000000000000"} if other_account else {}
        return self.shop.gateway(timeout_s=TIMEOUT_S, pause_s=0.0, url=url, **changes)

    def payment_request(self) -> PaymentRequest:
        """Return a request; later webhooks are about it."""
        self.start = len(self.shop.receiver.received)
        return super().payment_request()

    def approve(self, attempt_id: str, page: str) -> None:
        """Approve the order."""
        assert attempt_id
        self.shop.approve(page)

    def taken(self, attempt_id: str) -> int | None:
        """Return what the bank captured."""
        return bank_sum(self.shop.bank_payment(attempt_id))

    def refunded(self, attempt_id: str) -> int:
        """Return the refunds of a payment."""
        return int(self.shop.bank_payment(attempt_id)["refunded_minor"])

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the webhooks of the approval and of the capture."""
        assert attempt_id
        notices = self.shop.wait_for_notices(self.start, 2)
        return [Callback(headers=headers, body=body) for headers, body in notices]


class StripeProvider(Provider):
    """A simulation of Stripe's Checkout."""

    method: ClassVar[Method] = "CREDIT_CARD"
    amount = Money(999, "EUR")
    secrets = (stripe_server.KEY, stripe_server.SECRET)
    customers_decline = False

    def __init__(self, server: StripeServer) -> None:
        """``server`` is running."""
        self.server, self.url = server, server.url

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account has another secret for webhooks."""
        if not other_account:
            return stripe_gateways.create_gateway(url, timeout_s=TIMEOUT_S)
        other = stripe_gateways.create_gateway(url, timeout_s=TIMEOUT_S)
        other._secrets = ("whsec_of_another_account",)
        return other

    def approve(self, attempt_id: str, page: str) -> None:
        """Pay on Stripe's page."""
        assert page.startswith("https://checkout.stripe.com/")
        self.server.pay(attempt_id)

    def taken(self, attempt_id: str) -> int | None:
        """Return what Stripe received."""
        sessions = [
            session
            for session in list(self.server.sessions.values())
            if session["client_reference_id"] == attempt_id
        ]
        if not sessions:
            return None
        (session,) = sessions
        intent = self.server.intents.get(session["payment_intent"])
        return int(intent["amount_received"]) if intent else 0

    def refunded(self, attempt_id: str) -> int:
        """Return the refunds of a payment."""
        intent_id = self.server.find_session(attempt_id)["payment_intent"]
        return sum(
            refund["amount"]
            for refund in list(self.server.refunds.values())
            if refund["payment_intent"] == intent_id
        )

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the event of the completed session."""
        session = self.server.find_session(attempt_id)
        headers, body = self.server.sign_event("checkout.session.completed", session)
        return [Callback(headers=headers, body=body)]


class EpayProvider(Provider):
    """A server of the Epay V1 convention, which has no query for refunds and repeats them."""

    method: ClassVar[Method] = "ALIPAY"
    amount = Money(999, "CNY")
    secrets = (epay_gateway_server.KEY,)
    finds_refunds = False
    repeats_refunds = False
    customers_decline = False

    def __init__(self, server: EpayServer) -> None:
        """``server`` is running."""
        parts = urlsplit(server.url)
        self.server, self.url = server, f"{parts.scheme}://{parts.netloc}"

    def make_gateway(self, url: str, *, other_account: bool = False) -> Gateway:
        """Return an adapter; another account has another key."""
        settings = {
            "epay_url": f"{url}/pay/",
            "epay_pid": epay_gateway_server.PID,
            "epay_key": "another-key-of-32-characters-now" if other_account else self.secrets[0],
        }
        outgoing = Outgoing(Policy.only(f"{url}/pay/"))
        return EpayGateway(epay.read(settings), outgoing, timeout_s=TIMEOUT_S, cache_s=0.0)

    def approve(self, attempt_id: str, page: str) -> None:
        """Pay; a customer who was sent to submit.php places the order by that."""
        if "/submit.php?" in page:
            self.server.run_operation("submit", epay_gateway_server.parameters(page))
        self.server.pay(attempt_id)

    def taken(self, attempt_id: str) -> int | None:
        """Return what the server took."""
        order = self.server.orders.get(attempt_id)
        return None if order is None else self.amount.minor if order["status"] else 0

    def refunded(self, attempt_id: str) -> int:
        """Return the refunds of an order."""
        return sum(
            parse(money, self.amount.currency)
            for number, money in self.server.refunds
            if number == attempt_id
        )

    def callbacks(self, attempt_id: str) -> Sequence[Callback]:
        """Return the notice of the payment."""
        return [Callback(fields=self.server.notice(self.server.orders[attempt_id]))]


def _longest_line(pem: str) -> str:
    """Return a line of a key in PEM."""
    return max((line for line in pem.splitlines() if "-" not in line), key=len)


@contextmanager
def running_stripe() -> Iterator[StripeProvider]:
    """Run a server that simulates Stripe."""
    with event_loop() as run:
        server = StripeServer()
        run(server.start())
        try:
            yield StripeProvider(server)
        finally:
            run(server.stop())


@contextmanager
def running_epay() -> Iterator[EpayProvider]:
    """Run an Epay server."""
    with event_loop() as run:
        context = epay_gateway_server.running_epay_server()
        server = run(context.__aenter__())
        try:
            yield EpayProvider(server)
        finally:
            run(context.__aexit__(None, None, None))
