"""A bank transfer shows its instructions, and is paid when the operator confirms it."""

from collections.abc import AsyncIterator, Callable

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from starlette.applications import Starlette

from opentill import orders
from opentill.core.settings import Settings
from opentill.db.clock import now_ms
from support.api_server import SECRETS
from support.databases import cloned_database
from support.page_server import running, session_opener

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

INSTRUCTIONS = "IBAN XX00 1234 5678\nOpenTill & <script>alert(1)</script> Ltd"
LOOKS = [
    # Each row: language, color scheme, size of the window, text on the page.
    ("en-US", "light", (1280, 800), "Payment reference"),
    ("zh-CN", "dark", (390, 844), "转账备注"),
    ("zh-TW", "light", (320, 568), "轉帳備註"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def manual_server(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> AsyncIterator[Starlette]:
    """A server whose only gateway is ``manual``."""
    directory = tmp_path_factory.mktemp("manual")
    with cloned_database(postgres_url, template) as url:
        settings = Settings(
            database_url=pooler_url(url), data_dir=directory, limit_ip_per_minute=0,
            limit_payments_per_minute=0, gateways=("manual",),
            gateway_options={"manual_instructions": INSTRUCTIONS}, **SECRETS,
        )  # fmt: skip
        async with running(settings, directory / "bank") as server:
            yield server


@pytest.mark.parametrize(("locale", "scheme", "size", "text"), LOOKS)
async def test_a_transfer_shows_instructions_and_is_paid_when_the_operator_confirms_it(
    browser: Browser,
    manual_server: Starlette,
    locale: str,
    scheme: str,
    size: tuple[int, int],
    text: str,
) -> None:
    session = await (await session_opener(manual_server))()
    url = f"{manual_server.state.settings.public_url}/checkout/{session.id}"
    context = await browser.new_context(
        locale=locale, color_scheme=scheme, viewport={"width": size[0], "height": size[1]}
    )
    page = await context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    await page.goto(url)
    await page.fill("[autocomplete=email]", "maria@example.com")
    await page.check("[value=BANK_TRANSFER]")
    await page.click("button[type=submit]")
    await expect(page.locator(".instructions")).to_have_text(INSTRUCTIONS)
    await expect(page.locator(".receipt")).to_contain_text(text)
    await expect(page.locator(".receipt")).to_contain_text(session.order_id)
    await expect(page.locator(".receipt")).to_contain_text("9.99")
    overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert await page.evaluate(overflow) <= 0
    instructions_url = page.url
    await page.goto(url)
    await page.goto(instructions_url)  # customers may open the instructions again
    await expect(page.locator(".instructions")).to_be_visible()
    db = manual_server.state.app.db
    await db.run(
        lambda tx: orders.confirm_manually(
            tx, session.merchant_id, session.order_id, "ann", "statement 7", now_ms()
        )
    )
    await page.goto(instructions_url)
    await expect(page.locator(".sign")).to_be_visible()
    assert session.id in page.url
    assert "/continue/" not in page.url
    async with db.connection() as tx:
        order = await orders.find(tx, session.merchant_id, session.order_id)
    assert order.status == "PAID"
    assert msgspec.structs.asdict(order)["payment_method"] == "BANK_TRANSFER"
    assert messages == []
    await context.close()
