"""The payment page has valid markup and the right texts in each state and language."""

import re
from html.parser import HTMLParser
from typing import get_args
from zoneinfo import ZoneInfo

import msgspec
import pytest

from opentill.core import hostnames
from opentill.core.languages import Language, offered
from opentill.core.links import safe_url
from opentill.core.money import Money
from opentill.pages import model
from opentill.pages.labels import DECLINE_REASON
from opentill.pages.model import Item, decline_of, state_of
from opentill.pages.render import (
    POLLS_S,
    Visit,
    continue_page,
    open_page,
    status_page,
    trouble_page,
)
from opentill.pages.responses import page
from opentill.web import assets, declines
from opentill.web.language import Localizer
from opentill.web.responses import Trouble
from opentill.web.translations import translate
from support.page_examples import (
    ATTEMPT,
    HOSTILE,
    HOSTILE_PAYMENT,
    MINUTE,
    NOW,
    PAYMENT,
    render_pages,
)

ENGLISH = Localizer("customer", "en")
PAGES = sorted(render_pages(ENGLISH))
VOID_ELEMENTS = {"meta", "link", "input", "img", "br"}
ALLOWED_ELEMENTS = {
    *("html", "head", "meta", "title", "link", "body", "a", "div", "header", "main", "footer"),
    *("nav", "section", "p", "span", "bdi", "h1", "h2", "ul", "li", "form", "input", "label"),
    *("fieldset", "legend", "img", "button", "small", "time", "dl", "dt", "dd", "code"),
    *("details", "summary", "aside"),
}


