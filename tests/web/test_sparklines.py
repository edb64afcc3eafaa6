"""Sparklines: the points of their lines, and the names of those of days."""

from opentill.core.languages import ENGLISH
from opentill.portal import headlines
from opentill.web import sparklines
from opentill.web.language import Localizer


def test_the_line_leads_from_zero_to_the_highest_value() -> None:
    drawing = sparklines.draw("Volume by day", [0, 50, 100])
    assert drawing is not None
    assert drawing.line == "0.0,30.0 60.0,16.0 120.0,2.0"
    assert drawing.area == "0,32 0.0,30.0 60.0,16.0 120.0,2.0 120,32"


def test_a_value_that_may_still_change_is_left_out() -> None:
    def draw(*values: int) -> sparklines.Sparkline | None:
        texts = [f"${value}" for value in values]
        localizer = Localizer("merchant", ENGLISH)
        return headlines.draw_days(localizer, "Volume", values, texts, has_today=True)

    assert draw(50, 100, 0) == sparklines.draw("Volume by day: from $50 to $100", [50, 100])
    assert draw(50, 0) is None
    assert draw(0, 0, 7) is None  # a flat line at zero below a figure of 7
    assert draw(0, 0, 0) == sparklines.draw("Volume by day: from $0 to $0", [0, 0])
    assert draw(0) is None


def test_negative_values_are_below_zero() -> None:
    drawing = sparklines.draw("Net by day", [-50, 50])
    assert drawing is not None
    assert drawing.line == "0.0,30.0 120.0,2.0"


def test_one_value_has_no_line() -> None:
    assert sparklines.draw("Volume by day", [1]) is None
