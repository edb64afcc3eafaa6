"""Day limits of accounts: exact under parallel payments, and given back exactly once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest

from opentill.checkouts import jobs as checkout_jobs
from opentill.gateways import accounts
from opentill.gateways.account import GatewayAccount
from opentill.gateways.accounts import AccountChanges, DayLimit
from opentill.orders import jobs as order_jobs
from support import gateway_deployment
from support.account_desk import Desk as AccountDesk
from support.account_desk import serving_without_cards
from support.api_server import ApiServer
from support.commands import ForkServer
from support.databases import cloned_database
from support.people import TESTER
from support.pooler import connect
from support.sandbox_accounts import Bank, create_session, running_bank

PAYMENTS: Final = 64
LIMIT: Final = 10
MINUTE: Final = 60_000


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
    data_dir = tmp_path_factory.mktemp("limits")
    with serving_without_cards(postgres_url, template, data_dir, pooler_url) as server:
        yield server


class Desk(AccountDesk):
    """A desk whose accounts may have day limits."""

    def set_limit(self, account: GatewayAccount, limit: DayLimit) -> None:
        """Set a day limit and wait until the server uses it."""
        changes = AccountChanges(day_limits=(limit,))
        server = self.server
        self.wait_for(
            server.tx(
                lambda tx: accounts.change(
                    tx, server.settings, account.id, changes, server.app.clock(), actor=TESTER
                )
            )
        )

    def total(self, account: GatewayAccount) -> tuple[int, int]:
        """Return the number and the sum of the payments that count for an account's day."""
        rows = self.server.sql(
            "select payments, sum_minor from gateway_day_totals where account_id = $1", account.id
        )
        return (rows[0]["payments"], rows[0]["sum_minor"]) if rows else (0, 0)


@pytest.fixture
def desk(server: ApiServer, bank: Bank) -> Iterator[Desk]:
    """The accounts of a test."""
    desk = Desk(server, bank)
    yield desk
    desk.close()


def ten_payments(currency: str = "USD") -> tuple[DayLimit, ...]:
    """A limit of ten payments a day."""
    return (DayLimit(currency, None, LIMIT),)


def test_parallel_payments_stop_exactly_at_the_limit_and_go_to_the_next_account(
    desk: Desk,
) -> None:
    limited = desk.add("Limited", priority=1, day_limits=ten_payments())
    other = desk.add("Other", priority=2)
    attempts = desk.start_many(PAYMENTS)
    gateways = Counter(attempt.gateway for attempt in attempts if attempt)
    assert gateways == {limited.id: LIMIT, other.id: PAYMENTS - LIMIT}
    assert desk.total(limited) == (LIMIT, LIMIT * 999)
    assert desk.total(other) == (0, 0)  # an account without a limit writes no total
    reasons = Counter(attempt.route for attempt in attempts if attempt)
    passed = f'"passed":[{{"account":"{limited.id}","why":"DAY_LIMIT"}}]'
    assert reasons == {
        '{"by":"PRIORITY","priority":1}': LIMIT,
        f'{{"by":"PRIORITY","priority":2,{passed}}}': PAYMENTS - LIMIT,
    }


def test_parallel_payments_are_refused_if_no_other_account_takes_them(desk: Desk) -> None:
    limited = desk.add("Limited", day_limits=(DayLimit("USD", LIMIT * 999 + 998, None),))
    attempts = desk.start_many(PAYMENTS)
    assert len([attempt for attempt in attempts if attempt]) == LIMIT
    assert desk.total(limited) == (LIMIT, LIMIT * 999)
    session_id = create_session(desk.shop)["id"]
    form = {"email": "ann@example.com", "name": "Ann", "method": "CREDIT_CARD"}
    page = httpx2.post(
        f"{desk.server.url}/checkout/{session_id}",
        data=form,
        headers={"origin": desk.server.settings.public_url},
        trust_env=False,
    )
    assert page.status_code == 400
    assert "This payment method is not available right now." in page.text


def test_only_the_limited_currency_counts(desk: Desk) -> None:
    limited = desk.add("Limited", day_limits=(DayLimit("EUR", 1, None),))
    assert desk.start().gateway == limited.id
    assert desk.total(limited) == (0, 0)


def test_a_payment_above_the_whole_limit_goes_elsewhere(desk: Desk) -> None:
    limited = desk.add("Limited", priority=1, day_limits=(DayLimit("USD", 998, 5),))
    other = desk.add("Other", priority=2)
    assert desk.start().gateway == other.id
    assert desk.total(limited) == (0, 0)


