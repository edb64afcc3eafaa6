"""Success rates and breakers of accounts over HTTP: the bank declines, and payments move on."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import httpx2
import msgspec
import pytest

from opentill import orders
from opentill.core.errors import Invalid
from opentill.core.money import Money
from opentill.core.settings import Settings
from opentill.db.database import Tx
from opentill.gateways import Gateways, accounts, rules
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import AccountChanges, follower
from opentill.gateways.breakers import ATTEMPTS, CALLS, Breakers
from opentill.gateways.choice import PaymentFacts, decode_reason, find_misfit
from opentill.gateways.model import PaymentOutcome
from opentill.gateways.success_rates import EndedAttempt
from opentill.mail import jobs as mail_jobs
from opentill.orders import PaymentAttempt
from opentill.orders.payments import account_health
from support import world
from support.api_server import SECRETS, ApiServer, Shop, serving
from support.databases import cloned_database
from support.people import TESTER, create_person
from support.routing import create_account
from support.sandbox_accounts import (
    CARD,
    Bank,
    add_account,
    create_session,
    running_bank,
    start_payment,
)
from support.sandbox_bank import wait_until

NO_FUNDS: Final = {**CARD, "number": "4000000000009995"}
NOW: Final = 1_795_000_000_000
PAYMENT: Final = PaymentFacts(method="BANK_TRANSFER", currency="USD")


class Desk:
    """A server, a bank and two accounts, of which the first is preferred."""

    def __init__(self, server: ApiServer, bank: Bank) -> None:
        """Add the accounts."""
        self.server, self.bank = server, bank
        self.first = add_account(server, bank, "First", priority=1)
        self.second = add_account(server, bank, "Second", priority=2)
        self.shop: Shop = server.create_shop()
        self.wait_for(self.second)

    @property
    def gateways(self) -> Gateways:
        """The gateways of the server."""
        gateways = self.server.app.gateways
        assert isinstance(gateways, Gateways)
        return gateways

    def wait_for(self, account: GatewayAccount) -> None:
        """Wait until the server has this revision of an account."""
        wait_until(
            lambda: (
                (loaded := self.gateways.accounts.get(account.id)) is not None
                and loaded.revision >= account.revision
            )
        )

    def change(self, account: GatewayAccount, **changes: Any) -> None:
        """Change an account and wait until the server uses it."""
        server = self.server
        self.wait_for(
            server.tx(
                lambda tx: accounts.change(
                    tx, server.settings, account.id, AccountChanges(**changes),
                    server.app.clock(), actor=TESTER,
                )
            )
        )  # fmt: skip

    def pay(self, cards: dict[str, Any]) -> PaymentAttempt:
        """Pay a new session by the card of the account that takes it."""
        attempt = start_payment(self.server, create_session(self.shop)["id"])
        with httpx2.Client(base_url=self.bank.url, timeout=30, trust_env=False) as browser:
            answer = browser.post(f"/pay/{attempt.id}", data=cards[attempt.gateway])
            assert answer.status_code < 400
        wait_until(lambda: self.status_of(attempt) in {"SUCCEEDED", "DECLINED"})
        return attempt

    def status_of(self, attempt: PaymentAttempt) -> str:
        """Return the status of an attempt."""
        rows = self.server.sql("select status from payment_attempts where id = $1", attempt.id)
        return str(rows[0]["status"])


@pytest.fixture
def desk(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[Desk]:
    """A server that sees changes and ended attempts at once."""
    directory = tmp_path_factory.mktemp("health")
    with (
        cloned_database(postgres_url, template) as url,
        running_bank(directory / "bank", "b" * 32) as bank,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(follower, "POLL_S", 0.05)
        patch.setattr(account_health, "POLL_S", 0.05)
        fields: dict[str, Any] = {
            "database_url": pooler_url(url),
            "data_dir": directory,
            "gateway_options": {"sandbox_methods": "BANK_TRANSFER"},
            "limit_ip_per_minute": 0,
            **SECRETS,
        }
        with serving(Settings(**fields)) as server:
            yield Desk(server, bank)
            server.check_books()


def test_payments_go_to_the_account_whose_payments_succeed(desk: Desk) -> None:
    rule = rules.NewRule(ranking="SUCCESS_RATE", exploration_percent=0)
    desk.server.tx(lambda tx: rules.add(tx, rule, None, (), NOW, actor=TESTER))
    wait_until(lambda: len(desk.gateways.rules) == 1)
    cards = {desk.first.id: NO_FUNDS, desk.second.id: CARD}
    # Both accounts are at 100 %, so either takes the first payments, until one of them fails.
    while desk.pay(cards).gateway != desk.first.id:
        pass
    wait_until(lambda: desk.gateways.success_rates.rate(desk.first.id, "CREDIT_CARD") < 1)
    attempts = [desk.pay(cards) for _ in range(3)]
    assert {attempt.gateway for attempt in attempts} == {desk.second.id}
    reason = decode_reason(attempts[-1].route)
    assert reason is not None
    assert (reason.by, reason.success_percent) == ("SUCCESS_RATE", 100)


def test_an_account_pauses_itself_and_is_tried_again(desk: Desk) -> None:
    desk.change(desk.first, break_texts=("insufficient",), break_minutes=5)
    cards = {desk.first.id: NO_FUNDS, desk.second.id: CARD}
    assert desk.pay(cards).gateway == desk.first.id
    wait_until(lambda: desk.gateways.accounts[desk.first.id].broken_at is not None)
    assert desk.pay(cards).gateway == desk.second.id
    account = desk.gateways.accounts[desk.first.id]
    assert account.broken_reason == "error: insufficient_funds"
    assert account.retry_at is not None
    assert account.broken_at is not None
    assert account.retry_at - account.broken_at == 5 * 60_000
    check_staff_are_told(desk)
    # The pause is over: one payment tries the account, and succeeds.
    desk.server.sql(
        "update gateway_accounts set retry_at = broken_at, revision = revision + 1 where id = $1",
        account.id,
    )
    wait_until(lambda: not desk.gateways.is_broken(account.id))
    trial = start_payment(desk.server, create_session(desk.shop)["id"])
    other = start_payment(desk.server, create_session(desk.shop)["id"])
    assert (trial.gateway, other.gateway) == (desk.first.id, desk.second.id)
    desk.bank.pay(trial.id)
    wait_until(lambda: desk.gateways.accounts[desk.first.id].broken_at is None)
    assert desk.pay({desk.first.id: CARD}).gateway == desk.first.id
    rows = desk.server.sql(
        "select action, who from audit_log where subject like $1 order by number", f"{account.id}%"
    )
    assert [(row["action"], row["who"]) for row in rows][-2:] == [
        ("gateways break", "opentill"), ("gateways mend", "opentill"),
    ]  # fmt: skip


def test_mails_about_an_outage_name_the_account_by_its_label(desk: Desk) -> None:
    server = desk.server
    create_person(server, None, staff_role="admin")
    for _ in range(3):
        start_payment(server, create_session(desk.shop)["id"])
    server.sql("update payment_attempts set status = 'SUBMITTED'")
    later = server.app.clock() + 2 * 3_600_000
    server.run(mail_jobs.queue_staff_alerts(server.app.db, with_mail(server), later))
    rows = server.sql("select data from mails where topic = 'gateway_away'")
    assert {json.loads(row["data"])["gateway"] for row in rows} == {"First (sandbox)"}


def with_mail(server: ApiServer) -> Settings:
    """Return a server's settings with a mail server."""
    return msgspec.structs.replace(
        server.settings, smtp_url="smtp://127.0.0.1:9", mail_from="till@example.com"
    )


