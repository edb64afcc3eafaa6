"""The capacity model predicts what the benchmarks measured, and its results grow with the rate."""

import pytest
from benchmarks import capacity


@pytest.mark.parametrize("scenario", ["create-many", "read-many", "pay-many", "pay-hot"])
def test_the_model_predicts_the_measured_rate(scenario: str) -> None:
    measured = capacity.read_figures()[scenario]
    assert capacity.predict_rate(measured, 2) == pytest.approx(measured.rate, rel=0.25)


def test_ten_times_the_payments_need_ten_times_the_cores_and_log() -> None:
    small, large = capacity.estimate(5_000), capacity.estimate(50_000)
    for name in ("database_cores", "server_cores", "servers", "log_bytes", "memory_bytes"):
        assert getattr(large, name) == pytest.approx(10 * getattr(small, name), rel=0.01), name
    assert large.limits == small.limits


def test_a_single_merchant_is_limited_by_its_balance_row() -> None:
    limits = capacity.estimate(100).limits
    name = min(limits, key=lambda limit: limits[limit])
    assert name.startswith("balance row")
    assert limits[name] == capacity.read_figures()["pay-hot"].rate


def test_cores_limit_the_database_before_its_log() -> None:
    limits = capacity.estimate(100, cores=32).limits
    assert limits["cores of the database"] == pytest.approx(5_000, rel=0.02)
    assert limits["cores of the database"] < limits["write-ahead log"]
    assert capacity.estimate(100, cores=64).limits["cores of the database"] > 9_900
