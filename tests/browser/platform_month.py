"""A platform whose month is worked off: its merchants, its staff, its bank, and its time."""

import asyncio
import re
from decimal import Decimal
from typing import Any, Final

import httpx2
import msgspec
from playwright.async_api import Browser
from starlette.applications import Starlette

from opentill import merchants, people
from opentill.context import App
from opentill.core.settings import Settings
from opentill.db import clock
from opentill.db.clock import now_ms
from support.cluster import CARD
from support.console_staff import Human, eventually, number
from support.people import TESTER

PAYMENTS: Final = 20  # of each merchant
_REFUSED: Final = 300


class Shop(msgspec.Struct):
    """A merchant of the story, and where its payouts go."""

    name: str
    currency: str
    price: str
    account: dict[str, str]
    id: str = ""
    key: str = ""
    link: str = ""
    product: str = ""
    paid: list[str] = msgspec.field(default_factory=list)  # ids of orders


def shops() -> list[Shop]:
    """Return the five merchants."""
    japan = {"account": "1234567", "country": "JP", "clearing": "0001001"}
    return [
        Shop("Harbour Books", "EUR", "24.50", {"account": "DE89370400440532013000"}),
        Shop("Alpine Soap", "EUR", "19.99", {"account": "FR1420041010050500013M02606"}),
        Shop("Kyoto Tea", "JPY", "1800.00", japan),
        Shop("Osaka Paper", "JPY", "950.00", japan | {"account": "2345678"}),
        Shop("Gulf Dates", "KWD", "7.25", {"account": "KW02NBOK0000000000001000614589"}),
    ]


