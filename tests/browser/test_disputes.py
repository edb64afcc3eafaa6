"""Disputes in a real browser: a file and a note without any script, and how the pages look."""

import pytest
from playwright.async_api import Browser
from starlette.applications import Starlette

from opentill import disputes, people
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.disputes import Dispute
from support import world
from support.page_checks import looked_at
from support.people import PASSWORD, TESTER, address

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PDF = b"%PDF-1.7\ntrailer\n<<>>\n%%EOF\n"


async def _disputed(tx: Tx) -> Dispute:
    """Make a dispute whose time is running, with notes of the operator, and one that was lost."""
    order = await world.in_status(tx, "SETTLED", name="Harbour Books")
    at = now_ms()
    found = await world.dispute_said(tx, order, "OPENED", at, respond_by=at + 6 * world.DAY)
    assert found is not None
    ids = (found.merchant_id, found.id)
    await disputes.add_note(tx, *ids, "The bank wants\nproof of delivery.", "bo", at)
    return found


async def test_a_member_adds_a_file_and_a_note_and_can_read_all_of_it(
    browser: Browser, page_server: Starlette
) -> None:
    db = page_server.state.app.db
    url = str(page_server.state.settings.public_url)
    dispute = await db.run(_disputed)
    link = await db.run(
        lambda tx: people.invite(
            tx, address(), now_ms(), merchant_id=dispute.merchant_id, role="support", actor=TESTER
        )
    )
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await page.goto(url + link.path)
    await page.get_by_label("Your name").fill("Ada Example")
    await page.get_by_label("New password").fill(PASSWORD)
    await page.get_by_role("button", name="Accept").click()
    await page.get_by_role("link", name="Disputes", exact=True).click()
    await page.locator("table.list a").click()
    await page.get_by_label("File").set_input_files(
        {"name": "page.html", "mimeType": "text/html", "buffer": b"<script>alert(1)</script>"}
    )
    await page.get_by_role("button", name="Add the file").click()
    assert await page.get_by_text("this one has other content").first.is_visible()
    await page.get_by_label("File").set_input_files(
        {"name": "receipt.pdf", "mimeType": "application/pdf", "buffer": PDF}
    )
    await page.get_by_role("button", name="Add the file").click()
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="receipt.pdf").click()
    download = await downloading.value
    assert download.suggested_filename == "receipt.pdf"
    assert (await download.path()).read_bytes() == PDF
    await page.get_by_label("New note").fill("Delivered on Monday,\nsigned by the customer.")
    await page.get_by_role("button", name="Add the note").click()
    assert await page.get_by_text("Your note is added.").is_visible()
    wrong: list[object] = []
    of_scripts = await browser.new_context(storage_state=await context.storage_state())
    page = await of_scripts.new_page()
    below = f"{url}/dashboard/{dispute.merchant_id}/disputes"
    for address_ in (below, f"{below}/{dispute.id}"):  # in English: test_accessibility.py
        await page.goto(f"{address_}?lang=zh-Hant")
        wrong += await looked_at(page)
    await context.close()
    await of_scripts.close()
    assert wrong == []
