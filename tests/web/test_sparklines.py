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


def test_a_dashed_line_leads_to_a_value_that_may_still_change() -> None:
    def draw(*values: int) -> sparklines.Sparkline | None:
        texts = [f"${value}" for value in values]
        localizer = Localizer("merchant", ENGLISH)
        return headlines.draw_days(localizer, "Volume", values, texts, has_today=True)

    drawing = draw(50, 100, 0)
    assert drawing is not None
    assert drawing.name == "Volume by day: from $50 to $100, today so far $0"
    assert drawing.line == "0.0,16.0 60.0,2.0"
    assert drawing.current == "60.0,2.0 120.0,30.0"
    assert drawing.area.endswith("120.0,30.0 120,32")
    first_sale = draw(0, 0, 7)
    assert first_sale is not None
    assert first_sale.current == "60.0,30.0 120.0,2.0"
    assert draw(0, 0, 0) is None  # a flat line says nothing
    assert draw(7) is None


def test_negative_values_are_below_zero() -> None:
    drawing = sparklines.draw("Net by day", [-50, 50])
    assert drawing is not None
    assert drawing.line == "0.0,30.0 120.0,2.0"


def test_one_value_has_no_line() -> None:
    assert sparklines.draw("Volume by day", [1]) is None
