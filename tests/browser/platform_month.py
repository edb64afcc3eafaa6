"""The first days of a platform: staff, merchants, their terms, and their customers' payments."""

import asyncio
import re
from decimal import Decimal
from typing import Any, Final

import httpx2
import msgspec
from playwright.async_api import Browser
from starlette.applications import Starlette

from browser.browser_user import BrowserUser, parse_amount
from opentill import merchants, people
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db import clock
from opentill.db.clock import now_ms
from support.cluster import CARD, eventually
from support.people import TESTER

PAYMENTS: Final = 20  # number of payments of each merchant
_REDIRECT: Final = 300


class Shop(msgspec.Struct):
    """A merchant; ``account`` has the fields of its bank account."""

    name: str
    currency: str
    price: str
    account: dict[str, str]
    id: str = ""
    key: str = ""
    link: str = ""
    product_id: str = ""
    paid_order_ids: list[str] = msgspec.field(default_factory=list)


def new_shops() -> list[Shop]:
    """Return five merchants that do not exist yet."""
    japan = {"account": "1234567", "repeat": "1234567", "clearing": "0001001"}
    return [
        Shop("Harbour Books", "EUR", "24.50", {"account": "DE89370400440532013000"}),
        Shop("Alpine Soap", "EUR", "19.99", {"account": "FR1420041010050500013M02606"}),
        Shop("Kyoto Tea", "JPY", "1800.00", japan),
        Shop("Osaka Paper", "JPY", "950.00", japan | {"account": "2345678", "repeat": "2345678"}),
        Shop("Gulf Dates", "KWD", "7.25", {"account": "KW02NBOK0000000000001000614589"}),
    ]


