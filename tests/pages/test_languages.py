"""Customers' pages have their language, and its format of amounts and durations."""

import re
from decimal import Decimal
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from babel.numbers import parse_decimal

from opentill.core.languages import Language, offered
from opentill.core.money import EXPONENTS, Money
from opentill.gateways.model import Method
from opentill.pages import labels, model
from opentill.web import declines
from opentill.web.language import Localizer, choose, names
from opentill.web.responses import Trouble


def test_every_payment_method_page_state_error_and_decline_has_a_text() -> None:
    assert set(model.METHODS) == set(get_args(Method)) == set(labels.PAYMENT_METHOD)
    assert set(declines.DECLINES.values()) <= set(labels.DECLINE_REASON)
    states = (set(model.STATE_OF.values()) | {"expired"}) - {"open"}
    assert states <= set(labels.STATE_TITLE)
    assert states <= set(labels.STATE_TEXT)
    assert set(labels.TROUBLE_TITLE) == set(labels.TROUBLE_TEXT) == set(get_args(Trouble))


# Each row: requested language, Accept-Language, language of the page, and how it shows 9.99 USD and
# 1000 JPY.
LANGUAGE_CASES = [
    (None, None, "en", "$9.99", "¥1,000"),
    (None, "", "en", "$9.99", "¥1,000"),
    (None, "en-GB,en;q=0.8", "en", "US$9.99", "JP¥1,000"),
    (None, "it-IT,it;q=0.9", "en", "$9.99", "¥1,000"),
    (None, "fr-FR,fr;q=0.9", "fr", "9,99\xa0$US", "1\u202f000\xa0JPY"),
    (None, "fr-CA", "fr", "9,99\xa0$\xa0US", "1\xa0000\xa0¥"),
    (None, "es-ES,es;q=0.9", "es", "9,99\xa0US$", "1.000\xa0JPY"),
    (None, "es-419", "es", "USD\xa09.99", "JPY\xa01,000"),
    (None, "es-MX", "es", "USD\xa09.99", "JPY\xa01,000"),
    (None, "pt-BR,pt;q=0.9", "pt", "US$\xa09,99", "JP¥\xa01.000"),
    (None, "pt-PT", "pt", "9,99\xa0US$", "1\xa0000\xa0JP¥"),
    (None, "ja-JP,ja;q=0.9,en;q=0.8", "ja", "$9.99", "￥1,000"),
    (None, "de-DE,de;q=0.9", "de", "9,99\xa0$", "1.000\xa0¥"),
    (None, "de-CH", "de", "$\xa09.99", "¥\xa01’000"),
    (None, "it, de;q=0.5", "de", "9,99\xa0$", "1.000\xa0¥"),
    ("de", "en-GB", "de", "9,99\xa0$", "1.000\xa0¥"),
    (None, "zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans", "US$9.99", "JP¥1,000"),
    (None, "zh", "zh-Hans", "US$9.99", "JP¥1,000"),
    (None, "zh-TW,zh;q=0.9", "zh-Hant", "US$9.99", "¥1,000"),
    (None, "zh-HK", "zh-Hant", "US$9.99", "¥1,000"),
    (None, "zh-Hant-CN", "zh-Hant", "US$9.99", "¥1,000"),
    (None, "zh-Hans-HK", "zh-Hans", "US$9.99", "JP¥1,000"),
    (None, "en;q=0.1, zh-TW;q=0.9", "zh-Hant", "US$9.99", "¥1,000"),
    (None, "en;q=0, zh-CN;q=0.1", "zh-Hans", "US$9.99", "JP¥1,000"),
    (None, "zh-CN;q=x, en", "en", "$9.99", "¥1,000"),
    (None, "\x00,;;,=,q=1;" + "zh" * 10_000, "en", "$9.99", "¥1,000"),
    ("zh-Hant", "en-US", "zh-Hant", "US$9.99", "¥1,000"),
    ("en", "zh-CN, en-GB;q=0.1", "en", "US$9.99", "JP¥1,000"),
    ("xx", "zh-CN", "zh-Hans", "US$9.99", "JP¥1,000"),
    ("", None, "en", "$9.99", "¥1,000"),
]


@pytest.mark.parametrize(("requested", "header", "language", "dollars", "yen"), LANGUAGE_CASES)
def test_a_customer_gets_the_language_and_number_format_of_the_browser(
    requested: str | None, header: str | None, language: str, dollars: str, yen: str
) -> None:
    localizer = choose("customer", requested, header)
    assert localizer.language == language
    assert localizer.amount(Money(999, "USD")) == dollars
    assert localizer.amount(Money(1000, "JPY")) == yen


