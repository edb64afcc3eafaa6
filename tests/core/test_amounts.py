"""Amounts are read as people write them, without floating-point numbers."""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentill.core import amounts, money
from opentill.core.amounts import (
    AmountReading,
    UnreadableAmount,
    parse_entry,
    parse_minor,
    read_amount,
)
from support.examples import examples

# The text, and the likeliest reading; its currencies, "" for any, … for several.
CASES: Final = [
    ("24.90", "24.90", ""),
    ("24,9", "24.90", ""),
    ("12,50", "12.50", ""),
    ("7", "7.00", ""),
    ("007", "7.00", ""),
    ("0.05", "0.05", ""),
    ("1 200", "1200.00", ""),
    ("1\N{NO-BREAK SPACE}200,50", "1200.50", ""),
    ("1\N{NARROW NO-BREAK SPACE}200", "1200.00", ""),
    ("1'234'567.80", "1234567.80", ""),
    ("1\N{RIGHT SINGLE QUOTATION MARK}200", "1200.00", ""),
    ("1,234.56", "1234.56", ""),
    ("1.234,56", "1234.56", ""),
    ("1.234.567", "1234567.00", ""),
    ("12,34,567.89", "1234567.89", ""),
    ("€24.90", "24.90", "EUR"),
    ("24,90 €", "24.90", "EUR"),
    ("eur 24,90", "24.90", "EUR"),
    ("24.90EUR", "24.90", "EUR"),
    ("€39.00 EUR", "39.00", "EUR"),
    ("$24.90 CAD", "24.90", "CAD"),
    ("US$1,200.00", "1200.00", "USD"),
    ("HK$ 88", "88.00", "HKD"),
    ("zł 5", "5.00", "PLN"),
    ("JPY 1200", "1200.00", "JPY"),
    ("JPY 1,200", "1200.00", "JPY"),
    ("\N{FULLWIDTH YEN SIGN}1200.00", "1200.00", "JPY CNY"),
    ("¥12.50", "12.50", "CNY"),
    ("KWD 1.200", "1200.00", "KWD"),
    ("KWD 12.340", "12340.00", "KWD"),
    ("\N{FULLWIDTH DIGIT ONE}\N{FULLWIDTH DIGIT TWO}円", "12.00", "JPY"),
]


@pytest.mark.parametrize(("text", "amount", "currencies"), CASES)
def test_an_amount_is_read_as_people_write_it(text: str, amount: str, currencies: str) -> None:
    assert read_amount(text)[0] == AmountReading(amount, tuple(currencies.split()))


def test_the_dollar_sign_may_stand_for_any_dollar_and_peso() -> None:
    (reading,) = read_amount("$24.90")
    assert reading.text == "24.90"
    assert {"USD", "AUD", "HKD", "MXN"} <= set(reading.currencies)
    assert not {"EUR", "JPY"} & set(reading.currencies)


def test_a_separator_before_three_digits_has_two_readings() -> None:
    thousands, thousandths = read_amount("1,200")
    assert thousands == AmountReading("1200.00", ())
    assert thousandths.text == "1.20"
    assert set(thousandths.currencies) == {"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"}
    assert read_amount("KWD 1.200")[1] == AmountReading("1.20", ("KWD",))
    assert read_amount("KWD 1.235") == (AmountReading("1235.00", ("KWD",)),)


def test_an_amount_has_the_minor_units_of_each_currency_that_it_may_be_in() -> None:
    minors = {amount.currency: amount.minor for amount in amounts.minor_amounts("12,50")}
    assert (minors["USD"], minors["KWD"], "JPY" in minors) == (1250, 12500, False)
    assert amounts.minor_amounts("1,200 JPY") == [money.Money(1200, "JPY")]
    kuwaiti = [amount.minor for amount in amounts.minor_amounts("KWD 1.200")]
    assert kuwaiti == [1_200_000, 1200]
    assert amounts.minor_amounts("tea") == []