class Month:
    """A platform, its staff in their browsers, and its merchants."""

    def __init__(self, server: Starlette, browser: Browser) -> None:
        """Start without merchants and without staff."""
        self.app: App = server.state.app
        self.settings: Settings = server.state.settings
        self.url = str(self.settings.public_url)
        self.browser = browser
        self.http = httpx2.AsyncClient(timeout=60, trust_env=False)
        self.shops = new_shops()
        self.staff: dict[str, BrowserUser] = {}
        self.owner: BrowserUser

    def __getitem__(self, name: str) -> Shop:
        """Return a merchant by its name."""
        return next(shop for shop in self.shops if shop.name == name)

    # Merchants, customers and the bank

    async def call_bank(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request to the bank's API."""
        headers = {"Authorization": f"Bearer {self.settings.sandbox_secret}"}
        url = f"{self.settings.sandbox_url}{path}"
        response = await self.http.request(method, url, json=body, headers=headers)
        assert response.status_code < _REDIRECT, response.text
        is_json = response.headers.get("content-type", "").startswith("application/json")
        return response.json() if is_json else response.text

    async def call_api(self, shop: Shop, method: str, path: str, body: Any = None) -> Any:
        """Call the API as a merchant's program."""
        headers = {"X-API-Key": shop.key}
        response = await self.http.request(method, self.url + path, json=body, headers=headers)
        assert response.status_code < _REDIRECT, response.text
        return response.json()["data"]

    async def open_session(self, shop: Shop) -> tuple[str, str]:
        """Open a session; return the ids of the session and its order."""
        created = await self.call_api(shop, "POST", "/v1/checkouts", {"productId": shop.product_id})
        checkout = await self.call_api(shop, "GET", f"/v1/checkouts/{created['id']}")
        return created["id"], checkout["orderId"]

    async def start_payment(self, session_id: str, method: str = "CREDIT_CARD") -> str:
        """Submit the payment page; return the id of the attempt that continues at the bank."""
        form = {"email": "maria@example.com", "name": "Maria", "method": method}
        response = await self.http.post(f"{self.url}/checkout/{session_id}", data=form)
        match = re.search(r"/continue/(att_\w+)", response.headers.get("location", ""))
        assert match is not None, response.text[:500]
        return match[1]

    async def enter_card(self, attempt_id: str, number: str = CARD) -> None:
        """Submit the bank's card form."""
        form = {"number": number, "exp": "12/34", "csc": "123"}
        await self.http.post(f"{self.settings.sandbox_url}/pay/{attempt_id}", data=form)

    async def approve_on_phone(self, attempt_id: str) -> None:
        """Approve a wallet payment at the bank."""
        url = f"{self.settings.sandbox_url}/phone/{attempt_id}"
        await self.http.post(url, data={"decision": "approve"})

    async def return_from_bank(self, session_id: str, attempt_id: str) -> None:
        """Follow the bank's link to the server, which then queries the bank."""
        await self.http.get(f"{self.url}/checkout/{session_id}/return/{attempt_id}")

    async def wait_for_status(self, shop: Shop, order_id: str, *expected: str) -> Any:
        """Wait until an order has one of these statuses, and return it."""

        async def read_order() -> Any:
            order = await self.call_api(shop, "GET", f"/v1/orders/{order_id}")
            return order if order["status"] in expected else None

        order = await eventually(read_order)
        assert order, f"{order_id} does not become {expected}"
        return order

    async def paid_attempt_id(self, order_id: str) -> str:
        """Return the id of the attempt that paid an order. The bank's payment has the same id."""
        async with self.app.db.connection() as tx:
            sql = "select paid_attempt_id from orders where id = $1"
            return str(await tx.fetchval(sql, order_id))

    async def advance_clock(self, by_ms: int) -> None:
        """Move business time ahead, and wait until the server has read it."""
        until = self.app.clock() + by_ms
        await self.app.db.run(lambda tx: clock.advance(tx, by_ms))

        async def is_advanced() -> bool:
            return self.app.clock() >= until

        assert await eventually(is_advanced), "the server's clock has not advanced"

    # Pages that staff read

    async def read_trial_balance(self) -> dict[str, dict[str, Decimal]]:
        """Open the trial balance as the auditor; return each account's balance by currency.

        A debit balance is negative. Checks that both sides of each currency have the same total.
        """
        auditor = self.staff["auditor"]
        await auditor.open_page("/console/trial-balance")
        tables = auditor.page.locator('table[aria-labelledby^="sums-"]')
        headings = await tables.evaluate_all(
            "tables => tables.map(table => table.getAttribute('aria-labelledby'))"
        )
        balances = {}
        for heading in headings:
            *accounts, total = [
                (name.partition("\n")[0], parse_amount(debit), parse_amount(credit))
                for name, debit, credit in await auditor.table_cells(heading)
            ]
            debits = sum(debit for _, debit, _ in accounts)
            credits_ = sum(credit for _, _, credit in accounts)
            assert total == ("Total", debits, credits_) == ("Total", credits_, debits), heading
            balances[heading.removeprefix("sums-")] = {
                name: credit - debit for name, debit, credit in accounts
            }
        return balances

    async def check_trial_balance(self) -> None:
        """Check that the accounts of merchants add up to zero and to the accounts of all."""
        balances = await self.read_trial_balance()
        rows = [
            (row[0], [parse_amount(cell) for cell in row[1:]])
            for row in await self.staff["auditor"].table_cells("each")
        ]
        for name, amounts in rows:
            assert sum(amounts) == 0, (name, amounts)
        for currency, accounts in balances.items():
            of_currency = [amounts for name, amounts in rows if name.endswith(currency)]
            sums = [sum(column) for column in zip(*of_currency, strict=True)]
            assert sums == list(accounts.values()), currency
        assert {name[-3:] for name, _ in rows} == balances.keys()

    async def read_needs_attention(self, user: str = "admin") -> str:
        """Return the text of "Needs attention" on the console's first page."""
        page = await self.staff[user].open_page("/console/")
        return re.sub(r"\s+", " ", await page.inner_text("section[aria-labelledby=needs]"))

    async def wait_for_needs_attention(self, text: str, *, is_shown: bool = True) -> None:
        """Wait until a line appears below "Needs attention", or disappears."""

        async def is_as_expected() -> bool:
            return (text in await self.read_needs_attention()) == is_shown

        assert await eventually(is_as_expected), f"{text}: {await self.read_needs_attention()}"


async def invite_staff(month: Month) -> None:
    """Invite the first administrator by a command and the others in the console."""
    app, now = month.app, now_ms()
    link = await app.db.run(
        lambda tx: people.invite(tx, "ada@example.com", now, staff_role="admin", actor=TESTER)
    )
    ada = await BrowserUser.accept_invitation(
        month.browser, month.url, "ada@example.com", month.url + link.path
    )
    await ada.set_up_authenticator()
    month.staff["admin"] = ada
    for name, role in (
        ("fin", "finance"), ("gus", "finance"), ("sue", "support"), ("auditor", "auditor"),
    ):  # fmt: skip
        await ada.open_page("/console/people")
        email = f"{name}@example.com"
        await ada.submit_form('form[action$="/people/invite"]', email=email, role=role)
        link_shown = await ada.page.locator(".box.good input").input_value()
        month.staff[name] = await BrowserUser.accept_invitation(
            month.browser, month.url, email, link_shown
        )
        await month.staff[name].set_up_authenticator()


async def add_merchants(month: Month) -> None:
    """Apply as five merchants, approve each as the administrator, and join as one owner."""
    page = await (await month.browser.new_context(locale="en-US")).new_page()
    for number, shop in enumerate(month.shops):
        await page.goto(f"{month.url}/apply")
        await page.fill("[name=merchant]", shop.name)
        await page.fill("[name=business]", "Sells things that people like.")
        await page.select_option("[name=currency]", shop.currency)
        await page.fill("[name=name]", "Olga Owner")
        await page.fill("[name=email]", f"owner{number}@example.com")
        await page.click("main button[type=submit]")
        await page.wait_for_url("**/apply?sent=1")
    await page.context.close()
    ada = month.staff["admin"]
    assert f"Applications to decide: {len(month.shops)}" in await month.read_needs_attention(), (
        await month.read_needs_attention()
    )
    for shop in month.shops:
        await ada.open_page("/console/applications")
        await ada.follow_link(f'table a:has-text("{shop.name}")')
        shop.id = ada.page.url.split("/")[-2]
        await ada.submit_form("#approved form", reason="papers are fine")
        shop.link = await ada.page.locator(".box.good input").input_value()
    await ada.open_page("/console/merchants?status=APPLIED")
    assert "No merchants match these filters." in await ada.main_text()
    month.owner = await BrowserUser.accept_invitation(
        month.browser, month.url, "owner0@example.com", month.shops[0].link
    )
    for shop in month.shops:
        key = await month.app.db.run(
            lambda tx, id_=shop.id: merchants.create_key(tx, id_, "production", now_ms())
        )
        shop.key = key.key
        body = {"name": "A thing", "price": shop.price, "currency": shop.currency}
        shop.product_id = (await month.call_api(shop, "POST", "/v1/products", body))["id"]


async def set_up_merchants(month: Month) -> None:
    """Set a reserve for one merchant, exchange rates for refunds, and all bank accounts."""
    ada, fin = month.staff["admin"], month.staff["fin"]
    tea = month["Kyoto Tea"]
    await ada.open_page(f"/console/merchants/{tea.id}/terms")
    await ada.submit_form(
        'form[action$="/terms"]',
        "button:text('Save the new terms')",
        reserve_rate="10",
        reserve_days="10",
        reason="new",
    )
    await ada.open_page(f"/console/merchants/{tea.id}")
    assert "Rolling reserve: 0% → 10%" in await ada.main_text(), await ada.main_text()
    for base, rate in (("EUR", "1.08"), ("JPY", "0.0067"), ("KWD", "3.25")):
        await fin.open_page("/console/rates")
        await fin.submit_form('form[action$="/rates/set"]', base=base, rate=rate, quote="USD")
    for shop in month.shops:
        number = shop.account["account"]
        country = "JP" if number.isdecimal() else number[:2]
        await fin.open_page(f"/console/merchants/{shop.id}/bank-account?country={country}")
        response = await fin.submit_form(
            "form#bank-account", holder=shop.name, reason="by letter", **shop.account
        )
        assert "saved" in fin.page.url, response


async def pay_orders(month: Month) -> None:
    """Pay twenty orders of each merchant, the first of them in a browser."""
    page = await (await month.browser.new_context(locale="en-US")).new_page()
    for shop in month.shops:
        session_id, order_id = await month.open_session(shop)
        await page.goto(f"{month.url}/checkout/{session_id}")
        await page.fill("[autocomplete=email]", "maria@example.com")
        await page.fill("[autocomplete=name]", "Maria")
        await page.check("[value=CREDIT_CARD]")
        await page.click("button[type=submit]")
        await page.fill("[autocomplete=cc-number]", CARD)
        await page.fill("[autocomplete=cc-exp]", "12/34")
        await page.fill("[autocomplete=cc-csc]", "123")
        await page.click("button")
        await month.wait_for_status(shop, order_id, "PAID")
        shop.paid_order_ids.append(order_id)
    await page.context.close()
    semaphore = asyncio.Semaphore(6)

    async def pay(shop: Shop) -> None:
        async with semaphore:
            session_id, order_id = await month.open_session(shop)
            await month.enter_card(await month.start_payment(session_id))
            await month.wait_for_status(shop, order_id, "PAID")
            shop.paid_order_ids.append(order_id)

    await asyncio.gather(*(pay(shop) for shop in month.shops for _ in range(PAYMENTS - 1)))
