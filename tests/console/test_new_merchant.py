"""Administrators create merchants in the console, as the command line does."""

import re

from console.console_pages import visible_text
from console.test_terms import fee_fields, form_values
from opentill import merchants
from support.api_server import ApiServer
from support.people import Visitor, create_person

PATH = "/console/merchants/new"


def new_form(admin: Visitor, **entries: str) -> dict[str, str]:
    """Return the form as it is shown, with some entries."""
    return form_values(admin.get(PATH).text) | {"reason": "signed on paper"} | entries


def find_created(server: ApiServer, location: str) -> merchants.Merchant:
    merchant_id = location.rpartition("/")[2].partition("?")[0]
    return server.tx(lambda tx: merchants.find(tx, merchant_id))


def test_a_merchant_is_created_once_with_its_terms(api_server: ApiServer) -> None:
    admin = create_person(api_server, None, staff_role="admin")
    form = new_form(
        admin, name=" Quay Tea ", currency="eur", platform_fee_rate="2.9", reserve_rate="10",
        settlement_calendar="WEEKDAYS", **fee_fields("ALIPAY=2%"),
    )  # fmt: skip
    locations = {admin.post(PATH, form).headers["location"] for _ in range(2)}
    (location,) = locations
    merchant = find_created(api_server, location)
    assert (merchant.name, merchant.settlement_currency) == ("Quay Tea", "EUR")
    assert (merchant.status, merchant.settlement_calendar) == ("ACTIVE", "WEEKDAYS")
    assert (str(merchant.platform_fee_rate), str(merchant.reserve_rate)) == ("0.029", "0.1")
    assert [str(fee) for fee in merchants.read_fees(merchant.fees)] == ["ALIPAY=0.02"]
    page = admin.get(location).text
    assert f'href="/console/merchants/{merchant.id}/members"' in page
    assert "0 of 4 tasks done" in visible_text(page)
    (row,) = api_server.sql(
        "select who, reason from audit_log where action = 'merchants create' and merchant_id = $1",
        merchant.id,
    )
    assert row["reason"] == "signed on paper"
    assert admin.email in row["who"]


def test_the_terms_that_are_not_changed_are_the_default_ones(api_server: ApiServer) -> None:
    admin = create_person(api_server, None, staff_role="admin")
    location = admin.post(PATH, new_form(admin, name="Yen", currency="JPY")).headers["location"]
    merchant = find_created(api_server, location)
    assert (merchant.overdraft_minor, merchant.dispute_fee_minor) == (100, 15)
    assert merchant.settlement_delay_days == 7


def test_each_field_of_a_new_merchant_shows_its_error(api_server: ApiServer) -> None:
    admin = create_person(api_server, None, staff_role="admin")
    for field, entry in (
        ("name", " "), ("currency", "XXX"), ("platform_fee_rate", "100"), ("reason", ""),
        ("fee_method_0", "GOLD"), ("reserve_days", "ten"),
    ):  # fmt: skip
        form = new_form(admin, name="Quay Tea") | {field: entry}
        refusal = admin.post(PATH, form)
        assert (refusal.status_code, f'id="{field}-error"' in refusal.text) == (400, True), field


def test_the_owner_is_invited_with_the_merchant(api_server: ApiServer) -> None:
    admin = create_person(api_server, None, staff_role="admin")
    refusal = admin.post(PATH, new_form(admin, name="Quay Tea", owner="ben"))
    assert (refusal.status_code, 'id="owner-error"' in refusal.text) == (400, True)
    assert api_server.sql("select 1 as x from merchants where name = 'Quay Tea at sea'") == []
    form = new_form(admin, name="Quay Tea at sea", owner="ben@quay.example")
    links = set[str]()
    for _ in range(2):  # a double click submits the form twice
        page = admin.post(PATH, form).text
        assert "ben@quay.example is invited" in page
        assert "New merchant" not in page.partition("</h1>")[0].rpartition("<h1")[2]
        links |= set(re.findall(r"(/invite/[\w-]{43})", page))
    (link,) = links
    assert "Quay Tea at sea" in admin.get(link).text
    rows = api_server.sql(
        "select role from merchants join person_links on merchant_id = merchants.id"
        " where name = 'Quay Tea at sea'"
    )
    assert rows == [{"role": "owner"}]


def test_only_administrators_create_merchants(api_server: ApiServer) -> None:
    for role in ("finance", "support", "auditor"):
        visitor = create_person(api_server, None, staff_role=role)  # type: ignore[arg-type]
        assert "Only an administrator creates merchants." in visitor.get(PATH).text
        assert visitor.post(PATH, {}).status_code == 403
        assert PATH not in visitor.get("/console/merchants").text


def test_an_administrator_invites_the_owner_and_members_of_a_merchant(
    api_server: ApiServer,
) -> None:
    admin = create_person(api_server, None, staff_role="admin")
    merchant_path = admin.post(PATH, new_form(admin, name="Quay Tea")).headers["location"]
    merchant_path = merchant_path.partition("?")[0]
    path = f"{merchant_path}/members"
    assert f'href="{path}">Invite the owner' in admin.get(merchant_path).text
    page = admin.get(path).text
    assert "Quay Tea" in page
    assert '<option value="owner" selected>' in page
    for form, field in (
        ({"email": "ben", "role": "owner"}, "email"),
        ({"email": "b@c.de"}, "role"),
    ):
        refusal = admin.post(path, form)
        assert (refusal.status_code, f'id="{field}-error"' in refusal.text) == (400, True)
    page = admin.post(path, {"email": "ben@quay.example", "role": "owner"}).text
    assert "ben@quay.example is invited" in page
    (link,) = re.findall(r'value="http\S+(/invite/[^"]+)"', page)
    assert "Quay Tea" in admin.get(link).text
    create_person(api_server, merchant_path.rpartition("/")[2], "owner")
    # A merchant that has members can get more of them, each with any role.
    assert f'href="{path}">Invite a member' in admin.get(merchant_path).text
    page = admin.get(path).text
    assert '<option value="viewer" selected>' in page
    page = admin.post(path, {"email": "eve@quay.example", "role": "finance"}).text
    assert "eve@quay.example is invited" in page
    page = admin.get(path).text
    assert "Pending invitations" in page
    (withdrawn,) = re.findall(r'popovertarget="withdraw-([^"]+)">[^/]*eve@quay', page)
    assert f'id="withdraw-{withdrawn}" popover role="alertdialog"' in page
    assert admin.post(f"{path}/withdraw", {"id": withdrawn}).status_code == 303
    assert "eve@quay.example" not in admin.get(path).text
    support = create_person(api_server, None, staff_role="support")
    assert support.post(f"{path}/withdraw", {"id": withdrawn}).status_code == 403
    assert path not in support.get(merchant_path).text
    assert "Only an administrator invites members." in support.get(path).text
    form = {"email": "eve@quay.example", "role": "owner"}
    assert support.post(path, form).status_code == 403
