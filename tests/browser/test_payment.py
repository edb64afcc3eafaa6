"""A customer pays in a browser, from the payment page through the sandbox bank to the receipt."""

from collections.abc import AsyncIterator
from decimal import Decimal
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, expect
from starlette.applications import Starlette

from opentill import checkouts, orders, rates
from opentill.db.clock import now_ms
from support.books import ledger_violations
from support.page_server import OpenSession

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    """A browser context, which all tests share because creating it takes as long as a payment."""
    context = await browser.new_context(locale="en-US")
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext, page_server: Starlette) -> AsyncIterator[Page]:
    """A page. The test fails on any console message and any request to another host."""
    tab = await context.new_page()
    settings = page_server.state.settings
    own_hosts = {urlsplit(url).netloc for url in (settings.public_url, settings.sandbox_url)}
    problems: list[str] = []
    tab.on("console", lambda message: problems.append(message.text))
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on(
        "request",
        lambda request: urlsplit(request.url).netloc in own_hosts or problems.append(request.url),
    )
    yield tab
    for open_page in context.pages:
        await open_page.close()
    await context.clear_cookies()
    statuses = ("400 (Bad Request)", "404 (Not Found)", "422 (Unprocessable")
    assert [text for text in problems if not any(status in text for status in statuses)] == []


def _session_url(page_server: Starlette, session: checkouts.Session) -> str:
    return f"{page_server.state.settings.public_url}/checkout/{session.id}"


async def _read_order(page_server: Starlette, session: checkouts.Session) -> orders.Order:
    async with page_server.state.app.db.connection() as tx:
        return await orders.find(tx, session.merchant_id, session.order_id)


async def _send_form(page: Page, address: str, method: str = "CREDIT_CARD") -> None:
    await page.goto(address)
    await page.fill("[autocomplete=email]", "maria@example.com")
    await page.fill("[autocomplete=name]", "Maria")
    await page.check(f"[value={method}]")
    await page.click("button[type=submit]")


async def _enter_card(page: Page, number: str) -> None:
    await page.fill("[autocomplete=cc-number]", number)
    await page.fill("[autocomplete=cc-exp]", "12/34")
    await page.fill("[autocomplete=cc-csc]", "123")
    await page.click("button")


# tests/sandbox/test_cards.py tests all cards.
CARDS = [
    # Each row: card, text of the page after the payment, status of the order.
    ("4242 4242 4242 4242", "Payment received", "PAID"),
    ("4000 0000 0000 9987", "Payment declined", "FAILED"),
    ("4000 0000 0000 0119", "Payment processing", "PENDING"),
]


@pytest.mark.parametrize("case", CARDS, ids=lambda case: case[0])
async def test_each_outcome_of_a_card_has_its_page(
    page: Page, page_server: Starlette, open_session: OpenSession, case: tuple[str, str, str]
) -> None:
    number, text, status = case
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await _enter_card(page, number)
    await page.wait_for_url(f"**/checkout/{session.id}?lang=en*", timeout=60_000)
    await expect(page.locator("main")).to_contain_text(text, timeout=60_000)
    order = await _read_order(page_server, session)
    assert order.status == status
    assert (order.customer_email, order.customer_name) == ("maria@example.com", "Maria")
    async with page_server.state.app.db.connection() as tx:
        assert await ledger_violations(tx) == []


async def test_the_receipt_redirects_the_customer_to_the_shop(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await _enter_card(page, "4242 4242 4242 4242")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)
    await expect(page.locator(".receipt")).to_contain_text("$9.99 USD")
    await expect(page.locator(".receipt")).to_contain_text(session.order_id)
    await page.wait_for_url(f"**/?paid={session.id}", timeout=60_000)


async def test_after_a_decline_the_customer_pays_with_another_card(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await _enter_card(page, "4000 0000 0000 0002")
    await expect(page.locator("[role=alert]")).to_contain_text(
        "Your bank declined the payment", timeout=60_000
    )
    assert (await _read_order(page_server, session)).status == "PENDING"
    assert await page.input_value("[autocomplete=email]") == "maria@example.com"
    await page.click("button[type=submit]")
    await _enter_card(page, "4242 4242 4242 4242")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)


@pytest.mark.parametrize(
    ("button", "text"), [("Confirm", "Payment received"), ("Decline", "not authenticated")]
)
async def test_the_3d_secure_page_decides_the_payment(
    page: Page, page_server: Starlette, open_session: OpenSession, button: str, text: str
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await _enter_card(page, "4000 0025 0000 3155")
    await page.click(f"button:has-text('{button}')")
    await expect(page.locator("main")).to_contain_text(text, timeout=60_000)


# Methods that are paid in a browser here; tests/pages/test_render.py renders the pages of all
# methods.
WALLETS = [
    # Each row: method, currency, price, amount on the receipt.
    ("ALIPAY", "USD", "9.99", "$9.99 USD"),
    ("WECHAT_PAY", "JPY", "1000", "¥1,000 JPY"),
    pytest.param("PAYNOW", "SGD", "5.00", "SGD", marks=pytest.mark.stress),
    pytest.param("CRYPTO", "USD", "5.00", "$5.00 USD", marks=pytest.mark.stress),
]


@pytest.mark.parametrize(("method", "currency", "price", "receipt"), WALLETS)
async def test_a_wallet_is_paid_on_the_phone(
    page: Page,
    page_server: Starlette,
    open_session: OpenSession,
    method: str,
    currency: str,
    price: str,
    receipt: str,
) -> None:
    await _add_rates(page_server)
    session = await open_session(price, currency)
    await _send_form(page, _session_url(page_server, session), method)
    await page.click(".open a")
    await page.click("button:has-text('Approve')")
    await page.click("a:has-text('Continue')")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)
    await expect(page.locator(".receipt")).to_contain_text(receipt)
    assert (await _read_order(page_server, session)).payment_method == method


