"""WCAG 2.2 AA on every page for people, by the rules of axe-core, on phone and desktop."""

import io
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Error, Page
from starlette.applications import Starlette

from opentill import disputes, mail, merchants, orders, payouts, people, reconciliation, webhooks
from opentill.app import PORTALS
from opentill.cli.demo_history import History
from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.people import Browser as Device
from opentill.people import queries
from opentill.people.model import Passkey
from support import world
from support.examples import is_night
from support.javascript import npm_ci
from support.once import once
from support.page_checks import look, looks
from support.payout_runs import ANN, OWN, payee, wanted
from support.people import CHEAP, PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
_AXE: Final = Path(__file__).parent / "axe"
# What WCAG 2.2 asks at levels A and AA, and what axe-core recommends beside it.
_RULES: Final = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# What is slow, and what we look at ourselves in all sizes and schemes: `support/page_checks.py`.
_OURS: Final = ["color-contrast", "target-size"]
# The looks that axe-core sees, each with the rules that it leaves out. At night it sees a desktop
# too, on which the same elements stand elsewhere, and leaves out none on a phone.
_LEFT_OUT: Final[dict[tuple[str, str], list[str]]] = (
    {("phone", "light"): [], ("desktop", "dark"): [*_OURS, "link-in-text-block"]}
    if is_night()
    else {("phone", "light"): _OURS}
)
# Without the style sheets, which it would fetch again for a rule that is not among these.
_RUN: Final = """async ([rules, without]) => (await axe.run(document, {
  resultTypes: ['violations'], runOnly: rules, elementRef: false,
  preload: { assets: ['media'] },
  rules: Object.fromEntries(without.map(name => [name, { enabled: false }])),
})).violations.map(one => [one.id, one.nodes.map(node => node.html.slice(0, 120))])"""
# Returns the pages that a page leads to. All that is folded is opened, and of rows of which only
# the words differ, two are left: there is nothing to be seen in the others.
_OPEN: Final = """() => {
  const hrefs = [...document.links].map(link => link.href);
  document.querySelectorAll('details').forEach(one => one.open = true);
  const shape = e => `${e.localName}.${e.className}[${e.getAttributeNames()}]`
    + `(${[...e.children].map(shape)})`;
  const seen = new Map();
  for (const row of document.querySelectorAll('tbody tr, main li')) {
    const name = shape(row), times = seen.get(name) || 0;
    seen.set(name, times + 1);
    if (times > 1) row.remove();
  }
  return hrefs;
}"""
_ID: Final = re.compile(r"(?<=/)[a-z]+_[0-9a-z]{20,}")
# Pages that no link of a merchant's pages leads to: the way in, and what a page shows once. Those
# that are not files have a test of their own.
_ELSEWHERE: Final = {
    "/apply",
    "/login",
    "/login/factor",
    "/login/passkey",
    "/forgot",
    "/keep-factors/*",
    "/invite/*",
    "/reset/*",
    "/dashboard",
    "/security/authenticator",
    "/security/authenticator.svg",
    "/security/passkeys",
    "/dashboard/*/disputes/*/evidence/*",  # a file
    "/console/disputes/*/evidence/*",  # the same
    "/console/trial-balance/ledger.csv",  # a file, by a form
}
# Of what needs somebody, the pages are alike but for one with forms: two of them are looked at.
_ALIKE: Final = re.compile(r"/console/needs/(?!(disputes|unmatched)$)")  # fmt: skip


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, installed as its lock file says."""
    if shutil.which("npm") is None:
        pytest.skip("no npm here")
    return (once(tmp_path_factory, "axe", _install) / "axe.min.js").read_text()


def _install(place: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(_AXE / name, place)
    npm_ci(place)
    shutil.copy(place / "node_modules" / "axe-core" / "axe.min.js", place)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def owner(page_server: Starlette) -> tuple[str, str]:
    """An owner of a merchant with a month of history: the merchant's id, and their cookie."""
    app, now = page_server.state.app, now_ms()
    db = app.db

    async def make(tx: Any) -> str:
        shop = await merchants.create(tx, name="Harbour Books", now=now - 31 * 86_400_000)
        await History(shop.id).happen(tx, now)
        await merchants.create_key(tx, shop.id, "production", now, merchants.KeyFields(name="Shop"))
        endpoint = webhooks.EndpointFields(url="http://127.0.0.1:8999/hook")
        check = webhooks.UrlCheck(app.outgoing.check)
        await webhooks.create(tx, shop.id, endpoint, check, app.settings.secret_key, now)
        return shop.id

    shop_id: str = await db.run(make)
    link = await db.run(
        lambda tx: people.invite(
            tx, address(), now, merchant_id=shop_id, role="owner", actor=TESTER
        )
    )
    login = await people.join(
        db, link.token, "Ada Example", PASSWORD, Device("127.0.0.1", "Test"), now, cost=CHEAP
    )
    return shop_id, login.token


