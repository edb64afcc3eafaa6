"""The model of many machines: it says of one what the bench measured, and grows as it must."""

import itertools

import pytest
from benchmarks import simulation
from benchmarks.simulation import need


@pytest.mark.parametrize("scenario", ["create-many", "read-many", "pay-many", "pay-hot"])
def test_the_model_reproduces_the_measured_rate(scenario: str) -> None:
    measured = simulation.figures()[scenario]
    assert simulation.rate_of(measured, 2) == pytest.approx(measured.rate, rel=0.25)


def test_more_payments_never_need_less() -> None:
    needs = [need(100_000, rate, exponent=0.5) for rate in (1, 100, 5_000, 40_000)]
    for less, more in itertools.pairwise(needs):
        for name in ("nodes", "database_cores", "servers", "log_bytes", "memory_bytes"):
            assert getattr(less, name) <= getattr(more, name), name
        assert more.lost_share <= less.lost_share
    assert needs[0].nodes == 1 < needs[-1].nodes
    assert all(one.fullest <= 1 for one in needs)


def test_a_single_merchant_is_limited_by_its_balance_row_however_many_nodes_there_are() -> None:
    hot = simulation.figures()["pay-hot"].rate
    (first, *_) = sorted(need(1, 100).limits.items(), key=lambda limit: limit[1])
    assert first == ("balance row of the largest merchant", hot)
    assert need(1, 100_000).nodes == 0
    assert need(1, 100).lost_share == 1


def test_plain_postgresql_is_one_node_and_says_when_that_is_not_enough() -> None:
    assert need(1_000, 100, engine="postgres").nodes == 1
    enough = need(1_000, 100, engine="postgres").limits["cores of the fullest node"]
    assert need(1_000, enough * 1.01, engine="postgres").nodes == 0


def test_merchants_share_all_payments() -> None:
    assert sum(simulation.shares(1_000, 1.2)) == pytest.approx(1)
    assert simulation.shares(4, 0) == [0.25] * 4
    assert simulation.fullest([0.25] * 4, 1) == 1
