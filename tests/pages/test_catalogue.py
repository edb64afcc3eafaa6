"""The sentences of all languages fit together."""

import re
from string import Formatter
from typing import get_args

import pytest

from opentill.core.money import EXPONENTS, Money
from opentill.gateways.model import Method
from opentill.pages import model
from opentill.pages.catalogue import SENTENCES
from opentill.web import declines
from opentill.web.catalogue import LANGUAGES, Language
from opentill.web.language import Localizer, choose


def _places(sentence: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_the_same_with_the_same_values(language: Language) -> None:
    english, sentences = SENTENCES["en"], SENTENCES[language]
    assert list(sentences) == list(english)
    assert {key: _places(one) for key, one in sentences.items()} == {
        key: _places(one) for key, one in english.items()
    }
    assert all(sentence.strip() for sentence in sentences.values())


@pytest.mark.parametrize("language", ["zh-Hans", "zh-Hant"])
def test_no_sentence_is_left_in_english(language: Language) -> None:
    same = {key for key, one in SENTENCES[language].items() if one == SENTENCES["en"][key]}
    assert same <= {"PAYNOW"}


def test_every_method_state_trouble_and_decline_has_its_sentences() -> None:
    keys = set(SENTENCES["en"])
    assert set(model.METHODS) == set(get_args(Method))
    assert set(model.METHODS) <= keys
    assert set(declines.DECLINES.values()) <= keys
    for state in set(model.PAGES.values()) | {"expired"}:
        assert {f"{state}_title", f"{state}_text"} <= keys
    for trouble in get_args(model.Trouble):
        assert {f"{trouble}_title", f"{trouble}_text"} <= keys


# wanted, Accept-Language, language, 9.99 USD, 1000 JPY
LANGUAGE_CASES = [
    (None, None, "en", "$9.99", "¥1,000"),
    (None, "", "en", "$9.99", "¥1,000"),
    (None, "en-GB,en;q=0.8", "en", "US$9.99", "JP¥1,000"),
    (None, "de-DE,de;q=0.9", "en", "$9.99", "¥1,000"),
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


@pytest.mark.parametrize(("wanted", "header", "language", "dollars", "yen"), LANGUAGE_CASES)
def test_the_customer_reads_the_language_and_the_amounts_they_are_used_to(
    wanted: str | None, header: str | None, language: str, dollars: str, yen: str
) -> None:
    localizer = choose(SENTENCES, wanted, header)
    assert localizer.language == language
    assert localizer.amount(Money(999, "USD")) == dollars
    assert localizer.amount(Money(1000, "JPY")) == yen


@pytest.mark.parametrize("language", LANGUAGES)
def test_amounts_have_the_decimals_of_iso_4217_and_not_others(language: Language) -> None:
    for currency, decimals in EXPONENTS.items():
        shown = Localizer(SENTENCES, language).amount(Money(1_234_567, currency))
        digits = re.sub(r"[^\d.]", "", shown.replace(",", "")).strip(".")
        assert digits == f"{1_234_567 / 10**decimals:.{decimals}f}", currency


def test_a_value_cannot_bring_markup_or_placeholders_along() -> None:
    said = Localizer(SENTENCES, "en").say("paid_go", merchant="<b>{merchant}</b>&")
    assert said == "Back to &lt;b&gt;{merchant}&lt;/b&gt;&amp;"


def test_time_left_is_told_in_one_unit() -> None:
    english, chinese = Localizer(SENTENCES, "en"), Localizer(SENTENCES, "zh-Hans")
    assert english.duration(86_399_000) == "24 hours"
    assert english.duration(15 * 60_000) == "15 minutes"
    assert chinese.duration(15 * 60_000) == "15分钟"
    assert english.duration(-5) == "1 second"
    assert english.moment(1_795_233_600_000) == "November 21, 2026, 04:00 UTC"
