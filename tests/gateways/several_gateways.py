"""Fixture: a server with several gateways, and the servers of their providers."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

import pytest

from opentill.core.settings import Settings
from opentill.sandbox import alipay, epay_v2, paypal, wechat_pay
from support import epay_gateway_server, sandbox_bank
from support.api_server import SECRETS, ApiServer, serving
from support.databases import cloned_database
from support.ganache import XPUB
from support.ports import free_socket, url_of
from support.stripe_server import KEY, SECRET, StripeServer

NAMES: Final = (
    "sandbox", "stripe", "epay", "epay_v2", "alipay", "wechat_pay", "paypal", "epusdt", "evm",
    "manual",
)  # fmt: skip
EPUSDT_TOKEN: Final = "the-token-of-an-epusdt-server"


class GatewayDeployment:
    """A server and its providers; tests send the sandbox bank's callbacks themselves."""

    def __init__(
        self,
        api_server: ApiServer,
        stripe: StripeServer,
        epay: epay_gateway_server.EpayServer,
        alipay_app: alipay.App,
        merchant: wechat_pay.Merchant,
        paypal_account: paypal.Account,
        paypal_url: str,
        epay_account: epay_v2.Account,
    ) -> None:
        """Store the servers, which the fixture ``deployment`` starts, and providers' keys."""
        self.epay_account = epay_account
        self.paypal_account, self.paypal_url = paypal_account, paypal_url
        self.api_server, self.stripe, self.epay = api_server, stripe, epay
        self.alipay_app, self.merchant = alipay_app, merchant


@contextmanager
def _event_loop() -> Iterator[Callable[[Any], Any]]:
    """Run an event loop in a thread; yield a function that runs a coroutine on it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def deployment(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[GatewayDeployment]:
    """The servers for all tests of a module."""
    stripe, epay_context = StripeServer(), epay_gateway_server.running_epay_server()
    with _event_loop() as run, cloned_database(postgres_url, template) as url:
        run(stripe.start())
        epay = run(epay_context.__aenter__())
        try:
            directory = tmp_path_factory.mktemp("deployment")
            keys, settings = alipay.create(directory), _settings(pooler_url(url), directory)
            options = {
                "stripe_api_base": stripe.url,
                "epay_url": epay.url,
                "alipay_private_key": (keys / alipay.PRIVATE_KEY).read_text(),
                "alipay_public_key": (keys / alipay.PUBLIC_KEY).read_text(),
            }
            folder = wechat_pay.create(directory)
            for file, name in {**wechat_pay.SETTINGS, wechat_pay.PUBLIC_KEY: "PUBLIC_KEY"}.items():
                options[f"wechat_pay_{name.lower()}"] = (folder / file).read_text()
            folder = paypal.create(directory)
            for file, name in ((paypal.CREDENTIAL_FILE, "client_secret"), (paypal.ROOT_FILE, "ca")):
                options[f"paypal_{name}"] = (folder / file).read_text()
            alipay_app, merchant = alipay.load(directory), wechat_pay.load(directory)
            account, sock = paypal.load(directory), free_socket()
            assert alipay_app is not None
            assert merchant is not None
            assert account is not None
            options["paypal_url"] = url_of(sock)
            folder = epay_v2.create(directory)
            for file, name in ((epay_v2.PRIVATE_KEY, "private"), (epay_v2.PUBLIC_KEY, "public")):
                options[f"epay_v2_{name}_key"] = (folder / file).read_text()
            epay_account, epay_sock = epay_v2.load(directory), free_socket()
            assert epay_account is not None
            options["epay_v2_url"] = url_of(epay_sock)
            with (
                sandbox_bank.serving(_certificate_server(account), sock),
                sandbox_bank.serving(_order_server(epay_account), epay_sock),
                serving(
                    settings, gateway_options={**settings.gateway_options, **options}
                ) as api_server,
            ):
                yield GatewayDeployment(
                    api_server,
                    stripe,
                    epay,
                    alipay_app,
                    merchant,
                    account,
                    url_of(sock),
                    epay_account,
                )
                api_server.check_books()
        finally:
            run(epay_context.__aexit__(None, None, None))
            run(stripe.stop())


def _certificate_server(account: paypal.Account) -> Any:
    """Return an ASGI application that sends PayPal's certificate."""

    async def send_certificate(scope: Any, _receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": account.current.chain})

    return send_certificate


def _order_server(account: epay_v2.Account) -> Any:
    """Return an ASGI application that reports each order as paid, as an Epay V2 server does."""

    async def report_order(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            fields = dict(parse_qsl((await receive())["body"].decode()))
            assert account.is_signed(fields)
            order: dict[str, str | int] = {
                "code": 0, "trade_no": "T1", "out_trade_no": fields["out_trade_no"],
                "pid": int(epay_v2.PID), "type": "alipay", "money": "9.99", "status": 1,
                "timestamp": str(int(time.time())),
            }  # fmt: skip
            content = json.dumps({**order, "sign": account.sign(order)}).encode()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": content})

    return report_order


def _settings(url: str, directory: Path) -> Settings:
    secrets: dict[str, Any] = {**SECRETS}
    return Settings(
        database_url=url,
        data_dir=directory,
        gateways=NAMES,
        routes="CREDIT_CARD:stripe",
        gateway_options={
            "stripe_secret_key": KEY, "stripe_webhook_secret": SECRET,
            "epay_pid": epay_gateway_server.PID,
            "epay_key": epay_gateway_server.KEY, "epay_currency": "USD",
            "epay_v2_pid": epay_v2.PID, "epay_v2_currency": "USD",
            "alipay_app_id": alipay.APP_ID,
            "wechat_pay_mchid": wechat_pay.MCHID, "wechat_pay_appid": wechat_pay.APPID,
            "wechat_pay_public_key_id": wechat_pay.PUBLIC_KEY_ID,
            "paypal_client_id": paypal.CLIENT_ID, "paypal_webhook_id": paypal.WEBHOOK_ID,
            "evm_rpc_url": "http://127.0.0.1:9", "evm_chain_id": "1337", "evm_xpub": XPUB,
            "evm_tokens": f"USDT:0x{'12' * 20}:6",
            "epusdt_url": "http://127.0.0.1:9", "epusdt_token": EPUSDT_TOKEN,
            "epusdt_currency": "USD",
            "manual_instructions": "IBAN",
        },
        limit_ip_per_minute=0,
        limit_checkouts_per_minute=0,
        limit_payments_per_minute=0,
        **secrets,
    )  # fmt: skip
