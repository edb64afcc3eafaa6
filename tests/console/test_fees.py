"""The fees of a month in the console, and the volume of each gateway."""

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import pytest

from console.console_pages import visible_text
from opentill import figures
from opentill.db.database import Tx
from opentill.figures import jobs, sums_table
from opentill.figures.model import day_bounds, millis
from opentill.gateways import Gateways
from support.api_server import Shop
from support.people import Visitor, create_person, heading_of
from support.spreadsheets import csv_rows

_YEARS: Final = itertools.count(2033)  # no other test of this server has payments in these


@pytest.fixture
def year() -> int:
    return next(_YEARS)


@pytest.fixture
def march(year: int) -> dict[str, str]:
    """The days of March as fields of the query."""
    return {"from": f"{year}-03-01", "to": f"{year}-03-31"}


@pytest.fixture
def auditor(shop: Shop, clock: Callable[[int], None], year: int) -> Visitor:
    """A member of staff on April 10, after two payments in March and one in April."""
    server, product = shop.api_server, shop.create_product(price="1234.50", currency="USD")["id"]
    for month, day, number in ((3, 9, 2), (4, 10, 1)):
        clock(millis(datetime(year, month, day, 9, tzinfo=UTC)))
        for _ in range(number):
            shop.create_paid_order(product)
    server.run(jobs.count_all(server.app.db))
    return create_person(server, None, staff_role="auditor")


def test_the_fees_of_last_month_are_two_actions_away_from_home(auditor: Visitor) -> None:
    assert 'href="/console/fees"' in auditor.get("/console/").text
    page = auditor.get("/console/fees")
    assert heading_of(page) == "Fees"
    (last_month,) = re.findall(r'<a href="([^"]*)">Last month</a></li>', page.text.split("chip")[0])
    text = visible_text(auditor.get(last_month.replace("&amp;", "&")).text)
    before = r"vs\. Jan (29|30) – Feb (28|29): \$0\.00"
    assert re.search(rf"Fees \$98\.76 {before} Volume \$2,469\.00 {before} Payments 2", text), text
    assert "US Dollar $98.76 $2,469.00 $0.00 4.00% 2 $0.00 $0.00" in text
    # The ten days of this month are compared with ten days up to this time of day.
    assert "vs. Mar 22 – Mar 31, until 9:00 AM: $0.00" in visible_text(page.text)


def test_a_comparison_equals_the_figures_of_the_days_that_it_names(
    auditor: Visitor, year: int
) -> None:
    path = "/console/fees?from={0}-{1}&to={0}-{2}"
    page = visible_text(auditor.get(path.format(year, "03-24", "04-10")).text)
    assert "Fees $49.38 vs. Mar 6 – Mar 23: $98.76" in page  # too few payments for a percentage
    assert "Fees $98.76" in visible_text(auditor.get(path.format(year, "03-06", "03-23")).text)


def test_the_file_of_fees_has_the_sums_of_the_command(
    auditor: Visitor, shop: Shop, march: dict[str, str], year: int
) -> None:
    page = auditor.get("/console/fees", params=march).text
    (link,) = re.findall(r'href="([^"]*/fees\.csv[^"]*)"', page)
    response = auditor.get(link.replace("&amp;", "&"))
    assert (
        f'filename="fees_{year}-03-01_{year}-03-31.csv"' in response.headers["content-disposition"]
    )

    async def sums(tx: Tx) -> list[figures.CurrencySums]:
        first, last = (
            day_bounds(datetime(year, 3, day, tzinfo=UTC).date(), UTC) for day in (1, 31)
        )
        return await figures.sum_range(tx, None, first.since, last.until)

    rows = [sums_table.row(row) for row in shop.api_server.tx(sums) if row.payments]
    assert csv_rows(response) == [{key: str(cell) for key, cell in row.items()} for row in rows]
    assert [row["fees"] for row in rows] == ["98.76"]


def test_days_without_fees_say_so_and_reversed_days_have_no_file(auditor: Visitor) -> None:
    page = auditor.get("/console/fees", params={"from": "2001-01-01", "to": "2001-01-31"}).text
    assert "There are no payments and no fees in these days." in page
    reversed_days = {"from": "2033-02-01", "to": "2033-01-01"}
    page = auditor.get("/console/fees", params=reversed_days).text
    assert "The last day must not be before the first one" in page
    assert "fees.csv" not in page
    file = auditor.get("/console/fees.csv", params=reversed_days)
    assert file.headers["location"].startswith("/console/fees?")
    assert "The last day must not be before" in auditor.get(file.headers["location"]).text


def test_a_gateway_shows_its_volume_on_the_chosen_days(
    auditor: Visitor, shop: Shop, march: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The payments were confirmed by hand, which counts as a gateway of its own.
    app = shop.api_server.app
    monkeypatch.setattr(app, "gateways", Gateways({"manual": app.gateways["sandbox"]}, {}, {}))
    text = visible_text(auditor.get("/console/gateways", params=march).text)
    figures_of_march = "Volume $2,469.00 Payments 2 Failed attempts: 0 Success rate 100.0% Now"
    assert f"Last month {figures_of_march}" in text, text
    by_method = text.partition("By gateway and method")[2]
    assert re.search(r"USD 2 0 100\.0% \$2,469\.00", by_method), by_method
    none = {"from": "2001-01-01", "to": "2001-01-31"}
    text = visible_text(auditor.get("/console/gateways", params=none).text)
    assert "Volume – Payments 0 Failed attempts: 0 Success rate – Now" in text, text
    assert "By gateway and method" not in text
