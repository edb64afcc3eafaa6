"""Files of the European Central Bank are read; other files are refused.

The samples were written for these tests in the format of the files at
https://www.ecb.europa.eu/stats/policy_and_exchange_rates/euro_reference_exchange_rates (daily and
historical CSV, and XML).
"""

import contextlib
import io
import zipfile
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentill import rates
from opentill.core.errors import Invalid
from opentill.rates.model import Day, crosses

DAILY = b"Date, USD, JPY, HKD, \n26 January 2024, 1.0871, 160.62, 8.4978, \n"
HISTORY = (
    b"Date,USD,JPY,CYP,\n"
    b"2024-01-26,1.0871,160.62,N/A,\n"
    b"2024-01-25,1.0893,160.81,N/A,\n"
    b"1999-01-04,1.1789,133.73,0.58231,\n"
)
ENVELOPE = b"""<?xml version="1.0" encoding="UTF-8"?>
<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01"
    xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">
  <gesmes:subject>Reference rates</gesmes:subject>
  <gesmes:Sender><gesmes:name>European Central Bank</gesmes:name></gesmes:Sender>
  <Cube>%s</Cube>
</gesmes:Envelope>
"""
XML_DAY = b"<Cube time='2024-01-26'>%s</Cube>"
XML = ENVELOPE % (
    XML_DAY % b"<Cube currency='USD' rate='1.0871'/><Cube currency='JPY' rate='160.62'/>"
)
XML_DAYS = ENVELOPE % (
    b'<Cube time="2024-01-26"><Cube currency="USD" rate="1.0871"/></Cube>'
    b'<Cube time="2024-01-25"><Cube currency="USD" rate="1.0893"/></Cube>'
)
USD_JPY = {"USD": "1.0871", "JPY": "160.62"}


