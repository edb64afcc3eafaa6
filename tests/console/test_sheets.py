"""A form at the side of a page that is refused is shown there again, with its errors."""

import re

import pytest

from support.api_server import Shop
from support.people import create_person


@pytest.mark.parametrize(
    ("path", "form", "sheet_id", "error"),
    [
        (
            "/console/people/invite",
            {"email": "nobody", "role": "support"},
            "invite",
            "Enter an email",
        ),
        ("/console/people/factors", {"lost": "x@example.com", "reason": ""}, "reset", "Say why"),
        (
            "/console/rates/set",
            {"base": "USD", "quote": "EUR", "rate": "x"},
            "set",
            "decimal number",
        ),
        ("/console/rates/import", {}, "import", "Choose the file"),
        ("/console/payout-runs/report", {}, "bank", "Choose"),
        ("/console/reconciliation/compare", {"gateway": "sandbox"}, "compare", "Choose"),
        ("/console/merchants/{merchant}/standing", {"event": "suspended"}, "suspended", "reason"),
        ("/console/merchants/{merchant}/standing/notes", {"notes": ""}, "noted", "note"),
    ],
)
def test_a_refused_sheet_is_open_with_its_errors(
    shop: Shop, path: str, form: dict[str, str], sheet_id: str, error: str
) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    refusal = admin.post(path.format(merchant=shop.id), form)
    assert refusal.status_code == 400
    ((opened_id, sheet),) = re.findall(
        r'<dialog class="sheet" id="(\w+)" popover open[^>]*>(.*?)</dialog>',
        refusal.text,
        re.DOTALL,
    )
    assert opened_id == sheet_id
    assert ('role="alert"' in sheet) != (" autofocus" in sheet.partition('method="post"')[2])
    assert error.casefold() in sheet.casefold()
    assert refusal.text.count(" autofocus") == 1
    assert f'popovertarget="{sheet_id}"' in refusal.text
    assert "modal.js" in refusal.text


def test_a_page_without_errors_has_closed_sheets_and_no_script_for_them(shop: Shop) -> None:
    admin = create_person(shop.api_server, None, staff_role="admin")
    page = admin.get("/console/people").text
    assert '<section class="sheet" id="invite" popover' in page
    assert "<dialog" not in page
    assert "modal.js" not in page