@pytest.mark.parametrize("status", ["DECLINED", "REFUSED", "VOIDED"])
def test_a_failed_payment_is_given_back_once_and_its_place_is_used_again(
    desk: Desk, status: str
) -> None:
    limited = desk.add("Limited", day_limits=(DayLimit("USD", None, 2),))
    first, second = desk.start(), desk.start()
    assert desk.start_many(1) == [None]
    desk.apply(first, status, times=3)
    assert desk.total(limited) == (1, 999)
    assert desk.start_many(1) != [None]
    desk.apply(second, "SUCCEEDED")
    assert desk.total(limited) == (2, 2 * 999)
    assert desk.start_many(1) == [None]


def test_a_payment_with_an_unknown_outcome_keeps_its_place(desk: Desk) -> None:
    limited = desk.add("Limited", day_limits=(DayLimit("USD", None, 1),))
    attempt = desk.start()
    desk.apply(attempt, "UNKNOWN")
    assert desk.total(limited) == (1, 999)
    assert desk.start_many(1) == [None]


def test_a_payment_that_arrives_after_its_failure_counts_again_even_above_the_limit(
    desk: Desk,
) -> None:
    limited = desk.add("Limited", day_limits=(DayLimit("USD", None, 1),))
    late = desk.start()
    desk.apply(late, "DECLINED")
    assert desk.start().gateway == limited.id
    desk.apply(late, "SUCCEEDED", times=2)
    assert desk.total(limited) == (2, 2 * 999)


def test_an_expired_session_gives_its_place_back_once_its_gateway_knows_no_payment(
    desk: Desk,
) -> None:
    limited = desk.add("Limited", day_limits=(DayLimit("USD", None, 1),))
    attempt = desk.start()
    app, url = desk.server.app, desk.server.settings.public_url

    def check(now: int) -> None:
        desk.server.run(order_jobs.check_attempts(app.db, app.gateways, url, now))

    now = app.clock()
    check(now + 3 * MINUTE)  # the session is still open
    assert desk.total(limited) == (1, 999)
    desk.server.sql(
        "update checkouts set expires_at = $1 where order_id = $2", now, attempt.order_id
    )
    desk.server.run(checkout_jobs.expire_due(app.db, now + MINUTE))
    check(now + 6 * MINUTE)
    check(now + 60 * MINUTE)
    assert desk.total(limited) == (0, 0)


def test_a_limit_may_be_set_and_removed_while_payments_are_made(desk: Desk) -> None:
    account = desk.add("Changing")
    assert desk.start().limit_day is None
    desk.set_limit(account, DayLimit("USD", None, 1))
    attempt = desk.start()
    assert attempt.limit_day is not None
    assert attempt.limit_day % 86_400_000 == 0
    assert desk.start_many(1) == [None]
    desk.set_limit(account, DayLimit("USD", None, None))
    assert desk.start().limit_day is None


# ── two processes ──

PROCESS: Final = {
    "OPENTILL_GATEWAY_SANDBOX_METHODS": "BANK_TRANSFER",
    "OPENTILL_LIMIT_PAYMENTS_PER_MINUTE": "0",
    "OPENTILL_LIMIT_CHECKOUTS_PER_MINUTE": "0",
}
BODY: Final = {
    "item": {"name": "Tea", "price": "9.99", "currency": "CNY"}, "paymentMethods": ["CREDIT_CARD"],
}  # fmt: skip
FORM: Final = {"email": "ann@example.com", "name": "Ann", "method": "CREDIT_CARD"}


async def open_sessions(port: int, key: str, number: int) -> list[str]:
    """Open checkout sessions by the API and return their ids."""
    headers = {"X-API-Key": key}
    base_url = f"http://127.0.0.1:{port}"
    async with httpx2.AsyncClient(base_url=base_url, headers=headers, trust_env=False) as http:
        responses = await asyncio.gather(
            *(http.post("/v1/checkouts", json=BODY) for _ in range(number))
        )
    assert {response.status_code for response in responses} == {201}, responses[0].text
    return [response.json()["data"]["id"] for response in responses]


async def wait_for_accounts(port: int, key: str) -> None:
    """Wait until a process has an account that takes cards."""
    for _ in range(100):
        try:
            await open_sessions(port, key, 1)
        except AssertionError:
            await asyncio.sleep(0.1)
        else:
            return
    raise AssertionError(port)


