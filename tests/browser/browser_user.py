"""People who use a running deployment, each in a browser of their own."""

import re
from decimal import Decimal
from typing import Any

from playwright.async_api import Browser, Locator, Page

from opentill.db.clock import now_ms
from opentill.people import totp
from support.people import PASSWORD

# A code that the browser enters arrives within this time.
_SLOWEST_S = 10
# Not the button that only closes a dialog.
_SUBMIT = "button[type=submit]:not([formmethod=dialog], .closes)"
_READ_CELLS = "rows => rows.map(row => Array.from(row.cells).map(cell => cell.innerText))"


class BrowserUser:
    """A person in a browser, who logs in and proves their identity when a page asks for it."""

    def __init__(self, url: str, email: str, page: Page) -> None:
        """Called by ``accept_invitation``. ``problems`` are script errors and 5xx responses."""
        self.url, self.email, self.page = url, email, page
        self.problems: list[str] = []
        self._secret, self._period = "", 0
        self._recovery_codes: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self._record_message(message.type, message.text))
        page.on("response", lambda response: self._record_status(response.url, response.status))

    def _record_message(self, type_: str, text: str) -> None:
        # Browsers log each refused form as an error, which is no problem, and notes as "info".
        if type_ in {"error", "warning"} and "status of 4" not in text:
            self.problems.append(text)

    def _record_status(self, url: str, status: int) -> None:
        if status >= 500:
            self.problems.append(f"{status} {url}")

    @classmethod
    async def accept_invitation(
        cls, browser: Browser, url: str, email: str, link: str
    ) -> "BrowserUser":
        """Open an invitation's link in a new browser context, and choose a password."""
        context = await browser.new_context(locale="en-US")
        user = cls(url, email, await context.new_page())
        await user.page.goto(link)
        await user.page.fill("[name=name]", email.partition("@")[0].title())
        await user.page.fill("[name=password]", PASSWORD)
        await user.page.click("main button[type=submit]")
        await user.page.wait_for_url(re.compile("/(dashboard|console)"))
        return user

    async def set_up_authenticator(self) -> None:
        """Set up an authenticator and remember the recovery codes."""
        await self.page.goto(f"{self.url}/security")
        await self.follow_link('form[action$="/authenticator/begin"] button')
        self._secret = (await self.page.input_value("#key")).replace(" ", "")
        await self.page.fill("[name=code]", self.code())
        await self.follow_link('form[action$="/security/authenticator"] button')
        self._recovery_codes = await self.page.locator(".codes code").all_inner_texts()
        assert len(self._recovery_codes) == totp.RECOVERY_CODES

    def code(self) -> str:
        """Return an unused code of the authenticator, or a recovery code if all codes are used."""
        if not self._secret:
            return ""
        now_s = now_ms() // 1000
        # The code of the period before is accepted until the current period ends.
        first = (now_s + _SLOWEST_S) // totp.PERIOD_S - 1
        for period in range(first, now_s // totp.PERIOD_S + 2):
            if period > self._period:
                self._period = period
                return totp.code_at(self._secret, period)
        return self._recovery_codes.pop()

    async def open_page(self, path: str) -> Page:
        """Open a page, and log in first if it redirects to the login."""
        await self.page.goto(self.url + path)
        if "/login" in self.page.url:
            await self.page.fill("[name=email]", self.email)
            await self.page.fill("[name=password]", PASSWORD)
            await self._click(self.page.locator('form[action$="/login"] button[type=submit]'))
            if "/login/factor" in self.page.url:
                form = self.page.locator('form[action$="/login/factor"]:has([name=code])')
                # Without an event, which would send the form at its sixth digit (code.js).
                await form.locator("[name=code]").evaluate(
                    "(field, code) => { field.value = code; }", self.code()
                )
                await self._click(form.locator("button[type=submit]"))
            assert "/login" not in self.page.url, await self.page.inner_text("main")
        return self.page

    async def submit_form(self, form: str, button: str = _SUBMIT, **values: Any) -> str:
        """Fill and submit a form, pass the step-up if there is one, and return the new page's text.

        ``form`` is a selector. A closed ``details`` or sheet around the form, and a closed
        ``details`` around a field, is opened first. A value that is a dict is a file.
        """
        locator = self.page.locator(form).first
        await self._open_sheet(locator)
        await _open_folds(locator)
        if not await self._fill(locator, values):
            await self._click(locator.locator(button))
        if await self.page.locator("[name=proof_password]").count():
            await self.page.fill("[name=proof_password]", PASSWORD)
            if await self.page.locator("[name=proof_code]").count():
                await self.page.fill("[name=proof_code]", self.code())
            await self._click(self.page.locator("main button[type=submit]"))
            assert not await self.page.locator("[name=proof_password]").count()
        return await self.main_text()

    async def follow_link(self, selector: str) -> None:
        """Click on a link, or a button that opens a page."""
        await self._click(self.page.locator(selector))

    async def _click(self, locator: Locator) -> None:
        """Click and wait until the next page is loaded."""
        async with self.page.expect_navigation():
            await locator.first.click()

    async def _fill(self, form: Locator, values: dict[str, Any]) -> bool:
        """Fill the fields of a form. Returns whether the page sent it when a file was chosen."""
        is_sent = False
        for name, value in values.items():
            field = form.locator(f'[name="{name}"]')
            assert await field.count(), (name, self.page.url, await self.main_text())
            await _open_folds(field)
            if isinstance(value, dict) and await field.get_attribute("data-choose") is not None:
                async with self.page.expect_navigation():
                    await field.set_input_files(value)
                is_sent = True
            elif isinstance(value, dict):
                await field.set_input_files(value)
            elif await field.evaluate("field => field.tagName") == "SELECT":
                await field.select_option(value)
            else:
                await field.fill(value)
        return is_sent

    async def main_text(self) -> str:
        """Return the text of the page's main part, without isolates and repeated spaces."""
        text = await self.page.inner_text("main")
        return re.sub(r"[\s\u00a0\u2066-\u2069]+", " ", text)

    async def _open_sheet(self, form: Locator) -> None:
        """Open the closed sheet around a form, if there is one."""
        sheet = form.locator("xpath=ancestor::section[@popover]")
        if await sheet.count() and not await sheet.is_visible():
            sheet_id = await sheet.get_attribute("id")
            opener = self.page.locator(f'[popovertarget="{sheet_id}"]').first
            menu = opener.locator("xpath=ancestor::details[not(@open)]/summary")
            if await menu.count():
                await menu.click()
            await opener.click()

    async def download(self, form: str, choice: str) -> bytes:
        """Choose an option of a form whose result is a file, submit it, and return its content."""
        locator = self.page.locator(form).first
        await self._open_sheet(locator)
        await locator.locator(choice).check()
        async with self.page.expect_download() as download:
            await locator.locator(_SUBMIT).click()
        return (await (await download.value).path()).read_bytes()

    async def table_cells(self, name: str) -> list[list[str]]:
        """Return the cells of the table whose heading has this id."""
        rows = self.page.locator(f'table[aria-labelledby="{name}"] tbody tr')
        cells: list[list[str]] = await rows.evaluate_all(_READ_CELLS)
        return [[re.sub(r"[\u00a0\u2066-\u2069]", " ", cell) for cell in row] for row in cells]


async def _open_folds(locator: Locator) -> None:
    """Open each closed ``details`` around an element, the outermost first."""
    summary = locator.first.locator("xpath=ancestor::details[not(@open)]/summary")
    while await summary.count():
        await summary.first.click()


def parse_amount(text: str) -> Decimal:
    """Parse an amount as pages show it, such as ``-€1,234.50``, or a dash for none."""
    if text.strip() == "–":
        return Decimal(0)
    return Decimal(re.sub(r"[^0-9.\-]", "", text.replace("\u2212", "-")))
