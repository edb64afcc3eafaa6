"""Accounts of merchants: the prepaid balance pays exactly the fees that it can pay."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opentill import orders
from opentill.checkouts import PayerInput, pay
from opentill.checkouts import jobs as checkout_jobs
from opentill.core.errors import Invalid
from opentill.db.database import Tx
from opentill.gateways import Gateways
from opentill.gateways.accounts import DayLimit
from opentill.gateways.model import PaymentOutcome
from opentill.integrity.rules import check_books
from opentill.orders import PaymentAttempt, apply_outcome
from opentill.orders import jobs as order_jobs
from opentill.refunds import jobs as refund_jobs
from support.account_desk import Desk as AccountDesk
from support.account_desk import serving_without_cards
from support.api_server import SECRETS, ApiServer
from support.prepaid import adjust, read_prepaid, submit_direct
from support.sandbox_accounts import Bank, create_session, running_bank, start_payment
from support.sandbox_bank import wait_until

PAYMENTS = 64
FUNDED = 10
FEE = 40  # of 9.99 at 4 %
MINUTE = 60_000


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    """A sandbox bank, at which all accounts are."""
    with running_bank(tmp_path_factory.mktemp("bank"), "b" * 32) as bank:
        yield bank


@pytest.fixture(scope="module")
def server(
    postgres_url: str,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    pooler_url: Callable[[str], str],
) -> Iterator[ApiServer]:
    """A server whose environment takes no cards, and which sees new accounts at once."""
    data_dir = tmp_path_factory.mktemp("prepaid")
    with serving_without_cards(postgres_url, template, data_dir, pooler_url) as server:
        yield server
        _, violations = server.tx(check_books)
        assert violations == []


class Desk(AccountDesk):
    """A desk whose shop has a prepaid balance."""

    def top_up(self, amount_minor: int) -> None:
        """Top the prepaid balance up, and wait until the server knows it."""
        self.server.tx(lambda tx: adjust(tx, self.shop.id, "topup", amount_minor))
        self.wait_for_prepaid()

    def wait_for_prepaid(self) -> None:
        """Wait until the server has read the prepaid balance."""
        gateways = self.server.app.gateways
        assert isinstance(gateways, Gateways)
        prepaid, reserved = self.prepaid()
        wait_until(lambda: gateways.free_prepaid(self.shop.id, "USD") == prepaid - reserved)

    def prepaid(self) -> tuple[int, int]:
        """Return the prepaid balance and the reserved part of it."""

        async def read(tx: Tx) -> tuple[int, int]:
            return await read_prepaid(tx, self.shop.id)

        return self.server.tx(read)

    def methods(self, session_id: str) -> bool:
        """Whether the payment page offers cards."""
        page = self.server.http.get(f"/checkout/{session_id}")
        return 'value="CREDIT_CARD"' in page.text


@pytest.fixture
def desk(server: ApiServer, bank: Bank) -> Iterator[Desk]:
    """The accounts of a test."""
    desk = Desk(server, bank)
    yield desk
    desk.close()


def reasons(attempts: list[PaymentAttempt | None]) -> Counter[str]:
    """Count why attempts went to their accounts, and which accounts were passed."""
    routes = [json.loads(attempt.route or "{}") for attempt in attempts if attempt]
    return Counter(
        " ".join([route["by"], *(each["why"] for each in route.get("passed", ()))])
        for route in routes
    )


def test_parallel_payments_use_exactly_the_prepaid_balance_and_go_elsewhere(desk: Desk) -> None:
    own = desk.add("Own", merchant_id=desk.shop.id)
    other = desk.add("Other")
    desk.top_up(FUNDED * FEE + FEE - 1)
    attempts = desk.start_many(PAYMENTS)
    gateways = Counter(attempt.gateway for attempt in attempts if attempt)
    assert gateways == {own.id: FUNDED, other.id: PAYMENTS - FUNDED}
    assert desk.prepaid() == (FUNDED * FEE + FEE - 1, FUNDED * FEE)
    assert {attempt.prepaid_minor for attempt in attempts if attempt} == {FEE, None}
    counts = reasons(attempts)
    assert counts == {"OWN": FUNDED, "PRIORITY PREPAID": PAYMENTS - FUNDED}


def test_parallel_payments_are_refused_if_no_other_account_takes_them(desk: Desk) -> None:
    desk.add("Own", merchant_id=desk.shop.id)
    desk.top_up(FUNDED * FEE)
    attempts = desk.start_many(PAYMENTS)
    assert len([attempt for attempt in attempts if attempt]) == FUNDED
    assert desk.prepaid() == (FUNDED * FEE, FUNDED * FEE)


def test_a_day_limit_and_the_prepaid_balance_hold_together(desk: Desk) -> None:
    limit = (DayLimit("USD", None, 5),)
    own = desk.add("Limited", merchant_id=desk.shop.id, day_limits=limit)
    desk.top_up(3 * FEE)
    assert len([each for each in desk.start_many(12) if each]) == 3
    rows = desk.server.sql("select payments from gateway_day_totals where account_id = $1", own.id)
    assert [row["payments"] for row in rows] == [3]
    desk.top_up(10 * FEE)
    assert len([each for each in desk.start_many(12) if each]) == 2
    assert desk.prepaid() == (13 * FEE, 5 * FEE)


def test_fees_are_given_back_for_failures_and_taken_for_payments(desk: Desk) -> None:
    desk.add("Own", merchant_id=desk.shop.id)
    desk.top_up(4 * FEE)
    attempts = [each for each in desk.start_many(4) if each]
    for attempt, status in zip(attempts, ("DECLINED", "SUCCEEDED", "REFUSED"), strict=False):
        desk.apply(attempt, status, times=2)
    assert desk.prepaid() == (3 * FEE, FEE)


def test_a_payment_page_offers_the_account_only_with_enough_prepaid_balance(desk: Desk) -> None:
    desk.add("Own", merchant_id=desk.shop.id)
    session_id = create_session(desk.shop)["id"]
    assert not desk.methods(session_id)
    desk.top_up(FEE - 1)
    assert not desk.methods(session_id)
    desk.top_up(1)
    assert desk.methods(session_id)
    desk.start()
    desk.wait_for_prepaid()
    assert not desk.methods(session_id)


def test_an_account_takes_only_payments_of_its_merchant(desk: Desk) -> None:
    other_shop = desk.server.create_shop()
    desk.add("Own", merchant_id=other_shop.id)
    desk.server.tx(lambda tx: adjust(tx, other_shop.id, "topup", 100 * FEE))
    assert desk.start_many(1) == [None]


def test_an_expired_session_gives_its_fee_back_once_its_gateway_knows_no_payment(
    desk: Desk,
) -> None:
    desk.add("Own", merchant_id=desk.shop.id)
    desk.top_up(FEE)
    attempt = desk.start()
    app, url = desk.server.app, desk.server.settings.public_url

    def check(now: int) -> None:
        desk.server.run(order_jobs.check_attempts(app.db, app.gateways, url, now))

    now = app.clock()
    check(now + 3 * MINUTE)  # the session is still open
    assert desk.prepaid() == (FEE, FEE)
    desk.server.sql(
        "update checkouts set expires_at = $1 where order_id = $2", now, attempt.order_id
    )
    desk.server.run(checkout_jobs.expire_due(app.db, now + MINUTE))
    check(now + 6 * MINUTE)
    check(now + 60 * MINUTE)
    assert desk.prepaid() == (FEE, 0)


def test_a_payment_whose_process_was_killed_gives_its_fee_back(desk: Desk) -> None:
    """The intent was committed, and the gateway never got the request."""
    own = desk.add("Own", merchant_id=desk.shop.id)
    desk.top_up(FEE)
    server, order_id = desk.server, desk.shop.create_order(desk.product_id)["id"]
    order = server.tx(lambda tx: orders.find(tx, desk.shop.id, order_id))
    attempt = server.tx(lambda tx: submit_direct(tx, order, server.app.clock(), own.id))
    assert attempt is not None
    assert desk.prepaid() == (FEE, FEE)
    url, now = server.settings.public_url, server.app.clock()
    server.run(order_jobs.check_attempts(server.app.db, server.app.gateways, url, now + MINUTE))
    assert desk.prepaid() == (FEE, 0)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_killed_process_neither_loses_a_fee_nor_takes_it_twice(
    desk: Desk, bank: Bank, moment: str
) -> None:
    """The process is killed by SIGKILL after the intent: before or after the bank got it."""
    own, server = desk.add("Own", merchant_id=desk.shop.id), desk.server
    desk.top_up(FEE)
    session = create_session(desk.shop)
    fields = {
        "database_url": server.settings.database_url,
        "gateway_options": {"sandbox_methods": "BANK_TRANSFER"},
        **SECRETS,
    }
    script = Path(__file__).with_name("killed_payment.py")
    command = [sys.executable, str(script), json.dumps(fields), session["id"], own.id, moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{moment}\n".encode()
        assert desk.prepaid() == (FEE, FEE)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    url, now = server.settings.public_url, server.app.clock()

    def work(minutes: int) -> None:
        later = now + minutes * MINUTE
        server.run(order_jobs.check_attempts(server.app.db, server.app.gateways, url, later))

    def attempts() -> list[tuple[str, str]]:
        rows = server.sql(
            "select id, status from payment_attempts where merchant_id = $1", desk.shop.id
        )
        return [(row["id"], row["status"]) for row in rows]

    work(1)
    ((attempt_id, status),) = attempts()
    if moment == "before":
        assert status not in {"SUBMITTED", "ACTION_REQUIRED", "SUCCEEDED"}
        work(60)
        assert desk.prepaid() == (FEE, 0)  # given back once
        desk.wait_for_prepaid()
        attempt = start_payment(server, session["id"])
        assert attempt.gateway == own.id  # the customer pays with a second attempt
        attempt_id = attempt.id
    else:
        assert status == "ACTION_REQUIRED"
        # The customer who sends the form again gets the attempt that the bank has.
        assert start_payment(server, session["id"]).id == attempt_id
    assert desk.prepaid() == (FEE, FEE)
    bank.pay(attempt_id)
    wait_until(lambda: (work(2), desk.prepaid() == (0, 0))[1])
    work(60)
    assert desk.prepaid() == (0, 0)  # taken once
    assert [each for each, status in attempts() if status == "SUCCEEDED"] == [attempt_id]


def test_a_callback_pays_the_order_directly_and_a_refund_goes_through_the_account(
    desk: Desk, bank: Bank
) -> None:
    desk.add("Own", merchant_id=desk.shop.id)
    desk.top_up(FEE)
    attempt = desk.start()
    bank.pay(attempt.id)
    server = desk.server
    url = server.settings.public_url

    def check() -> bool:
        now = server.app.clock() + MINUTE
        server.run(order_jobs.check_attempts(server.app.db, server.app.gateways, url, now))
        return desk.shop.read_order(attempt.order_id)["status"] == "PAID"

    wait_until(check)
    refund = desk.shop.refund(attempt.order_id, amount="4.00")
    assert refund["merchantDebitUsd"] == "0.00"
    now = server.app.clock()
    server.run(refund_jobs.send_due(server.app.db, server.app.gateways, url, now))
    assert desk.shop.data("GET", f"/v1/refunds/{refund['id']}")["status"] == "SUCCEEDED"
    balance = desk.shop.data("GET", "/v1/balance")
    assert [balance[name] for name in ("available", "pending", "frozen")] == ["0.00"] * 3
    kinds = [row["type"] for row in desk.shop.data("GET", "/v1/balance/transactions")["items"]]
    assert kinds == ["FEE", "ADMIN_RECHARGE"]


def test_failures_payments_and_top_ups_at_the_same_time_leave_the_books_right(desk: Desk) -> None:
    """Locks are taken in one order, so that nothing is refused by a deadlock."""
    desk.add("Own", merchant_id=desk.shop.id, day_limits=(DayLimit("USD", None, 1000),))
    desk.top_up(20 * FEE)
    attempts = [each for each in desk.start_many(20) if each]
    assert len(attempts) == 20
    server = desk.server
    sessions = [desk.shop.create_session(desk.product_id)["id"] for _ in range(10)]

    async def everything() -> None:
        async def report(attempt: PaymentAttempt, status: str) -> None:
            outcome = PaymentOutcome(status=status)  # type: ignore[arg-type]
            await server.app.db.run(
                lambda tx: apply_outcome(
                    tx, attempt.merchant_id, attempt.id, outcome, server.app.clock(),
                    gateway=attempt.gateway,
                )
            )  # fmt: skip

        async def start(session_id: str) -> None:
            payer = PayerInput(
                email="a@example.com", name="A", method="CREDIT_CARD", ip="192.0.2.1", locale="en"
            )
            app, url = server.app, server.settings.public_url
            try:
                await pay(app.db, app.gateways, session_id, payer, url, app.clock())
            except Invalid as refusal:
                assert refusal.field == "method"

        statuses = ("SUCCEEDED", "DECLINED")
        await asyncio.gather(
            *(report(each, statuses[number % 2]) for number, each in enumerate(attempts)),
            *map(start, sessions),
            *(
                server.app.db.run(lambda tx: adjust(tx, desk.shop.id, "topup", FEE))
                for _ in range(5)
            ),
        )

    server.run(everything())
    prepaid, reserved = desk.prepaid()
    assert prepaid == (20 + 5 - 10) * FEE
    assert reserved <= 10 * FEE
