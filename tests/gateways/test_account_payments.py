"""Accounts at two sandbox banks beside the environment's: payments, callbacks and refunds.

Two servers share a database; each loads the accounts by itself.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx2
import msgspec
import pytest
import structlog

from opentill import reconciliation, worker
from opentill.core import metrics
from opentill.core.settings import Settings
from opentill.figures import jobs as figure_jobs
from opentill.gateways import Gateways, accounts
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import follower
from opentill.gateways.accounts.follower import AccountFollower
from opentill.gateways.choice import PassedOver, decode_reason
from opentill.gateways.model import PaymentOutcome, Reports
from opentill.gateways.running_calls import RunningCalls
from opentill.gateways.sandbox import SandboxGateway
from opentill.orders import ATTEMPT_ENDS
from opentill.sandbox.callbacks import sign
from support.api_server import SECRETS, ApiServer, Shop, serving
from support.databases import cloned_database
from support.people import TESTER, create_person
from support.sandbox_accounts import Bank, add_account, create_session, running_bank, start_payment
from support.sandbox_bank import wait_until

SEEN_S: Final = 5.0  # every process has a change within this time


class Deployment:
    """Two servers on one database, and two banks with an account each."""

    def __init__(
        self, server: ApiServer, other_server: ApiServer, banks: tuple[Bank, Bank]
    ) -> None:
        """Add an account at each bank."""
        self.server, self.other_server, self.banks = server, other_server, banks
        started = time.monotonic()
        self.accounts = tuple(
            add_account(server, bank, f"Bank {number}") for number, bank in enumerate(banks, 1)
        )
        for running in (server, other_server):
            for account in self.accounts:
                wait_until(
                    lambda running=running, account=account: has_revision(running, account),
                    2 * SEEN_S,
                )
        self.seen_after_s = time.monotonic() - started

    def only(self, account: GatewayAccount) -> None:
        """Pause every other account, so that this one takes the payments."""
        for other in self.accounts:
            self.set_status(other, "ACTIVE" if other.id == account.id else "PAUSED")

    def set_status(self, account: GatewayAccount, status: Any) -> None:
        """Set an account's status and wait until the first server has it."""
        now = self.server.app.clock()
        changed = self.server.tx(
            lambda tx: accounts.set_status(tx, account.id, status, now, actor=TESTER)
        )
        self.wait_for(changed)

    def wait_for(self, account: GatewayAccount) -> None:
        """Wait until the first server has this revision of an account."""
        wait_until(lambda: has_revision(self.server, account), SEEN_S)

    def pay(self, shop: Shop, bank: Bank) -> tuple[str, Any]:
        """Pay a new order through a bank; return its id and its attempt."""
        session = create_session(shop)
        attempt = start_payment(self.server, session["id"])
        bank.pay(attempt.id)
        order_id = attempt.order_id
        wait_until(lambda: shop.read_order(order_id)["status"] == "PAID")
        return order_id, attempt


def has_revision(server: ApiServer, account: GatewayAccount) -> bool:
    """Whether a server has this revision of an account."""
    gateways = server.app.gateways
    assert isinstance(gateways, Gateways)
    loaded = gateways.accounts.get(account.id)
    return loaded is not None and loaded.revision >= account.revision


