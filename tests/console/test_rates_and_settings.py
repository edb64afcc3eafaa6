"""Exchange rates and the deployment's settings in the console."""

import html
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from opentill import rates
from opentill.console import settings
from opentill.core.settings import SETTINGS
from opentill.products import service as products
from opentill.products.model import ProductBody
from opentill.rates.model import Day
from support.api_server import Shop
from support.people import PASSWORD, create_person
from support.world import DAY


def test_a_rate_is_set_once_and_shown(shop: Shop) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    page = finance.get("/console/rates")
    (form_id,) = re.findall(r'name="form_id" value="([0-9a-f]{32})"', page.text)
    form = {"base": "nok", "quote": "SEK", "rate": "1.0725", "form_id": form_id, "reason": "fair"}
    for _ in range(2):  # a double click submits the form twice
        response = finance.post("/console/rates/set", form)
        assert response.headers["location"] == "/console/rates?currency=NOK&done=1"
    assert "1.0725" in finance.get("/console/rates?currency=NOK").text
    rows = shop.api_server.sql(
        "select who, reason from audit_log where subject like 'NOK SEK 1.0725 %'"
    )
    assert rows == [{"who": finance.audit_name, "reason": "fair"}]
    refusal = finance.post("/console/rates/set", form | {"rate": "2"})
    assert "has set a rate already" in refusal.text
    assert 'value="2"' in refusal.text


def test_an_invalid_rate_is_refused_and_its_input_kept(shop: Shop) -> None:
    finance = create_person(shop.api_server, None, staff_role="finance")
    for form, sentence in (
        ({"base": "NOK", "quote": "NOK", "rate": "1"}, "another currency"),
        ({"base": "XYZ", "quote": "NOK", "rate": "1"}, "ISO 4217"),
        ({"base": "NOK", "quote": "SEK", "rate": "-1"}, "positive decimal"),
        ({"base": "NOK", "quote": "SEK", "rate": "NaN"}, "positive decimal"),
        ({"base": "NOK", "quote": "SEK", "rate": "one"}, "positive decimal"),
        ({"base": "NOK", "quote": "SEK", "rate": "1e-20000"}, "positive decimal"),
    ):
        refusal = finance.post("/console/rates/set", form)
        assert (refusal.status_code, sentence in refusal.text) == (400, True), form
        assert f'value="{form["rate"]}"' in refusal.text
    support = create_person(shop.api_server, None, staff_role="support")
    assert support.post("/console/rates/set", form).status_code == 403


def test_the_recent_days_of_a_file_of_reference_rates_are_imported(shop: Shop) -> None:
    finance, now = (
        create_person(shop.api_server, None, staff_role="finance"),
        shop.api_server.app.clock(),
    )
    days = [datetime.fromtimestamp(now / 1000, UTC) - timedelta(days=ago) for ago in (2, 3, 200)]
    lines = [f"{day:%Y-%m-%d},1.2{index},9.51,\n" for index, day in enumerate(days)]
    content = "".join(["Date,USD,DKK,\n", *lines]).encode()

    def upload(content: bytes) -> Any:
        files = {"file": ("eurofxref-hist.csv", content, "text/csv")}
        return finance.http.post("/console/rates/import", files=files)

    for _ in range(2):
        assert upload(content).headers["location"] == "/console/rates?done=1"
    rows = shop.api_server.sql(
        "select rate from exchange_rates where base = 'EUR' and quote = 'USD' and rate > 1.19"
        " and rate < 1.23 order by valid_from"
    )
    # The rate of 200 days ago is skipped.
    assert [str(row["rate"]) for row in rows] == ["1.21", "1.20"]
    assert "7.925" in finance.get("/console/rates?currency=USD").text  # the cross rate, 9.51 / 1.20
    for content, sentence in ((b"", "Choose the file"), (b"Name\nTea\n", "Choose a file of refer")):
        refusal = upload(content)
        assert (refusal.status_code, sentence in refusal.text) == (400, True), content