def day(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


FILES = (
    # Each row: file, rates by day, skipped currencies.
    (DAILY, {"2024-01-26": USD_JPY | {"HKD": "8.4978"}}, ()),
    (b"\xef\xbb\xbf" + DAILY, {"2024-01-26": USD_JPY | {"HKD": "8.4978"}}, ()),
    (DAILY.replace(b"\n", b"\r\n"), {"2024-01-26": USD_JPY | {"HKD": "8.4978"}}, ()),
    (
        HISTORY,
        {
            "1999-01-04": {"USD": "1.1789", "JPY": "133.73"},
            "2024-01-25": {"USD": "1.0893", "JPY": "160.81"},
            "2024-01-26": USD_JPY,
        },
        ("CYP",),
    ),
    (XML, {"2024-01-26": USD_JPY}, ()),
    (XML_DAYS, {"2024-01-25": {"USD": "1.0893"}, "2024-01-26": {"USD": "1.0871"}}, ()),
)


@pytest.mark.parametrize(("data", "days", "skipped"), FILES)
def test_csv_and_xml_files_are_read(data, days, skipped) -> None:
    sheet = rates.read_file(data)
    assert sheet.base == "EUR"
    assert sheet.skipped == skipped
    expected = [
        (day(date), {code: Decimal(rate) for code, rate in day_rates.items()})
        for date, day_rates in days.items()
    ]
    assert [(sheet_day.valid_from, sheet_day.rates) for sheet_day in sheet.days] == expected


ENTITY_BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE bomb [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<bomb>&b;</bomb>"""
EXTERNAL_ENTITY = b'<!DOCTYPE x [<!ENTITY file SYSTEM "file:///etc/hostname">]><x>&file;</x>'

INVALID_FILES = (
    # Each row: file, part of the error.
    (b"", "line 1: a header"),
    (b"\x00\x01\x02", "header"),
    (b"\xff\xfe\xfd", "text"),
    (b"Currency,USD\n2024-01-26,1.1\n", "line 1: a header"),
    (b"Date\n", "line 1: a header"),
    (b"Date,USD\n", "has none"),
    (b"Date,USD,\n2024-01-26,N/A,\n", "has none"),
    (b"Date,USD,USD\n2024-01-26,1.1,1.1\n", "line 1: a currency is there twice"),
    (b"Date,USD\n2024-01-26,1.1,2.2\n", "line 2: 3 cells under a header of 2"),
    (b"Date,USD,JPY\n2024-01-26,1.1,\n", "line 2: 2 cells"),
    (b"Date,USD,JPY\n2024-01-26,,1.1\n", "line 2: the rate '' of USD"),
    (b"Date,USD\n2024-01-26,1.1\n2024-01-26,1.2\n", "line 3: the day 2024-01-26 is there twice"),
    (b"Date,USD\n2024-02-30,1.1\n", "line 2: '2024-02-30' is no day of the calendar"),
    (b"Date,USD\n30 Januar 2024,1.1\n", "line 2: '30 Januar 2024' is no day such as"),
    (b"Date,USD\n2024-01-26,-1.1\n", "no positive decimal"),
    (b"Date,USD\n2024-01-26,0.00\n", "no positive decimal"),
    (b"Date,USD\n2024-01-26,NaN\n", "no positive decimal"),
    (b"Date,USD\n2024-01-26,1e3\n", "no positive decimal"),
    (b"Date,USD\n2024-01-26,1.1\n2024-01-25,\xd9\xa1\n", "line 3"),
    (b"Date,usd\n2024-01-26,1.1\n", "'usd' is no ISO 4217 code"),
    (b"Date,EUR\n2024-01-26,1\n", "EUR is the base"),
    (b"Date,CYP\n2024-01-26,0.58\n", "has none"),
    (b'Date,USD\n"2024-01-26,1.1\n', "text"),
    (ENTITY_BOMB, "a document type has no place"),
    (EXTERNAL_ENTITY, "a document type has no place"),
    (b"<html><body>Not found</body></html>", "has none"),
    (b"<Cube time='2024-01-26'><Cube currency='USD' rate='1.1'/></Cube>", "has none"),
    (XML[:-20], "XML"),
    (ENVELOPE % b"<Cube currency='USD' rate='1.1'/>", "a Cube needs a currency and a rate"),
    (ENVELOPE % (XML_DAY % b"<Cube currency='USD'/>"), "a Cube needs a currency and a rate"),
    (ENVELOPE % (XML_DAY % b"<Cube currency='USD' rate='1,1'/>"), "no positive decimal"),
    (ENVELOPE % (XML_DAY % (b"<Cube currency='USD' rate='1.1'/>" * 2)), "USD must be there once"),
    (ENVELOPE % ((XML_DAY % b"") * 2), "is there twice"),
)


@pytest.mark.parametrize(("data", "reason"), INVALID_FILES)
def test_an_invalid_file_is_refused_with_a_reason_in_one_line(data, reason) -> None:
    with pytest.raises(Invalid) as refusal:
        rates.read_file(data)
    assert refusal.value.field == "file"
    assert reason in refusal.value.reason
    assert "\n" not in refusal.value.reason


def test_a_file_that_is_too_large_is_refused() -> None:
    with pytest.raises(Invalid, match="at most 64 MiB"):
        rates.read_file(b" " * (64 * 1024 * 1024 + 1))


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: f"Date,{text}".encode()))
def test_any_input_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(Invalid):
        assert rates.read_file(data).days


def test_cross_rates_are_rounded_half_up_to_twelve_significant_digits() -> None:
    rates_of_euro = {"USD": Decimal("1.0871"), "JPY": Decimal("160.62"), "BHD": Decimal("0.40979")}
    cross_rates = {
        (rate.base, rate.quote): rate.rate for rate in crosses("EUR", Day(7, rates_of_euro))
    }
    assert len(cross_rates) == 4 * 3
    assert cross_rates["EUR", "JPY"] == Decimal("160.62")  # the file contains this rate
    assert cross_rates["USD", "JPY"] == Decimal("147.750896882")  # not rounded: 147.75089688161…
    # Not rounded: 0.006768148424853…
    assert cross_rates["JPY", "USD"] == Decimal("0.00676814842485")
    assert cross_rates["USD", "EUR"] == Decimal("0.919878576028")  # not rounded: 0.91987857602796…


rate_values = st.decimals("0.0001", "99999", places=5)


@given(st.dictionaries(st.sampled_from(["USD", "JPY", "KWD", "IDR"]), rate_values, min_size=1))
def test_a_cross_rate_is_the_quotient_of_the_two_base_rates(
    rates_of_euro: dict[str, Decimal],
) -> None:
    for rate in crosses("EUR", Day(0, rates_of_euro)):
        exact = rates_of_euro.get(rate.quote, Decimal(1)) / rates_of_euro.get(rate.base, Decimal(1))
        assert abs(rate.rate / exact - 1) <= Decimal("1e-11")
        assert len(rate.rate.normalize().as_tuple().digits) <= 12


def _zip(name: str, content: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return target.getvalue()


@pytest.mark.parametrize("content", [DAILY, HISTORY, XML])
def test_a_file_in_a_zip_archive_is_read_as_the_file_itself(content: bytes) -> None:
    assert rates.read_file(_zip("eurofxref.csv", content)) == rates.read_file(content)


def test_xml_in_utf_16_is_read_and_in_an_unsupported_encoding_is_refused() -> None:
    text = XML.decode().replace("UTF-8", "{}")
    assert rates.read_file(text.format("UTF-16").encode("utf-16")) == rates.read_file(XML)
    with pytest.raises(Invalid, match="UTF-8, UTF-16 or ISO-8859-1"):
        rates.read_file(text.format("gb18030").encode())


def test_an_archive_whose_content_is_too_large_is_refused() -> None:
    with pytest.raises(Invalid, match="larger than can be read"):
        rates.read_file(_zip("eurofxref.csv", HISTORY + b"\n" * 70_000_000))