class Month:
    """The platform, its staff, and what is known of it from outside."""

    def __init__(self, server: Starlette, browser: Browser) -> None:
        """Nobody is there yet."""
        self.app: App = server.state.app
        self.settings: Settings = server.state.settings
        self.url = str(self.settings.public_url)
        self.browser = browser
        self.http = httpx2.AsyncClient(timeout=60, trust_env=False)
        self.shops = shops()
        self.staff: dict[str, Human] = {}
        self.owner: Human

    def __getitem__(self, name: str) -> Shop:
        """Return a merchant by its name."""
        return next(one for one in self.shops if one.name == name)

    # ── what is not staff ──

    async def at_bank(self, method: str, path: str, body: Any = None) -> Any:
        """Have the bank do something."""
        headers = {"Authorization": f"Bearer {self.settings.sandbox_secret}"}
        url = f"{self.settings.sandbox_url}{path}"
        answer = await self.http.request(method, url, json=body, headers=headers)
        assert answer.status_code < _REFUSED, answer.text
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return answer.json() if is_json else answer.text

    async def api(self, shop: Shop, method: str, path: str, body: Any = None) -> Any:
        """Call the API as a merchant's program."""
        headers = {"X-API-Key": shop.key}
        answer = await self.http.request(method, self.url + path, json=body, headers=headers)
        assert answer.status_code < _REFUSED, answer.text
        return answer.json()["data"]

    async def open(self, shop: Shop) -> tuple[str, str]:
        """Open a session; return its id and its order's."""
        created = await self.api(shop, "POST", "/v1/checkouts", {"productId": shop.product})
        checkout = await self.api(shop, "GET", f"/v1/checkouts/{created['id']}")
        return created["id"], checkout["orderId"]

    async def begin(self, session_id: str, method: str = "CREDIT_CARD") -> str:
        """Send the form of the payment page; return the attempt whose page at the bank is next."""
        form = {"email": "maria@example.com", "name": "Maria", "method": method}
        answer = await self.http.post(f"{self.url}/checkout/{session_id}", data=form)
        match = re.search(r"/continue/(att_\w+)", answer.headers.get("location", ""))
        assert match is not None, answer.text[:500]
        return match[1]

    async def type_card(self, attempt_id: str, number: str = CARD) -> None:
        """Pay at the bank by card."""
        form = {"number": number, "exp": "12/34", "csc": "123"}
        await self.http.post(f"{self.settings.sandbox_url}/pay/{attempt_id}", data=form)

    async def use_phone(self, attempt_id: str) -> None:
        """Pay at the bank by a wallet."""
        url = f"{self.settings.sandbox_url}/phone/{attempt_id}"
        await self.http.post(url, data={"decision": "approve"})

    async def come_back(self, session_id: str, attempt_id: str) -> None:
        """Follow the bank's link back, which has the bank asked."""
        await self.http.get(f"{self.url}/checkout/{session_id}/return/{attempt_id}")

    async def status(self, shop: Shop, order_id: str, *expected: str) -> Any:
        """Wait until an order is in one of some statuses; return it."""

        async def look() -> Any:
            order = await self.api(shop, "GET", f"/v1/orders/{order_id}")
            return order if order["status"] in expected else None

        return await eventually(look, f"{order_id} does not become {expected}")

    async def attempt_of(self, order_id: str) -> str:
        """Return the attempt that paid an order, as the bank calls the payment."""
        async with self.app.db.connection() as tx:
            sql = "select paid_attempt_id from orders where id = $1"
            return str(await tx.fetchval(sql, order_id))

    async def later(self, by_ms: int) -> None:
        """Move business time ahead, and wait until the server knows."""
        until = self.app.clock() + by_ms
        await self.app.db.run(lambda tx: clock.advance(tx, by_ms))

        async def moved() -> bool:
            return self.app.clock() >= until

        await eventually(moved, "the clock stands")

    # ── what staff read ──

    async def balanced(self) -> dict[str, list[Decimal]]:
        """Have the auditor read the trial balance; return the accounts by currency."""
        auditor = self.staff["auditor"]
        await auditor.go("/console/trial-balance")
        balances = {
            which: [(row[0], [number(cell) for cell in row[1:]])
                    for row in await auditor.table(which)]
            for which in ("sums", "each")
        }  # fmt: skip
        for which, rows in balances.items():
            for name, amounts in rows:
                assert sum(amounts) == 0, (which, name, amounts)
        sums = dict(balances["sums"])
        for currency, amounts in sums.items():
            each = [row for name, row in balances["each"] if name.endswith(currency)]
            assert [sum(column) for column in zip(*each, strict=True)] == amounts
        return sums

    async def home(self, who: str = "admin") -> str:
        """Return the words of what needs somebody, as one of the staff reads them."""
        page = await self.staff[who].go("/console/")
        return re.sub(r"\s+", " ", await page.inner_text("section[aria-labelledby=needs]"))

    async def until_home(self, text: str, *, there: bool = True) -> None:
        """Wait until a line is on the first page of the console, or is not any more."""

        async def look() -> bool:
            return (text in await self.home()) == there

        await eventually(look, f"{text}: {await self.home()}")


async def staff_join(month: Month) -> None:
    """The first administrator is invited by command, the others in the console."""
    app, now = month.app, now_ms()
    link = await app.db.run(
        lambda tx: people.invite(tx, "ada@example.com", now, staff_role="admin", actor=TESTER)
    )
    ada = await Human.invited(month.browser, month.url, "ada@example.com", month.url + link.path)
    await ada.set_up_authenticator()
    month.staff["admin"] = ada
    for name, role in (
        ("fin", "finance"), ("gus", "finance"), ("sue", "support"), ("auditor", "auditor"),
    ):  # fmt: skip
        await ada.go("/console/people")
        email = f"{name}@example.com"
        await ada.send('form[action$="/people/invite"]', email=email, role=role)
        link_shown = await ada.page.locator(".box.good code").inner_text()
        month.staff[name] = await Human.invited(month.browser, month.url, email, link_shown)
        await month.staff[name].set_up_authenticator()


