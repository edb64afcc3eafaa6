"""The page of settings: the profile that customers see, the logo and the time zone."""

import re
from base64 import b64encode
from html import unescape
from typing import Any

import httpx2
import pytest

from dashboard.pages import hidden_field_values
from opentill import merchants
from opentill.people import MERCHANT_ROLES
from opentill.web import accent
from support.api_server import Shop
from support.people import PASSWORD, Visitor, create_person, heading_of
from support.pictures import PICTURE, jpeg, png
from support.spreadsheets import csv_rows

FORM = {
    "display_name": "Quay Press",
    "accent_color": "#FFff00",
    "support_email": "help@example.com",
    "support_url": "https://example.com/help",
    "terms_url": "https://example.com/terms?a=1&b=2",
    "time_zone": "Asia/Kathmandu",
}

# The end of each form's path, with its fields.
FORM_FIELDS = {
    "profile": ("display_name", "support_email", "support_url", "terms_url"),
    "branding/color": ("accent_color",),
    "time-zone": ("time_zone",),
}


def path_of(shop: Shop, subpage: str = "") -> str:
    return f"/dashboard/{shop.id}/settings{subpage}"


def read_page(visitor: Visitor, shop: Shop) -> str:
    """Return the pages of the settings, one after the other."""
    pages = [visitor.get(path_of(shop, part)) for part in ("/branding", "", "/fees")]
    for response in pages:
        assert response.status_code == 200
        assert not re.search(r"<script(?! src=)|\sstyle=|\son\w+=", response.text)
    return "".join(response.text for response in pages)


def hidden_value(page: str, name: str) -> str:
    (value,) = set(hidden_field_values(page, name))
    return value


def save(visitor: Visitor, shop: Shop, page: str, **changes: str) -> httpx2.Response:
    """Submit the forms of a page that have changed fields, until one is refused."""
    entries = {
        name: unescape(value)
        for name, value in re.findall(
            r'<input id="(\w+)" name="\w+" type="(?:text|email|url)"[^>]*?\svalue="([^"]*)"',
            page.partition('/settings/seller"')[0],
            re.DOTALL,
        )
    }
    assert set(entries) <= set(FORM)  # a refused form shows one page
    response = None
    for name, fields in FORM_FIELDS.items():
        if set(fields) & set(changes):
            form = {field: changes.get(field, entries[field]) for field in fields}
            form["version"] = hidden_value(page, "version")
            response = visitor.post(path_of(shop, f"/{name}"), form)
            if response.status_code != 303:
                break
            page = read_page(visitor, shop)
    assert response is not None
    return response


def upload(visitor: Visitor, shop: Shop, content: bytes, **fields: str) -> httpx2.Response:
    """Upload a file as a browser does, declared as SVG."""
    files: Any = {"logo": ("logo.svg", content, "image/svg+xml")}
    return visitor.http.post(path_of(shop, "/branding/logo"), data=fields, files=files)


def read_payment_page(shop: Shop, session: dict[str, Any]) -> httpx2.Response:
    return shop.api_server.http.get(f"/checkout/{session['id']}")