@pytest.mark.parametrize(
    ("requested", "header", "remembered", "language"),
    [
        (None, "de-DE,de;q=0.9", None, "en"),
        (None, "de, zh-CN;q=0.5", None, "zh-Hans"),
        ("de", "zh-TW", None, "zh-Hant"),
        (None, "zh-TW", "de", "zh-Hant"),
    ],
)
def test_merchants_get_their_next_language_if_the_first_has_no_catalogue(
    requested: str | None, header: str, remembered: str | None, language: str
) -> None:
    assert choose("merchant", requested, header, remembered=remembered).language == language


def test_customers_but_not_merchants_have_german_texts() -> None:
    german = choose("customer", None, "de-AT")
    text = german.gettext("Pay {amount} to {merchant}", amount="9,99 €", merchant="A & B")
    assert text == "9,99 € an A &amp; B bezahlen"
    assert german.duration(15 * 60_000) == "15 Minuten"
    own_names = names("customer")
    assert [own_names[tag] for tag in ("de", "fr", "pt")] == ["Deutsch", "Français", "Português"]
    assert "de" not in names("merchant")


@pytest.mark.parametrize("language", offered("customer"))
def test_amounts_have_the_decimals_of_iso_4217(language: Language) -> None:
    for currency, decimals in EXPONENTS.items():
        displayed = Localizer("customer", language).amount(Money(1_234_567, currency))
        expected = f"{1_234_567 / 10**decimals:.{decimals}f}"
        assert re.sub(r"\D", "", displayed) == expected.replace(".", ""), currency
        number = re.sub(r"[^\d.,]", "", displayed).strip(".")
        locale = language.replace("-", "_")
        assert parse_decimal(number, locale=locale) == Decimal(expected), currency


def test_a_value_cannot_insert_markup_or_placeholders() -> None:
    text = Localizer("customer", "en").gettext("Back to {merchant}", merchant="<b>{merchant}</b>&")
    assert text == "Back to &lt;b&gt;{merchant}&lt;/b&gt;&amp;"


def test_a_duration_has_one_unit_and_a_time_its_zone() -> None:
    english, chinese = Localizer("customer", "en"), Localizer("customer", "zh-Hans")
    assert english.duration(86_399_000) == "24 hours"
    assert english.duration(15 * 60_000) == "15 minutes"
    assert chinese.duration(15 * 60_000) == "15分钟"
    assert english.duration(-5) == "1 second"
    assert english.moment(1_795_233_600_000) == "November 21, 2026, 4:00\u202fAM UTC"
    assert chinese.moment(1_795_233_600_000) == "2026年11月21日 04:00 UTC"


def test_a_currencys_code_has_a_space_before_the_number() -> None:
    francs = Money(-999, "CHF")
    assert Localizer("customer", "en").amount(francs) == "-CHF\xa09.99"
    assert Localizer("customer", "ja").amount(francs) == "-CHF\xa09.99"
    assert Localizer("customer", "fr").amount(francs) == "-9,99\xa0CHF"


@pytest.mark.parametrize(
    ("language", "currency", "text"),
    [
        ("en", "USD", "$9.99 USD"),
        ("en", "EUR", "€9.99"),
        ("en", "CHF", "CHF\xa09.99"),
        ("fr", "USD", "9,99\xa0$US"),
        ("zh-Hans", "USD", "US$9.99"),
        ("zh-Hans", "CNY", "¥9.99 CNY"),
    ],
)
def test_an_amount_has_its_currencys_code_unless_its_symbol_is_clear(
    language: str, currency: str, text: str
) -> None:
    assert Localizer("customer", language).amount_with_code(Money(999, currency)) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [("en", "97.5%"), ("de", "97,5\xa0%"), ("fr", "97,5\xa0%"), ("ja", "97.5%"), ("pt", "97,5%")],
)
def test_a_percentage_has_the_space_of_its_language(language: str, text: str) -> None:
    localizer = Localizer("customer", language)
    assert localizer.percent(0.975) == localizer.exact_percent(Decimal("0.975")) == text


def test_a_day_has_no_time() -> None:
    for language in offered("customer"):
        localizer, zone = Localizer("customer", language), ZoneInfo("Asia/Shanghai")
        day = localizer.day_in(1_795_233_600_000, zone)
        assert day
        assert localizer.moment_in(1_795_233_600_000, zone).startswith(day)
