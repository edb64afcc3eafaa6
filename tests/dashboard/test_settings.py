"""The page of the settings: who changes what customers see, and that nothing typed is lost."""

import re
from html import unescape
from typing import Any

import httpx2
import pytest

from opentill.people import MERCHANT_ROLES
from opentill.web import accent
from support.api_server import Shop
from support.people import PASSWORD, Visitor, person, title
from support.pictures import PICTURE, jpeg, png

FORM = {
    "display_name": "Quay Press",
    "accent_color": "#FFff00",
    "support_email": "help@example.com",
    "support_url": "https://example.com/help",
    "terms_url": "https://example.com/terms?a=1&b=2",
    "time_zone": "Asia/Kathmandu",
}


def place(shop: Shop, below: str = "") -> str:
    return f"/dashboard/{shop.id}/settings{below}"


def shown(visitor: Visitor, shop: Shop) -> str:
    response = visitor.get(place(shop))
    assert response.status_code == 200
    assert not re.search(r"<script|\sstyle=|\son\w+=", response.text)
    return response.text


def hidden(page: str, name: str) -> str:
    (value,) = set(re.findall(rf'name="{name}" value="([^"]*)"', page))
    return str(value)


def save(visitor: Visitor, shop: Shop, page: str, **changes: str) -> httpx2.Response:
    """Send the form of a page, with what it shows but for the changes."""
    form = {
        name: unescape(value)
        for name, value in re.findall(
            r'<input id="(\w+)" name="\w+" type="(?:text|email|url)"[^>]*?\svalue="([^"]*)"',
            page,
            re.DOTALL,
        )
    }
    assert set(form) == set(FORM)
    form["version"] = hidden(page, "version")
    return visitor.post(place(shop, "/profile"), form | changes)


def upload(visitor: Visitor, shop: Shop, content: bytes, **fields: str) -> httpx2.Response:
    """Send a file as a browser does, whatever it says that it is."""
    files: Any = {"logo": ("logo.svg", content, "image/svg+xml")}
    return visitor.http.post(place(shop, "/logo"), data=fields, files=files)


def payment_page(shop: Shop, session: dict[str, Any]) -> httpx2.Response:
    return shop.api_server.http.get(f"/checkout/{session['id']}")


def test_what_an_owner_saves_is_what_customers_see(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    before = shop.session()
    assert "Need help?" not in payment_page(shop, before).text
    saved = save(ada, shop, shown(ada, shop), **FORM)
    assert (saved.status_code, saved.headers["location"]) == (303, f"{place(shop)}?saved=1")
    assert "The change is saved." in ada.get(saved.headers["location"]).text
    page = shown(ada, shop)
    for name, value in FORM.items():
        kept = value.lower() if name == "accent_color" else value
        assert f'value="{kept.replace("&", "&amp;")}"' in page, name
    assert "In the light design it is shown as #999900" in page
    drawn = ada.get(accent.address("#ffff00", "svg"))
    assert (drawn.status_code, drawn.headers["content-type"]) == (200, "image/svg+xml")

    customers = payment_page(shop, before)
    for text in (
        'href="mailto:help@example.com"',
        'href="https://example.com/help"',
        'href="https://example.com/terms?a=1&amp;b=2"',
        f'<link rel="stylesheet" href="{accent.address("#ffff00")}">',
    ):
        assert text in customers.text, text
    assert customers.headers["content-security-policy"].count("unsafe") == 0
    assert "Quay Press" not in customers.text  # it was opened under the name before
    assert "Quay Press" in payment_page(shop, shop.session()).text
    sheet = ada.get(accent.address("#ffff00"))
    assert sheet.headers["cache-control"].endswith("immutable")
    assert "background:#999900;color:#000000" in sheet.text
    for wrong in ("/accents/ffff0.css", "/accents/ffff00.js", "/accents/FFFF00.css"):
        assert ada.get(wrong).status_code == 404
    assert ada.get("/accents/ffff00.css?v=old").headers["cache-control"] == "no-cache"


def test_all_pages_follow_the_zone(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    save(ada, shop, shown(ada, shop), time_zone="Pacific/Chatham")
    ada.post(f"/dashboard/{shop.id}/team/invite", {"email": "x@example.com", "role": "viewer"})
    for below in ("", "/team", "/agreement"):
        page = ada.get(f"/dashboard/{shop.id}{below}").text
        assert "Days and times are those of Pacific/Chatham" in page, below
    assert '<option value="Pacific/Chatham">' in shown(ada, shop)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("display_name", "x" * 81, "at most 80 characters"),
        ("accent_color", "gr<e>en", "six hexadecimal digits"),
        ("support_email", "help", "such as help@example.com"),
        ("support_url", "javascript:alert(1)", "such as https://example.com/help"),
        ("terms_url", "https://{x}", "such as https://example.com/terms"),
        ("time_zone", "Nowhere", "Choose a time zone from the list"),
    ],
)
def test_what_is_wrong_is_said_at_its_field_and_all_that_was_typed_stays(
    shop: Shop, name: str, value: str, sentence: str
) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    typed = FORM | {name: value}
    refused = save(ada, shop, shown(ada, shop), **typed)
    assert refused.status_code == 400
    assert title(refused) == "Settings"
    (error,) = re.findall(rf'id="{name}-error">(.*?)</p>', refused.text, re.DOTALL)
    assert sentence in error
    for field, text in typed.items():
        assert f'name="{field}"' in refused.text
        assert text in unescape(refused.text)
    assert ada.get(place(shop)).text.count("Quay Press") == 0


