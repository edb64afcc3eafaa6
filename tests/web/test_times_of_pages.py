"""Times on pages: without the year that it is now, and with all of it in the title."""

from datetime import date
from zoneinfo import ZoneInfo

import pytest
from babel import Locale
from babel.dates import format_time

from opentill.core import times
from opentill.core.languages import Language, offered
from opentill.web.language import Localizer, choose

NOW = 1_795_788_300_000  # 2026-11-27T14:05Z
UTC = ZoneInfo("UTC")
YEAR = 365 * 86_400_000


@pytest.mark.parametrize(
    ("header", "this_year", "last_year"),
    [
        ("en-US", "Nov 27, 2:05\u202fPM", "Nov 27, 2025, 2:05\u202fPM"),
        ("en-GB", "27 Nov, 14:05", "27 Nov 2025, 14:05"),
        ("zh-CN", "11月27日 14:05", "2025年11月27日 14:05"),
        ("zh-TW", "11月27日 下午2:05", "2025年11月27日 下午2:05"),
    ],
)
def test_a_time_has_its_year_only_if_it_is_another_one(
    header: str, this_year: str, last_year: str
) -> None:
    localizer = choose("merchant", None, header)
    assert localizer.recent_moment(NOW, UTC, NOW) == this_year
    assert localizer.recent_moment(NOW - YEAR, UTC, NOW) == last_year


def test_the_year_is_that_of_the_time_zone() -> None:
    english, kathmandu = Localizer("merchant", "en"), ZoneInfo("Asia/Kathmandu")
    new_year = 1_798_761_000_000  # 2026-12-31T23:50Z, which is in 2027 in Kathmandu
    assert english.recent_date(NOW, UTC, new_year) == "Nov 27"
    assert english.recent_date(NOW, kathmandu, new_year) == "Nov 27, 2026"
    assert english.recent_date(new_year, kathmandu, new_year) == "Jan 1"


def test_the_element_of_a_time_has_the_whole_time_and_the_zone_as_title() -> None:
    element = Localizer("merchant", "en").time_element(NOW, ZoneInfo("Europe/Berlin"), NOW)
    assert element == (
        '<time datetime="2026-11-27T14:05:00Z" '
        'title="Fri, Nov 27, 2026, 3:05:00\u202fPM (Europe/Berlin)">Nov 27, 3:05\u202fPM</time>'
    )
    seconds = Localizer("merchant", "en").time_element(NOW + 9_000, UTC, NOW, seconds=True)
    assert ">Nov 27, 2:05:09\u202fPM<" in seconds


def test_a_day_has_its_year_only_if_it_is_another_one() -> None:
    english, chinese = Localizer("merchant", "en"), Localizer("merchant", "zh-Hans")
    today = date(2026, 11, 27)
    assert english.recent_day(date(2026, 3, 30), today) == "Mon, Mar 30"
    assert english.recent_day(date(2025, 3, 30), today) == "Sun, Mar 30, 2025"
    assert chinese.recent_day(date(2026, 3, 30), today) == "3月30日周一"
    assert "2025年" in chinese.recent_day(date(2025, 3, 30), today)


def test_documents_keep_the_year() -> None:
    english = Localizer("merchant", "en")
    assert english.moment_in(NOW, UTC) == "Nov 27, 2026, 2:05\u202fPM"
    assert english.day_in(NOW, UTC) == "Nov 27, 2026"


@pytest.mark.parametrize("language", [*offered("customer"), "zh-TW", "en-GB", "fr-CA"])
def test_the_time_of_day_is_babels_at_each_minute(language: str) -> None:
    localizer, locale = choose("customer", None, language), Locale.parse(language, sep="-")
    for second in (*range(0, 86_400, 60), *range(1, 86_400, 600)):
        moment = times.moment(second * 1000)
        expected = format_time(moment, "short", tzinfo=UTC, locale=locale)
        assert localizer.clock(second * 1000, UTC) == expected
        expected = format_time(moment, "medium", tzinfo=UTC, locale=locale)
        assert localizer.recent_moment(second * 1000, UTC, 0, seconds=True).endswith(expected)


def test_values_in_texts_are_escaped_and_markup_stays() -> None:
    english = Localizer("merchant", "en")
    text = english.gettext("{first} to {last} of {total}", first="<b>", last=1, total="&")
    assert text == "&lt;b&gt; to 1 of &amp;"
    marked = english.gettext("{first} to {last} of {total}", first=text, last="", total="")
    assert marked == "&lt;b&gt; to 1 of &amp; to  of "


@pytest.mark.parametrize(
    ("language", "ago_ms", "text"),
    [
        ("en", 30_000, "30 seconds ago"),
        ("en", 3 * 60_000, "3 minutes ago"),
        ("en", 5 * 3_600_000, "5 hours ago"),
        ("zh-Hans", 3 * 60_000, "3分钟前"),
        ("en", 24 * 3_600_000, "Nov 26, 2:05 PM"),  # from a day on, the date says more
        ("en", -60_000, "Nov 27, 2:06 PM"),  # of a clock that is ahead
    ],
)
def test_the_last_use_of_something_is_shown_relative_to_now(
    language: Language, ago_ms: int, text: str
) -> None:
    localizer = Localizer("merchant", language)
    element = localizer.time_element(NOW - ago_ms, UTC, NOW, relative=True)
    shown = element.partition(">")[2].partition("<")[0]
    assert shown.replace("\u202f", " ").replace("\u2009", " ") == text
    assert 'title="' in element