def test_customers_see_the_saved_profile(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    earlier_session = shop.create_session()
    assert "Need help?" not in read_payment_page(shop, earlier_session).text
    saved = save(ada, shop, read_page(ada, shop), **FORM)
    assert (saved.status_code, saved.headers["location"]) == (
        303,
        f"{path_of(shop)}?saved=zone-title#zone-title",
    )
    assert "The change is saved." in ada.get(saved.headers["location"]).text
    page = read_page(ada, shop)
    for name, value in FORM.items():
        stored_value = value.lower() if name == "accent_color" else value
        assert f'value="{stored_value.replace("&", "&amp;")}"' in page, name
    assert "In the light design it is shown as #999900" in page
    preview = ada.get(path_of(shop, "/branding/preview.svg?color=ffff00"))
    assert (preview.status_code, preview.headers["content-type"]) == (200, "image/svg+xml")
    assert ">Quay Press</text>" in preview.text
    assert ">Pay $42.00</text>" in preview.text
    assert 'fill="#999900"' in preview.text  # the button, darkened
    for color in ("", "FFFF00", "ffff0", "<script>"):
        assert ada.get(path_of(shop, f"/branding/preview.svg?color={color}")).status_code == 404

    customers_page = read_payment_page(shop, earlier_session)
    for text in (
        'href="mailto:help@example.com"',
        'href="https://example.com/help"',
        'href="https://example.com/terms?a=1&amp;b=2"',
        f'<link rel="stylesheet" href="{accent.address("#ffff00")}">',
    ):
        assert text in customers_page.text, text
    assert customers_page.headers["content-security-policy"].count("unsafe") == 0
    assert (
        "Quay Press" not in customers_page.text
    )  # a session keeps the name that it was opened with
    assert "Quay Press" in read_payment_page(shop, shop.create_session()).text
    stylesheet = ada.get(accent.address("#ffff00"))
    assert stylesheet.headers["cache-control"].endswith("immutable")
    assert "background:#999900;color:#000000" in stylesheet.text
    for path in ("/accents/ffff0.css", "/accents/ffff00.js", "/accents/FFFF00.css"):
        assert ada.get(path).status_code == 404
    assert ada.get("/accents/ffff00.css?v=old").headers["cache-control"] == "no-cache"


def test_all_pages_use_the_saved_time_zone(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    save(ada, shop, read_page(ada, shop), time_zone="Pacific/Chatham")
    ada.post(f"/dashboard/{shop.id}/team/invite", {"email": "x@example.com", "role": "viewer"})
    for path in ("", "/payments", "/developers/keys", "/team", "/agreement", "/balance/statement"):
        page = ada.get(f"/dashboard/{shop.id}{path}").text
        assert page.count("Times are in Pacific/Chatham") == 1, path
    assert '<option value="Pacific/Chatham">' in read_page(ada, shop)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("display_name", "x" * 81, "at most 80 characters"),
        ("accent_color", "gr<e>en", "six hexadecimal digits"),
        ("support_email", "help", "such as help@example.com"),
        ("support_url", "javascript:alert(1)", "such as https://example.com/help"),
        ("terms_url", "https://{x}", "such as https://example.com/terms"),
        ("time_zone", "Nowhere", "Choose a time zone from the list"),
    ],
)
def test_each_setting_shows_its_error_and_keeps_its_input(
    shop: Shop, name: str, value: str, error: str
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    fields = next(fields for fields in FORM_FIELDS.values() if name in fields)
    entries = {field: FORM[field] for field in fields} | {name: value}
    refusal = save(ada, shop, read_page(ada, shop), **entries)
    assert refusal.status_code == 400
    assert heading_of(refusal) == "Settings"
    (paragraph,) = re.findall(rf'id="{name}-error">(.*?)</p>', refusal.text, re.DOTALL)
    assert error in paragraph
    for field, text in entries.items():
        assert f'name="{field}"' in refusal.text
        assert text in unescape(refusal.text)
    assert ada.get(path_of(shop)).text.count("Quay Press") == 0


def test_a_stale_form_shows_the_stored_settings_next_to_its_input(shop: Shop) -> None:
    ada, bob = (create_person(shop.api_server, shop.id, "owner") for _ in range(2))
    adas_page, bobs_page = read_page(ada, shop), read_page(bob, shop)
    changes = {"display_name": "Of Ada", "time_zone": "Asia/Tokyo"}
    for _ in range(2):  # a double click submits the form twice
        assert save(ada, shop, adas_page, **changes).status_code == 303
    conflict = save(bob, shop, bobs_page, display_name="Of Bob")
    assert conflict.status_code == 409
    assert "Somebody else has changed the settings" in conflict.text
    assert 'value="Of Bob"' in conflict.text
    stored_settings = re.findall(r'id="(\w+)-saved">[^<]*<bdi>(.*?)</bdi>', conflict.text)
    assert dict(stored_settings) == {"display_name": "Of Ada"}
    assert 'value="Of Ada"' in read_page(ada, shop)
    assert save(bob, shop, conflict.text, display_name="Of Bob").status_code == 303
    assert 'value="Of Bob"' in read_page(ada, shop)
    sql = "select who, subject from audit_log where merchant_id = $1 and action = 'profile set'"
    rows = shop.api_server.sql(f"{sql} order by number", shop.id)
    assert rows == [
        {"who": f"{ada.email} ({ada.person_id})", "subject": "displayName: none → Of Ada"},
        {"who": f"{ada.email} ({ada.person_id})", "subject": "timeZone: UTC → Asia/Tokyo"},
        {"who": f"{bob.email} ({bob.person_id})", "subject": "displayName: Of Ada → Of Bob"},
    ]


def test_each_version_of_a_logo_has_its_own_url(shop: Shop) -> None:
    ada, session = create_person(shop.api_server, shop.id, "owner"), shop.create_session()
    for _ in range(2):  # a double click submits the form twice
        assert upload(ada, shop, PICTURE, seen="").status_code == 303
    (path,) = re.findall(r'<img class="shop-logo" src="([^"]+)" alt="">',
                         read_payment_page(shop, session).text)  # fmt: skip
    receipt = ada.get(f"/dashboard/{shop.id}/payments/{shop.create_paid_order()['id']}/receipt")
    assert f'<img class="receipt-logo" src="{path}" alt="">' in receipt.text
    preview = ada.get(path_of(shop, "/branding/preview.svg?color=ffff00"))
    assert f'href="data:image/png;base64,{b64encode(PICTURE).decode()}"' in preview.text
    logo = Visitor(shop.api_server).get(path)
    assert (logo.content, logo.headers["content-type"]) == (PICTURE, "image/png")
    for name, value in (
        ("cache-control", "public, max-age=31536000, immutable"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ):
        assert logo.headers[name] == value
    assert logo.headers["content-security-policy"].startswith("default-src 'none'")
    cached = Visitor(shop.api_server).get(path, headers={"if-none-match": logo.headers["etag"]})
    assert (cached.status_code, cached.content) == (304, b"")
    other_shop = shop.api_server.create_shop()
    for other_path in (path.replace(shop.id, other_shop.id), path[:-1], f"{path[:-64]}{'0' * 64}"):
        assert ada.get(other_path).status_code == 404

    seen_version = hidden_value(read_page(ada, shop), "seen")
    conflict = upload(ada, shop, jpeg(), seen="")
    assert conflict.status_code == 409
    assert "Somebody else has changed the logo" in conflict.text
    assert upload(ada, shop, jpeg(), seen=seen_version).status_code == 303
    assert ada.get(path).status_code == 404
    seen_after_upload = hidden_value(read_page(ada, shop), "seen")
    assert (
        ada.post(path_of(shop, "/branding/logo/remove"), {"seen": seen_version}).status_code == 409
    )
    assert (
        ada.post(path_of(shop, "/branding/logo/remove"), {"seen": seen_after_upload}).status_code
        == 303
    )
    assert "shop-logo" not in read_payment_page(shop, session).text


def test_the_color_can_be_previewed_without_script_and_without_saving(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    page = read_page(ada, shop)
    assert f'src="{path_of(shop, "/branding/preview.svg")}?color=0d5c49"' in page
    form = {"accent_color": "#FFff00"}
    shown = ada.post(path_of(shop, "/branding/preview"), form)
    assert shown.status_code == 200
    assert f'src="{path_of(shop, "/branding/preview.svg")}?color=ffff00"' in shown.text
    assert 'value="#FFff00"' in shown.text
    assert "In the light design it is shown as #999900" in shown.text
    assert "#ffff00" not in read_page(ada, shop).lower()
    refusal = ada.post(path_of(shop, "/branding/preview"), {"accent_color": "green"})
    assert refusal.status_code == 400
    assert 'id="accent_color-error"' in refusal.text


SELLER = {
    "legal_name": "Quay Press GmbH",
    "legal_address": "Quay 1\r\n28195 Bremen\r\n",
    "tax_number": "DE123456789",
    "tax_rate": "8,875 %",
}


def test_receipts_show_the_saved_seller_and_the_tax(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    order = shop.create_paid_order()
    receipt = f"/receipt/{order['checkoutSessionId']}"
    assert "Tax included" not in shop.api_server.http.get(receipt).text
    form = SELLER | {"version": hidden_value(read_page(ada, shop), "version")}
    assert ada.post(path_of(shop, "/seller"), form).status_code == 303
    page = read_page(ada, shop)
    for text in ("Quay 1\n28195 Bremen</textarea>", 'value="8.875"', 'value="Quay Press GmbH"'):
        assert text in page
    text = shop.api_server.http.get(receipt).text
    for part in ("Quay Press GmbH", "28195 Bremen", "Tax number: DE123456789"):
        assert f"<bdi>{part}</bdi>" in text
    assert "Tax included (8.875%)</dt><dd><bdi>$0.81</bdi>" in text
    assert "Amount excluding tax</dt><dd><bdi>$9.18</bdi>" in text
    stale = ada.post(path_of(shop, "/seller"), form | {"tax_number": "X"})
    assert stale.status_code == 409


@pytest.mark.parametrize(
    ("field", "value", "error"),
    [
        ("legal_name", "x" * 121, "at most 120 characters"),
        ("legal_address", "\n".join("1234567"), "at most six lines"),
        ("tax_number", "9" * 41, "at most 40 characters"),
        *(("tax_rate", rate, "from 0 to below 100") for rate in ("100", "-1", "0.19000", "much")),
    ],
)
def test_an_invalid_detail_of_the_seller_shows_its_error_at_the_field(
    shop: Shop, field: str, value: str, error: str
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    form = SELLER | {"version": hidden_value(read_page(ada, shop), "version"), field: value}
    refusal = ada.post(path_of(shop, "/seller"), form)
    assert refusal.status_code == 400
    (paragraph,) = re.findall(rf'id="{field}-error">(.*?)</p>', refusal.text, re.DOTALL)
    assert error in paragraph
    assert "Quay Press GmbH" in refusal.text or field == "legal_name"


@pytest.mark.parametrize(
    ("content", "status", "error"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 400, "SVG is not accepted"),
        (png(2049, 300), 400, "sides of 32 to 2048 pixels"),
        (PICTURE[:-9], 400, "damaged or incomplete"),
        (PICTURE + b"\0" * 262_144, 400, "256 kB at most"),
        (b"\0" * 3_000_000, 413, "256 kB at most"),
        (b"", 400, "Choose a picture first"),
    ],
)
def test_an_invalid_logo_shows_its_error_at_the_field(
    shop: Shop, content: bytes, status: int, error: str
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    refusal = upload(ada, shop, content, seen="")
    assert refusal.status_code == status
    (paragraph,) = re.findall(r'id="logo-error">(.*?)</p>', refusal.text, re.DOTALL)
    assert error in paragraph
    assert "No logo yet. Customers see an icon instead." in read_page(ada, shop)


@pytest.mark.parametrize("role", MERCHANT_ROLES[1:])
def test_only_an_owner_can_change_the_settings(shop: Shop, role: str) -> None:
    member = create_person(shop.api_server, shop.id, role)  # type: ignore[arg-type]
    pages = [page.split("</main>")[0] for page in read_page(member, shop).split("<main")[1:]]
    assert len(pages) == 3
    assert "<form" not in "".join(pages)
    assert "UTC" in pages[1]
    assert member.post(path_of(shop, "/profile"), FORM).status_code == 403
    assert upload(member, shop, PICTURE, seen="").status_code == 403


def test_a_file_submitted_after_the_login_ended_must_be_chosen_again(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    page = read_page(ada, shop)
    ada.post("/logout")
    form = {"form_person": ada.person_id, "seen": hidden_value(page, "seen")}
    kept_form = upload(ada, shop, PICTURE, **form)
    assert (kept_form.status_code, heading_of(kept_form)) == (401, "Please log in again")
    assert "Files and passwords are not kept" in kept_form.text
    login = {"login_email": ada.email, "login_password": PASSWORD}
    refusal = ada.post(path_of(shop, "/branding/logo"), form | login)
    assert refusal.status_code == 400
    assert "Choose a picture first" in refusal.text


def test_each_form_of_the_settings_changes_only_its_own_fields(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    save(ada, shop, read_page(ada, shop), display_name="Quay", accent_color="#ffff00")
    page = read_page(ada, shop)
    assert 'placeholder="Harbour Books"' in page
    form = {"version": hidden_value(page, "version"), "time_zone": "Europe/Berlin"}
    assert ada.post(path_of(shop, "/time-zone"), form).status_code == 303
    page = read_page(ada, shop)
    assert 'value="Quay"' in page
    assert 'value="#ffff00"' in page
    assert 'value="Europe/Berlin"' in page


def test_an_incomplete_form_leaves_the_stored_details_as_they_are(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    form = SELLER | {"version": hidden_value(read_page(ada, shop), "version")}
    assert ada.post(path_of(shop, "/seller"), form).status_code == 303
    version = hidden_value(read_page(ada, shop), "version")
    refusal = ada.post(
        path_of(shop, "/seller"), {"legal_name": "Other", "version": version}, complete=False
    )
    assert refusal.status_code == 400
    assert "without its field \u2068legal_address\u2069" in refusal.text
    page = read_page(ada, shop)
    assert hidden_value(page, "version") == version
    assert 'value="Quay Press GmbH"' in page


def test_the_list_of_payouts_is_a_file_with_the_same_filters(shop: Shop) -> None:
    owner = create_person(shop.api_server, shop.id, "owner")
    payout = shop.create_payout(500)
    path = f"/dashboard/{shop.id}/payouts"
    assert f'href="{path}.csv"' in owner.get(path).text
    (row,) = csv_rows(owner.get(f"{path}.csv"))
    assert (row["id"], row["status"], row["amount"]) == (payout.id, "PENDING", "5.00")
    assert csv_rows(owner.get(f"{path}.csv?status=PAID")) == []


def test_the_color_form_stores_the_default_only_if_it_replaces_another_color(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")

    def save_color(color: str) -> str | None:
        page = read_page(ada, shop)
        form = {"accent_color": color, "version": hidden_value(page, "version")}
        assert ada.post(path_of(shop, "/branding/color"), form).status_code == 303
        return shop.api_server.tx(lambda tx: merchants.find(tx, shop.id)).accent_color

    shown = re.search(r'id="accent_color"[^>]* value="([^"]*)"', read_page(ada, shop))
    assert shown is not None
    assert shown[1] == "#0d5c49"
    assert save_color(shown[1]) is None  # submitted untouched
    assert save_color("0D5C49") is None
    assert save_color("#aa0000") == "#aa0000"
    assert save_color("#0d5c49") == "#0d5c49"
    assert save_color("") is None


def test_the_details_that_a_real_shop_needs_are_named_until_they_are_there(shop: Shop) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")

    why = {
        "Customers need somebody to write to.": {"support_email"},
        "Receipts need the seller’s name and address.": {"legal_name", "legal_address"},
    }

    def missing() -> list[str]:
        box = ada.get(path_of(shop)).text.partition("Still missing for a real shop:")[2]
        names = set(re.findall(r'<a href="#(\w+)">', box.partition("</p>")[0]))
        for sentence, needed in why.items():
            assert (sentence in box) == bool(names & needed), (sentence, names)
        return re.findall(r'<a href="#(\w+)">', box.partition("</p>")[0])

    assert missing() == ["support_email", "legal_name", "legal_address"]
    form = SELLER | {"version": hidden_value(read_page(ada, shop), "version")}
    assert ada.post(path_of(shop, "/seller"), form).status_code == 303
    assert missing() == ["support_email"]
    assert save(ada, shop, read_page(ada, shop), support_email="a@example.com").status_code == 303
    assert missing() == []
    assert "Still missing" not in ada.get(path_of(shop)).text


def test_the_current_page_of_the_settings_is_marked_and_an_error_stays_on_its_page(
    shop: Shop,
) -> None:
    ada = create_person(shop.api_server, shop.id, "owner")
    for part, title in (("", "Business"), ("/branding", "Branding"), ("/fees", "Fees and payouts")):
        page = ada.get(path_of(shop, part)).text.partition("<main")[2]
        assert re.findall(r'aria-current="true">(.*?)</a>', page) == [title]
    form = {"accent_color": "green", "version": hidden_value(read_page(ada, shop), "version")}
    refusal = ada.post(path_of(shop, "/branding/color"), form).text.partition("<main")[2]
    assert re.findall(r'aria-current="true">(.*?)</a>', refusal) == ["Branding"]
    reopened = ada.get(path_of(shop, "/branding/color"))
    assert reopened.headers["location"] == path_of(shop, "/branding")