def _shape(path: str) -> str:
    """Return an address with * for each id."""
    return _ID.sub("*", urlsplit(path).path).rstrip("/")


def _shapes_of_pages() -> set[str]:
    return {
        re.sub(r"{[^}]+}", "*", one.path).rstrip("/")
        for portal in PORTALS
        for one in portal.pages
        if one.method == "GET"
    }


async def _violations(page: Page) -> list[Any]:
    found: list[Any] = []
    async for device, scheme in looks(page):
        found += await look(page, device, scheme)
        if (without := _LEFT_OUT.get((device, scheme))) is not None:
            violations = await page.evaluate(_RUN, [_RULES, without])
            found += [(device, scheme, *one) for one in violations]
    return found


async def _walk(
    page: Page, starts: list[str], places: tuple[str, ...]
) -> tuple[set[str], dict[str, list[Any]]]:
    """Follow all links; return the shapes of the pages that were seen, and what was wrong there.

    Of pages of one shape only the first is opened: name those whose links depend on their state.
    """
    waiting, seen, wrong = list(starts), set[str](), dict[str, list[Any]]()
    while waiting:
        href = waiting.pop(0)
        if _shape(href) in seen:
            continue
        seen.add(_shape(href))
        if not await _is_shown(page, href):
            continue
        waiting += [one for one in await page.evaluate(_OPEN) if one.startswith(places)]
        if found := await _violations(page):
            wrong[_shape(href)] = found
    return seen, wrong


async def _is_shown(page: Page, href: str) -> bool:
    """Go to a page; False if it is a file."""
    try:
        response = await page.goto(href)
    except Error as error:
        assert "Download is starting" in error.message, href
        file = await page.context.request.get(href)
        assert file.status == 200, href
        return False
    assert response is not None
    assert response.status == 200, href
    return "html" in response.headers["content-type"]


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser, axe: str) -> AsyncIterator[BrowserContext]:
    """A window whose pages all have the script; nobody is logged in."""
    context = await browser.new_context()
    await context.add_init_script(axe)
    yield context
    await context.close()


async def _log_in(context: BrowserContext, url: str, token: str) -> None:
    await context.add_cookies([{"name": "opentill", "value": token, "url": url}])


async def test_every_page_that_an_owner_gets_to_keeps_the_rules(
    context: BrowserContext, page_server: Starlette, owner: tuple[str, str]
) -> None:
    """It also shows that each page can be got to, by the links of the others."""
    shop, token = owner
    app, url = page_server.state.app, page_server.state.settings.public_url
    before = app.settings
    app.settings = msgspec.structs.replace(
        before, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )

    async def send_receipt(tx: Any) -> str:
        newest = await orders.list_newest(tx, shop, 100)
        order = next(order for order in newest if order.status == "PAID" and order.customer_email)
        await mail.send_receipt(tx, app.settings, shop, order.id, "form", now_ms())
        return order.id

    try:
        refundable = await app.db.run(send_receipt)
        page = await context.new_page()
        await _log_in(context, url, token)
        places = (f"{url}/dashboard", f"{url}/security")
        starts = [f"{url}/dashboard/{shop}/payments/{refundable}", f"{url}/dashboard/{shop}/"]
        seen, wrong = await _walk(page, starts, places)
    finally:
        app.settings = before
    assert wrong == {}
    pages = {one for one in _shapes_of_pages() if not one.startswith("/console")}
    assert pages - _ELSEWHERE - seen == set()


