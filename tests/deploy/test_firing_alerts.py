"""Every alert fires in the failure that it is named after, also right after a start.

Prometheus' `promtool` evaluates the rules over two pages of metrics: that of a server that has just
started, and that of the server after it has counted failures.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from opentill import health, merchants
from opentill.core import metrics
from opentill.core.metrics import Reading
from opentill.db.clock import now_ms
from opentill.db.database import Db
from support.cluster import create_shop

TOP: Final = Path(__file__).parents[2]
RULES_FILE: Final = TOP / "deploy" / "prometheus" / "alerts.yml"
RULES: Final[list[dict[str, Any]]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]
]
BY_CARD: Final = "'stripe', 'CREDIT_CARD'"
# For each alert, a call that counts a failure. The test repeats the effect of the call every
# minute.
COUNTED_FAILURES: Final = {
    "OpenTillServerErrors": "metrics.count_request('/v1/orders', 'GET', 503, 0.01)",
    "OpenTillSlow": "metrics.count_request('/v1/orders', 'GET', 200, 3.0)",
    "OpenTillJobFails": "metrics.count_job('settle', 'failed', 0.1)",
    "OpenTillGatewayFails": "metrics.count_gateway_call('stripe', 'pay', 'UNKNOWN', 20.0)",
    "OpenTillGatewaySlow": "metrics.count_gateway_call('stripe', 'pay', 'SUCCEEDED', 8.0)",
    "OpenTillPaymentsDeclined": f"metrics.count_ended_attempt({BY_CARD}, 'DECLINED')",
    "OpenTillNothingPaid": f"metrics.count_started_attempt({BY_CARD})",
    "OpenTillAccountUnreadable": "metrics.count_unreadable_account('ga_1')",
    "OpenTillForeignGatewayEvents": "metrics.count_foreign_gateway_event('stripe', 'epay')",
    "OpenTillWebhooksFail": "metrics.count_delivery('unreachable', 0.1)",
}
# Alerts that a single failure must raise.
SINGLE: Final = {"OpenTillForeignGatewayEvents"}
# Metrics that are read at each scrape, and their values during the failure.
FAILING_READINGS: Final = {
    "OpenTillDown": {"up": 0},
    "OpenTillDatabaseAway": {"opentill_database_up": 0},
    "OpenTillLedgerViolated": {"opentill_ledger_violations": 1},
    "OpenTillLedgerUnchecked": {"opentill_ledger_checks_overdue": 1},
    "OpenTillQueueLate": {"opentill_queue_age_seconds": 301},
    "OpenTillOrdersStuck": {"opentill_orders_stuck": 1},
    "OpenTillDisputesUnmatched": {"opentill_disputes_unmatched": 1},
    "OpenTillRefundsUnmatched": {"opentill_refunds_unmatched": 1},
    "OpenTillMailsFail": {"opentill_mail_events_put_aside_last_day": 1},
    "OpenTillReplicaBehind": {"opentill_replica_usable": 0},
}
_COUNT: Final = """
import json, sys
from opentill import gateways, orders
from opentill.core import metrics
from opentill.core.settings import Settings
from opentill.worker import JOBS
names = ("stripe", "epay", "manual")
settings = Settings(gateways=names, gateway_options=json.loads(sys.argv[2]))
gateways.initialize_metrics(gateways.load(names, settings), orders.ATTEMPT_ENDS)
kinds = [job.name for job in JOBS]
metrics.start_job_series(kinds, ("done", "failed"), ("delivered", "unreachable"))
before = metrics.render().decode()
exec(sys.argv[1])
print(json.dumps([before, metrics.render().decode()]))
"""
MINUTES: Final = 90


def _render_pages(code: str) -> tuple[str, str]:
    """Return the metrics of a process that has just started, and those after ``code`` has run."""
    process = subprocess.run(
        [sys.executable, "-c", _COUNT, code, json.dumps(OPTIONS)],
        env={"PYTHONPATH": str(TOP / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    before, after = json.loads(process.stdout)
    return before, after


OPTIONS: Final = {
    "stripe_secret_key": "sk_test_1", "stripe_webhook_secret": "whsec_1",
    "epay_url": "https://epay.example.com", "epay_pid": "1001", "epay_key": "k" * 32,
    "manual_instructions": "Pay to 1234",
}  # fmt: skip


def _parse_samples(page: str) -> dict[str, float]:
    lines = [line for line in page.splitlines() if line and not line.startswith("#")]
    samples = [line.rpartition(" ") for line in lines]
    return {name: float(value) for name, _, value in samples if not name.endswith("_created")}


def _add_instance(name: str) -> str:
    """Add the label of an instance to a series."""
    metric, _, labels = name.partition("{")
    all_labels = [text for text in (labels.rstrip("}"), 'instance="a"') if text]
    return f"{metric}{{{','.join(all_labels)}}}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.6f}"


def _format_growth(before: float | None, after: float, *, is_single: bool) -> str:
    """Write a series whose difference occurs every minute, or only in the first."""
    first = "_" if before is None else _number(before)
    increase = after - (before or 0)
    if is_single:
        return f"{first} {_number(after)}x{MINUTES}"
    return f"{first} {_number(after)}+{_number(increase)}x{MINUTES}"


@pytest.fixture
async def readings(db: Db) -> list[Reading]:
    """The readings of a deployment with one merchant and no payment."""
    await create_shop(db)
    return [*await health.readings(db, now_ms), *health.replica_readings(usable=True, lag_s=0.0)]


def _render_readings(readings: list[Reading]) -> str:
    page = metrics.render(readings).decode()
    names = {reading.name for reading in readings} | {"opentill_build_info"}
    lines = page.splitlines()
    return "\n".join(line for line in lines if re.split(r"[{ ]", line)[0] in names)


def _simulate_failure(alert: str, readings: list[Reading]) -> dict[str, str]:
    """Return all series with their values over time in the failure that an alert is named after."""
    before, after = _render_pages(COUNTED_FAILURES.get(alert, "pass"))
    old, new = _parse_samples(before), _parse_samples(after)
    is_single = alert in SINGLE
    series = {
        _add_instance(name): _format_growth(old.get(name), value, is_single=is_single)
        for name, value in new.items()
    }
    samples = _parse_samples(_render_readings(readings)) | {'up{job="opentill"}': 1.0}
    failing = dict(FAILING_READINGS.get(alert, {}))
    for name, value in samples.items():
        metric = name.partition("{")[0]
        series[_add_instance(name)] = f"{_number(failing.get(metric, value))}x{MINUTES}"
    assert failing.keys() <= {name.partition("{")[0] for name in samples}, "a metric is missing"
    if alert == "OpenTillVersionsDiffer":
        series['opentill_build_info{version="0.0.1",instance="b"}'] = f"1x{MINUTES}"
    return series


def _fires(alert: str, series: dict[str, str], minute: int, folder: Path) -> bool:
    """Whether an alert fires, by promtool."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool; Debian: apt-get install prometheus")
    test = {
        "rule_files": [str(RULES_FILE)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": text} for name, text in series.items()],
                "alert_rule_test": [
                    {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": []}
                ],
            }
        ],
    }
    file = folder / "test.yml"
    file.write_text(json.dumps(test))
    process = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    output = process.stdout + process.stderr
    assert process.returncode == 0 or f"alertname: {alert}" in output, output
    return process.returncode != 0


