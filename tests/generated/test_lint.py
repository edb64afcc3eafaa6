"""Linters find nothing to say about the document."""

import json
from pathlib import Path

import pytest

from generated.toolchain import run

pytestmark = pytest.mark.clients


def test_redocly_finds_nothing_by_its_strictest_rules(document: Path, node_programs: Path) -> None:
    words = ("lint", "openapi.json", "--extends", "recommended-strict", "--format", "json")
    said = run(node_programs / "redocly", *words, cwd=document.parent, taken=(0, 1))
    report = json.loads(said[said.index("{") :])
    assert (report["totals"], report["problems"]) == (
        {"errors": 0, "warnings": 0, "ignored": 0},
        [],
    )


def test_spectral_finds_nothing_by_its_rules_for_openapi(
    document: Path, node_programs: Path
) -> None:
    rules = document.parent / "rules.yaml"
    rules.write_text('extends: ["spectral:oas"]\n')
    words = ("lint", "openapi.json", "--ruleset", rules, "--format", "json", "--quiet")
    said = run(node_programs / "spectral", *words, cwd=document.parent, taken=(0, 1))
    assert json.loads(said) == []
