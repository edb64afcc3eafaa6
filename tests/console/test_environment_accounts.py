"""The page of an account of the environment, and its pause."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from console.console_pages import visible_text
from console.gateway_account_pages import ACCOUNTS, AccountsSite, running_site
from opentill.db.database import Tx
from opentill.gateways import accounts
from opentill.gateways.accounts import follower
from opentill.gateways.choice import PaymentFacts, find_misfit, offered_methods
from opentill.gateways.routing import Gateways
from opentill.portal import account_views
from support import world
from support.api_server import ApiServer
from support.people import TESTER as ACTOR

PAGE: Final = f"{ACCOUNTS}/environment?gateway=sandbox"
CARD: Final = PaymentFacts(method="CREDIT_CARD", currency="USD")


@pytest.fixture(scope="module")
def site(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[AccountsSite]:
    """The server and bank of this module."""
    directory = tmp_path_factory.mktemp("environment")
    with running_site(postgres_url, template, directory, pooler_url) as running:
        yield running


@pytest.fixture(autouse=True)
def _resumed(site: AccountsSite) -> Iterator[None]:
    """The account is active again after each test."""
    yield
    _send(site, "ACTIVE")


def _send(site: AccountsSite, status: str) -> str:
    """Submit the form, and return where it leads."""
    form = {"gateway": "sandbox", "status": status}
    response = site.admin.post(f"{ACCOUNTS}/environment/status", form)
    assert response.status_code == 303, response.text
    return response.headers["location"]


def _gateways(server: ApiServer) -> Gateways:
    gateways = server.app.gateways
    assert isinstance(gateways, Gateways)
    return gateways


def test_the_list_leads_to_the_page_with_figures_and_differences(site: AccountsSite) -> None:
    assert f'href="{PAGE}"' in site.admin.get(ACCOUNTS).text
    text = visible_text(site.admin.get(PAGE).text)
    for part in (
        "Success rate · Last 24 hours",
        "Volume · Last 30 days",
        "Last payment",
        "No open differences",
        "Pause",
    ):
        assert part in text
    assert "/gateways/sandbox/callback" in site.admin.get(PAGE).text
    assert site.admin.get(f"{ACCOUNTS}/environment?gateway=nobody").status_code == 404


def test_the_account_pauses_itself_as_the_form_says(site: AccountsSite) -> None:
    form = {
        "gateway": "sandbox", "break_below": "40", "break_slower": "0", "break_minutes": "5",
        "break_texts": "suspended\n\n risk ",
    }  # fmt: skip
    path = f"{ACCOUNTS}/environment/breaker"
    response = site.admin.post(path, form)
    assert response.status_code == 303, visible_text(response.text)
    text = visible_text(site.admin.get(response.headers["location"]).text)
    assert "The terms are saved." in text
    assert "Pauses itself below 40 %" in text
    breaker = _gateways(site.server).breaker("sandbox")
    assert breaker is not None
    assert (breaker.break_below_percent, breaker.break_slower_ms) == (40, None)
    assert breaker.break_texts == ["suspended", "risk"]
    for change, field in (
        ({"break_below": "100"}, "break_below"), ({"break_slower": "5"}, "break_slower"),
        ({"break_minutes": "x"}, "break_minutes"), ({"break_texts": "x" * 61}, "break_texts"),
    ):  # fmt: skip
        refusal = site.admin.post(path, form | change)
        assert (refusal.status_code, f'id="{field}-error"' in refusal.text) == (400, True)
    site.server.tx(lambda tx: accounts.pause_broken(tx, "sandbox", "error: risk", 0))
    site.server.run(accounts.load_changes(_gateways(site.server)))
    text = visible_text(site.admin.get(PAGE).text)
    assert "Paused after failures: error: risk" in text
    assert "Paused itself" in visible_text(site.admin.get(ACCOUNTS).text)
    assert "Paused itself" in visible_text(site.admin.get("/console/gateways").text)
    _send(site, "ACTIVE")
    assert find_misfit(_gateways(site.server), "sandbox", CARD) is None


def test_a_paused_account_takes_no_new_payments_and_is_resumed(site: AccountsSite) -> None:
    gateways = _gateways(site.server)
    location = _send(site, "PAUSED")
    page = visible_text(site.admin.get(location).text)
    assert "The account is paused. Its payments and refunds go on." in page
    assert find_misfit(gateways, "sandbox", CARD) == "PAUSED"
    assert offered_methods(gateways, "USD") == ()
    assert "sandbox" in gateways  # the adapter stays, for callbacks, queries and refunds
    assert "Paused" in visible_text(site.admin.get("/console/gateways").text)
    assert "Resume" in page
    assert _send(site, "ACTIVE").endswith("&done=ACTIVE")
    assert find_misfit(gateways, "sandbox", CARD) is None
    assert offered_methods(gateways, "USD") != ()


def test_a_pause_is_audited_once_and_other_processes_follow_it(site: AccountsSite) -> None:
    server = site.server
    before = site.audit("sandbox")
    for _ in range(2):
        _send(site, "PAUSED")
    assert site.audit("sandbox")[len(before) :] == [("gateways pause", site.admin.audit_name)]

    async def follow() -> bool:
        other = Gateways({"sandbox": _gateways(server)["sandbox"]}, {}, {}, livemode=False)
        async with follower.following(server.app.db, other, server.settings, ()):
            first = "sandbox" in other.paused
            await server.app.db.run(
                lambda tx: accounts.set_environment_status(
                    tx, "sandbox", "ACTIVE", 1, environment=("sandbox",), actor=ACTOR
                )
            )
            async with asyncio.timeout(5):
                while other.paused:
                    await asyncio.sleep(0.1)
            return first

    assert server.run(follow())


def test_only_those_who_manage_the_deployment_pause(site: AccountsSite) -> None:
    support = site.staff("support")
    form = {"gateway": "sandbox", "status": "PAUSED"}
    assert support.post(f"{ACCOUNTS}/environment/status", form).status_code == 403
    assert "Pause the account" not in support.get(PAGE).text
    unknown = {"gateway": "nobody", "status": "PAUSED"}
    assert site.admin.post(f"{ACCOUNTS}/environment/status", unknown).status_code == 404
    wrong = {"gateway": "sandbox", "status": "RETIRED"}
    assert site.admin.post(f"{ACCOUNTS}/environment/status", wrong).status_code == 400


def test_the_last_payment_is_exact(site: AccountsSite) -> None:
    server = site.server
    now = server.app.clock() // 1000 * 1000

    async def pay(tx: Tx) -> str:
        order = await world.pay_order(tx, await world.create_order(tx), now)
        return (await world.read_attempts(tx, order))[0].gateway

    gateway = server.tx(pay)
    last = server.tx(lambda tx: account_views.list_last_payments(tx, 0))
    assert last[gateway] == now


def test_the_pause_of_the_last_active_account_warns_that_nothing_can_be_paid(
    site: AccountsSite,
) -> None:
    text = "No other account is active: no payment can be made until you resume it."
    gateways = site.server.app.gateways
    assert isinstance(gateways, Gateways)
    others = {one.id for one in gateways.accounts.values()
              if one.status == "ACTIVE" and one.livemode == gateways.livemode}  # fmt: skip
    others |= {*gateways} - {*gateways.accounts, "sandbox"}
    assert (text in visible_text(site.admin.get(PAGE).text)) == (not others)
