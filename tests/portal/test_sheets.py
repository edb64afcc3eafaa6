"""The form of a sheet ends with Cancel and its main button, and the server checks its fields."""

import re

import pytest

from opentill.portal import sheets
from support.api_server import Shop
from support.people import create_person

BUTTON = '<button class="button" type="submit"><span>Save</span></button>'


def test_cancel_stands_before_the_button_that_ends_a_form() -> None:
    form = f"<form>\n<button class='link'>x</button>{BUTTON}\n</form><p>After</p>"
    foot = f'<div class="modal-foot">\nCANCEL\n{BUTTON}\n</div>'
    html = "".join(sheets.with_cancel(form, "CANCEL").split("\n"))
    assert html == "<form><button class='link'>x</button>" + foot.replace("\n", "") + (
        "</form><p>After</p>"
    )


def test_a_sheet_without_a_form_has_no_foot() -> None:
    assert sheets.with_cancel(f"<p>{BUTTON}</p>", "CANCEL") == f"<p>{BUTTON}</p>"


@pytest.mark.parametrize(
    ("path", "action"),
    [
        ("products", "Add the product"),
        ("links", "Create the link"),
        ("developers/keys", "Create API key"),
        ("developers/webhooks", "Add endpoint"),
    ],
)
def test_the_sheets_of_lists_end_with_cancel_and_their_action(
    shop: Shop, path: str, action: str
) -> None:
    page = create_person(shop.api_server, shop.id, "owner").get(f"/dashboard/{shop.id}/{path}").text
    (foot,) = re.findall(r'<div class="modal-foot">(.*?)</div>', page, re.DOTALL)
    assert re.findall(r">([^<>\n]+)</button>", foot) == ["Cancel", action]


def test_browsers_check_only_forms_with_a_date_because_they_send_half_of_one_as_empty(
    shop: Shop,
) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    products = owner.get(f"/dashboard/{shop.id}/products").text
    forms = re.findall(r'<form\b[^>]*method="post"[^>]*>', products)
    assert forms
    assert all(" novalidate " in form for form in forms)
    keys = owner.get(f"/dashboard/{shop.id}/developers/keys").text
    (form,) = re.findall(rf'<form\b[^>]*action="/dashboard/{shop.id}/developers/keys"[^>]*>', keys)
    assert "novalidate" not in form
