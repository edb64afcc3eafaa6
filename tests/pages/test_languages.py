"""The language that customers read, and amounts and texts in it."""

import re
from typing import get_args

import pytest

from opentill.core.languages import Language, offered
from opentill.core.money import EXPONENTS, Money
from opentill.gateways.model import Method
from opentill.pages import labels, model
from opentill.web import declines
from opentill.web.language import Localizer, choose


def test_every_method_state_trouble_and_decline_has_its_texts() -> None:
    assert set(model.METHODS) == set(get_args(Method)) == set(labels.PAYMENT_METHOD)
    assert set(declines.DECLINES.values()) <= set(labels.DECLINE_REASON)
    states = (set(model.PAGES.values()) | {"expired"}) - {"open"}
    assert states <= set(labels.STATE_TITLE)
    assert states <= set(labels.STATE_TEXT)
    assert set(labels.TROUBLE_TITLE) == set(labels.TROUBLE_TEXT) == set(get_args(model.Trouble))


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
    localizer = choose("customer", wanted, header)
    assert localizer.language == language
    assert localizer.amount(Money(999, "USD")) == dollars
    assert localizer.amount(Money(1000, "JPY")) == yen


@pytest.mark.parametrize("language", offered("customer"))
def test_amounts_have_the_decimals_of_iso_4217_and_not_others(language: Language) -> None:
    for currency, decimals in EXPONENTS.items():
        shown = Localizer("customer", language).amount(Money(1_234_567, currency))
        digits = re.sub(r"[^\d.]", "", shown.replace(",", "")).strip(".")
        assert digits == f"{1_234_567 / 10**decimals:.{decimals}f}", currency


def test_a_value_cannot_bring_markup_or_placeholders_along() -> None:
    said = Localizer("customer", "en").gettext("Back to {merchant}", merchant="<b>{merchant}</b>&")
    assert said == "Back to &lt;b&gt;{merchant}&lt;/b&gt;&amp;"


def test_time_left_is_told_in_one_unit() -> None:
    english, chinese = Localizer("customer", "en"), Localizer("customer", "zh-Hans")
    assert english.duration(86_399_000) == "24 hours"
    assert english.duration(15 * 60_000) == "15 minutes"
    assert chinese.duration(15 * 60_000) == "15分钟"
    assert english.duration(-5) == "1 second"
    assert english.moment(1_795_233_600_000) == "November 21, 2026, 04:00 UTC"
