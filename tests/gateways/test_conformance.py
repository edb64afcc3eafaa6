"""Every built-in adapter whose provider has an API passes the conformance suite."""

from collections.abc import Iterator

import pytest

from gateways.conforming_providers import (
    AlipayProvider,
    BepusdtProvider,
    EpayV2Provider,
    EpusdtProvider,
    EvmProvider,
    PayPalProvider,
    RepeatingEpayV2Provider,
    SandboxProvider,
    WeChatPayProvider,
    running_epay,
    running_stripe,
)
from opentill.gateways import registry
from opentill.gateways.conformance import GatewayTests, Provider
from opentill.gateways.conformance.refunds import RefundCases
from support.alipay_shop import AlipayShop
from support.epay_v2_bank import EpayV2BankShop
from support.epusdt_shop import EpusdtShop
from support.paypal_shop import PayPalShop
from support.sandbox_bank import Shop
from support.sandbox_chain import running_sandbox_chain
from support.wechat_pay_shop import WeChatPayShop


def test_every_adapter_has_the_suite() -> None:
    """Bank transfers that the operator confirms have no provider."""
    names = {tests.__name__.removeprefix("Test").lower() for tests in GatewayTests.__subclasses__()}
    assert names - {"bepusdt"} == {name.replace("_", "") for name in registry.BUILT_IN} - {"manual"}


@pytest.fixture(scope="module")
def stripe() -> Iterator[Provider]:
    """A simulation of Stripe."""
    with running_stripe() as provider:
        yield provider


@pytest.fixture(scope="module")
def evm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """The node of a sandbox bank."""
    with running_sandbox_chain(tmp_path_factory.mktemp("chain")) as chain:
        yield EvmProvider(chain)


@pytest.fixture(scope="module")
def epay() -> Iterator[Provider]:
    """A small Epay server."""
    with running_epay() as provider:
        yield provider


class TestSandbox(GatewayTests):
    """The cases, for the adapter of the sandbox bank."""

    @pytest.fixture
    def provider(self, shop: Shop) -> Provider:
        """The bank."""
        return SandboxProvider(shop)


class TestAlipay(GatewayTests):
    """The cases, for the adapter of Alipay."""

    @pytest.fixture
    def provider(self, alipay_shop: AlipayShop) -> Provider:
        """The bank, in Alipay's dialect."""
        return AlipayProvider(alipay_shop)


class TestWeChatPay(GatewayTests):
    """The cases, for the adapter of WeChat Pay."""

    @pytest.fixture
    def provider(self, wechat_pay_shop: WeChatPayShop) -> Provider:
        """The bank, in WeChat Pay's dialect."""
        return WeChatPayProvider(wechat_pay_shop)


class TestEpusdt(GatewayTests):
    """An epusdt server."""

    @pytest.fixture
    def provider(self, epusdt_shop: EpusdtShop) -> Provider:
        """The bank, in epusdt's dialect."""
        return EpusdtProvider(epusdt_shop)


class TestBepusdt(GatewayTests):
    """The fork of epusdt."""

    @pytest.fixture
    def provider(self, epusdt_shop: EpusdtShop) -> Provider:
        """The bank, in the dialect of the fork."""
        return BepusdtProvider(epusdt_shop)


class TestEpayV2(GatewayTests):
    """An Epay V2 server."""

    @pytest.fixture
    def provider(self, epay_v2_shop: EpayV2BankShop) -> Provider:
        """The bank, in Epay V2's dialect."""
        return EpayV2Provider(epay_v2_shop)


class TestEpayV2Refunds(RefundCases):
    """An Epay V2 server that is known to make a refund of one number once."""

    @pytest.fixture
    def provider(self, epay_v2_shop: EpayV2BankShop) -> Provider:
        """The bank, in Epay V2's dialect."""
        return RepeatingEpayV2Provider(epay_v2_shop)


class TestEvm(GatewayTests):
    """A node of a chain, which reports nothing."""

    @pytest.fixture
    def provider(self, evm: Provider) -> Provider:
        """The bank's node."""
        return evm


class TestPayPal(GatewayTests):
    """The cases, for the adapter of PayPal."""

    @pytest.fixture
    def provider(self, paypal_shop: PayPalShop) -> Provider:
        """The bank, in PayPal's dialect."""
        return PayPalProvider(paypal_shop)


class TestStripe(GatewayTests):
    """The cases, for the adapter of Stripe."""

    @pytest.fixture
    def provider(self, stripe: Provider) -> Provider:
        """A simulation of Stripe."""
        return stripe


class TestEpay(GatewayTests):
    """The cases, for the adapter of Epay servers."""

    @pytest.fixture
    def provider(self, epay: Provider) -> Provider:
        """A small Epay server."""
        return epay
