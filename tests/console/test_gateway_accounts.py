"""The pages of gateway accounts: the list, an account, its status and its terms."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from console.console_pages import visible_text
from console.gateway_account_pages import ACCOUNTS, SECRET, AccountsSite, running_site
from opentill.gateways import accounts
from opentill.gateways.accounts import AccountChanges, DayLimit
from opentill.gateways.accounts.terms import costs_of
from support.people import TESTER
from support.sandbox_accounts import create_session, start_payment

ROW: Final = dict.fromkeys(
    ("currency", "smallest", "largest", "day_sum", "day_payments", "rate", "fixed"), ""
)


@pytest.fixture(scope="module")
def site(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[AccountsSite]:
    """The server and bank of this module."""
    directory = tmp_path_factory.mktemp("accounts")
    with running_site(postgres_url, template, directory, pooler_url) as running:
        yield running


def terms_form(revision: int, *rows: dict[str, str], **changes: str) -> dict[str, str]:
    """Return the form of an account's terms with these rows and values."""
    form = {
        "revision": str(revision),
        "limit_rows": str(len(rows)),
        "label": "Terms",
        "methods": "",
        "priority": "100",
        "weight": "100",
        "break_below": "0",
        "break_slower": "0",
        "break_minutes": "10",
        "break_texts": "",
    }
    for number, row in enumerate(rows):
        form |= {f"limit_{name}_{number}": text for name, text in (ROW | row).items()}
    return form | changes


def test_the_list_has_the_accounts_of_the_settings_and_of_the_database(
    site: AccountsSite,
) -> None:
    account = site.add("Listed")
    page = site.staff("support").get(ACCOUNTS)
    text = visible_text(page.text)
    assert re.search(r"Sandbox bank From the settings Active Test You No limit", text), text
    assert re.search(r"Listed Sandbox bank Active Test You No limit – –", text), text
    assert f'href="{ACCOUNTS}/{account.id}"' in page.text
    assert "Add an account" not in text
    assert SECRET not in page.text + site.admin.get(f"{ACCOUNTS}/{account.id}").text


def test_the_list_shows_what_counts_today_and_the_success_rate(site: AccountsSite) -> None:
    server, account = site.server, site.add("Limited")
    now = server.app.clock()
    changes = AccountChanges(
        day_limits=(DayLimit("USD", 100_00, 7),), methods="CREDIT_CARD", priority=1
    )
    server.tx(
        lambda tx: accounts.change(tx, server.settings, account.id, changes, now, actor=TESTER)
    )
    server.run(accounts.load_changes(server.app.gateways))
    shop = server.create_shop()
    environment = server.app.gateways.pop("sandbox")
    try:
        attempt = start_payment(server, create_session(shop, "9.99")["id"])
    finally:
        server.app.gateways["sandbox"] = environment
    assert attempt.gateway == account.id
    for path in (ACCOUNTS, f"{ACCOUNTS}/{account.id}"):
        text = visible_text(site.admin.get(path).text)
        assert re.search(r"\$9\.99 of \$100\.00 (· )?1 of 7 payments", text), text


def test_an_account_is_paused_resumed_and_retired_with_an_audit_entry(site: AccountsSite) -> None:
    account, path = site.add("Paused"), ""
    path = f"{ACCOUNTS}/{account.id}"
    for status, heading in (("PAUSED", "Paused"), ("ACTIVE", "Active"), ("RETIRED", "Retired")):
        response = site.admin.post(f"{path}/status", {"status": status})
        assert response.headers["location"] == f"{path}?done={status}"
        text = visible_text(site.admin.get(response.headers["location"]).text)
        assert re.search(rf"Paused {heading} Test gat_…\w+", text), text
        assert site.server.app.gateways.accounts[account.id].status == status
    # Its reports may still come.
    page = visible_text(site.admin.get("/console/reconciliation").text)
    assert re.search(rf"{account.label} \([^)]*\) \(retired\)", page), page
    refusal = site.admin.post(f"{path}/status", {"status": "ACTIVE"})
    assert (refusal.status_code, "stays retired" in refusal.text) == (400, True)
    assert site.admin.post(f"{path}/status", {"status": "GONE"}).status_code == 400
    who = site.admin.audit_name
    actions = ("gateways add", "gateways pause", "gateways resume", "gateways retire")
    assert site.audit(account.id) == [(action, who) for action in actions]


