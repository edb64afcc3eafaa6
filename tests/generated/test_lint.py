"""Linters report no problem in the API document."""

import json
from pathlib import Path

import pytest

from generated.toolchain import run

pytestmark = pytest.mark.clients


def test_redocly_reports_nothing_with_its_strictest_rules(
    document: Path, node_programs: Path
) -> None:
    arguments = ("lint", "openapi.json", "--extends", "recommended-strict", "--format", "json")
    output = run(node_programs / "redocly", *arguments, cwd=document.parent, statuses=(0, 1))
    report = json.loads(output[output.index("{") :])
    assert (report["totals"], report["problems"]) == (
        {"errors": 0, "warnings": 0, "ignored": 0},
        [],
    )


def test_spectral_reports_nothing_with_its_rules_for_openapi(
    document: Path, node_programs: Path
) -> None:
    rules = document.parent / "rules.yaml"
    rules.write_text('extends: ["spectral:oas"]\n')
    arguments = ("lint", "openapi.json", "--ruleset", rules, "--format", "json", "--quiet")
    output = run(node_programs / "spectral", *arguments, cwd=document.parent, statuses=(0, 1))
    assert json.loads(output) == []
