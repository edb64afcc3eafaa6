"""An administrator adds an account in three actions, and a customer pays with it."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from playwright.async_api import Browser, Locator, Page, expect
from starlette.applications import Starlette

from gateways.wallet_orders import read_storage
from opentill import merchants, people
from opentill.db.clock import now_ms
from opentill.gateways import accounts
from opentill.people import Browser as Device
from opentill.sandbox import alipay, paypal, wechat_pay
from support.alipay_shop import AlipayShop
from support.paypal_shop import GOOD_CARD, PayPalShop
from support.people import CHEAP_HASH, PASSWORD, TESTER, new_address
from support.wallet_shop import WalletShop
from support.wechat_pay_shop import WeChatPayShop

# The path of a WeChat Pay code at the sandbox bank.
WECHAT_PAY_CODE = (
    "select '/wechat_pay/code/' || transaction_id from wechat_pay_orders where payment_id = ?"
)
pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def log_in_administrator(browser: Browser, server: Starlette) -> Page:
    """Return a page of a browser in which a new administrator is logged in."""
    app, url, now = server.state.app, server.state.settings.public_url, now_ms()

    async def invite(tx: Any) -> people.NewLink:
        return await people.invite(tx, new_address(), now, staff_role="admin", actor=TESTER)

    link = await app.db.run(invite)
    device = Device("127.0.0.1", "Test")
    login = await people.join(app.db, link.token, "Ada", PASSWORD, device, now, cost=CHEAP_HASH)
    context = await browser.new_context(locale="en-US")
    await context.add_cookies([{"name": "opentill", "value": login.token, "url": url}])
    return await context.new_page()


class Rail(NamedTuple):
    """A gateway whose account is added: its fields, a wrong value, and how its customers pay."""

    name: str  # in the list of gateways
    currency: str
    fields: dict[str, str]  # by label; the last ones are secrets
    url: str  # of the API at the sandbox bank
    wrong: tuple[str, str]  # a label, and a value that cannot work
    error: str  # what the field then says
    pay: Callable[[Page], Awaitable[None]]  # on the gateway's page


async def approve_on_phone(customer: Page, bank: WalletShop) -> None:
    """Approve the payment whose page or code the customer sees."""
    ours = bank.method == "WECHAT_PAY"  # the code is on our page
    await customer.wait_for_url(re.compile("/continue/" if ours else re.escape(bank.bank_url)))
    attempt_id = re.findall(r"att_\w+", customer.url)[0]
    if ours:
        await expect(customer.locator("img.qr")).to_be_visible()
        code = read_storage(bank, WECHAT_PAY_CODE, attempt_id)
        await asyncio.to_thread(bank.open, bank.bank_url + code)
    await asyncio.to_thread(bank.decide, attempt_id)


async def approve_at_paypal(customer: Page) -> None:
    """Pay by card on PayPal's page, and return to the shop."""
    await customer.wait_for_url(re.compile("checkoutnow|/pay/"))
    for field, text in (("number", GOOD_CARD), ("exp", "12/40"), ("csc", "123"), ("name", "Ada")):
        await customer.fill(f"[name={field}]", text)
    await customer.click("button[type=submit]")
    await customer.locator("a.button").click()


@pytest.fixture
def rail(request: pytest.FixtureRequest) -> Rail:
    """Each gateway that the sandbox bank simulates."""
    if request.param == "alipay":
        shop: AlipayShop = request.getfixturevalue("alipay_shop")
        return Rail(
            "Alipay",
            "CNY",
            {
                "App ID": alipay.APP_ID,
                "Private key of the application": shop.file("app_private_key.pem"),
                "Alipay’s public key": shop.file("alipay_public_key.pem"),
            },
            shop.url,
            ("Private key of the application", "not a key"),
            "is not acceptable",
            lambda customer: approve_on_phone(customer, shop),
        )
    if request.param == "wechat_pay":
        wechat: WeChatPayShop = request.getfixturevalue("wechat_pay_shop")
        return Rail(
            "WeChat Pay",
            "CNY",
            {
                "Merchant number": wechat_pay.MCHID,
                "App ID": wechat_pay.APPID,
                "Private key of the merchant": wechat.file("apiclient_key.pem"),
                "Merchant certificate": wechat.file("apiclient_cert.pem"),
                "APIv3 key": wechat.file("api_v3_key.txt"),
            },
            wechat.bank_url,
            ("APIv3 key", "0" * 32),
            "cannot be",
            lambda customer: approve_on_phone(customer, wechat),
        )
    payer: PayPalShop = request.getfixturevalue("paypal_shop")
    return Rail(
        "PayPal",
        "USD",
        {
            "Client ID": paypal.CLIENT_ID,
            "Secret": payer.file(paypal.CREDENTIAL_FILE),
            "Webhook ID": payer.webhook_id,
        },
        payer.bank_url,
        ("Client ID", "A" * 80),
        "refuses the credentials",
        approve_at_paypal,
    )