@pytest.mark.parametrize("role", ["finance", "support", "auditor"])
def test_only_administrators_change_accounts(site: AccountsSite, role: str) -> None:
    account, reader = site.add(f"Read by {role}"), site.staff(role)
    path = f"{ACCOUNTS}/{account.id}"
    for form_path, form in (
        (f"{path}/status", {"status": "PAUSED"}),
        (f"{path}/check", {}),
        (f"{path}/terms", terms_form(1)),
        (f"{path}/credentials/replace", {}),
        (f"{ACCOUNTS}/add", site.form("No")),
    ):
        assert reader.post(form_path, form).status_code == 403, form_path
    page = reader.get(path)
    assert (page.status_code, '/status"' in page.text) == (200, False)
    assert "Save the terms" not in reader.get(f"{path}/terms").text
    assert reader.get(f"{path}/credentials").headers["location"] == path
    new = reader.get(f"{ACCOUNTS}/new?gateway=sandbox")
    assert new.headers["location"] == ACCOUNTS
    assert site.find(account.id) == account


def test_an_account_that_does_not_exist_is_not_found(site: AccountsSite) -> None:
    assert site.admin.get(f"{ACCOUNTS}/gat_00000000000000000000000000").status_code == 404
    assert site.admin.get(f"{ACCOUNTS}/sandbox").status_code == 404


def test_terms_are_changed_and_an_emptied_row_is_removed(site: AccountsSite) -> None:
    account = site.add("Terms")
    path = f"{ACCOUNTS}/{account.id}/terms"
    euros = {
        "currency": "eur", "smallest": "1", "largest": "500.00", "day_sum": "€1,000.00",
        "day_payments": "20", "rate": "2,9", "fixed": "0.30",
    }  # fmt: skip
    form = terms_form(
        account.revision, euros, {"currency": "JPY", "largest": "9000"},
        label="Terms 2", methods="CREDIT_CARD:EUR|JPY", priority="20", weight="3",
        break_below="40", break_slower="5000",
        break_texts="account suspended\r\n\r\nno contract\r\n",
        break_minutes="15",
    )  # fmt: skip
    assert site.admin.post(path, form).headers["location"].endswith("?done=terms")
    changed = site.find(account.id)
    assert accounts.limit_texts(changed) == ["EUR:1.00-500.00", "JPY:-9000.00"]
    assert accounts.day_limit_texts(changed) == ["EUR:1000.00/20"]
    assert accounts.cost_texts(changed) == ["EUR:2.90%+0.30"]
    assert (changed.label, changed.methods) == ("Terms 2", "CREDIT_CARD:EUR|JPY")
    assert (changed.priority, changed.weight, changed.break_minutes) == (20, 3, 15)
    assert changed.break_texts == ["account suspended", "no contract"]
    page = site.admin.get(path).text
    assert 'name="limit_rate_0" value="2.9"' in page.replace('id="limit_rate_0" ', "")
    text = visible_text(site.admin.get(f"{ACCOUNTS}/{account.id}").text)
    assert "Card (EUR, JPY)" in text
    assert "2.9% + €0.30" in text
    # The row of JPY is emptied, and that of EUR keeps only its cost.
    form = terms_form(changed.revision, {"currency": "EUR", "rate": "1"}, {}, label="Terms 2")
    assert site.admin.post(path, form).status_code == 303
    changed = site.find(account.id)
    assert (changed.limit_currencies, accounts.cost_texts(changed)) == ([], ["EUR:1.00%+0.00"])
    assert (changed.break_below_percent, changed.break_texts) == (None, [])
    assert [cost.currency for cost in costs_of(changed)] == ["EUR"]


