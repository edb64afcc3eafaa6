"""A browser adds evidence and notes to a dispute without scripts."""

import pytest
from playwright.async_api import Browser, Page
from starlette.applications import Starlette

from browser.page_checks import problems_on_all_displays
from browser.page_members import follow_menu, invite_member, join
from opentill import disputes
from opentill.db.clock import now_ms
from opentill.db.database import Tx
from opentill.disputes import Dispute
from support import world

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]
PDF = b"%PDF-1.7\ntrailer\n<<>>\n%%EOF\n"


async def _open_dispute(tx: Tx) -> Dispute:
    """Open a dispute with a deadline and a note of the operator."""
    order = await world.create_order_in(tx, "SETTLED", name="Harbour Books")
    at = now_ms()
    dispute = await world.report_dispute(tx, order, "OPENED", at, respond_by=at + 6 * world.DAY)
    assert dispute is not None
    ids = (dispute.merchant_id, dispute.id)
    await disputes.add_note(tx, *ids, "The bank wants\nproof of delivery.", "bo", at)
    return dispute


async def _check_that_an_empty_response_asks_nothing(page: Page, url: str) -> None:
    """Check that the form names what it lacks, and only then opens its confirmation."""
    await page.goto(url)
    missing = page.get_by_role("alert").filter(has_text="Explain why the customer owes the money")
    confirmation = page.get_by_role("alertdialog", name="Contest the dispute?")
    contest = page.locator("form.contest").get_by_role("button", name="Contest the dispute")
    assert not await missing.is_visible()
    await contest.click()
    assert (await missing.is_visible(), await confirmation.is_visible()) == (True, False)
    await page.get_by_label("Your explanation").fill("Delivered on Monday.")
    assert not await missing.is_visible()
    await contest.click()
    assert await confirmation.is_visible()
    await page.close()


async def test_a_member_adds_a_file_and_a_note_on_pages_that_fit_every_device(
    browser: Browser, page_server: Starlette
) -> None:
    url = str(page_server.state.settings.public_url)
    dispute = await page_server.state.app.db.run(_open_dispute)
    link = await invite_member(page_server, dispute.merchant_id, "support")
    context = await browser.new_context(java_script_enabled=False)
    page = await context.new_page()
    await join(page, url + link.path)
    await follow_menu(page, "Disputes")
    await page.locator("table.list a.row-link").click()
    with_scripts = await browser.new_context(storage_state=await context.storage_state())
    await _check_that_an_empty_response_asks_nothing(await with_scripts.new_page(), page.url)
    await page.get_by_text("Add a file without contesting yet").click()
    await page.get_by_label("File").set_input_files(
        {"name": "page.html", "mimeType": "text/html", "buffer": b"<script>alert(1)</script>"}
    )
    await page.get_by_role("button", name="Add the file").click()
    assert await page.get_by_text("this one has other content").first.is_visible()
    await page.get_by_label("File").set_input_files(
        {"name": "receipt.pdf", "mimeType": "application/pdf", "buffer": PDF}
    )
    await page.get_by_role("button", name="Add the file").click()
    async with page.expect_download() as download_info:
        await page.get_by_role("link", name="receipt.pdf").click()
    download = await download_info.value
    assert download.suggested_filename == "receipt.pdf"
    assert (await download.path()).read_bytes() == PDF
    await page.get_by_label("Add a note").fill("Delivered on Monday,\nsigned by the customer.")
    await page.get_by_role("button", name="Add the note").click()
    assert await page.get_by_text("Note added").is_visible()
    violations: list[object] = []
    page = await with_scripts.new_page()
    list_page = f"{url}/dashboard/{dispute.merchant_id}/disputes"
    for path in (
        list_page,
        f"{list_page}/{dispute.id}",
    ):  # test_accessibility.py checks the English pages
        await page.goto(f"{path}?lang=zh-Hant")
        violations += await problems_on_all_displays(page)
    await context.close()
    await with_scripts.close()
    assert violations == []