@pytest.mark.parametrize(
    ("text", "currency", "amount"),
    [
        ("24.90", "USD", "24.90"),
        ("$24.90", "USD", "24.90"),
        ("24,90 €", "EUR", "24.90"),
        ("1,234.50", "USD", "1234.50"),
        ("1 200", "EUR", "1200.00"),
        ("1,234,567", "USD", "1234567.00"),
        ("1,200", "JPY", "1200.00"),
        ("KWD 12,5", "KWD", "12.50"),
        ("€5", "???", "5.00"),
    ],
)
def test_an_amount_is_entered_as_people_write_it(text: str, currency: str, amount: str) -> None:
    assert parse_entry("price", text, currency) == amount


@pytest.mark.parametrize(
    ("text", "currency", "problem"),
    [
        ("", "USD", "format"),
        ("ten", "USD", "format"),
        ("0", "USD", "format"),
        ("€24.90", "USD", "currency"),
        ("24.90 CAD", "USD", "currency"),
        ("1,200", "USD", "separator"),
        ("$24.900", "USD", "separator"),
        ("KWD 1.200", "KWD", "separator"),
        ("12,50", "JPY", "decimals"),
    ],
)
def test_an_entry_that_is_not_one_amount_of_the_currency_is_refused(
    text: str, currency: str, problem: str
) -> None:
    with pytest.raises(UnreadableAmount) as refusal:
        parse_entry("price", text, currency)
    assert (refusal.value.field, refusal.value.problem) == ("price", problem)


@pytest.mark.parametrize(
    ("text", "signed", "zero", "minor"),
    [
        ("1,200.50", False, False, 120_050),
        ("-5", True, False, -500),
        ("\N{MINUS SIGN}$5,50", True, False, -550),
        ("\N{FULLWIDTH HYPHEN-MINUS}5", True, False, -500),
        ("0", False, True, 0),
        ("0,00", False, True, 0),
        (" 12.50 ", False, True, 1250),
    ],
)
def test_an_entry_may_be_negative_or_zero_where_its_form_accepts_that(
    text: str, signed: bool, zero: bool, minor: int
) -> None:
    assert parse_minor("amount", text, "USD", signed=signed, zero=zero) == minor


@pytest.mark.parametrize(
    ("text", "signed", "zero"),
    [
        ("-5", False, True),
        ("0", True, False),
        ("--5", True, True),
        ("-0", True, True),
        ("-", True, True),
    ],
)
def test_other_entries_are_neither_negative_nor_zero(text: str, signed: bool, zero: bool) -> None:
    with pytest.raises(UnreadableAmount) as refusal:
        parse_minor("amount", text, "USD", signed=signed, zero=zero)
    assert refusal.value.problem == "format"


NO_AMOUNTS: Final = [
    "", " ", "abc", "$", "0", "0,00", "JPY 12.50", "₩0.5", "EUR $5", "12.3456", "1,20,3", "1 20",
    "1.2.3", "1,200,3", "--5", "-5", "5%", "XXX 5", "5 6 7 8", "1e5", "٣٤", "9" * 16, "9" * 500,
    "1,234,56", "1..200", ",50", "5,", "12\x0050", "1.200,300.400", "NaN", "inf",
]  # fmt: skip


@pytest.mark.parametrize("text", NO_AMOUNTS)
def test_other_texts_are_no_amounts(text: str) -> None:
    assert read_amount(text) == ()


@settings(max_examples=examples(200))
@given(st.sampled_from(sorted(money.EXPONENTS)), st.integers(1, 10**14))
def test_an_amount_as_the_contract_formats_it_is_read_exactly(currency: str, minor: int) -> None:
    minor -= minor % 10 if money.exponent(currency) == 3 else 0
    text = money.show(minor, currency)
    if minor:
        expected = AmountReading(text, (currency,))
        assert read_amount(f"{text} {currency}") == (expected,)
        assert money.parse(expected.text, currency) == minor


@settings(max_examples=examples(300))
@given(st.text(max_size=60))
def test_each_reading_is_an_amount_of_its_currencies(text: str) -> None:
    for reading in amounts.read_amount(text):
        assert money.parse(reading.text, "KWD") > 0
        assert all(money.parse(reading.text, currency) for currency in reading.currencies)
