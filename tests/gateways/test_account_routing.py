"""Accounts in the database as candidates for a payment: in memory, without a server."""

import time
from collections import Counter
from typing import Any, Final

import pytest

from opentill.core.ids import new_id
from opentill.gateways import candidates, offered_methods
from opentill.gateways.routing import account_name, callback_url, gateway_of
from support.routing import create_account, create_gateways

EUR_LIMIT: Final = {
    "limit_currencies": ["EUR"], "smallest_minor": [100], "largest_minor": [50_000],
    "day_minor": [None], "day_number": [None],
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "payment", "is_candidate"),
    [
        ({}, {}, True),
        ({"status": "PAUSED"}, {}, False),
        ({"status": "RETIRED"}, {}, False),
        ({"livemode": True}, {}, False),
        ({"merchant_id": "mer_1"}, {}, False),
        ({"merchant_id": "mer_1"}, {"merchant_id": "mer_2"}, False),
        ({"merchant_id": "mer_1"}, {"merchant_id": "mer_1"}, True),
        ({"methods": "ALIPAY"}, {}, False),
        ({"methods": "CREDIT_CARD:USD"}, {}, False),
        ({"methods": "CREDIT_CARD:USD|EUR"}, {}, True),
        (EUR_LIMIT, {"amount_minor": 99}, False),
        (EUR_LIMIT, {"amount_minor": 100}, True),
        (EUR_LIMIT, {"amount_minor": 50_000}, True),
        (EUR_LIMIT, {"amount_minor": 50_001}, False),
        (EUR_LIMIT, {}, True),
        (EUR_LIMIT | {"largest_minor": [None]}, {"amount_minor": 10**9}, True),
        (EUR_LIMIT | {"smallest_minor": [None]}, {"amount_minor": 1}, True),
        ({"limit_currencies": ["USD"], "smallest_minor": [100], "largest_minor": [None]},
         {"amount_minor": 1}, True),
    ],
)  # fmt: skip
def test_only_an_active_account_that_fits_takes_a_payment(
    changes: dict[str, Any], payment: dict[str, Any], is_candidate: bool
) -> None:
    gateways = create_gateways(create_account("a", **changes))
    names = candidates(gateways, "CREDIT_CARD", "EUR", **payment)
    assert ("a" in names) is is_candidate
    assert "sandbox" in names


def test_a_live_deployment_uses_live_accounts_only() -> None:
    live, test = create_account("live", livemode=True), create_account("test")
    gateways = create_gateways(live, test, livemode=True)
    assert candidates(gateways, "CREDIT_CARD", "EUR") == ["sandbox", "live"]


def test_own_accounts_come_first_then_the_environment_then_priorities() -> None:
    gateways = create_gateways(
        create_account("second", priority=20),
        create_account("first", priority=10),
        create_account("own", merchant_id="mer_1", priority=999),
        create_account("third", priority=30),
    )
    expected = ["own", "sandbox", "first", "second", "third"]
    assert candidates(gateways, "CREDIT_CARD", "EUR", merchant_id="mer_1") == expected
    gateways.record_reachability("own", reached=False)
    assert candidates(gateways, "CREDIT_CARD", "EUR", merchant_id="mer_1")[-1] == "own"


def test_among_equal_priorities_the_first_is_chosen_in_proportion_to_the_weights() -> None:
    gateways = create_gateways(create_account("light", weight=1), create_account("heavy", weight=3))
    gateways.pop("sandbox")
    firsts = Counter(candidates(gateways, "CREDIT_CARD", "EUR")[0] for _ in range(4000))
    assert 2700 < firsts["heavy"] < 3300  # 3000 is expected; six standard deviations are 164
    assert {len(candidates(gateways, "CREDIT_CARD", "EUR")) for _ in range(9)} == {2}


def test_an_account_that_cannot_be_loaded_takes_no_payments() -> None:
    gateways = create_gateways(create_account("a"))
    gateways.update_account(create_account("a", revision=2), "its credentials …")
    gateways.update_account(create_account("b"), "its credentials …")  # never loaded before
    assert candidates(gateways, "CREDIT_CARD", "EUR") == ["sandbox"]
    assert "a" in gateways  # its earlier adapter still answers queries
    assert account_name(gateways, "b") == "b (sandbox)"


def test_methods_are_offered_if_an_account_fits() -> None:
    gateways = create_gateways(create_account("a", methods="ALIPAY", **EUR_LIMIT))
    gateways.pop("sandbox")
    assert offered_methods(gateways, "EUR") == ("ALIPAY",)
    assert offered_methods(gateways, "EUR", amount_minor=99) == ()
    assert offered_methods(gateways, "EUR", amount_minor=100) == ("ALIPAY",)


def test_an_account_has_an_address_for_callbacks_and_the_environment_keeps_its_own() -> None:
    gateways = create_gateways(create_account("ga_1", gateway="stripe"))
    url = "https://pay.example"
    assert callback_url(url, gateways, "sandbox") == f"{url}/gateways/sandbox/callback"
    assert callback_url(url, gateways, "ga_1") == f"{url}/gateways/stripe/ga_1/callback"
    assert gateway_of(gateways, "ga_1") == "stripe"
    assert gateway_of({}, "stripe") == "stripe"


def test_a_choice_among_50_accounts_takes_less_than_a_millisecond() -> None:
    accounts = [
        create_account(new_id("gat"), priority=number % 5 + 1, methods="CREDIT_CARD", **EUR_LIMIT)
        for number in range(50)
    ]
    gateways = create_gateways(*accounts)
    durations_s: list[float] = []
    names: list[str] = []
    for _ in range(50):
        started = time.perf_counter()
        names = candidates(gateways, "CREDIT_CARD", "EUR", amount_minor=999, merchant_id="mer_1")
        durations_s.append(time.perf_counter() - started)
    assert len(names) == 51
    assert min(durations_s) < 0.001