@pytest.fixture(scope="module")
def deployment(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[Deployment]:
    """The servers and banks of this module; the environment's account takes no cards."""
    directory = tmp_path_factory.mktemp("accounts")
    with (
        cloned_database(postgres_url, template) as url,
        running_bank(directory / "one", "one" * 12) as first,
        running_bank(directory / "two", "two" * 12) as second,
    ):
        fields: dict[str, Any] = {
            "database_url": pooler_url(url),
            "data_dir": directory,
            "gateway_options": {"sandbox_methods": "BANK_TRANSFER"},
            "limit_ip_per_minute": 0,
            "limit_checkouts_per_minute": 0,
            "limit_payments_per_minute": 0,
            **SECRETS,
        }
        settings = Settings(**fields)
        with serving(settings) as other_server, pytest.MonkeyPatch.context() as patch:
            patch.setattr(follower, "POLL_S", 0.05)  # the first server polls without waiting
            with serving(settings) as server:
                yield Deployment(server, other_server, (first, second))
                server.check_books()


@pytest.fixture
def shop(deployment: Deployment) -> Shop:
    """A new merchant."""
    return deployment.server.create_shop()


def test_a_new_account_is_used_by_every_process_within_five_seconds(
    deployment: Deployment,
) -> None:
    assert deployment.seen_after_s < SEEN_S


def test_two_accounts_of_a_gateway_take_payments_side_by_side(
    deployment: Deployment, shop: Shop
) -> None:
    for account, bank in zip(deployment.accounts, deployment.banks, strict=True):
        deployment.only(account)
        order_id, attempt = deployment.pay(shop, bank)
        assert attempt.gateway == account.id
        order = shop.read_order(order_id)
        assert order["livemode"] is False
        (row,) = deployment.server.sql(
            "select livemode from orders where merchant_id = $1 and id = $2", shop.id, order_id
        )
        assert row["livemode"] is False  # stored when the payment was confirmed


def test_a_retired_account_still_pays_its_order_and_refunds_it(
    deployment: Deployment, shop: Shop
) -> None:
    bank = deployment.banks[0]
    account = add_account(deployment.server, bank, "Closing", priority=1)
    for other in deployment.accounts:
        deployment.set_status(other, "PAUSED")
    deployment.wait_for(account)
    attempt = start_payment(deployment.server, create_session(shop)["id"])
    assert attempt.gateway == account.id
    deployment.set_status(account, "RETIRED")
    with pytest.raises(Exception, match="method must be one of the payment methods on offer"):
        start_payment(deployment.server, create_session(shop)["id"])
    bank.pay(attempt.id)  # the callback arrives after the account was retired
    wait_until(lambda: shop.read_order(attempt.order_id)["status"] == "PAID")
    refund = shop.refund(attempt.order_id)
    run_worker_jobs(deployment.server)
    refund_id = refund["id"]
    wait_until(lambda: shop.data("GET", f"/v1/refunds/{refund_id}")["status"] == "SUCCEEDED")
    deployment.only(deployment.accounts[0])
    server = deployment.server
    adapter = server.app.gateways[account.id]
    assert isinstance(adapter, Reports)
    now = server.app.clock()
    report = server.run(
        reconciliation.reconcile_fetched(
            server.app.db, adapter, account.id, attempt.created_at - 1000, None, TESTER, now
        )
    )
    assert (report.items, report.matched) == (2, 2)  # the payment and its refund
    ours = {attempt.id, refund_id}
    assert not [row for row in report.differences if row.reference in ours]


def run_worker_jobs(server: ApiServer) -> None:
    """Run the worker's jobs for accounts once, and wait until they have ended."""
    others = worker._OtherGateways(("sandbox",))

    async def work() -> None:
        await others.check_attempts(server.app)
        await others.send_refunds(server.app)
        await others.finish()

    server.run(work())


def test_the_worker_queries_the_account_of_an_attempt(deployment: Deployment, shop: Shop) -> None:
    """The bank's callback is lost, so the worker finds out that the order was paid."""
    account, bank = deployment.accounts[1], deployment.banks[1]
    deployment.only(account)
    with httpx2.Client(base_url=bank.url, trust_env=False) as http:
        fault = {"operation": "callback", "kind": "drop", "times": 100}
        headers = {"Authorization": f"Bearer {bank.secret}"}
        assert http.post("/faults", json=fault, headers=headers).status_code == 201
    attempt = start_payment(deployment.server, create_session(shop)["id"])
    bank.pay(attempt.id)
    assert shop.read_order(attempt.order_id)["status"] == "PENDING"
    clock = deployment.server.app.clock
    deployment.server.app.clock = lambda: clock() + 3_600_000
    try:
        run_worker_jobs(deployment.server)
    finally:
        deployment.server.app.clock = clock
    assert shop.read_order(attempt.order_id)["status"] == "PAID"


# ── callbacks ──


def create_report(attempt: Any, secret: str) -> tuple[bytes, dict[str, str]]:
    """Return a genuine report that an attempt was paid."""
    payment = {
        "id": attempt.id, "status": "succeeded", "amount_minor": attempt.amount_minor,
        "currency": attempt.currency, "method": attempt.method, "action_url": "", "qr_text": None,
        "decline_code": None,
    }  # fmt: skip
    body = json.dumps({"type": "payment.succeeded", "data": {"payment": payment}}).encode()
    return body, {"sandbox-signature": sign(secret, body, int(time.time()))}


def test_an_account_cannot_report_on_a_payment_of_another(
    deployment: Deployment, shop: Shop
) -> None:
    own, other = deployment.accounts
    deployment.only(own)
    attempt = start_payment(deployment.server, create_session(shop)["id"])
    environment_secret = SECRETS["sandbox_secret"]
    genuine = {
        f"/gateways/sandbox/{other.id}/callback": deployment.banks[1].secret,
        "/gateways/sandbox/callback": environment_secret,
    }
    before = metrics.render().decode()
    for path, secret in genuine.items():
        body, headers = create_report(attempt, secret)
        with structlog.testing.capture_logs() as lines:
            response = deployment.server.http.post(path, content=body, headers=headers)
        assert response.status_code == 200  # as for any report, so that nobody learns the owner
        assert any(
            line["event"] == "gateway event about another gateway's payment"
            and line["owner"] == own.id
            for line in lines
        )
        assert shop.read_order(attempt.order_id)["status"] != "PAID"
    counted = f'opentill_foreign_gateway_events_total{{gateway="{other.id}",owner="{own.id}"}}'
    assert counted not in before
    assert counted in metrics.render().decode()
    body, headers = create_report(attempt, deployment.banks[0].secret)
    path = f"/gateways/sandbox/{own.id}/callback"
    assert deployment.server.http.post(path, content=body, headers=headers).status_code == 200
    assert shop.read_order(attempt.order_id)["status"] == "PAID"


def test_a_report_needs_the_secret_and_the_address_of_its_account(
    deployment: Deployment, shop: Shop
) -> None:
    own, other = deployment.accounts
    deployment.only(own)
    attempt = start_payment(deployment.server, create_session(shop)["id"])
    body, headers = create_report(attempt, deployment.banks[0].secret)
    statuses = {
        path: deployment.server.http.post(path, content=body, headers=headers).status_code
        for path in (
            f"/gateways/sandbox/{other.id}/callback",
            "/gateways/sandbox/callback",
            f"/gateways/stripe/{own.id}/callback",
            f"/gateways/{own.id}/callback",
            "/gateways/sandbox/gat_00000000000000000000000000/callback",
        )
    }
    assert list(statuses.values()) == [400, 400, 404, 404, 404]
    assert shop.read_order(attempt.order_id)["status"] != "PAID"


def test_after_a_rotation_the_old_secret_verifies_callbacks_until_the_overlap_ends(
    deployment: Deployment, shop: Shop
) -> None:
    server, bank = deployment.server, deployment.banks[0]
    account = add_account(server, bank, "Rotated", priority=1)
    for other in deployment.accounts:
        deployment.set_status(other, "PAUSED")
    deployment.wait_for(account)
    attempts = [start_payment(server, create_session(shop)["id"]) for _ in range(2)]
    assert {attempt.gateway for attempt in attempts} == {account.id}
    now = server.app.clock()
    new = {"url": bank.url, "secret": "new" * 12}
    rotated = server.tx(
        lambda tx: accounts.rotate(tx, server.settings, account.id, new, now, actor=TESTER)
    )
    deployment.wait_for(rotated)
    path = f"/gateways/sandbox/{account.id}/callback"
    for attempt, secret in zip(attempts, (bank.secret, new["secret"]), strict=True):
        body, headers = create_report(attempt, secret)
        assert server.http.post(path, content=body, headers=headers).status_code == 200
        assert shop.read_order(attempt.order_id)["status"] == "PAID"
    clock = server.app.clock
    server.app.clock = lambda: clock() + accounts.OVERLAP_MS + 1000
    try:
        body, headers = create_report(attempts[0], bank.secret)
        assert server.http.post(path, content=body, headers=headers).status_code == 400
    finally:
        server.app.clock = clock
    deployment.set_status(rotated, "RETIRED")
    deployment.only(deployment.accounts[0])


# ── loading ──


def create_follower(server: ApiServer, gateways: Gateways, **changes: Any) -> AccountFollower:
    """Return a follower that loads a server's accounts into other gateways."""
    settings = msgspec.structs.replace(server.settings, **changes)
    return AccountFollower(server.app.db, gateways, settings, ATTEMPT_ENDS, grace_s=0.05)


def test_an_account_that_cannot_be_decrypted_is_reported_and_stops_no_other(
    deployment: Deployment,
) -> None:
    server, (first, second) = deployment.server, deployment.accounts
    gateways = Gateways({}, {}, {}, livemode=False)
    loader = create_follower(server, gateways, secret_key="another key " * 4)
    with structlog.testing.capture_logs() as lines:
        server.run(loader.refresh())
        server.run(loader.refresh())  # not before the next retry
    unreadable = [line for line in lines if line["event"] == "gateway account cannot be loaded"]
    reasons = {line["account"]: line["reason"] for line in unreadable}
    assert reasons[first.id] == "its credentials were encrypted with another key"
    assert len(unreadable) == len(reasons)
    assert first.id not in gateways
    assert f'opentill_gateway_account_failures_total{{account="{second.id}"}} 1.0' in (
        metrics.render().decode()
    )
    loader._settings = server.settings  # the key is restored
    loader._retry_at = 0.0
    server.run(loader.refresh())
    assert {first.id, second.id} <= gateways.keys()
    assert gateways.unreadable == {}
    server.run(loader.close())


class SlowGateway(SandboxGateway):
    """A gateway whose queries last until they are released."""

    def __init__(self, *args: Any) -> None:
        """Nothing is released yet."""
        super().__init__(*args)
        self.released = asyncio.Event()
        self.is_closed = False

    async def find_payment(self, attempt_id: str, provider_ref: str = "") -> PaymentOutcome:
        """Return once it is released. Fails if the gateway was closed before."""
        await self.released.wait()
        assert not self.is_closed
        return PaymentOutcome(status="PENDING")

    async def close(self) -> None:
        """Close the connections."""
        self.is_closed = True
        await super().close()


def test_a_replaced_adapter_is_closed_after_its_running_calls(deployment: Deployment) -> None:
    server, account = deployment.server, deployment.accounts[0]
    gateways = Gateways({}, {}, {}, livemode=False)

    async def replace() -> None:
        loader = create_follower(server, gateways)
        await loader.refresh()
        slow = SlowGateway("http://127.0.0.1:1", "s" * 32)
        await gateways[account.id].close()
        gateways[account.id] = slow
        loader._calls[id(slow)] = calls = RunningCalls(slow)
        call = asyncio.create_task(slow.find_payment("att_1"))
        await asyncio.sleep(0)
        stored = loader._loaded[account.id]
        loader._loaded[account.id] = msgspec.structs.replace(stored, credentials=b"other")
        loader._revisions = -1
        await loader.refresh()
        assert gateways[account.id] is not slow
        assert calls.number == 1
        await asyncio.sleep(0.3)  # six times as long as an adapter without calls stays open
        assert not slow.is_closed
        slow.released.set()
        assert (await call).status == "PENDING"
        while not slow.is_closed:
            await asyncio.sleep(0.01)
        await loader.close()
        for adapter in gateways.values():
            await adapter.close()

    server.run(asyncio.wait_for(replace(), 10))


def test_a_pause_keeps_the_adapter_of_the_account(deployment: Deployment) -> None:
    account = deployment.accounts[1]
    adapter = deployment.server.app.gateways[account.id]
    deployment.set_status(account, "PAUSED")
    assert deployment.server.app.gateways[account.id] is adapter


# ── pages ──


def test_a_payment_says_why_it_went_to_its_account(deployment: Deployment, shop: Shop) -> None:
    """The first account's provider cannot be reached, so the second one takes the payment."""
    server, bank = deployment.server, deployment.banks[0]
    dead_bank = Bank("http://127.0.0.1:9", bank.secret)
    dead = add_account(server, dead_bank, "Away", priority=1)
    deployment.wait_for(dead)
    deployment.only(deployment.accounts[0])
    attempt = start_payment(server, create_session(shop)["id"])
    deployment.set_status(dead, "RETIRED")
    assert attempt.gateway == deployment.accounts[0].id
    reason = decode_reason(attempt.route)
    assert reason is not None
    assert reason.passed == (PassedOver(dead.id, "UNREACHABLE"),)
    assert decode_reason('{"by":"OF_ANOTHER_VERSION"}') is None
    auditor = create_person(server, None, staff_role="auditor")
    page = auditor.get(f"/console/payments/{attempt.order_id}").text
    assert "Bank 1 (sandbox)" in page
    assert "Away (sandbox) could not be reached" in page


def test_pages_of_staff_name_an_account_by_its_label(deployment: Deployment, shop: Shop) -> None:
    server, account = deployment.server, deployment.accounts[0]
    deployment.only(account)
    order_id, _ = deployment.pay(shop, deployment.banks[0])
    dispute = shop.open_dispute(order_id)
    server.run(figure_jobs.count_all(server.app.db))
    auditor = create_person(server, None, staff_role="auditor")
    for path in ("", "gateways", "reconciliation", f"disputes/{dispute.id}"):
        page = auditor.get(f"/console/{path}")
        assert page.status_code == 200, path
        assert "Bank 1 (sandbox)" in page.text, path