class Reader(HTMLParser):
    """Parses a page into elements and text, and checks that elements are closed."""

    def __init__(self, html: str) -> None:
        """Parse ``html``."""
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Store an element."""
        assert len({name for name, _ in attrs}) == len(attrs), f"{tag} has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Check that the closed element is the innermost open one."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Collect the text."""
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of each element of a kind."""
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("language", offered("customer"))
def test_every_page_has_valid_markup_in_its_language(name: str, language: Language) -> None:
    html = render_pages(Localizer("customer", language))[name].html
    reader = Reader(html)
    assert reader.open == []
    assert reader.all("html") == [{"lang": language, "dir": "ltr"}]
    assert len(reader.all("main")) == len(reader.all("h1")) == len(reader.all("title")) == 1
    assert {tag for tag, _ in reader.elements} <= ALLOWED_ELEMENTS
    ids = [attrs["id"] for _, attrs in reader.elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    for _, attrs in reader.elements:
        assert not any(attr.startswith("on") or attr == "style" for attr in attrs)
        for target in (attrs.get("aria-describedby") or "").split():
            assert target in ids
        if (attrs.get("href") or "").startswith("#"):
            assert (attrs["href"] or "")[1:] in ids
        if "for" in attrs:
            assert attrs["for"] in ids
    assert all("alt" in attrs for attrs in reader.all("img"))
    assert "{" not in reader.text
    language_choices = [attrs for attrs in reader.all("a") if "hreflang" in attrs]
    current_languages = [each["hreflang"] for each in language_choices if "aria-current" in each]
    language_links = [each["href"] for each in language_choices]
    # Following a link to another language would lose the submission.
    if name == "submission-refused":
        assert (current_languages, language_links) == ([], [])
    else:
        assert current_languages == [language]
        assert language_links == [f"?lang={tag}" for tag in offered("customer")]


@pytest.mark.parametrize("name", PAGES)
def test_pages_load_nothing_from_other_origins_and_have_no_card_field(name: str) -> None:
    html = render_pages(ENGLISH)[name].html
    reader = Reader(html)
    loaded = [attrs.get("src") for attrs in reader.all("img")]
    loaded += [attrs.get("href") for attrs in reader.all("link")]
    assert all((address or "").startswith(("/static/", "/checkout/")) for address in loaded)
    assert "cc-" not in html
    assert "password" not in html


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("language", offered("customer"))
def test_hostile_text_is_escaped(name: str, language: Language) -> None:
    reader = Reader(render_pages(Localizer("customer", language), HOSTILE_PAYMENT)[name].html)
    assert {tag for tag, _ in reader.elements} <= ALLOWED_ELEMENTS
    assert reader.open == []
    for _, attrs in reader.elements:
        assert not any(attr.startswith("on") for attr in attrs)
        for attr in ("href", "src", "content", "action"):
            assert "javascript:" not in (attrs.get(attr) or "")
            assert "x.example" not in (attrs.get(attr) or "")
    if name == "open":
        assert HOSTILE in reader.text
        assert "49" not in reader.text


def test_titles_contain_no_bidirectional_overrides() -> None:
    for rendered in render_pages(ENGLISH, HOSTILE_PAYMENT).values():
        title = re.search("<title>(.*?)</title>", rendered.html, re.DOTALL)
        assert title
        assert not re.search("[\u202a-\u202e\u2066\u2067\u200e\u200f]", title[1])
        assert title[1].count("\u2068") == title[1].count("\u2069")


def test_the_form_has_fields_for_e_mail_name_and_method_only() -> None:
    reader = Reader(render_pages(ENGLISH)["open"].html)
    fields = {attrs["name"]: attrs for attrs in reader.all("input") if attrs["type"] != "radio"}
    assert set(fields) == {"lang", "email", "name"}
    assert fields["email"]["autocomplete"] == fields["email"]["type"] == "email"
    assert fields["email"]["value"] == "maria@example.com"
    assert "required" in fields["email"]
    assert fields["name"]["autocomplete"] == "name"
    assert "required" not in fields["name"]
    radios = [attrs for attrs in reader.all("input") if attrs["type"] == "radio"]
    assert tuple(attrs["value"] for attrs in radios) == model.METHODS
    assert ["checked" in attrs for attrs in radios] == [True] + [False] * 5
    assert "Pay $9.99" in reader.text
    assert "Cancel and return to Harbour Books" in reader.text


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (23 * 60, ""),  # so long a time is no limit for anybody
        (19 * 60, "Time left to pay: 19 hours"),
        (30, "Time left to pay: 30 minutes"),
    ],
)
def test_the_form_says_how_long_it_can_be_paid_if_that_is_soon(minutes: int, text: str) -> None:
    payment = msgspec.structs.replace(
        PAYMENT, expires_at=NOW + minutes * MINUTE, zone=ZoneInfo("Asia/Shanghai")
    )
    html = open_page(payment, Visit(localizer=ENGLISH, now=NOW)).html
    reader = Reader(html)
    assert len(reader.all("time")) == ("Time left" in html) == bool(text)
    assert text in reader.text
    if minutes == 30:
        assert "until 12:30\u202fPM Asia/Shanghai" in reader.text


def test_a_card_is_named_by_its_brand_and_last_digits_once_it_paid() -> None:
    paid = msgspec.structs.replace(
        PAYMENT,
        order_status="PAID",
        paid_at=NOW,
        method="CREDIT_CARD",
        card="Visa •••• 4242",
        zone=ZoneInfo("Asia/Shanghai"),
    )
    text = Reader(status_page(paid, Visit(localizer=ENGLISH, now=NOW), "paid").html).text
    assert "Visa •••• 4242" in text
    assert "Nov 21, 2026, 12:00\u202fPM (Asia/Shanghai)" in text


def test_a_payment_link_shows_the_total_of_the_chosen_quantity_and_leads_to_others() -> None:
    html = render_pages(ENGLISH)["link-many"].html
    reader = Reader(html)
    assert "$29.97" in reader.text
    assert "3 × $9.99" in reader.text
    buttons = [attrs for attrs in reader.all("a") if attrs.get("class") == "quantity-button"]
    assert [(button["aria-label"], (button["href"] or "")[-10:]) for button in buttons] == [
        ("One less", "quantity=2"),
    ]  # three are the most


def test_a_session_without_a_cancel_url_has_no_cancel_link() -> None:
    payment = msgspec.structs.replace(PAYMENT, cancel_url=None)
    assert "Cancel" not in open_page(payment, Visit(localizer=ENGLISH, now=NOW)).html


def test_errors_are_shown_on_top_and_at_the_field() -> None:
    html = render_pages(ENGLISH)["errors"].html
    reader = Reader(html)
    assert "<title>Error:" in html
    links = [attrs["href"] for attrs in reader.all("a")]
    assert {"#email", "#method"} <= set(links)
    (email,) = (attrs for attrs in reader.all("input") if attrs["name"] == "email")
    assert email["aria-invalid"] == "true"
    assert email["aria-describedby"] == "email-error"


# Each row: page, seconds until it refreshes (None: never), address to which it refreshes.
REFRESHES = [
    ("continue", 0, "https://bank.example/pay/abc"),
    ("waiting", 2, f"/checkout/{PAYMENT.session_id}?lang=en&amp;n=1"),
    ("paid", 5, f"https://shop.example/thanks?session={PAYMENT.session_id}"),
    ("qr", 3, f"/checkout/{PAYMENT.session_id}/continue/{ATTEMPT.id}?lang=en&amp;n=1"),
    (
        "deposit",
        3,
        f"/checkout/{PAYMENT.session_id}/continue/{ATTEMPT.id}?lang=en&amp;token=USDT&amp;n=1",
    ),
    *(
        (name, None, None)
        for name in PAGES
        if name not in {"continue", "waiting", "paid", "qr", "deposit"}
    ),
]


@pytest.mark.parametrize(("name", "after_s", "address"), REFRESHES)
def test_only_pages_that_wait_or_redirect_refresh_automatically(
    name: str, after_s: int | None, address: str | None
) -> None:
    html = render_pages(ENGLISH)[name].html
    refreshes = re.findall(r'http-equiv="refresh" content="(.*?)"', html)
    assert refreshes == ([] if address is None else [f"{after_s};url={address}"])


def test_automatic_refreshes_can_be_stopped() -> None:
    visit = Visit(localizer=ENGLISH, now=NOW, hold=True)
    assert "refresh" not in status_page(PAYMENT, visit, "waiting").html
    assert "refresh" not in status_page(PAYMENT, visit, "paid").html


def test_the_waiting_page_reloads_less_and_less_often() -> None:
    delays = []
    for checks in (*range(20), 9999):
        visit = Visit(localizer=ENGLISH, now=NOW, checks=checks)
        refresh = re.search(r'content="(\d+);', status_page(PAYMENT, visit, "waiting").html)
        assert refresh
        delays.append(int(refresh[1]))
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (2, POLLS_S[-1])


PICTURES = [
    # Each row: image, public URL, the image's origin in the content security policy.
    (None, "https://pay.example", ""),
    ("https://cdn.example/a.png", "https://pay.example", " https://cdn.example"),
    ("https://CDN.example:8443/a.png?x=1", "https://pay.example", " https://cdn.example:8443"),
    ("http://cdn.example/a.png", "https://pay.example", ""),
    ("http://cdn.example/a.png", "http://127.0.0.1:8080", " http://cdn.example"),
    ("data:image/png;base64,AAAA", "https://pay.example", ""),
    ("javascript:alert(1)", "https://pay.example", ""),
    ("https://x;script-src 'unsafe-inline'", "https://pay.example", ""),
    ("https://x,y.example/a.png", "https://pay.example", ""),
    ("https://user:pw@cdn.example/a.png", "https://pay.example", ""),
    ("https://*/a.png", "https://pay.example", ""),
    ("https://*.example/a.png", "https://pay.example", ""),
    ("https://例え.jp/a.png", "https://pay.example", " https://xn--r8jz45g.jp"),
    ("https://faß.de/a.png", "https://pay.example", " https://xn--fa-hia.de"),
    ("https://☕.example/a.png", "https://pay.example", ""),
    ("https://[2001:db8::1]/a.png", "https://pay.example", ""),
    (f"https://{'x' * 64}.example/a.png", "https://pay.example", ""),
]


@pytest.mark.parametrize(("image", "public_url", "allowed"), PICTURES)
def test_the_content_security_policy_allows_only_the_origin_of_the_picture(
    image: str | None, public_url: str, allowed: str
) -> None:
    payment = msgspec.structs.replace(PAYMENT, item=Item("Tea", "", image))
    rendered = open_page(payment, Visit(localizer=ENGLISH, now=NOW, public_url=public_url))
    response = page(rendered, "en")
    assert response.headers["content-security-policy"] == (
        f"default-src 'none'; style-src 'self'; font-src 'self'; img-src 'self'{allowed}; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    pictures = [attrs for attrs in Reader(rendered.html).all("img") if "referrerpolicy" in attrs]
    expected_sources = [hostnames.with_ascii_host(image)] if image and allowed else []
    assert [attrs["src"] for attrs in pictures] == expected_sources
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["referrer-policy"] == "same-origin"
    assert response.headers["x-frame-options"] == "DENY"
    assert response.headers["content-language"] == "en"
    assert "permissions-policy" in response.headers


# Each row: statuses of order and session, minutes until the session expires, status of the attempt
# (None: no attempt), page.
STATES = [
    ("PENDING", "OPEN", 1, None, "open"),
    ("PENDING", "OPEN", 1, "ACTION_REQUIRED", "open"),
    ("PENDING", "OPEN", 1, "DECLINED", "open"),
    ("PENDING", "OPEN", 1, "PENDING", "waiting"),
    ("PENDING", "OPEN", 0, None, "expired"),
    ("PENDING", "OPEN", 0, "PENDING", "waiting"),
    ("PENDING", "EXPIRED", 1, None, "expired"),
    ("CREATING", "OPEN", 1, "SUBMITTED", "waiting"),
    ("CREATING", "OPEN", 0, "SUBMITTED", "waiting"),
    ("PAID", "COMPLETE", 0, "SUCCEEDED", "paid"),
    ("PAID", "EXPIRED", 0, "SUCCEEDED", "paid"),
    ("SETTLED", "COMPLETE", 0, "SUCCEEDED", "paid"),
    ("DISPUTED", "COMPLETE", 0, "SUCCEEDED", "paid"),
    ("REFUNDED", "COMPLETE", 0, "SUCCEEDED", "refunded"),
    ("CHARGEBACK", "COMPLETE", 0, "SUCCEEDED", "refunded"),
    ("CLOSED", "EXPIRED", 0, None, "expired"),
    ("CLOSED", "OPEN", 1, None, "closed"),
    ("FAILED", "EXPIRED", 1, "REFUSED", "failed"),
    ("REVOKED", "EXPIRED", 1, "VOIDED", "revoked"),
]


@pytest.mark.parametrize(("order", "session", "minutes", "attempt", "state"), STATES)
def test_the_statuses_of_order_session_and_attempt_decide_the_page(
    order: str, session: str, minutes: int, attempt: str | None, state: str
) -> None:
    last_attempt = attempt and msgspec.structs.replace(ATTEMPT, status=attempt)
    payment = msgspec.structs.replace(
        PAYMENT,
        order_status=order,
        session_status=session,
        expires_at=NOW + minutes * MINUTE,
        attempt=last_attempt or None,
    )
    assert state_of(payment, NOW) == state


@pytest.mark.parametrize("language", offered("customer"))
@pytest.mark.parametrize("code", [*declines.DECLINES, "never_heard_of", ""])
def test_each_decline_has_a_text_in_every_language(code: str, language: Language) -> None:
    declined_attempt = msgspec.structs.replace(ATTEMPT, status="DECLINED", reason=code)
    payment = msgspec.structs.replace(PAYMENT, attempt=declined_attempt)
    text = Reader(
        open_page(payment, Visit(localizer=Localizer("customer", language), now=NOW)).html
    ).text
    assert (
        translate("customer", language, DECLINE_REASON[declines.DECLINES.get(code, "declined")])
        in text
    )
    assert "_" not in code or code not in text


def test_only_a_declined_attempt_is_called_declined() -> None:
    assert decline_of(PAYMENT) is None
    assert decline_of(msgspec.structs.replace(PAYMENT, attempt=ATTEMPT)) is None


ADDRESSES = [
    ("https://a.example/x?y=1#z", True),
    ("http://127.0.0.1:8080/", True),
    (None, False),
    ("", False),
    ("//a.example", False),
    ("javascript:alert(1)", False),
    ("data:text/html,x", False),
    ("https://u:p@a.example", False),
    ("https://a.example:port/", False),
    ('https://a.example/"onload=', False),
    ("https://a.example/\u202e", False),
    ("https://a.example/ b", False),
    ("https://[::1/", False),
]


@pytest.mark.parametrize(("text", "accepted"), ADDRESSES)
def test_only_plain_web_addresses_become_links(text: str | None, accepted: bool) -> None:
    assert safe_url(text) == (text if accepted else None)


def test_the_domain_of_a_link_is_converted_to_ascii() -> None:
    assert safe_url("https://faß.de/道") == "https://xn--fa-hia.de/道"


def test_the_page_of_a_paid_session_masks_the_e_mail_address() -> None:
    text = Reader(render_pages(ENGLISH)["paid"].html).text
    assert "m•••@example.com" in text
    assert "maria@" not in text


def test_links_start_with_the_path_of_the_public_url() -> None:
    visit = Visit(localizer=ENGLISH, now=NOW, public_url="https://example.com/pay")
    reader = Reader(continue_page(PAYMENT, visit, ATTEMPT).html)
    own_links = [attrs["href"] for attrs in reader.all("link")]
    own_links += [
        attrs["href"] for attrs in reader.all("a") if "/checkout/" in (attrs["href"] or "")
    ]
    assert own_links
    assert all((address or "").startswith("/pay/") for address in own_links)


def test_every_page_of_a_payment_shows_the_merchant_s_branding() -> None:
    brand = model.Brand(
        logo="/logos/mer_x/5d",
        accent="#0d5c49",
        email="help+a&b@example.com",
        url="https://shop.example/help",
        terms="https://shop.example/terms",
    )
    pages = render_pages(
        ENGLISH, msgspec.structs.replace(PAYMENT, brand=brand), "https://example.com/pay"
    )
    payment_pages = [page.html for page in pages.values() if 'class="shop"' in page.html]
    assert len(payment_pages) > 10
    for html in payment_pages:
        reader = Reader(html)
        assert next(attrs["src"] for attrs in reader.all("img") if attrs["alt"] == "") == (
            "/pay/logos/mer_x/5d"
        )
        sheets = [attrs["href"] or "" for attrs in reader.all("link")]
        assert sheets[-1].startswith("/pay/accents/0d5c49.css?v=")
        links = [attrs["href"] for attrs in reader.all("a")]
        assert {"mailto:help%2Ba%26b@example.com", brand.url, brand.terms} <= set(links)
    page_without_brand = render_pages(ENGLISH)["open"].html
    assert "contact" not in page_without_brand
    assert "/accents/" not in page_without_brand


def test_the_page_of_a_paid_session_shows_a_partial_refund() -> None:
    paid = msgspec.structs.replace(PAYMENT, order_status="PAID", refunded=Money(100, "USD"))
    text = Reader(status_page(paid, Visit(localizer=ENGLISH, now=NOW), "paid").html).text
    assert "Refunded" in text
    assert "$1.00" in text


@pytest.mark.parametrize("language", offered("customer"))
def test_pages_of_test_mode_are_marked_and_others_are_not(language: Language) -> None:
    badge = translate("customer", language, "Test mode – no real money")
    localizer = Localizer("customer", language)
    for livemode in (True, False):
        visit = Visit(localizer=localizer, now=NOW, test_mode=not livemode)
        pages = render_pages(localizer, msgspec.structs.replace(PAYMENT, livemode=livemode))
        pages |= {name: trouble_page(name, visit) for name in get_args(Trouble)}
        for name, rendered in pages.items():
            reader = Reader(rendered.html)
            is_marked = not livemode or name == "test-mode"
            assert reader.text.count(badge) == is_marked, name
            if is_marked:  # the mark is a labeled landmark after the skip link
                (aside,) = reader.all("aside")
                assert aside["aria-labelledby"] in {attrs.get("id") for attrs in reader.all("p")}
                assert rendered.html.index('class="skip"') < rendered.html.index("<aside")


def test_a_payment_of_live_mode_is_not_marked_after_a_change_to_test_mode() -> None:
    visit = Visit(localizer=ENGLISH, now=NOW, test_mode=True)
    live_payment = msgspec.structs.replace(PAYMENT, livemode=True)
    assert "Test mode – no real money" not in status_page(live_payment, visit, "paid").html


def test_fonts_with_chinese_characters_are_used_only_for_chinese_and_japanese_pages() -> None:
    """Their apostrophes are as wide as a Chinese character and split English words."""
    style = assets.ASSETS["pages.css"].body.decode()
    wide = re.compile("CJK|PingFang|YaHei|JhengHei|Hiragino|Yu Gothic|Meiryo")
    for rule, fonts in re.findall(r"([^{}]+)\{[^{}]*?--sans:([^;]+);", style):
        language = re.search(r":lang\((zh-Han[st]|ja)\)", rule)
        assert bool(wide.search(fonts)) == bool(language), rule
    assert wide.search(style)