@pytest.mark.parametrize(
    ("row", "changes", "field"),
    [
        ({"currency": "EURO"}, {}, "limit_currency_0"),
        ({"currency": "EUR", "smallest": "x"}, {}, "limit_smallest_0"),
        ({"currency": "JPY", "largest": "1.50"}, {}, "limit_largest_0"),
        ({"currency": "EUR", "day_sum": "$5"}, {}, "limit_day_sum_0"),
        ({"currency": "EUR", "day_payments": "0"}, {}, "limit_day_payments_0"),
        ({"currency": "EUR", "rate": "2.999"}, {}, "limit_rate_0"),
        ({"currency": "EUR", "rate": "101"}, {}, "limit_rate_0"),
        ({"currency": "EUR", "fixed": "-1"}, {}, "limit_fixed_0"),
        ({"currency": "EUR", "smallest": "2", "largest": "1"}, {}, "limits"),
        ({}, {"label": ""}, "label"),
        ({}, {"methods": "CASH"}, "methods"),
        ({}, {"priority": "0"}, "priority"),
        ({}, {"weight": "many"}, "weight"),
        ({}, {"break_below": "100"}, "break_below"),
        ({}, {"break_slower": "5"}, "break_slower"),
        ({}, {"break_minutes": "0"}, "break_minutes"),
        ({}, {"break_texts": "x" * 61}, "break_texts"),
        ({}, {"revision": "9"}, "terms"),
    ],
)
def test_terms_that_are_not_possible_are_refused_at_their_field(
    site: AccountsSite, row: dict[str, str], changes: dict[str, str], field: str
) -> None:
    listed = site.server.tx(accounts.list_accounts)
    account = listed[0] if listed else site.add("Unchanged")
    path = f"{ACCOUNTS}/{account.id}/terms"
    form = terms_form(account.revision, row, label=account.label) | changes
    refusal = site.admin.post(path, form)
    assert refusal.status_code == (409 if field == "terms" else 400)
    assert f'id="{field}-error"' in refusal.text or f'href="#{field}"' in refusal.text
    for name, text in row.items():
        assert f'name="limit_{name}_0" value="{text}"' in re.sub(r'id="\w+" ', "", refusal.text)
    assert site.find(account.id) == account


def test_two_rows_of_a_currency_are_refused(site: AccountsSite) -> None:
    account = site.add("Twice")
    rows = ({"currency": "EUR", "largest": "1"}, {"currency": "EUR", "largest": "2"})
    form = terms_form(account.revision, *rows, label="Twice")
    refusal = site.admin.post(f"{ACCOUNTS}/{account.id}/terms", form)
    assert (refusal.status_code, 'id="limit_currency_1-error"' in refusal.text) == (400, True)


def test_the_provider_is_asked_whether_it_accepts_an_account(site: AccountsSite) -> None:
    account = site.add("Checked")
    path = f"{ACCOUNTS}/{account.id}"
    accepted = site.admin.post(f"{path}/check")
    assert accepted.headers["location"] == f"{path}?done=accepted"
    server = site.server
    wrong = site.bank.credentials | {"secret": "w" * 32}
    now = server.app.clock()
    server.tx(lambda tx: accounts.rotate(tx, server.settings, account.id, wrong, now, actor=TESTER))
    refusal = site.admin.post(f"{path}/check")
    assert refusal.status_code == 409
    assert "“Secret” differs from that of the bank" in visible_text(refusal.text)


def test_an_account_is_found_by_the_search_and_acted_on_from_the_list(site: AccountsSite) -> None:
    account = site.add("Heron till")
    path = f"{ACCOUNTS}/{account.id}"

    def leads(text: str) -> list[str]:
        page = site.admin.get("/console/search", params={"q": text}).text
        return re.findall(r'class="search-hit" href="([^"]+)"', page)

    assert leads("heron") == [path]
    response = site.admin.get("/console/search", params={"q": account.id})
    assert response.headers["location"] == path
    assert f"{path}?sheet=pause" in leads("pause Heron")
    assert f"{path}/credentials" in leads("key heron till")
    assert f"{path}/terms" in leads("heron limits")
    confirmation = site.admin.get(f"{path}?sheet=pause").text
    assert '<dialog class="sheet confirmation" id="pause" popover open' in confirmation

    def row() -> str:
        rows = site.admin.get(ACCOUNTS).text.split("<tr")[1:]
        (shown,) = [each for each in rows if account.id in each]
        return shown

    for below in ("?sheet=pause", "?sheet=retire", "/terms", "/credentials"):
        assert f'href="{path}{below}"' in row(), below
    assert site.admin.post(f"{path}/status", {"status": "PAUSED"}).status_code == 303
    assert f'action="{path}/status"' in row()
    assert "?sheet=pause" not in row()
    assert site.admin.post(f"{path}/status", {"status": "RETIRED"}).status_code == 303
    assert "?sheet=" not in row()
    assert (
        f'href="{ACCOUNTS}">Gateway accounts</a></div>' in site.admin.get("/console/gateways").text
    )