def check_staff_are_told(desk: Desk) -> None:
    """Check the mail, and the pages that staff look at."""
    server = desk.server
    admin = create_person(server, None, staff_role="admin")
    server.run(mail_jobs.queue_staff_alerts(server.app.db, with_mail(server), server.app.clock()))
    assert "Gateway accounts that paused themselves: 1" in admin.get("/console/").text
    page = admin.get("/console/gateways").text
    assert "Paused itself" in page
    assert "error: insufficient_funds" in page
    mails = server.sql("select data from mails where topic = 'account_paused'")
    assert json.loads(mails[0]["data"])["account"] == "First (sandbox)"


def test_resuming_ends_the_pause_of_an_account(desk: Desk) -> None:
    account, server = desk.first, desk.server
    desk.change(account, break_below_percent=50)
    now = server.app.clock()
    assert server.tx(lambda tx: accounts.pause_broken(tx, account.id, "why", now))
    assert not server.tx(lambda tx: accounts.pause_broken(tx, account.id, "again", now))
    resumed = server.tx(lambda tx: accounts.set_status(tx, account.id, "ACTIVE", now, actor=TESTER))
    assert resumed.broken_at is None


# ── verdicts, in memory ──


def ended(number: int, status: str, reason: str = "", created_at: int = NOW) -> EndedAttempt:
    """Return an attempt through the account a."""
    return EndedAttempt(
        id=f"att_{number}", gateway="a", method="CREDIT_CARD", status=status, reason=reason,
        created_at=created_at, updated_at=created_at + 5,
    )  # fmt: skip


def test_a_low_success_rate_pauses_an_account_after_twenty_payments() -> None:
    breakers, account = Breakers(), create_account("a", break_below_percent=40)
    statuses = ["SUCCEEDED"] * 7 + ["DECLINED"] * (ATTEMPTS - 8)
    attempts = [ended(number, status) for number, status in enumerate(statuses)]
    assert not breakers.judge_attempts(account, attempts).problem
    verdict = breakers.judge_attempts(account, [ended(99, "DECLINED")])
    assert verdict.problem == "35 % of the last 20 payments succeeded"


