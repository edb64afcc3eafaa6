"""The order by success rate: it finds the better account, and one that has recovered."""

import random
import time
from collections.abc import Mapping
from typing import Final

import pytest

from opentill.gateways import Gateways, PaymentFacts, find_routes
from opentill.gateways.rules import RuleSet
from opentill.gateways.success_rates import EndedAttempt, SuccessRates
from support.routing import create_account, create_gateways, create_rule

PAYMENT: Final = PaymentFacts(method="CREDIT_CARD", currency="EUR", amount_minor=1000)
RUNS: Final = 100  # with different random numbers
ATTEMPTS: Final = 200
NOW: Final = 1_795_000_000_000


def create_two() -> Gateways:
    """Return gateways with the accounts bad and good, ordered by success rate."""
    gateways = create_gateways(create_account("bad"), create_account("good"))
    gateways.pop("sandbox")
    rule = create_rule(ranking="SUCCESS_RATE", accounts=[], exploration_percent=2)
    gateways.rules = RuleSet([rule])
    return gateways


def simulate(gateways: Gateways, rates: Mapping[str, float], number: int) -> list[tuple[str, bool]]:
    """Pay so often that each account succeeds at its rate; return accounts and successes."""
    results: list[tuple[str, bool]] = []
    for _ in range(number):
        account = find_routes(gateways, PAYMENT)[0].account
        succeeded = random.random() < rates[account]
        gateways.success_rates.record(account, "CREDIT_CARD", succeeded=succeeded)
        results.append((account, succeeded))
    return results


def share(results: list[tuple[str, bool]]) -> float:
    """Return the share of payments that succeeded."""
    return sum(succeeded for _, succeeded in results) / len(results)


@pytest.fixture(autouse=True)
def _seed() -> None:
    random.seed(156)


def test_within_200_attempts_the_better_account_takes_nearly_all_payments() -> None:
    rates = {"bad": 0.60, "good": 0.95}
    first, after = 0.0, 0.0
    for _ in range(RUNS):
        gateways = create_two()
        first += share(simulate(gateways, rates, ATTEMPTS)) / RUNS
        after += share(simulate(gateways, rates, ATTEMPTS)) / RUNS
    assert first >= 0.93
    assert after >= 0.935


def test_payments_return_to_an_account_that_has_recovered() -> None:
    returned = 0
    for _ in range(RUNS):
        gateways = create_two()
        simulate(gateways, {"bad": 0.60, "good": 0.95}, ATTEMPTS)
        results = simulate(gateways, {"bad": 0.98, "good": 0.60}, ATTEMPTS)
        accounts = [account for account, _ in results[-20:]]
        returned += accounts.count("bad") >= len(accounts) * 3 // 4
    assert returned >= RUNS * 9 // 10


def test_an_account_that_is_not_used_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = SuccessRates()
    for _ in range(20):
        rates.record("a", "CREDIT_CARD", succeeded=False)
    assert rates.rate("a", "CREDIT_CARD") < 0.2
    assert rates.rate("a", "ALIPAY") == 1.0
    start = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: start + 6 * 1800)
    assert rates.rate("a", "CREDIT_CARD") > 0.85


@pytest.mark.parametrize("uptime_s", [60.0, 10_000_000.0])
def test_an_attempt_is_counted_once_and_with_its_age(
    uptime_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: uptime_s)

    def attempt(number: int, status: str, age_ms: int) -> EndedAttempt:
        return EndedAttempt(
            id=f"att_{number}", gateway="a", method="CREDIT_CARD", status=status, reason="",
            created_at=NOW - age_ms, updated_at=NOW - age_ms,
        )  # fmt: skip

    rates = SuccessRates()
    old, new = attempt(1, "DECLINED", 4 * 1_800_000), attempt(2, "SUCCEEDED", 0)
    assert rates.count([old, new], NOW) == [old, new]
    assert rates.count([old, new], NOW) == []
    assert rates.rate("a", "CREDIT_CARD") == pytest.approx(3 / (3 + 0.95 / 16), abs=0.01)
    assert list(rates.all_rates()) == [("a", "CREDIT_CARD", pytest.approx(0.98, abs=0.01))]