@pytest.mark.deploy
@pytest.mark.parametrize("alert", [rule["alert"] for rule in RULES])
def test_an_alert_fires_only_in_its_failure(
    alert: str, readings: list[Reading], tmp_path: Path
) -> None:
    minute = 30 if alert in SINGLE else 80
    assert _fires(alert, _simulate_failure(alert, readings), minute, tmp_path)
    assert not _fires(alert, _simulate_failure("nothing", readings), minute, tmp_path)


async def test_the_first_page_has_every_series_that_an_alert_sums(
    readings: list[Reading], db: Db
) -> None:
    before, _ = _render_pages("pass")
    page = before + _render_readings(readings)
    async with db.connection() as tx:
        currencies = await merchants.settlement_currencies(tx)
    assert currencies
    for series in (
        'opentill_payment_attempts_total{gateway="stripe",method="CREDIT_CARD",outcome="succeeded"}',
        'opentill_payment_attempts_started_total{gateway="stripe",method="CREDIT_CARD"}',
        'opentill_payment_attempts_started_total{gateway="epay",method="ALIPAY"}',
        'opentill_foreign_gateway_events_total{gateway="stripe",owner="epay"}',
        'opentill_foreign_gateway_events_total{gateway="epay",owner="sandbox"}',
        'opentill_jobs_total{kind="settle",outcome="failed"}',
        'opentill_webhook_deliveries_total{outcome="delivered"}',
        *(f'opentill_payments_confirmed_total{{currency="{each}"}}' for each in currencies),
    ):
        assert _parse_samples(page).get(series) == 0.0, series


def test_each_alert_has_a_simulated_failure() -> None:
    names = {rule["alert"] for rule in RULES}
    assert {*COUNTED_FAILURES, *FAILING_READINGS, "OpenTillVersionsDiffer"} == names