def test_slow_responses_pause_an_account() -> None:
    breakers, account = Breakers(), create_account("a", break_slower_ms=500)
    outcome = PaymentOutcome(status="ACTION_REQUIRED")
    problems = [breakers.judge_call(account, outcome, 600) for _ in range(CALLS)]
    assert problems[:-1] == [""] * (CALLS - 1)
    assert problems[-1] == "responses take 600 ms"


@pytest.mark.parametrize("status", ["DECLINED", "REFUSED", "UNKNOWN", "UNREACHABLE"])
def test_an_error_text_pauses_an_account_at_once(status: str) -> None:
    account = create_account("a", break_texts=["Account Suspended"])
    outcome = PaymentOutcome(status=status, reason="the account suspended by risk")  # type: ignore[arg-type]
    assert Breakers().judge_call(account, outcome, 100).startswith("error: ")
    paid = PaymentOutcome(status="SUCCEEDED", reason="account suspended")
    assert Breakers().judge_call(account, paid, 100) == ""


def test_a_trial_that_fails_pauses_the_account_again() -> None:
    account = create_account("a", break_texts=["x"], broken_at=NOW, broken_reason="y", retry_at=1)
    before, trial = ended(1, "DECLINED", "n", NOW - 1), ended(2, "DECLINED", "n", NOW + 60_001)
    assert not Breakers().judge_attempts(account, [before]).problem
    verdict = Breakers().judge_attempts(account, [trial])
    assert verdict.problem == "a payment failed again: n"
    paid = ended(3, "SUCCEEDED", "", NOW + 60_001)
    assert Breakers().judge_attempts(account, [paid]).is_mended


# ── the account of the environment ──


def test_the_account_of_the_environment_pauses_itself_in_every_process(desk: Desk) -> None:
    server = desk.server
    rule = rules.NewRule(ranking="SUCCESS_RATE", exploration_percent=0)
    server.tx(lambda tx: rules.add(tx, rule, None, (), NOW, actor=TESTER))
    changes = AccountChanges(break_texts=("insufficient",), break_minutes=5)
    set_breaker = partial(accounts.set_breaker, environment=("sandbox",), actor=TESTER)
    server.tx(lambda tx: set_breaker(tx, "sandbox", changes, NOW))
    with serving(server.settings) as other:
        others = other.app.gateways
        assert isinstance(others, Gateways)
        both = (desk.gateways, others)
        for gateways in both:
            wait_until(lambda each=gateways: each.list_breakers())
        end_attempt(server, "SUCCEEDED")
        for gateways in both:  # each has read attempts, and judges those that end from now on
            wait_until(lambda each=gateways: list(each.success_rates.all_rates()), 5)
        end_attempt(server, "DECLINED", "insufficient_funds")
        for gateways in both:
            wait_until(lambda each=gateways: each.is_broken("sandbox"), 5)
            assert find_misfit(gateways, "sandbox", PAYMENT) == "BROKEN"
            assert gateways.success_rates.rate("sandbox", "CREDIT_CARD") < 1
        breaker = others.breaker("sandbox")
        assert breaker is not None
        assert breaker.broken_reason == "error: insufficient_funds"
        server.sql("update environment_breakers set retry_at = broken_at")
        server.sql("update routing_rule_head set revision = revision + 1")
        for gateways in both:
            wait_until(lambda each=gateways: not each.is_broken("sandbox"), 5)
        end_attempt(server, "SUCCEEDED")
        for gateways in both:
            wait_until(lambda each=gateways: each.breaker("sandbox").broken_at is None, 5)
    rows = server.sql("select action from audit_log where subject like 'sandbox%' order by number")
    assert [row["action"] for row in rows] == ["gateways set", "gateways break", "gateways mend"]


def end_attempt(server: ApiServer, status: str, reason: str = "") -> None:
    """Record a payment through the account of the environment that has ended."""
    now = server.app.clock()

    async def work(tx: Tx) -> None:
        shop = await world.create_merchant(tx)
        product = await world.create_product(tx, shop.id)
        checkout = await world.create_session(tx, shop.id, product.id, now)
        order = await orders.find(tx, shop.id, checkout.order_id)
        attempt = await world.submit_attempt(tx, order, now)
        amount = Money(order.amount_minor, order.currency) if status == "SUCCEEDED" else None
        await world.report_payment(tx, attempt, status, now, reason=reason, amount=amount)

    server.tx(work)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (AccountChanges(label="Main"), "account"),
        (AccountChanges(break_slower_ms=50), "breakSlower"),
        (AccountChanges(break_below_percent=100), "breakBelow"),
    ],
)
def test_only_the_breaker_of_the_environments_account_is_changed(
    desk: Desk, changes: AccountChanges, field: str
) -> None:
    set_breaker = partial(accounts.set_breaker, environment=("sandbox",), actor=TESTER)
    for name, expected in (("sandbox", field), ("stripe", "account")):
        with pytest.raises(Invalid) as problem:
            desk.server.tx(lambda tx, name=name: set_breaker(tx, name, changes, NOW))
        assert problem.value.field == expected
