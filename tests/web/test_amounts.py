"""Amounts on pages: the currency's sign, and its code where the sign alone is ambiguous."""

import re

import pytest

from opentill.core import languages
from opentill.core.languages import Language
from opentill.core.money import EXPONENTS, Money
from opentill.web.language import Localizer


@pytest.mark.parametrize(
    ("language", "money", "text"),
    [
        ("en", Money(999, "USD"), "$9.99 USD"),
        ("en", Money(3900, "EUR"), "€39.00"),
        ("en", Money(3900, "GBP"), "£39.00"),
        ("en", Money(1000, "JPY"), "¥1,000 JPY"),
        ("en", Money(1000, "CNY"), "CN¥10.00"),
        ("en", Money(1000, "CHF"), "CHF\xa010.00"),
        ("zh-Hans", Money(1000, "CNY"), "¥10.00 CNY"),
        ("zh-Hans", Money(999, "USD"), "US$9.99"),
        ("zh-Hant", Money(1000, "TWD"), "$10.00 TWD"),
    ],
)
def test_an_amount_has_its_code_only_after_a_sign_of_several_currencies(
    language: str, money: Money, text: str
) -> None:
    assert Localizer("merchant", language).amount_with_code(money) == text


@pytest.mark.parametrize(
    ("language", "text"),
    [("de", "9,99 USD"), ("fr", "9,99\xa0$US"), ("pt", "US$\xa09,99"), ("ja", "$9.99 USD")],
)
def test_a_sign_with_letters_needs_no_code_and_one_at_the_end_is_replaced_by_it(
    language: str, text: str
) -> None:
    assert Localizer("customer", language).amount_with_code(Money(999, "USD")) == text


@pytest.mark.parametrize("language", ["en", "zh-Hans", "zh-Hant"])
def test_amounts_numbers_and_percentages_have_the_same_minus_sign(language: str) -> None:
    localizer = Localizer("merchant", language)
    texts = (
        localizer.amount(Money(-250, "USD")),
        localizer.number(-3),
        localizer.percent(-0.829),
    )
    assert {text[0] for text in texts} == {"-"}


@pytest.mark.parametrize("language", languages.offered("customer"))
def test_no_amount_names_its_currency_twice(language: Language) -> None:
    localizer = Localizer("customer", language)
    for currency in EXPONENTS:
        text = localizer.amount_with_code(Money(123_456, currency))
        signs = re.sub(r"[\d.,\s]", "", text.replace(currency, "", 1))
        is_clear = signs in {"", "$", "¥", "￥"} if currency in text else signs
        assert is_clear, text
        assert currency not in signs, text
