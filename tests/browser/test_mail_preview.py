"""The preview of a mail is as tall as the mail, in the dashboard and in the console."""

from typing import Any

import msgspec
import pytest
from playwright.async_api import Browser, Page
from starlette.applications import Starlette

from browser.page_checks import problems_on_all_displays
from opentill import mail, people
from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.mail.model import ApprovalContent
from opentill.people import Browser as Device
from support import world
from support.people import CHEAP_HASH, PASSWORD, TESTER, new_address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
_LONG_REASON = "The customer paid by bank transfer, and the bank's statement names the order. " * 5


async def _queue_mails(tx: Any, settings: Any) -> tuple[str, str, str]:
    """Queue a receipt and a mail to staff with a long text; return the merchant and the mails."""
    now = now_ms()
    order = await world.create_order_in(tx, "PAID", name="Harbour Books")
    receipt = await mail.send_receipt(tx, settings, order.merchant_id, order.id, "form", now)
    content = ApprovalContent(
        shop="Harbour Books", kind="recharge", amount=(5000, "USD"), reason=_LONG_REASON,
        who="ann@example.com", at=now,
    )  # fmt: skip
    staff_mail = new_id("mail")
    await tx.execute(
        "insert into mails select '', $1, 'approval_waiting', $1, 'bo@example.com', null, 'en', $2,"
        " null, $1, 'SENT', 1, null, '', $3, $3",
        staff_mail,
        msgspec.json.encode(content).decode(),
        now,
    )
    return order.merchant_id, receipt.id, staff_mail


async def _log_in(server: Starlette, merchant_id: str | None) -> str:
    """Create a member of a merchant or of the staff; return the token of their login."""
    app, now, device = server.state.app, now_ms(), Device("127.0.0.1", "Test")

    async def invite(tx: Any) -> people.NewLink:
        if merchant_id is None:
            return await people.invite(tx, new_address(), now, staff_role="support", actor=TESTER)
        return await people.invite(
            tx, new_address(), now, merchant_id=merchant_id, role="viewer", actor=TESTER
        )

    link = await app.db.run(invite)
    login = await people.join(app.db, link.token, "Bo", PASSWORD, device, now, cost=CHEAP_HASH)
    return str(login.token)


async def _hidden_height(page: Page) -> tuple[int, int]:
    """Return how much of the mail the frame hides, and how much of the frame is empty (pixels)."""
    frame = page.frames[1]
    await frame.wait_for_load_state()
    hidden, empty = await frame.evaluate(
        "[document.documentElement.scrollHeight - innerHeight,"
        " innerHeight - document.body.getBoundingClientRect().height]"
    )
    return int(hidden), int(empty)


@pytest.mark.parametrize("portal", ["dashboard", "console"])
async def test_the_whole_mail_is_visible_in_its_frame_below_the_menu(
    layout_browser: Browser, page_server: Starlette, monkeypatch: pytest.MonkeyPatch, portal: str
) -> None:
    app, url = page_server.state.app, page_server.state.settings.public_url
    with_mail = msgspec.structs.replace(
        app.settings, smtp_url="smtp://127.0.0.1:9", mail_from="pay@example.com"
    )
    monkeypatch.setattr(app, "settings", with_mail)
    merchant_id, receipt, staff_mail = await app.db.run(lambda tx: _queue_mails(tx, with_mail))
    if portal == "console":
        token = await _log_in(page_server, None)
        paths = [f"/console/mails/{receipt}", f"/console/mails/{staff_mail}"]
    else:
        token = await _log_in(page_server, merchant_id)
        paths = [f"/dashboard/{merchant_id}/mails/{receipt}"]
    context = await layout_browser.new_context()
    await context.add_cookies([{"name": "opentill", "value": token, "url": url}])
    page = await context.new_page()
    misfits: list[object] = []
    violations: list[object] = []
    for path in paths:
        for width in (320, 390, 768, 1440):
            await page.set_viewport_size({"width": width, "height": 844})
            await page.goto(url + path)
            hidden, empty = await _hidden_height(page)
            if hidden > 0 or empty > 400:
                misfits.append((path, width, hidden, empty))
            assert await page.locator('a[aria-current="page"]').first.inner_text() == "Emails"
        violations += await problems_on_all_displays(page)
    await context.close()
    assert not misfits, "\n".join(map(str, misfits))
    assert violations == []