async def submit_forms(ids: list[str], ports: tuple[int, ...]) -> list[int]:
    """Submit the forms of sessions, in turn to each port; return statuses, 0 for no response."""
    async with httpx2.AsyncClient(timeout=30, trust_env=False) as http:

        async def submit(session_id: str, port: int) -> int:
            origin = f"http://127.0.0.1:{port}"
            try:
                response = await http.post(
                    f"{origin}/checkout/{session_id}", data=FORM, headers={"origin": origin}
                )
            except httpx2.TransportError:
                return 0
            return response.status_code

        return await asyncio.gather(
            *(submit(each, ports[number % len(ports)]) for number, each in enumerate(ids))
        )


async def read_totals(url: str) -> tuple[dict[int, int], dict[int, int]]:
    """Return the totals of each day, and the numbers of attempts that count for it."""
    connection = await connect(url)
    try:
        totals = await connection.fetch("select day, payments from gateway_day_totals")
        attempts = await connection.fetch(
            "select limit_day, count(*) from payment_attempts"
            " where limit_day is not null and not limit_released group by limit_day"
        )
    finally:
        await connection.close()
    return {day: number for day, number in totals if number}, dict(map(tuple, attempts))


async def find_attempt(url: str, status: str) -> str | None:
    """Return the id of an attempt with a status through the account with the limit."""
    connection = await connect(url)
    try:
        sql = "select min(id) from payment_attempts where status = $1 and limit_day is not null"
        attempt_id: str | None = await connection.fetchval(sql, status)
        return attempt_id
    finally:
        await connection.close()


async def wait_for_attempt(url: str, status: str, *, exists: bool) -> None:
    """Wait until an attempt with a status exists, or none does any more."""
    for _ in range(300):
        if (await find_attempt(url, status) is not None) is exists:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(status)


async def test_two_server_processes_of_which_one_is_killed_keep_to_the_limit(
    postgres_url: str, template: str, fork_server: ForkServer, bank: Bank, tmp_path: Path
) -> None:
    """The worker gives back what the killed process had on its way and the bank never got."""
    with (
        cloned_database(postgres_url, template) as url,
        gateway_deployment.run_server(fork_server, tmp_path / "one", url, **PROCESS) as first,
        gateway_deployment.run_killed_server(
            fork_server, tmp_path / "two", url, **PROCESS
        ) as killed,
    ):
        environ = {"BANK_URL": bank.url, "BANK_SECRET": bank.secret}
        for label, *more in (
            ("Limited", "--priority", "1", "--day-limit", f"CNY:/{LIMIT}"),
            ("Other", "--priority", "2"),
        ):
            added = first.run(
                "gateways", "add", "sandbox", label, "--methods", "CREDIT_CARD",
                "--env", "url=BANK_URL", "--env", "secret=BANK_SECRET", *more, **environ,
            )  # fmt: skip
            assert added.returncode == 0, added.stderr
        _, key = gateway_deployment.create_merchant(first)
        for port in (first.port, killed.deployment.port):
            await wait_for_accounts(port, key)
        sessions = await open_sessions(first.port, key, PAYMENTS + 2 * LIMIT)
        with httpx2.Client(base_url=bank.url, trust_env=False) as http:
            headers = {"Authorization": f"Bearer {bank.secret}"}
            for fault in (
                {"operation": "pay", "kind": "timeout_before", "times": LIMIT, "delay_s": 2.0},
                {"operation": "pay", "kind": "slow", "times": PAYMENTS, "delay_s": 1.0},
            ):
                assert http.post("/faults", json=fault, headers=headers).status_code == 201
            submitting = asyncio.create_task(
                submit_forms(sessions[:PAYMENTS], (first.port, killed.deployment.port))
            )
            await asyncio.sleep(1.0)
            killed.kill()
            statuses = Counter(await submitting)
            assert statuses[0] > 0
            assert http.delete("/faults", headers=headers).status_code in {200, 204}
        totals, attempts = await read_totals(url)
        assert totals == attempts
        assert all(number == LIMIT for number in totals.values())
        first.run_checked("clock", "advance", "1m")
        await wait_for_attempt(url, "SUBMITTED", exists=False)
        totals, attempts = await read_totals(url)
        assert totals == attempts
        assert sum(totals.values()) < LIMIT  # the bank never got some of them
        assert set(await submit_forms(sessions[PAYMENTS:], (first.port,))) == {303}
        totals, attempts = await read_totals(url)
        assert totals == attempts
        assert totals[max(totals)] == LIMIT
        paid_id = await find_attempt(url, "ACTION_REQUIRED")
        assert paid_id is not None
        await asyncio.to_thread(bank.pay, paid_id)
        await wait_for_attempt(url, "SUCCEEDED", exists=True)
        assert await read_totals(url) == (totals, attempts)
