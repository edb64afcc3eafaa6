"""Staff and customers of a running deployment, each in a browser of their own."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final

from playwright.async_api import Browser, Download, Locator, Page

from opentill.db.clock import now_ms
from opentill.people import totp
from support.people import PASSWORD

_PATIENCE_S: Final = 90.0
_TABLE: Final = """rows => rows.map(row => Array.from(row.cells).map(cell => cell.innerText))"""


async def eventually(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Return the first true value that ``look`` finds."""
    end = time.monotonic() + _PATIENCE_S
    while not (result := await look()):
        assert time.monotonic() < end, what
        await asyncio.sleep(0.2)
    return result


class Human:
    """Somebody in a browser, who logs in again where it is asked for."""

    def __init__(self, url: str, email: str, page: Page) -> None:
        """Not logged in yet; ``wrong`` is what the browser complains about."""
        self.url, self.email, self.page = url, email, page
        self.wrong: list[str] = []
        self._secret, self._period = "", 0
        self._recovery: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self._note(message.text))
        page.on("response", lambda answer: self._note_status(answer.url, answer.status))

    def _note(self, text: str) -> None:
        if "status of 4" not in text:  # a form that is refused is no complaint
            self.wrong.append(text)

    def _note_status(self, url: str, status: int) -> None:
        if status >= 500:
            self.wrong.append(f"{status} {url}")

    @classmethod
    async def invited(cls, browser: Browser, url: str, email: str, link: str) -> "Human":
        """Follow an invitation, and choose a password."""
        context = await browser.new_context(locale="en-US")
        human = cls(url, email, await context.new_page())
        await human.page.goto(link)
        await human.page.fill("[name=name]", email.partition("@")[0].title())
        await human.page.fill("[name=password]", PASSWORD)
        await human.page.click("main button[type=submit]")
        await human.page.wait_for_url(re.compile("/(dashboard|console)"))
        return human

    async def set_up_authenticator(self) -> None:
        """Set an authenticator up, and keep the recovery codes."""
        await self.page.goto(f"{self.url}/security")
        await self.follow('form[action$="/authenticator/begin"] button')
        self._secret = (await self.page.locator("code").first.inner_text()).replace(" ", "")
        await self.page.fill("[name=code]", self.code())
        await self.follow('form[action$="/security/authenticator"] button')
        self._recovery = await self.page.locator(".codes code").all_inner_texts()
        assert len(self._recovery) == totp.RECOVERY_CODES

    def code(self) -> str:
        """Return a code that was not used yet: the authenticator's, or a recovery code."""
        if not self._secret:
            return ""
        current = now_ms() // 1000 // totp.PERIOD_S
        for period in (current - 1, current, current + 1):
            if period > self._period:
                self._period = period
                return totp.code_at(self._secret, period)
        return self._recovery.pop()

    async def go(self, path: str) -> Page:
        """Open a page, logging in if need be."""
        await self.page.goto(self.url + path)
        if "/login" in self.page.url:
            await self.page.fill("[name=email]", self.email)
            await self.page.fill("[name=password]", PASSWORD)
            await self.page.fill("[name=code]", self.code())
            await self._press(self.page.locator('form[action$="/login"] button'))
            assert "/login" not in self.page.url, await self.page.inner_text("main")
        return self.page

    async def send(self, form: str, button: str = "button[type=submit]", **values: Any) -> str:
        """Fill a form of the page and send it, proving who one is if asked; the words that follow.

        ``form`` is a selector; what it stands in is unfolded first. A dict is a file.
        """
        where = self.page.locator(form).first
        folded = where.locator("xpath=ancestor::details[not(@open)]/summary")
        if await folded.count():
            await folded.first.click()
        await self._fill(where, values)
        await self._press(where.locator(button))
        if await self.page.locator("[name=proof_password]").count():
            await self.page.fill("[name=proof_password]", PASSWORD)
            if await self.page.locator("[name=proof_code]").count():
                await self.page.fill("[name=proof_code]", self.code())
            await self._press(self.page.locator("main button[type=submit]"))
            assert not await self.page.locator("[name=proof_password]").count()
        return await self.words()

    async def follow(self, link: str) -> None:
        """Follow a link of the page."""
        await self._press(self.page.locator(link))

    async def _press(self, what: Locator) -> None:
        """Click on what leads to a page, and wait for that."""
        async with self.page.expect_navigation():
            await what.first.click()

    async def _fill(self, where: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            field = where.locator(f'[name="{name}"]')
            assert await field.count(), (name, self.page.url, await self.words())
            if isinstance(value, dict):
                await field.set_input_files(value)
            elif await field.evaluate("field => field.tagName") == "SELECT":
                await field.select_option(value)
            else:
                await field.fill(value)

    async def words(self) -> str:
        """Return the words of the page as people read them."""
        text = await self.page.inner_text("main")
        return re.sub(r"[\s\u00a0\u2066-\u2069]+", " ", text)

    async def download(self, form: str) -> bytes:
        """Send a form whose answer is a file, and return that."""
        async with self.page.expect_download() as waiting:
            await self.page.locator(form).first.locator("button").click()
        return await content(await waiting.value)

    async def table(self, name: str) -> list[list[str]]:
        """Return the cells of a table, by the id of its heading."""
        rows = self.page.locator(f'table[aria-labelledby="{name}"] tbody tr')
        cells: list[list[str]] = await rows.evaluate_all(_TABLE)
        return [[re.sub(r"[\u00a0\u2066-\u2069]", " ", cell) for cell in row] for row in cells]


async def content(download: Download) -> bytes:
    """Return what was downloaded."""
    return (await download.path()).read_bytes()


def number(text: str) -> Decimal:
    """Read an amount as the pages write it: ``-€1,234.50``."""
    return Decimal(re.sub(r"[^0-9.\-]", "", text.replace("\u2212", "-")))
