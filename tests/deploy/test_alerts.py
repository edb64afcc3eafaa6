"""The alert rules and the board: what they ask for is there, and each alert has a page to go to."""

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
OF_PROMETHEUS: Final = {"up"}
SUFFIXES: Final = {
    "counter": ("",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}


def _selectors(expression: Any) -> Iterator[Any]:
    """Yield what an expression selects, at any depth."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "args", "param"):
        inner = getattr(expression, name, None)
        for one in inner if isinstance(inner, list) else [inner]:
            if isinstance(one, promql_parser.Expr):
                yield from _selectors(one)


async def _there(db: Db) -> dict[str, set[str]]:
    """Return the names of all series that a deployment has, with the labels that they may have."""
    readings = [
        *await health.readings(db, now_ms),
        *health.replica_readings(usable=True, lag_s=0.0),
    ]
    text = metrics.render(readings).decode()
    found: dict[str, set[str]] = {}
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        found |= {name + suffix: {"le"} for suffix in SUFFIXES.get(kind, ("",))}
    for measured in metrics.MEASURED:
        for counted in (measured.counter, measured.histogram):
            _add_labels(found, counted)
    for counted in metrics.COUNTED:
        _add_labels(found, counted)
    for reading in readings:
        names = {name for sample, _ in reading.samples for name in sample}
        found[reading.name] |= names | ({"currency"} if "by settlement" in reading.help else set())
    found["opentill_build_info"] |= {"version", "python"}
    return found


def _add_labels(found: dict[str, set[str]], counted: Any) -> None:
    for suffix in ("_total", "_bucket", "_sum", "_count"):
        if counted.name + suffix in found:
            found[counted.name + suffix] |= set(counted.labels)


async def test_every_metric_and_label_that_an_alert_or_a_panel_names_is_there(db: Db) -> None:
    there = await _there(db)
    asked = 0
    for expression in EXPRESSIONS:
        for selector in _selectors(promql_parser.parse(expression)):
            asked += 1
            if selector.name in OF_PROMETHEUS:
                continue
            assert selector.name in there, expression
            named = {matcher.name for matcher in selector.matchers.matchers}
            assert named <= there[selector.name], (named, expression)
    assert asked > len(EXPRESSIONS)


async def test_every_metric_has_a_help_text_and_stands_on_the_board(db: Db) -> None:
    readings = await health.readings(db, now_ms)
    text = metrics.render(readings).decode()
    helped = set(re.findall(r"^# HELP (\w+) \S", text, re.MULTILINE))
    assert set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)) - helped == set()
    shown = " ".join(EXPRESSIONS)
    # What is there for other tools, or said by another figure.
    apart = {
        "opentill_webhook_queue_age_seconds",
        "opentill_job_seconds",
        "opentill_webhook_delivery_seconds",
        "opentill_refunds_succeeded",
        "opentill_disputes_lost",
    }
    ours = {name for name in helped if name.startswith("opentill_") and "_created" not in name}
    assert {name for name in ours - apart if name not in shown} == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_how_bad_it_is_and_has_a_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["annotations"]["summary"]
    page = TOP / rule["annotations"]["runbook"]
    assert page == RUNBOOKS / f"{rule['alert']}.md"
    text = page.read_text()
    assert text.startswith(f"# {rule['alert']}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Look", "Do"]


def test_no_runbook_is_of_an_alert_that_is_gone() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == {rule["alert"] for rule in RULES}


def test_every_command_and_setting_that_a_runbook_names_is_there() -> None:
    text = "\n".join(page.read_text() for page in RUNBOOKS.glob("*.md"))
    named = sorted(set(re.findall(r"`opentill ([a-z-]+)(?: ([a-z-]+))?", text)))
    program = (
        "import json, sys, typer\n"
        "from opentill.cli import build\n"
        "root = typer.main.get_command(build())\n"
        "for group, command in json.loads(sys.argv[1]):\n"
        "    found = root.commands[group]\n"
        "    assert not command or command in found.commands, (group, command)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, json.dumps(named)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    from opentill.config import SETTINGS

    known = {row.name for row in SETTINGS}
    settings = set(re.findall(r"\bOPENTILL_(?!GATEWAY_)[A-Z_]+\b", text))
    assert settings - known == set()


def test_the_board_is_made_of_its_table() -> None:
    assert board.text() == board.TARGET.read_text(), "run: make board"
    places = [tuple(panel["gridPos"].values()) for panel in BOARD["panels"]]
    assert len(set(places)) == len(places)