def test_staff_are_warned_before_and_after_a_rate_is_too_old(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    server = shop.api_server
    start = server.app.clock() // DAY * DAY
    server.tx(
        lambda tx: products.create(
            tx, shop.id, ProductBody(name="Tea", price="1000", currency="ISK"), start
        )
    )
    day = Day(start, {"USD": Decimal("0.008")})
    sheet = rates.Sheet(base="ISK", days=(day,), skipped=())
    server.tx(lambda tx: rates.import_sheet(tx, sheet, start))

    def read_page(days: int) -> str:
        clock(start + days * DAY)
        finance = create_person(server, None, staff_role="finance")
        return finance.get("/console/rates?currency=ISK").text

    assert "Rates will soon be too old" not in read_page(4)
    text = read_page(6)
    assert "Rates will soon be too old" in text
    assert "ISK to USD: in two days at the latest, no checkout session can be" in text
    assert "ISK to USD: no session opens in it</li>" not in text
    text = read_page(8)
    assert "ISK to USD: no session opens in it</li>" in text
    assert "Too old" in text
    server.tx(lambda tx: rates.put(tx, "ISK", "USD", Decimal("0.007"), server.app.clock()))
    assert "Set by staff" in read_page(400)
    assert "ISK to USD: no session opens in it" not in read_page(400)


def test_an_uploaded_file_is_kept_during_the_step_up(
    shop: Shop, clock: Callable[[int], None]
) -> None:
    finance, now = (
        create_person(shop.api_server, None, staff_role="finance"),
        shop.api_server.app.clock(),
    )
    day = datetime.fromtimestamp(now / 1000, UTC) - timedelta(days=1)
    content = f"Date,USD,\n{day:%Y-%m-%d},1.3377,\n".encode()
    path = "/console/rates/import"
    kept_file_field = re.compile(r'name="(kept_file\.\w+)" value="([^"]*)"')

    def upload(content: bytes) -> Any:
        return finance.http.post(path, files={"file": ("Kurse ä.csv", content, "text/csv")})

    def prove(fields: dict[str, str]) -> Any:
        # The form of the proof is multipart, like the form of the upload.
        return finance.http.post(path, files={name: (None, text) for name, text in fields.items()})

    clock(now + 11 * 60_000)
    proof_page = upload(content)
    assert 'name="proof_password"' in proof_page.text
    assert 'enctype="multipart/form-data"' in proof_page.text
    fields = dict(kept_file_field.findall(proof_page.text))
    wrong_password = prove(fields | {"proof_password": "wrong"})
    assert (wrong_password.status_code, dict(kept_file_field.findall(wrong_password.text))) == (
        403,
        fields,
    )
    broken = prove({"kept_file.file": "a:not base64", "proof_password": PASSWORD})
    assert broken.status_code == 400
    too_large = upload(b"x" * (7 * 1024 * 1024))
    assert "The file is too large to be kept" in too_large.text
    assert kept_file_field.search(too_large.text) is None
    response = prove(fields | {"proof_password": PASSWORD})
    assert response.headers["location"] == "/console/rates?done=1"
    assert shop.api_server.sql("select from exchange_rates where rate = 1.3377")


def test_the_settings_are_shown_without_secrets(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="support")
    app = shop.api_server.app
    before = app.settings
    app.settings = msgspec.structs.replace(before, metrics_token="a-secret-of-metrics")
    try:
        page = staff.get("/console/settings").text
    finally:
        app.settings = before
    rows = re.findall(r'<code class="variable">(.*?)</code>', page)
    variables = [row.replace("<wbr>", "") for row in rows]
    assert len(set(variables)) == len(variables)
    assert {setting.name for setting in SETTINGS} <= set(variables)
    assert all(re.fullmatch(r"([A-Z0-9]+_<wbr>)*[A-Z0-9]+", row) for row in rows)
    groups = re.findall(r"<summary><h2>([^<]+)</h2>", page)
    assert len(groups) == len({settings.group_of(variable) for variable in variables}) > 8
    assert settings.group_of("OPENTILL_GATEWAY_STRIPE_KEY") == "Gateways"
    assert settings.group_of("OPENTILL_APPROVAL_ABOVE") == "Approvals and proofs"
    assert before.public_url in page
    assert "<bdi>Set</bdi>" in page
    assert "a-secret-of-metrics" not in page
    assert before.secret_key not in page


def test_settings_are_searched_and_only_changed_ones_are_shown(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="support")
    page = staff.get("/console/settings?query=idle+timeout").text.partition("<main")[2]
    assert re.findall(r"<strong>([^<]+)</strong>", page) == ["Idle timeout"]
    assert "15 seconds" in page
    app = shop.api_server.app
    before = app.settings
    app.settings = msgspec.structs.replace(before, history_days=30, limit_ip_per_minute=0)
    try:
        page = staff.get("/console/settings?show=changed&query=").text
    finally:
        app.settings = before
    rows = {
        name: re.sub(r"<[^>]+>", " ", value).split()
        for name, value in re.findall(
            r'<strong>([^<]+)</strong>.*?<div class="value">(.*?)</div>', page, re.DOTALL
        )
    }
    assert rows["Payment history kept"] == ["Changed", "30", "days"]
    assert rows["API requests per address"] == ["Changed", "No", "limit"]
    assert "Idle timeout" not in rows
    assert "No setting matches" in staff.get("/console/settings?query=no+such+thing").text


def test_the_page_names_and_explains_every_setting(shop: Shop) -> None:
    staff = create_person(shop.api_server, None, staff_role="support")
    page = html.unescape(staff.get("/console/settings").text)
    for setting in SETTINGS:
        assert f"<strong>{setting.label}</strong>" in page
        assert setting.about in page
        assert setting.about.endswith("."), setting.name  # a sentence, and not a default