def test_what_somebody_else_has_saved_meanwhile_is_shown_beside_what_was_typed(shop: Shop) -> None:
    ada, bob = (person(shop.api_server, shop.id, "owner") for _ in range(2))
    first, second = shown(ada, shop), shown(bob, shop)
    assert save(ada, shop, first, display_name="Of Ada", time_zone="Asia/Tokyo").status_code == 303
    assert save(ada, shop, first, display_name="Of Ada", time_zone="Asia/Tokyo").status_code == 303
    refused = save(bob, shop, second, display_name="Of Bob")
    assert refused.status_code == 409
    assert "Somebody else has changed the settings" in refused.text
    assert 'value="Of Bob"' in refused.text
    saved = re.findall(r'id="(\w+)-saved">[^<]*<bdi>(.*?)</bdi>', refused.text)
    assert saved == [("display_name", "Of Ada"), ("time_zone", "Asia/Tokyo")]
    assert 'value="Of Ada"' in shown(ada, shop)
    assert save(bob, shop, refused.text, time_zone="Asia/Tokyo").status_code == 303
    assert 'value="Of Bob"' in shown(ada, shop)
    sql = "select who, subject from audit_log where merchant_id = $1 and action = 'profile set'"
    rows = shop.api_server.sql(f"{sql} order by number", shop.id)
    assert rows == [
        {
            "who": f"{ada.email} ({ada.person_id})",
            "subject": "displayName: none → Of Ada, timeZone: UTC → Asia/Tokyo",
        },
        {"who": f"{bob.email} ({bob.person_id})", "subject": "displayName: Of Ada → Of Bob"},
    ]


def test_a_logo_is_served_from_an_address_of_its_own_that_never_changes(shop: Shop) -> None:
    ada, session = person(shop.api_server, shop.id, "owner"), shop.session()
    assert upload(ada, shop, PICTURE, seen="").status_code == 303
    assert upload(ada, shop, PICTURE, seen="").status_code == 303  # a double click
    (path,) = re.findall(r'<img class="shop-logo" src="([^"]+)" alt="">',
                         payment_page(shop, session).text)  # fmt: skip
    served = Visitor(shop.api_server).get(path)
    assert (served.content, served.headers["content-type"]) == (PICTURE, "image/png")
    for name, value in (
        ("cache-control", "public, max-age=31536000, immutable"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ):
        assert served.headers[name] == value
    assert served.headers["content-security-policy"].startswith("default-src 'none'")
    again = Visitor(shop.api_server).get(path, headers={"if-none-match": served.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = shop.api_server.shop()
    for wrong in (path.replace(shop.id, other.id), path[:-1], f"{path[:-64]}{'0' * 64}"):
        assert ada.get(wrong).status_code == 404

    seen = hidden(shown(ada, shop), "seen")
    stale = upload(ada, shop, jpeg(), seen="")
    assert stale.status_code == 409
    assert "Somebody else has changed the logo" in stale.text
    assert upload(ada, shop, jpeg(), seen=seen).status_code == 303
    assert ada.get(path).status_code == 404
    newest = {"seen": hidden(shown(ada, shop), "seen")}
    assert ada.post(place(shop, "/logo/remove"), {"seen": seen}).status_code == 409
    assert ada.post(place(shop, "/logo/remove"), newest).status_code == 303
    assert "shop-logo" not in payment_page(shop, session).text


@pytest.mark.parametrize(
    ("content", "status", "sentence"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 400, "SVG is not accepted"),
        (png(2049, 300), 400, "sides of 32 to 2048 pixels"),
        (PICTURE[:-9], 400, "damaged or incomplete"),
        (PICTURE + b"\0" * 262_144, 400, "256 kB at most"),
        (b"\0" * 3_000_000, 413, "256 kB at most"),
        (b"", 400, "Choose a picture first"),
    ],
)
def test_what_is_no_logo_is_refused_at_its_field(
    shop: Shop, content: bytes, status: int, sentence: str
) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    refused = upload(ada, shop, content, seen="")
    assert refused.status_code == status
    (error,) = re.findall(r'id="logo-error">(.*?)</p>', refused.text, re.DOTALL)
    assert sentence in error
    assert "There is none." in shown(ada, shop)


@pytest.mark.parametrize("role", MERCHANT_ROLES[1:])
def test_all_others_see_it_and_change_nothing(shop: Shop, role: str) -> None:
    member = person(shop.api_server, shop.id, role)  # type: ignore[arg-type]
    page = shown(member, shop).split("<main")[1]
    assert "<form" not in page
    assert "UTC" in page
    assert member.post(place(shop, "/profile"), FORM).status_code == 403
    assert upload(member, shop, PICTURE, seen="").status_code == 403


def test_a_file_that_comes_after_the_login_has_ended_is_asked_for_again(shop: Shop) -> None:
    ada = person(shop.api_server, shop.id, "owner")
    page = shown(ada, shop)
    ada.post("/logout")
    sender = {"form_person": ada.person_id, "seen": hidden(page, "seen")}
    kept = upload(ada, shop, PICTURE, **sender)
    assert (kept.status_code, title(kept)) == (401, "Please log in again")
    assert "Files and passwords are not kept" in kept.text
    login = {"login_email": ada.email, "login_password": PASSWORD}
    asked = ada.post(place(shop, "/logo"), sender | login)
    assert asked.status_code == 400
    assert "Choose a picture first" in asked.text