async def _add_rates(page_server: Starlette) -> None:
    for currency, rate in (("JPY", "0.0067"), ("SGD", "0.75")):
        await page_server.state.app.db.run(
            lambda tx, c=currency, r=rate: rates.put(tx, c, "USD", Decimal(r), now_ms())
        )


async def test_a_bank_transfer_is_confirmed_at_the_bank(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session), "BANK_TRANSFER")
    await page.click("button:has-text('Confirm transfer')")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)


async def test_the_payment_page_keeps_the_chosen_language_after_the_bank(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await page.goto(_session_url(page_server, session))
    await page.click("a[hreflang=zh-Hant]")
    await expect(page.locator("h1")).to_contain_text("支付")
    await page.fill("[autocomplete=email]", "maria@example.com")
    await page.click("button[type=submit]")
    await _enter_card(page, "4000 0000 0000 0002")
    await expect(page.locator("[role=alert]")).to_contain_text("付款未成功", timeout=60_000)
    assert await page.evaluate("document.documentElement.lang") == "zh-Hant"


async def test_a_customer_who_returns_without_paying_can_continue(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await page.wait_for_selector("[autocomplete=cc-number]")
    await page.goto(_session_url(page_server, session))
    await expect(page.locator("main")).to_contain_text("You have an unfinished payment")
    await page.click("text=Continue payment")
    await _enter_card(page, "4242 4242 4242 4242")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)


async def test_a_customer_who_cancels_at_the_bank_reads_that_nothing_was_charged(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await page.click(".cancel a")
    await expect(page.locator("main [role=status]")).to_contain_text("Payment not completed")
    await expect(page.locator("main [role=status]")).to_contain_text("you have not been charged")


async def test_going_back_and_reloading_the_receipt_changes_nothing(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await _send_form(page, _session_url(page_server, session))
    await _enter_card(page, "4242 4242 4242 4242")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)
    await page.goto(f"{_session_url(page_server, session)}?hold=1")
    await page.reload()
    for _ in range(6):
        await page.go_back()
        if urlsplit(page.url).path == f"/checkout/{session.id}":
            await expect(page.locator("h1")).to_have_text("Payment received")
    order = await _read_order(page_server, session)
    assert order.status == "PAID"


async def test_a_session_in_two_tabs_is_paid_once(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    other_tab = await page.context.new_page()
    await other_tab.goto(_session_url(page_server, session))
    await _send_form(page, _session_url(page_server, session))
    await _enter_card(page, "4242 4242 4242 4242")
    await expect(page.locator("h1")).to_have_text("Payment received", timeout=60_000)
    await other_tab.fill("[autocomplete=email]", "maria@example.com")
    await other_tab.click("button[type=submit]")
    await expect(other_tab.locator("h1")).to_have_text("Payment received")
    async with page_server.state.app.db.connection() as tx:
        entries = await tx.fetchval(
            "select count(*) from entries where merchant_id = $1 and type = 'PAYMENT'",
            session.merchant_id,
        )
    assert entries == 1


async def test_a_refused_form_keeps_its_input(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await page.goto(_session_url(page_server, session))
    await page.eval_on_selector("form", "form => { form.noValidate = true }")
    await page.fill("[autocomplete=email]", "maria@nowhere")
    await page.fill("[autocomplete=name]", '"><script>alert(1)</script>')
    await page.click("button[type=submit]")
    await expect(page.locator("[role=alert]")).to_contain_text("Enter an email address")
    assert await page.input_value("[autocomplete=email]") == "maria@nowhere"
    assert await page.input_value("[autocomplete=name]") == '"><script>alert(1)</script>'
    assert (await page.title()).startswith("Error:")


async def test_an_expired_session_has_a_page_with_a_link_to_the_shop(
    page: Page, page_server: Starlette, open_session: OpenSession
) -> None:
    session = await open_session()
    await page_server.state.app.db.run(
        lambda tx: checkouts.expire(tx, session.merchant_id, session.id, "test", now_ms())
    )
    await page.goto(_session_url(page_server, session))
    await expect(page.locator("h1")).to_have_text("This payment page has expired")
    await page.click("a:has-text('Back to Harbour Books')")
    assert page.url.endswith("/?cancelled")


async def test_an_unknown_session_has_a_404_page(page: Page, page_server: Starlette) -> None:
    response = await page.goto(f"{page_server.state.settings.public_url}/checkout/cs_{'0' * 32}")
    assert response
    assert response.status == 404
    await expect(page.locator("h1")).to_have_text("We cannot find this page")


async def test_reference_agreement_and_front_page_open_without_errors(
    page: Page, page_server: Starlette
) -> None:
    for path, heading in (
        ("/docs", "OpenTill Merchant Payments API"),
        ("/legal/merchant-services-agreement", "Merchant Services Agreement"),
        ("/", "Payments for shops"),
    ):
        await page.goto(page_server.state.settings.public_url + path)
        await expect(page.locator("h1")).to_have_text(heading)
