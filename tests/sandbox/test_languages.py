"""The bank speaks the language of the shop's page, otherwise that of the browser."""

import re

import pytest

from opentill.core.money import Money
from opentill.pages.catalogue import SENTENCES as PAGE_SENTENCES
from opentill.sandbox import amounts
from opentill.sandbox.cards import TEST_CARDS
from opentill.sandbox.catalogue import SENTENCES
from opentill.sandbox.language import choose
from opentill.web import language as page_language
from support.sandbox_bank import Shop

LATIN = re.compile(r">([^<]*[A-Za-z]{2,}[^<]*)<")
# What stands on a Chinese page in Latin letters: names, codes, what the shop calls its things.
NAMES = ("3-D Secure", "PayNow", "MM/YY", "QR", "Mugs", "EUR")


@pytest.mark.parametrize(
    ("locale", "accepted", "language"),
    [
        ("zh-Hans", "en", "zh-Hans"),
        ("zh-Hant", "en", "zh-Hant"),
        ("zh-HK", "en", "zh-Hant"),
        ("zh", "en", "zh-Hans"),
        ("en", "zh-CN", "en"),
        ("en-GB", "zh-CN", "en"),
        ("", "zh-CN,zh;q=0.9", "zh-Hans"),
        ("", "zh-TW,en;q=0.5", "zh-Hant"),
        ("", "zh-Hans-HK", "zh-Hans"),
        ("", "en;q=0.2,zh-CN", "zh-Hans"),
        ("", "fr, zh;q=0.5", "zh-Hans"),
        ("de-DE", "zh-CN", "zh-Hans"),
        ("", "fr", "en"),
        ("", "", "en"),
        ("", "zh;q=0, en;q=x", "en"),
    ],
)
def test_the_shops_page_decides_and_otherwise_the_browser(
    locale: str, accepted: str, language: str
) -> None:
    assert choose(locale, accepted).language == language


# What the payment page hands over, and what the browser accepts.
AMOUNTS = [
    ("en", "en-GB,en;q=0.9"), ("en", "en-US"), ("en", "en"), ("en", "fr"), ("en", "de-GB, en-AU"),
    ("en", "en, en-GB;q=0.9"), ("en", "zh-HK"), ("zh-Hans", "zh-CN"), ("zh-Hans", "zh-SG, en-GB"),
    ("zh-Hant", "zh-HK"), ("zh-Hant", "zh-TW"), ("zh-Hant", "en-GB"),
]  # fmt: skip


@pytest.mark.parametrize(("locale", "accepted"), AMOUNTS)
def test_an_amount_looks_as_on_the_hosted_page(locale: str, accepted: str) -> None:
    shown_for = choose(locale, accepted).locale
    ours = page_language.choose(PAGE_SENTENCES, locale, accepted)
    for minor, currency in ((999, "USD"), (123_456_789, "HKD"), (1000, "JPY"), (1234, "BHD")):
        shown = amounts.show(minor, currency, shown_for)
        assert shown == ours.amount(Money(minor, currency))
    if accepted.startswith("en-GB"):
        assert amounts.show(999, "USD", shown_for) == "US$9.99"


def test_the_banks_page_shows_the_amount_as_the_browsers_region_does(shop: Shop) -> None:
    payment = shop.start(locale="en", currency="USD")
    page = shop.browser.get(f"/pay/{payment}", headers={"accept-language": "en-GB,en;q=0.9"})
    assert "US$9.99" in page.text


def test_every_language_has_every_sentence_with_the_same_places() -> None:
    keys = set(SENTENCES["en"])
    for sentences in SENTENCES.values():
        assert set(sentences) == keys
        for key, text in sentences.items():
            assert text.strip()
            assert set(re.findall(r"{\w+}", text)) == set(
                re.findall(r"{\w+}", SENTENCES["en"][key])
            ), key
    assert {card.what for card in TEST_CARDS} <= keys
    assert {f"why_{card.decline_code}" for card in TEST_CARDS if card.decline_code} <= keys


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("how", ["the shop's page", "the browser"])
def test_every_page_is_in_the_customers_language(shop: Shop, language: str, how: str) -> None:
    locale, accepted = (language, "fr") if how == "the shop's page" else ("", language)
    headers = {"accept-language": accepted}
    say = choose(language, "").say

    def get(path: str) -> str:
        return shop.browser.get(path, headers=headers).text

    def post(path: str, **form: str) -> str:
        return shop.browser.post(path, data=form, headers=headers).text

    card = shop.start(locale=locale)
    wallet = shop.start(locale=locale, method="ALIPAY")
    transfer = shop.start(locale=locale, method="BANK_TRANSFER")
    good = {"exp": "12/34", "csc": "123"}
    seen = {
        "card_title": get(f"/pay/{card}"),
        "error_number_missing": post(f"/pay/{card}"),
        "error_number_other": post(f"/pay/{card}", number="4111111111111111"),
        "challenge_title": post(f"/pay/{card}", number="4000002500003155", **good),
        "why_authentication_failed": post(f"/3ds/{card}", decision="decline"),
        "declined_title": get(f"/done/{card}"),
        "wallet_title": get(f"/pay/{wallet}"),
        "phone_title": get(f"/phone/{wallet}"),
        "phone_away": post(f"/phone/{wallet}", decision="approve"),
        "succeeded_text": get(f"/done/{wallet}"),
        "transfer_title": get(f"/pay/{transfer}"),
        "why_transfer_rejected": post(f"/transfer/{transfer}", decision="decline"),
    }
    if how == "the browser":
        seen |= {"home_text": get("/"), "missing_text": get("/pay/none")}
    for key, page in seen.items():
        assert f'<html lang="{language}">' in page, key
        method = say("ALIPAY")
        assert str(say(key, method=method)) in page, key
        if language != "en":
            shown = re.sub(r"(?s)<head>.*?</head>|<dd.*?</dd>", "", page)
            odd = [text for text in LATIN.findall(shown) if not any(n in text for n in NAMES)]
            assert odd == [], key


def test_an_order_without_a_locale_is_taken(shop: Shop) -> None:
    order = shop.order()
    del order["locale"]
    assert shop.api.post("/payments", json=order).status_code == 201
    page = shop.browser.get(f"/pay/{order['id']}", headers={"accept-language": "zh-CN"})
    assert '<html lang="zh-Hans">' in page.text
    assert "€9.99" in page.text