async def test_every_page_of_the_console_keeps_the_rules(
    context: BrowserContext, page_server: Starlette, owner: tuple[str, str]
) -> None:
    """As above, from the console's list of what a merchant was paid, by an administrator."""
    app, url = page_server.state.app, page_server.state.settings.public_url
    now, device = now_ms(), Device("127.0.0.1", "Test")
    link = await app.db.run(
        lambda tx: people.invite(tx, address(), now, staff_role="admin", actor=TESTER)
    )

    form = merchants.ApplicationForm(
        merchant="Quay Tea", currency="EUR", name="Bo", email="bo@quay.example",
        website="https://quay.example", business="Tea, and what it is drunk from",
    )  # fmt: skip

    async def be_urgent(tx: Any) -> None:
        await merchants.apply(tx, form, now, address="192.0.2.1")
        (one, *_) = await disputes.search(tx, owner[0], "OPEN")
        await disputes.set_deadline(tx, one.merchant_id, one.id, now + 3_600_000, now)
        order = await orders.find(tx, one.merchant_id, one.order_id)
        await world.dispute_said(tx, order, "OPENED", now, ref="of no order")

    async def be_paid_out(tx: Any) -> payouts.Run:
        rule = payouts.HoldRule(app.settings.secret_key, 3)
        await payee(tx, rule=rule)
        await payee(tx, account=None)
        return await payouts.start_run(tx, wanted("W-48"), now)

    await app.db.run(be_urgent)
    run = await app.db.run(be_paid_out)
    await payouts.perform_run(app.db, run, app.settings.secret_key, now)
    report = io.BytesIO(
        b"kind,reference,amount,currency,settled_at\npayment,att_x,5.00,USD,2026-01-31"
    )
    compared = reconciliation.Report(gateway="sandbox", file=report, name="november.csv")
    await reconciliation.reconcile_file(app.db, compared, ANN, now)
    before = app.settings
    app.settings = msgspec.structs.replace(before, payout_accounts=f"EUR:{OWN.number}")
    try:
        login = await people.join(app.db, link.token, "Grace", PASSWORD, device, now, cost=CHEAP)
        await _log_in(context, url, login.token)
        start = f"{url}/console/payments?merchant={owner[0]}&status=PAID"
        seen, wrong = await _walk(await context.new_page(), [start], (f"{url}/console",))
    finally:
        app.settings = before
    assert wrong == {}
    pages = {one for one in _shapes_of_pages() if one.startswith("/console")}
    assert {one for one in pages - _ELSEWHERE - seen if not _ALIKE.match(one)} == set()


async def test_the_pages_that_no_link_leads_to_keep_the_rules(
    context: BrowserContext, page_server: Starlette
) -> None:
    """The way in, and what is set up once; passkeys want a name of a host in place of a number."""
    app = page_server.state.app
    before = app.settings
    app.settings = msgspec.structs.replace(
        before, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com", applications=True
    )
    try:
        wrong = await _wrong_elsewhere(context, page_server)
    finally:
        app.settings = before
    assert wrong == {}


async def _with_lost_passkey(tx: Any, login: people.NewLogin, now: int) -> tuple[str, str]:
    """Give somebody a passkey that they have lost; paths to a new password and to keep it."""
    person = login.person
    passkey = Passkey(
        id=new_id("pk"), person_id=person.id, credential=person.id.encode(), public_key=b"x",
        sign_count=0, name="Phone", created_at=now, used_at=None,
    )  # fmt: skip
    await queries.INSERT_PASSKEY.run(tx, passkey)
    await people.lost_factors.request_reset(tx, person.email, now, actor=TESTER, wait_ms=3_600_000)
    reset = await people.offer_new_password(tx, person.email, now, actor=TESTER)
    keep = await people.lost_factors.new_stop_link(tx, person.email)
    assert keep is not None
    return reset.path, keep


async def _wrong_elsewhere(context: BrowserContext, page_server: Starlette) -> dict[str, list[Any]]:
    """Return what is wrong on the pages that no link leads to."""
    app, now, device = page_server.state.app, now_ms(), Device("127.0.0.1", "Test")
    url = page_server.state.settings.public_url.replace("127.0.0.1", "localhost")
    email = address()

    async def invite(tx: Any) -> people.NewLink:
        return await people.invite(tx, email, now, staff_role="auditor", actor=TESTER)

    login = await people.join(
        app.db, (await app.db.run(invite)).token, "Al", PASSWORD, device, now, cost=CHEAP
    )
    reset = await app.db.run(lambda tx: people.offer_new_password(tx, email, now, actor=TESTER))
    email = address()
    lacking = await people.join(
        app.db, (await app.db.run(invite)).token, "Bo", PASSWORD, device, now, cost=CHEAP
    )
    reset_with_factor, keep = await app.db.run(lambda tx: _with_lost_passkey(tx, lacking, now))
    email = address()
    invited = await app.db.run(invite)
    page, wrong = await context.new_page(), dict[str, list[Any]]()
    for path, button in (
        ("/apply", ""),
        ("/login", ""),
        ("/login", "/login/passkey/begin"),
        ("/forgot", ""),
        (invited.path, ""),
        (reset.path, ""),
        (reset_with_factor, ""),
        (keep, ""),
        # From here on somebody is logged in, at first without the second factor that they have.
        ("/login/factor", ""),
        ("/dashboard", ""),
        ("/security", "/security/authenticator/begin"),
        ("/security", "/security/passkeys/begin"),
    ):
        if path in {"/login/factor", "/dashboard"}:
            who = login if path == "/dashboard" else lacking
            await _log_in(context, url, who.token)
        response = await page.goto(url + path)
        assert response is not None
        assert response.status == 200, path
        if button:
            async with page.expect_navigation():
                await page.locator(f'form[action$="{button}"] button').click()
            assert not page.url.endswith(path), button
        await page.evaluate(_OPEN)
        if found := await _violations(page):
            wrong[button or path] = found
    return wrong