async def merchants_apply(month: Month) -> None:
    """Five apply; the administrator approves each, and one owner joins."""
    page = await (await month.browser.new_context(locale="en-US")).new_page()
    for number_, shop in enumerate(month.shops):
        await page.goto(f"{month.url}/apply")
        await page.fill("[name=merchant]", shop.name)
        await page.fill("[name=business]", "Sells things that people like.")
        await page.select_option("[name=currency]", shop.currency)
        await page.fill("[name=name]", "Olga Owner")
        await page.fill("[name=email]", f"owner{number_}@example.com")
        await page.click("main button[type=submit]")
        await page.wait_for_url("**/apply?sent=1")
    await page.context.close()
    ada = month.staff["admin"]
    assert f"Applications that wait to be decided: {len(month.shops)}" in await month.home(), (
        await month.home()
    )
    for shop in month.shops:
        await ada.go("/console/applications")
        await ada.follow(f'table a:has-text("{shop.name}")')
        shop.id = ada.page.url.split("/")[-2]
        await ada.send("details#approved form", reason="papers are fine")
        shop.link = await ada.page.locator(".box.good code").inner_text()
    await ada.go("/console/merchants?status=APPLIED")
    assert "Nothing matches" in await ada.words()
    month.owner = await Human.invited(
        month.browser, month.url, "owner0@example.com", month.shops[0].link
    )
    for shop in month.shops:
        application = await month.app.db.run(
            lambda tx, id_=shop.id: merchants.create_key(tx, id_, "production", now_ms())
        )
        shop.key = application.key
        body = {"name": "A thing", "price": shop.price, "currency": shop.currency}
        shop.product = (await month.api(shop, "POST", "/v1/products", body))["id"]


async def terms_rates_and_accounts(month: Month) -> None:
    """A reserve for one merchant, exchange rates for refunds, and everybody's bank account."""
    ada, fin = month.staff["admin"], month.staff["fin"]
    tea = month["Kyoto Tea"]
    await ada.go(f"/console/merchants/{tea.id}/terms")
    await ada.send('form[action$="/terms"]', reserve_rate="10", reserve_days="10", reason="new")
    await ada.go(f"/console/merchants/{tea.id}")
    assert "Rolling reserve: 0 % → 10 %" in await ada.words(), await ada.words()
    for base, rate in (("EUR", "1.08"), ("JPY", "0.0067"), ("KWD", "3.25")):
        await fin.go("/console/rates")
        await fin.send('form[action$="/rates/set"]', base=base, rate=rate, quote="USD")
    for shop in month.shops:
        await fin.go(f"/console/merchants/{shop.id}/bank-account")
        response = await fin.send(
            'form[action$="/bank-account"]', holder=shop.name, reason="by letter", **shop.account
        )
        assert "saved" in fin.page.url, response


async def customers_pay(month: Month) -> None:
    """Twenty payments of each merchant; the first of each in a browser."""
    page = await (await month.browser.new_context(locale="en-US")).new_page()
    for shop in month.shops:
        session_id, order_id = await month.open(shop)
        await page.goto(f"{month.url}/checkout/{session_id}")
        await page.fill("[autocomplete=email]", "maria@example.com")
        await page.fill("[autocomplete=name]", "Maria")
        await page.check("[value=CREDIT_CARD]")
        await page.click("button[type=submit]")
        await page.fill("[autocomplete=cc-number]", CARD)
        await page.fill("[autocomplete=cc-exp]", "12/34")
        await page.fill("[autocomplete=cc-csc]", "123")
        await page.click("button")
        await month.status(shop, order_id, "PAID")
        shop.paid.append(order_id)
    await page.context.close()
    gate = asyncio.Semaphore(6)

    async def pay(shop: Shop) -> None:
        async with gate:
            session_id, order_id = await month.open(shop)
            await month.type_card(await month.begin(session_id))
            await month.status(shop, order_id, "PAID")
            shop.paid.append(order_id)

    await asyncio.gather(*(pay(shop) for shop in month.shops for _ in range(PAYMENTS - 1)))