def labeled(page: Page, label: str) -> Locator:
    """Return the field of a label, optional or not."""
    return page.get_by_label(re.compile(rf"^{re.escape(label)}( \(optional\))?$"))


async def add_account(page: Page, url: str, rail: Rail, label: str) -> str:
    """Choose the gateway and paste the credentials, at first with a wrong one; return the id."""
    await page.goto(f"{url}/console/gateway-accounts")
    # The drawer is no action.
    await page.get_by_role("link", name="Add an account").click()
    # 1. Choose the gateway.
    await page.get_by_role("link", name=rail.name, exact=True).click()
    # 2. Paste the credentials.
    await page.get_by_label("Label").fill(label)
    await page.get_by_text("Other settings").click()
    await page.get_by_label("Address of the API").fill(rail.url)
    await page.get_by_label("Money", exact=True).select_option("test")
    wrong_field, wrong_text = rail.wrong
    for changes in ({wrong_field: wrong_text}, {}):
        for field, text in {**rail.fields, **changes}.items():
            await labeled(page, field).fill(text)
        await page.get_by_role("button", name="Check and add").click()
        if changes:
            wrong = labeled(page, wrong_field)
            await expect(wrong).to_be_focused()
            await expect(page.locator("main .error").first).to_contain_text(rail.error)
    await expect(page.locator(".box.good")).to_contain_text("The account is added")
    await expect(page.locator("h1")).to_have_text(label)
    assert "PRIVATE KEY" not in await page.content()
    return str(re.findall(r"gat_\w+", page.url)[0])


async def pay(customer: Page, payment_url: str, rail: Rail) -> None:
    """Pay on the hosted page, which leads on to the gateway's."""
    await customer.goto(payment_url)
    await customer.fill("[autocomplete=email]", "maria@example.com")
    await customer.click("button[type=submit]")
    await rail.pay(customer)
    for _ in range(60):  # until the gateway's notification has arrived
        await customer.goto(payment_url)
        if "Payment received" in await customer.inner_text("body"):
            break
        await asyncio.sleep(0.5)
    await expect(customer.locator("body")).to_contain_text("Payment received")


@pytest.mark.parametrize(
    ("rail", "javascript"),
    [("alipay", True), ("alipay", False), ("wechat_pay", False), ("paypal", True)],
    indirect=["rail"],
)
async def test_a_customer_pays_with_an_account_that_was_added_in_three_actions(
    browser: Browser, page_server: Starlette, rail: Rail, javascript: bool
) -> None:
    app, url = page_server.state.app, page_server.state.settings.public_url
    label = f"{rail.name} {'with' if javascript else 'without'} script"
    shop = await app.db.run(
        lambda tx: merchants.create(
            tx, name=f"Tea House, {label}", settlement_currency=rail.currency, now=now_ms()
        )
    )
    page = await log_in_administrator(browser, page_server)
    account_id = await add_account(page, url, rail, label)
    # 3. Test it: the payment is bound to the account, though the sandbox bank comes first.
    await page.get_by_role("button", name="Test payment").click()
    await page.get_by_label("Merchant", exact=True).fill(shop.id)
    await page.get_by_role("button", name="Create test payment").click()
    payment_url = await page.get_by_label("Link to the payment page").input_value()
    await page.get_by_role("link", name="View the payment").click()

    context = await browser.new_context(locale="en-US", java_script_enabled=javascript)
    await pay(await context.new_page(), payment_url, rail)
    await context.close()

    await page.reload()
    await expect(page.locator("main")).to_contain_text("Test payment of this account")
    await expect(page.locator("main")).to_contain_text(label)
    await app.db.run(
        lambda tx: accounts.set_status(tx, account_id, "RETIRED", now_ms(), actor=TESTER)
    )
    await page.context.close()
