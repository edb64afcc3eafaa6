"""The bank speaks the language of the shop's page, otherwise that of the browser."""

import re

import pytest

from opentill.core.money import Money
from opentill.sandbox import amounts
from opentill.sandbox.cards import TEST_CARDS
from opentill.sandbox.labels import DECLINE_REASON
from opentill.sandbox.language import LANGUAGES, choose
from opentill.web import language as page_language
from support.sandbox_bank import Shop

LATIN = re.compile(r">([^<]*[A-Za-z]{2,}[^<]*)<")
# Chinese pages may contain these words in Latin letters.
NAMES = ("3-D Secure", "PayNow", "MM/YY", "QR", "Mugs")


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
        ("", "ko, zh;q=0.5", "zh-Hans"),
        ("", "fr, zh;q=0.5", "fr"),
        ("de-DE", "zh-CN", "de"),
        ("pt", "zh-CN", "pt"),
        ("ko-KR", "zh-CN", "zh-Hans"),
        ("", "ko", "en"),
        ("", "", "en"),
        ("", "zh;q=0, en;q=x", "en"),
    ],
)
def test_the_shops_locale_decides_before_the_browsers(
    locale: str, accepted: str, language: str
) -> None:
    assert choose(locale, accepted).language == language


AMOUNTS = [
    # Each pair: locale of the payment page, Accept-Language of the browser.
    ("en", "en-GB,en;q=0.9"), ("en", "en-US"), ("en", "en"), ("en", "fr"), ("en", "de-GB, en-AU"),
    ("en", "en, en-GB;q=0.9"), ("en", "zh-HK"), ("zh-Hans", "zh-CN"), ("zh-Hans", "zh-SG, en-GB"),
    ("zh-Hant", "zh-HK"), ("zh-Hant", "zh-TW"), ("zh-Hant", "en-GB"), ("fr", "fr-CA"),
    ("fr", "en"), ("es", "es-MX,es;q=0.9"), ("es", "es-419"), ("de", "de-AT"), ("pt", "pt-PT"),
    ("ja", "ja-JP"),
]  # fmt: skip


@pytest.mark.parametrize(("locale", "accepted"), AMOUNTS)
def test_the_bank_formats_amounts_as_the_payment_page_does(locale: str, accepted: str) -> None:
    bank_locale = choose(locale, accepted).locale
    localizer = page_language.choose("customer", locale, accepted)
    for minor, currency in ((999, "USD"), (123_456_789, "HKD"), (1000, "JPY"), (1234, "BHD")):
        assert amounts.show(minor, currency, bank_locale) == localizer.amount(
            Money(minor, currency)
        )
    if accepted.startswith("en-GB"):
        assert amounts.show(999, "USD", bank_locale) == "US$9.99"


def test_the_banks_page_shows_the_amount_as_the_browsers_region_does(shop: Shop) -> None:
    payment = shop.start_payment(locale="en", currency="USD")
    page = shop.browser.get(f"/pay/{payment}", headers={"accept-language": "en-GB,en;q=0.9"})
    assert "US$9.99" in page.text


def test_every_test_card_that_is_declined_has_a_reason() -> None:
    assert {card.decline_code for card in TEST_CARDS if card.decline_code} <= set(DECLINE_REASON)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("source", ["the shop's page", "the browser"])
def test_every_page_is_in_the_customers_language(shop: Shop, language: str, source: str) -> None:
    locale, accepted = (language, "fr") if source == "the shop's page" else ("", language)
    headers = {"accept-language": accepted}
    gettext = choose(language, "").gettext

    def get(path: str) -> str:
        return shop.browser.get(path, headers=headers).text

    def post(path: str, **form: str) -> str:
        return shop.browser.post(path, data=form, headers=headers).text

    card = shop.start_payment(locale=locale)
    wallet = shop.start_payment(locale=locale, method="ALIPAY")
    transfer = shop.start_payment(locale=locale, method="BANK_TRANSFER")
    other_fields = {"exp": "12/34", "csc": "123"}
    pages = {
        "Pay by card": get(f"/pay/{card}"),
        "Enter a card number.": post(f"/pay/{card}"),
        "This is not one of the test cards on this page. You have not been charged. Never enter a"
        " real card number here.": post(f"/pay/{card}", number="4111111111111111"),
        "Verify your payment": post(f"/pay/{card}", number="4000002500003155", **other_fields),
        "3-D Secure authentication failed.": post(f"/3ds/{card}", decision="decline"),
        "Payment declined": get(f"/done/{card}"),
        "Pay with {method}": get(f"/pay/{wallet}"),
        "Approve payment?": get(f"/phone/{wallet}"),
        "You can put away your phone now.": post(f"/phone/{wallet}", decision="approve"),
        "Thank you. The shop is being notified.": get(f"/done/{wallet}"),
        "Confirm your transfer": get(f"/pay/{transfer}"),
        "The transfer was rejected.": post(f"/transfer/{transfer}", decision="decline"),
    }
    if source == "the browser":
        pages |= {
            "Shops in test mode send their customers here to pay. No real money is moved.": get(
                "/"
            ),
            "The sandbox bank has no such payment.": get("/pay/none"),
        }
    for text, page in pages.items():
        assert f'<html lang="{language}">' in page, text
        method = gettext("Alipay")
        assert str(gettext(text, method=method)) in page, text
        if language.startswith("zh"):
            body = re.sub(r"(?s)<head>.*?</head>|<dd.*?</dd>", "", page)
            words = [word for word in LATIN.findall(body) if not any(n in word for n in NAMES)]
            assert words == [], text


def test_an_order_without_a_locale_is_accepted(shop: Shop) -> None:
    order = shop.payment_request()
    del order["locale"]
    assert shop.api.post("/payments", json=order).status_code == 201
    page = shop.browser.get(f"/pay/{order['id']}", headers={"accept-language": "zh-CN"})
    assert '<html lang="zh-Hans">' in page.text
    assert "€9.99" in page.text
