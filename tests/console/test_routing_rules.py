"""Routing rules in the console, and which account a payment would go to."""

import re
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from console.console_pages import hidden_fields, visible_text
from console.gateway_account_pages import AccountsSite, running_site
from opentill.gateways import Gateways, accounts, rules
from opentill.gateways.accounts import AccountChanges, AmountLimit, DayLimit
from opentill.gateways.rules import RoutingRule
from support.people import TESTER

RULES: Final = "/console/routing-rules"
QUESTION: Final = {
    "amount": "10", "currency": "USD", "method": "CREDIT_CARD", "for_merchant": "", "on": "desktop",
}  # fmt: skip


@pytest.fixture(scope="module")
def site(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[AccountsSite]:
    """The server and bank of this module."""
    directory = tmp_path_factory.mktemp("rules")
    with running_site(postgres_url, template, directory, pooler_url) as running:
        yield running


@pytest.fixture(autouse=True)
def no_rules(site: AccountsSite) -> None:
    """Remove the rules of earlier tests."""
    for rule in stored_rules(site):
        assert site.admin.post(f"{RULES}/remove", {"rule": rule.id}).status_code == 303


def stored_rules(site: AccountsSite) -> list[RoutingRule]:
    """Return the rules in order."""
    return site.server.tx(rules.list_rules)


def add(site: AccountsSite, **form: str) -> str:
    """Add a rule and return the URL of the result."""
    response = site.admin.post(f"{RULES}/add", {"ranking": "PRIORITY"} | form)
    assert response.status_code == 303, visible_text(response.text)
    return str(response.headers["location"])


def explain(site: AccountsSite, **changes: str) -> str:
    """Return the text of the explanation of a payment."""
    page = site.admin.get(RULES, params=QUESTION | changes)
    assert page.status_code == 200
    return visible_text(page.text).partition("Which account takes a payment?")[2]


def test_a_rule_is_added_once_with_all_of_its_conditions(site: AccountsSite) -> None:
    account, shop = site.add("Ruled"), site.server.create_shop()
    form_id = hidden_fields(site.admin.get(RULES).text)["form_id"]
    form = {
        "method_ALIPAY": "1", "method_CREDIT_CARD": "1", "currencies": "usd", "smallest": "5",
        "largest": "$500.00", "merchant": shop.id, "device": "phone", "ranking": "ACCOUNTS",
        "account_1": account.id, "account_2": "sandbox", "only": "1", "form_id": form_id,
    }  # fmt: skip
    assert add(site, **form) == add(site, **form) == f"{RULES}?done=added"
    (rule,) = stored_rules(site)
    assert (rule.methods, rule.currencies) == (["CREDIT_CARD", "ALIPAY"], ["USD"])
    assert (rule.smallest_minor, rule.largest_minor) == (500, 500_00)
    assert (rule.merchant_id, rule.device, rule.is_only) == (shop.id, "phone", True)
    assert rule.accounts == [account.id, "sandbox"]
    gateways = site.server.app.gateways
    assert isinstance(gateways, Gateways)
    assert len(gateways.rules) == 1  # this process uses it at once
    text = visible_text(site.admin.get(RULES).text)
    conditions = r"1 Card, Alipay · USD · \$5\.00 – \$500\.00 · Harbour Books · on a phone"
    assert re.search(rf"{conditions} Ruled \(sandbox\) , sandbox · no others", text), text


def test_rules_are_moved_and_removed_with_an_audit_entry(site: AccountsSite) -> None:
    add(site, currencies="EUR")
    add(site, currencies="USD")
    add(site, currencies="CNY", position="1")
    assert [rule.currencies for rule in stored_rules(site)] == [["CNY"], ["EUR"], ["USD"]]
    last = stored_rules(site)[-1]
    for direction, position in (("up", 2), ("up", 1), ("up", 1), ("down", 2), ("sideways", 2)):
        response = site.admin.post(f"{RULES}/move", {"rule": last.id, "direction": direction})
        assert response.headers["location"] == f"{RULES}?done=moved"
        assert [rule.id for rule in stored_rules(site)].index(last.id) == position - 1
    assert site.admin.post(f"{RULES}/remove", {"rule": last.id}).status_code == 303
    assert [rule.currencies for rule in stored_rules(site)] == [["CNY"], ["EUR"]]
    assert site.admin.post(f"{RULES}/remove", {"rule": last.id}).status_code == 404
    actions = [action for action, who in site.audit(last.id) if who == site.admin.audit_name]
    moves = ["gateways rules move"] * 3
    assert actions == ["gateways rules add", *moves, "gateways rules remove"]


def test_a_rule_is_changed_and_keeps_its_position(site: AccountsSite) -> None:
    account = site.add("Changed")
    add(site, currencies="EUR")
    add(site, currencies="USD", smallest="5", ranking="ACCOUNTS", account_1=account.id, only="1")
    rule = stored_rules(site)[1]
    assert f'href="{RULES}/{rule.id}"' in site.admin.get(RULES).text
    page = site.admin.get(f"{RULES}/{rule.id}")
    assert "Change rule 2" in visible_text(page.text)
    assert '<dialog class="sheet" id="add" popover open' in page.text
    for name, value in (("currencies", "USD"), ("smallest", "5.00")):
        assert re.search(rf'id="{name}"[^>]*value="{value}"', page.text), name
    path = f"{RULES}/{rule.id}/change"
    form = {"currencies": "USD", "largest": "50", "ranking": "COST"}
    refusal = site.admin.post(path, form | {"smallest": "x"})
    assert (refusal.status_code, "Change rule 2" in visible_text(refusal.text)) == (400, True)
    assert stored_rules(site)[1] == rule
    assert site.admin.post(path, form).headers["location"] == f"{RULES}?done=changed"
    changed = stored_rules(site)[1]
    assert (changed.id, changed.position, changed.ranking) == (rule.id, 2, "COST")
    assert (changed.smallest_minor, changed.largest_minor, changed.is_only) == (None, 5000, False)
    assert [action for action, _ in site.audit(rule.id)][-1] == "gateways rules set"
    missing = f"{RULES}/rr_00000000000000000000000000"
    assert site.admin.get(missing).status_code == 404
    assert site.admin.post(f"{missing}/change", form).status_code == 404


def test_the_order_by_success_rate_explores_two_percent(site: AccountsSite) -> None:
    add(site, ranking="SUCCESS_RATE")
    add(site, ranking="SUCCESS_RATE", explore="0")
    assert [rule.exploration_percent for rule in stored_rules(site)] == [2, 0]
    text = visible_text(site.admin.get(RULES).text)
    assert "1 Every payment Best success rate first · explores 2%" in text


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"currencies": "EURO"}, "currencies"),
        ({"smallest": "5"}, "smallest"),
        ({"currencies": "EUR", "smallest": "x"}, "smallest"),
        ({"currencies": "JPY", "largest": "1.50"}, "largest"),
        ({"currencies": "EUR", "smallest": "5", "largest": "1"}, "smallest"),
        ({"merchant": "Nobody"}, "merchant"),
        ({"device": "watch"}, "device"),
        ({"ranking": "LUCK"}, "ranking"),
        ({"ranking": "ACCOUNTS"}, "account_1"),
        ({"account_1": "sandbox"}, "account_1"),
        ({"ranking": "ACCOUNTS", "account_1": "gat_0"}, "account_1"),
        ({"ranking": "ACCOUNTS", "account_1": "sandbox", "account_2": "sandbox"}, "account_1"),
        ({"only": "1"}, "account_1"),
        ({"explore": "5"}, "explore"),
        ({"ranking": "SUCCESS_RATE", "explore": "51"}, "explore"),
        ({"position": "9"}, "position"),
        ({"position": "first"}, "position"),
    ],
)
def test_a_rule_that_is_not_possible_is_refused_at_its_field(
    site: AccountsSite, form: dict[str, str], field: str
) -> None:
    refusal = site.admin.post(f"{RULES}/add", {"ranking": "PRIORITY"} | form)
    assert refusal.status_code == 400
    assert re.findall(r'id="(\w+)-error"', refusal.text) == [field]
    assert '<dialog class="sheet" id="add" popover open' in refusal.text
    assert stored_rules(site) == []


