"""Accounts that merchants add and change themselves, if the operator allows their gateway."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from dashboard.pages import hidden_field_values, text_of
from opentill.core.errors import Invalid
from opentill.core.settings import Settings
from opentill.gateways import accounts, registry
from opentill.gateways.account import GatewayAccount
from opentill.outgoing.addresses import read_ip
from opentill.outgoing.client import Forbidden, merchant_server_policy
from support.api_server import SECRETS, ApiServer, Shop, serving
from support.databases import cloned_database
from support.people import PASSWORD, TESTER, create_person
from support.prepaid import adjust
from support.sandbox_accounts import Bank, create_session, running_bank, start_payment

SECRET: Final = "own!" * 8
LATER_MS: Final = 11 * 60_000


class Site:
    """A server whose own sandbox bank is ``bank``, and a shop that may add accounts there."""

    def __init__(self, server: ApiServer, bank: Bank) -> None:
        """Create the shop and log its owner in."""
        self.server, self.bank = server, bank
        self.shop = server.create_shop()
        self.owner = create_person(server, self.shop.id, "owner")
        self.allow(self.shop, "sandbox", "epay")

    def allow(self, shop: Shop, *gateways: str) -> None:
        """Allow these gateways to a merchant, and no others."""
        now, settings = self.server.app.clock(), self.server.settings
        self.server.tx(
            lambda tx: accounts.allow(tx, settings, shop.id, gateways, now, actor=TESTER)
        )

    def form(self, label: str, **changes: str) -> dict[str, str]:
        return {
            "gateway": "sandbox",
            "label": label,
            "suffix": "",
            "credential_url": self.bank.url,
            "secret_secret": SECRET,
        } | changes

    def add(self, label: str) -> GatewayAccount:
        """Add an account as the owner."""
        response = self.owner.post(f"{path_of(self.shop)}/add", self.form(label))
        assert response.status_code == 303, text_of(response)
        (account_id,) = re.findall(r"(gat_\w+)\?done=added$", response.headers["location"])
        return self.find(account_id)

    def find(self, account_id: str) -> GatewayAccount:
        return self.server.tx(lambda tx: accounts.find(tx, account_id))

    def actions(self, account: GatewayAccount) -> list[tuple[str, str, str]]:
        """Return what the audit log says about an account: action, who, merchant."""
        rows = self.server.sql(
            "select action, who, merchant_id from audit_log where subject like $1 order by number",
            f"{account.id}%",
        )
        return [(row["action"], row["who"], row["merchant_id"]) for row in rows]


def path_of(shop: Shop) -> str:
    return f"/dashboard/{shop.id}/settings/gateway-accounts"


@pytest.fixture(scope="module")
def site(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[Site]:
    """The server and bank of this module."""
    directory = tmp_path_factory.mktemp("own-accounts")
    with (
        cloned_database(postgres_url, template) as url,
        running_bank(directory / "bank", SECRET) as bank,
    ):
        fields: dict[str, Any] = {"limit_ip_per_minute": 0, **SECRETS, "sandbox_secret": SECRET}
        settings = Settings(
            database_url=pooler_url(url), data_dir=directory, sandbox_url=bank.url, **fields
        )
        with serving(settings) as server:
            yield Site(server, bank)
            server.check_books()


def test_an_owner_adds_an_account_that_takes_payments_directly(site: Site) -> None:
    shop, server = site.shop, site.server
    page = site.owner.get(f"{path_of(shop)}/new?gateway=sandbox")
    (form_id,) = hidden_field_values(page, "form_id")
    form = site.form("My bank", form_id=form_id)
    results = [site.owner.post(f"{path_of(shop)}/add", form) for _ in range(2)]  # a double click
    (path,) = {result.headers["location"] for result in results}
    account = site.find(re.findall(r"gat_\w+", path)[0])
    assert (account.label, account.merchant_id, account.by_merchant) == ("My bank", shop.id, True)
    who = f"{site.owner.email} ({site.owner.person_id})"
    assert site.actions(account) == [("gateways add", who, shop.id)]
    shown = site.owner.get(path)
    assert "Needs prepaid balance" in text_of(shown)
    assert (SECRET in shown.text, account.callback_path in shown.text) == (False, True)
    server.tx(lambda tx: adjust(tx, shop.id, "topup", 500))
    server.run(accounts.load_changes(server.app.gateways))
    attempt = start_payment(server, create_session(shop)["id"])
    assert attempt.gateway == account.id
    assert "Active" in text_of(site.owner.get(path))


def test_one_of_several_people_who_add_the_same_account_at_once_adds_it(site: Site) -> None:
    """Two owners in the dashboard and an administrator in the console send the same form."""
    server, shop = site.server, site.server.create_shop()
    site.allow(shop, "sandbox")
    owners = [create_person(server, shop.id, "owner") for _ in range(2)]
    admin = create_person(server, None, staff_role="admin")
    form, path = site.form("Twin"), f"{path_of(shop)}/add"
    staff_form = form | {"merchant": shop.id, "mode": "test"}
    with ThreadPoolExecutor(3) as threads:
        sent = [threads.submit(owner.post, path, form) for owner in owners]
        sent.append(threads.submit(admin.post, "/console/gateway-accounts/add", staff_form))
        responses = [each.result() for each in sent]
    assert sorted(response.status_code for response in responses) == [303, 400, 400]
    refused = [text_of(response) for response in responses if response.status_code == 400]
    assert all("that no other account in use has" in text for text in refused)
    assert not any(SECRET in response.text for response in responses)
    own = server.tx(lambda tx: accounts.list_own(tx, shop.id))
    assert [account.label for account in own] == ["Twin"]
    assert [action for action, _, _ in site.actions(own[0])] == ["gateways add"]
    audited = server.sql(
        "select who from audit_log where merchant_id = $1 and action = 'gateways add'", shop.id
    )
    assert len(audited) == 1


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"label": ""}, 400, "Enter 1 to 60 characters"),
        ({"label": "taken"}, 400, "Enter 1 to 60 characters"),
        ({"secret_secret": "w" * 32}, 409, "The provider refuses it"),
        ({"credential_url": "http://127.0.0.1:1/"}, 400, "cannot be called"),
        ({"credential_url": "https://10.0.0.1/"}, 400, "stands for no public address"),
        ({"credential_url": "https://metadata.localhost/"}, 400, "stands for no public address"),
        ({"unchecked": "1", "secret_secret": "w" * 32}, 409, "The provider refuses it"),
        (
            {
                "gateway": "epay",
                "credential_url": "https://169.254.169.254/",
                "credential_pid": "1",
                "secret_key": "k" * 16,
            },
            400,
            "stands for no public address",
        ),
    ],
)
def test_an_account_is_refused_at_its_field(
    site: Site, changes: dict[str, str], status: int, error: str
) -> None:
    if not any(each.label == "Taken" for each in site.server.tx(accounts.list_accounts)):
        site.add("Taken")
    before = len(site.server.tx(accounts.list_accounts))
    refusal = site.owner.post(f"{path_of(site.shop)}/add", site.form("Refused") | changes)
    assert (refusal.status_code, error in text_of(refusal)) == (status, True)
    assert SECRET not in refusal.text
    assert "unchecked" not in refusal.text
    assert len(site.server.tx(accounts.list_accounts)) == before


def test_a_label_is_only_compared_with_the_merchants_own(site: Site) -> None:
    other, account = site.server.create_shop(), site.add("Same name")
    owner = create_person(site.server, other.id, "owner")
    site.allow(other, "sandbox")
    added = owner.post(f"{path_of(other)}/add", site.form(account.label))
    assert added.status_code == 303
    with pytest.raises(Invalid, match="several merchants"):
        site.server.tx(lambda tx: accounts.find_by_label(tx, account.label))


def test_nothing_is_added_without_the_operators_permission(site: Site) -> None:
    shop = site.server.create_shop()
    owner = create_person(site.server, shop.id, "owner")
    page = owner.get(path_of(shop))
    text = text_of(page)
    assert "Your own gateway accounts are not enabled" in text
    assert "Ask the operator of this service, and name the provider" in text
    assert ("PayPal" in text, f'data-value="{shop.id}"' in page.text) == (True, True)
    other = site.server.create_shop()
    site.allow(other, "sandbox")
    others_owner = create_person(site.server, other.id, "owner")
    assert "No gateway accounts yet" in text_of(others_owner.get(path_of(other)))
    for gateway in ("sandbox", "stripe"):
        opened = owner.get(f"{path_of(shop)}/new?gateway={gateway}")
        assert opened.headers["location"].endswith("#add")
        owner.post(f"{path_of(shop)}/add", site.form("Mine", gateway=gateway))
    assert site.server.tx(lambda tx: accounts.list_own(tx, shop.id)) == []


def test_accounts_of_others_are_not_found(site: Site) -> None:
    account = site.add("Nobody else's")
    operators = accounts.NewAccount(
        gateway="sandbox", label="Operator", credentials=site.bank.credentials
    )
    now, server = site.server.app.clock(), site.server
    of_operator = server.tx(
        lambda tx: accounts.add(tx, server.settings, operators, now, actor=TESTER)
    )
    other = server.create_shop()
    stranger = create_person(server, other.id, "owner")
    site.allow(other, "sandbox")
    for target in (account, of_operator):
        place = f"{path_of(other)}/{target.id}"
        attempts = [
            stranger.get(place),
            stranger.get(f"{place}/credentials"),
            stranger.post(f"{place}/status", {"status": "RETIRED"}),
            stranger.post(f"{place}/credentials/replace", site.form("")),
            stranger.get(f"{path_of(site.shop)}/{target.id}"),
        ]
        assert {each.status_code for each in attempts} == {404}
        assert site.find(target.id) == target
    assert account.label not in stranger.get(path_of(other)).text


def test_only_owners_change_accounts_and_support_does_not_see_them(site: Site) -> None:
    account = site.add("Roles")
    place = f"{path_of(site.shop)}/{account.id}"
    finance = create_person(site.server, site.shop.id, "finance")
    shown = finance.get(place)
    assert (shown.status_code, "Retire the account" in shown.text) == (200, False)
    assert finance.post(f"{place}/status", {"status": "PAUSED"}).status_code == 403
    assert finance.get(f"{place}/credentials").headers["location"] == place
    support = create_person(site.server, site.shop.id, "support")
    assert support.get(place).status_code == 403
    assert "gateway-accounts" not in support.get(f"/dashboard/{site.shop.id}/settings").text
    staff = create_person(site.server, None, staff_role="admin")
    assert staff.get(place).status_code == 200
    assert staff.post(f"{place}/status", {"status": "PAUSED"}).status_code == 403
    assert site.find(account.id).status == "ACTIVE"


def test_an_owner_pauses_resumes_and_retires_but_does_not_undo_the_operators_pause(
    site: Site,
) -> None:
    account, server = site.add("Pausing"), site.server
    place = f"{path_of(site.shop)}/{account.id}"

    def set_status(status: str) -> int:
        return site.owner.post(f"{place}/status", {"status": status}).status_code

    assert [set_status(each) for each in ("PAUSED", "PAUSED", "ACTIVE", "GONE")] == [
        303, 303, 303, 400,
    ]  # fmt: skip
    now = server.app.clock()
    server.tx(lambda tx: accounts.set_status(tx, account.id, "PAUSED", now, actor=TESTER))
    page = text_of(site.owner.get(place))
    assert "Only the operator can resume it" in page
    assert (set_status("ACTIVE"), site.find(account.id).status) == (403, "PAUSED")
    server.tx(lambda tx: accounts.set_status(tx, account.id, "ACTIVE", now, actor=TESTER))
    site.allow(site.shop)
    try:
        assert (set_status("PAUSED"), set_status("ACTIVE")) == (303, 403)
        assert site.owner.get(f"{place}/credentials").status_code == 403
        assert (set_status("RETIRED"), set_status("ACTIVE")) == (303, 400)
    finally:
        site.allow(site.shop, "sandbox", "epay")
    assert [action for action, *_ in site.actions(account)] == [
        "gateways add", "gateways pause", "gateways resume", "gateways pause", "gateways resume",
        "gateways pause", "gateways retire",
    ]  # fmt: skip


def test_credentials_are_replaced_after_a_proof_of_identity(site: Site) -> None:
    account, clock = site.add("Rotating"), site.server.app.clock
    place = f"{path_of(site.shop)}/{account.id}"
    site.server.app.clock = lambda: clock() + LATER_MS
    try:
        proof_page = site.owner.get(f"{place}/credentials")
        assert ("Confirm that it is you" in proof_page.text, "Rotating" in proof_page.text) == (
            True,
            True,
        )
        site.owner.post(f"{place}/credentials", {"proof_password": PASSWORD})
        wrong = site.owner.post(
            f"{place}/credentials/replace", site.form("", secret_secret="w" * 32)
        )
        assert wrong.status_code == 409
        replaced = site.owner.post(f"{place}/credentials/replace", site.form(""))
        assert replaced.headers["location"].endswith("?done=rotated")
    finally:
        site.server.app.clock = clock
    assert site.find(account.id).previous_until is not None
    assert [action for action, *_ in site.actions(account)] == ["gateways add", "gateways rotate"]


def test_the_operator_chooses_the_gateways_on_the_page_of_the_merchant(site: Site) -> None:
    shop = site.server.create_shop()
    admin = create_person(site.server, None, staff_role="admin")
    place = f"/console/merchants/{shop.id}/gateways"
    assert "gateway_stripe" in admin.get(place).text
    assert admin.post(place, {"gateway_stripe": "1", "reason": ""}).status_code == 400
    chosen = {"gateway_stripe": "1", "gateway_paypal": "1", "reason": "own contract"}
    for form in (chosen, chosen, {"gateway_manual": "1", "reason": "why"}):
        admin.post(place, form)
    assert site.server.tx(lambda tx: accounts.list_allowed(tx, shop.id)) == ["paypal", "stripe"]
    rows = site.server.sql(
        "select subject from audit_log where merchant_id = $1 and action = 'merchants gateways'",
        shop.id,
    )
    assert [row["subject"] for row in rows] == ["paypal stripe"]
    auditor = create_person(site.server, None, staff_role="auditor")
    assert auditor.post(place, chosen).status_code == 403
    assert admin.post(place, {"reason": "ended"}).status_code == 303
    assert site.server.tx(lambda tx: accounts.list_allowed(tx, shop.id)) == []


def test_live_deployments_allow_no_sandbox_accounts(site: Site) -> None:
    live = msgspec.structs.replace(site.server.settings, gateways=("stripe",))
    assert live.livemode
    assert "sandbox" not in accounts.allowable(live)
    new = accounts.NewAccount(
        gateway="stripe",
        label="Test key",
        credentials={"secret_key": "sk_test_1", "webhook_secret": "whsec_1"},
        merchant_id=site.shop.id,
        livemode=live.livemode,
        by_merchant=True,
    )
    with pytest.raises(Invalid) as refusal:
        accounts.build(new, live)
    assert refusal.value.field == "test"


def test_a_merchants_server_is_called_at_public_addresses_only() -> None:
    policy = merchant_server_policy(Settings(), "https://pay.example.com/epay/")
    assert policy.target("https://pay.example.com/mapi.php").host == "pay.example.com"
    for url in ("https://other.example.com/", "https://pay.example.com:8443/"):
        with pytest.raises(Forbidden):
            policy.target(url)
    # A name that is public when it is checked, and private when it is called.
    with pytest.raises(Forbidden):
        policy.select_allowed("pay.example.com", [read_ip("127.0.0.1"), read_ip("10.1.2.3")])
    with pytest.raises(Forbidden):
        merchant_server_policy(Settings(), "http://pay.example.com/")  # not encrypted


def test_adapters_call_only_servers_that_the_policy_of_their_account_allows() -> None:
    addresses = {
        option.name.removeprefix(f"{gateway}_")
        for gateway in registry.merchants_gateways()
        for option in registry.credential_options(gateway) or ()
        if option.name.endswith(("_url", "_base"))
    }
    assert addresses == set(registry.ADDRESSES)
    modules = Path(registry.__file__).parent.rglob("*.py")
    assert [file for file in modules if "Policy.only(" in file.read_text()] == []
