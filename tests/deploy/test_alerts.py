"""Alert rules and the board use metrics that exist, and each alert has a runbook."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
import yaml
from tools import board

from opentill import health
from opentill.core import metrics
from opentill.db.clock import now_ms
from opentill.db.database import Db

TOP: Final = Path(__file__).parents[2]
RUNBOOKS: Final = TOP / "docs" / "runbooks"
RULES: Final[list[dict[str, Any]]] = [
    rule
    for group in yaml.safe_load((TOP / "deploy/prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
BOARD: Final = json.loads((TOP / "deploy/grafana/opentill.json").read_text())
EXPRESSIONS: Final[list[str]] = [rule["expr"] for rule in RULES] + [
    target["expr"].replace("$__rate_interval", "5m")
    for panel in BOARD["panels"]
    for target in panel.get("targets", ())
]
PROMETHEUS_METRICS: Final = {"up"}
SUFFIXES: Final = {
    "counter": ("",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}


def _selectors(expression: Any) -> Iterator[Any]:
    """Yield the selectors of an expression, at any depth."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "args", "param"):
        operand = getattr(expression, name, None)
        for each in operand if isinstance(operand, list) else [operand]:
            if isinstance(each, promql_parser.Expr):
                yield from _selectors(each)


async def _read_series(db: Db) -> dict[str, set[str]]:
    """Return the names of a deployment's series, with their possible labels."""
    readings = [
        *await health.readings(db, now_ms),
        *health.replica_readings(usable=True, lag_s=0.0),
    ]
    text = metrics.render(readings).decode()
    series: dict[str, set[str]] = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        series |= {name + suffix: {"le"} for suffix in SUFFIXES.get(kind, ("",))}
    for measured in metrics.MEASURED:
        _add_labels(series, measured.counter)
        _add_labels(series, measured.histogram)
    for metric in metrics.COUNTERS:
        _add_labels(series, metric)
    for reading in readings:
        names = {name for sample, _ in reading.samples for name in sample}
        series[reading.name] |= names | ({"currency"} if "by settlement" in reading.help else set())
    series["opentill_build_info"] |= {"version", "python"}
    return series


def _add_labels(series: dict[str, set[str]], metric: Any) -> None:
    for suffix in ("_total", "_bucket", "_sum", "_count"):
        if metric.name + suffix in series:
            series[metric.name + suffix] |= set(metric.labels)


async def test_every_metric_and_label_of_alerts_and_panels_exists(db: Db) -> None:
    series = await _read_series(db)
    selectors = 0
    for expression in EXPRESSIONS:
        for selector in _selectors(promql_parser.parse(expression)):
            selectors += 1
            if selector.name in PROMETHEUS_METRICS:
                continue
            assert selector.name in series, expression
            labels = {matcher.name for matcher in selector.matchers.matchers}
            assert labels <= series[selector.name], (labels, expression)
    assert selectors > len(EXPRESSIONS)


async def test_every_metric_has_a_help_text_and_is_on_the_board(db: Db) -> None:
    readings = await health.readings(db, now_ms)
    text = metrics.render(readings).decode()
    names = set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE))
    assert set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)) - names == set()
    expressions = " ".join(EXPRESSIONS)
    # These metrics need neither an alert nor a panel: other tools use them, or another metric shows
    # the same.
    exceptions = {
        "opentill_webhook_queue_age_seconds",
        "opentill_job_seconds",
        "opentill_webhook_delivery_seconds",
        "opentill_refunds_succeeded",
        "opentill_disputes_lost",
    }
    own = {name for name in names if name.startswith("opentill_") and "_created" not in name}
    assert {name for name in own - exceptions if name not in expressions} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_severity_and_a_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    page = TOP / rule["annotations"]["runbook"]
    assert page == RUNBOOKS / f"{rule['alert']}.md"
    text = page.read_text()
    assert text.startswith(f"# {rule['alert']}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Look", "Do"]


def test_every_runbook_has_an_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in RULES}


def test_every_command_and_setting_in_a_runbook_exists() -> None:
    text = "\n".join(page.read_text() for page in RUNBOOKS.glob("*.md"))
    commands = sorted(set(re.findall(r"`opentill ([a-z-]+)(?: ([a-z-]+))?", text)))
    program = (
        "import json, sys, typer\n"
        "from opentill.cli import build\n"
        "root = typer.main.get_command(build())\n"
        "for group, command in json.loads(sys.argv[1]):\n"
        "    parent = root.commands[group]\n"
        "    assert not command or command in parent.commands, (group, command)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", program, json.dumps(commands)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    from opentill.config import SETTINGS

    settings = set(re.findall(r"\bOPENTILL_(?!GATEWAY_)[A-Z_]+\b", text))
    assert settings - {row.name for row in SETTINGS} == set()


def test_the_board_is_generated_from_its_table() -> None:
    assert board.format_board() == board.TARGET.read_text(), "run: make board"
    positions = [tuple(panel["gridPos"].values()) for panel in BOARD["panels"]]
    assert len(set(positions)) == len(positions)