@pytest.mark.parametrize("role", ["finance", "support", "auditor"])
def test_only_administrators_change_rules(site: AccountsSite, role: str) -> None:
    add(site, currencies="EUR")
    (rule,) = stored_rules(site)
    reader = site.staff(role)
    for action, form in (
        ("add", {"ranking": "PRIORITY"}),
        ("move", {"rule": rule.id, "direction": "up"}),
        ("remove", {"rule": rule.id}),
        (f"{rule.id}/change", {"ranking": "PRIORITY"}),
    ):
        assert reader.post(f"{RULES}/{action}", form).status_code == 403
    page = reader.get(RULES)
    assert (page.status_code, "Add a rule" in page.text) == (200, False)
    assert stored_rules(site) == [rule]


def test_the_explanation_says_which_account_is_chosen_and_why_not_the_others(
    site: AccountsSite,
) -> None:
    server = site.server
    small, limited, paused = (site.add(f"{name} bank") for name in ("Small", "Limited", "Paused"))
    now = server.app.clock()
    for account, changes in (
        (small, AccountChanges(limits=(AmountLimit("USD", None, 500),))),
        (limited, AccountChanges(day_limits=(DayLimit("USD", 900, None),))),
    ):
        server.tx(
            lambda tx, account=account, changes=changes: accounts.change(
                tx, server.settings, account.id, changes, now, actor=TESTER
            )
        )
    site.admin.post(f"/console/gateway-accounts/{paused.id}/status", {"status": "PAUSED"})
    text = explain(site)
    assert "sandbox Takes it Order of the gateways in the settings" in text
    assert "Small bank (sandbox) Does not take it The amount is outside its limits" in text
    assert "Limited bank (sandbox) Does not take it It has reached its limit of the day" in text
    assert "Paused bank (sandbox) Does not take it It is paused" in text
    add(site, currencies="USD", ranking="ACCOUNTS", account_1=small.id)
    text = explain(site, amount="4")
    assert "Small bank (sandbox) Takes it Rule 1 ; named by the rule" in text
    (rule,) = stored_rules(site)
    page = site.admin.get(RULES, params=QUESTION | {"amount": "4"}).text
    assert f'<a href="{RULES}#{rule.id}">Rule 1</a>' in page
    assert f'<tr role="row" id="{rule.id}">' in page
    assert "sandbox Would follow" in text
    assert "Does not take it It does not take this method" in explain(site, method="PAYNOW")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"amount": "x"}, "amount"),
        ({"currency": "US"}, "currency"),
        ({"method": "CASH"}, "method"),
        ({"for_merchant": "Nobody"}, "for_merchant"),
    ],
)
def test_a_payment_that_cannot_be_explained_is_refused_at_its_field(
    site: AccountsSite, changes: dict[str, str], field: str
) -> None:
    page = site.admin.get(RULES, params=QUESTION | changes)
    assert page.status_code == 400
    assert re.findall(r'id="(\w+)-error"', page.text) == [field]
