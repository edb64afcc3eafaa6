"""A page with example charts, for tests of the chart component alone."""

from datetime import date, timedelta
from pathlib import Path
from typing import Final

from opentill.core.money import Money
from opentill.web import assets, charts, templates
from opentill.web.charts import Cell, Chart, Row, Series
from opentill.web.language import Localizer

PAGE: Final = """{% extends "frame.html" %}
{% from "charts.html" import chart with context %}
{% block title %}Charts{% endblock %}
{% block styles %}<link rel="stylesheet" href="{{ asset('foundation.css') }}">
<link rel="stylesheet" href="{{ asset('chart.css') }}">{% endblock %}
{% block scripts %}<script src="{{ asset('uplot.js') }}" defer></script>
<script src="{{ asset('chart.js') }}" defer></script>{% endblock %}
{% block body %}<main id="main"><h1>Charts</h1><h2>All charts</h2>
{% for example in charts %}{{ chart(_, example) }}{% endfor %}</main>{% endblock %}
"""


def page(localizer: Localizer) -> str:
    """Return the page in a language."""
    environment = templates.create_environment(Path(__file__).parent)
    return environment.from_string(PAGE).render(
        localizer=localizer,
        **localizer.functions,
        languages={},
        asset=assets.address,
        test_mode=True,
        refresh=None,
        charts=example_charts(localizer),
    )


def example_charts(localizer: Localizer) -> list[Chart]:
    """Return charts of money, of counts with a rate that has gaps, and of hostile text."""
    days = [date(2026, 3, 1) + timedelta(days=number) for number in range(30)]
    volume = [
        Row(localizer.day(day), localizer.short_day(day),
            (charts.money(localizer, Money(123_456 * (number * 7 % 11) - 40_000, "USD")),))
        for number, day in enumerate(days)
    ]  # fmt: skip
    rates = [
        Row(localizer.day(day), localizer.short_day(day), (
            charts.count(localizer, number * 5 % 13),
            charts.percent(localizer, None if number % 9 == 4 else 0.9 + number / 300),
        ))
        for number, day in enumerate(days)
    ]  # fmt: skip
    hostile = [Row("<script>alert(1)</script>", "<b>", (Cell("<i>1</i>", "1"),))]
    nothing = [Row("9:00 AM", "9:00 AM", (charts.money(localizer, Money(0, "USD")), Cell("–")))]
    return [
        Chart("volume", "Volume by day", "From –$400 to $11,946.", "Day",
              [Series("Volume", "bars", "USD")], volume),
        Chart("rate", "Payments and success rate", "0 to 12 a day.", "Day",
              [Series("Payments", "bars", "count"), Series("Success rate", "line", "percent")],
              rates),
        Chart("hostile", "<script>alert(1)</script>", "“</p>", "<i>",
              [Series('"><img src=x>', "bars", "count")], hostile),
        Chart("empty", "Volume today", "No payments today.", "Hour",
              [Series("Volume", "bars", "USD"), Series("Net", "line", "USD")], nothing),
    ]  # fmt: skip
