"""The diffs of the recipes apply to the current code, and all of them together pass the tests.

A recipe shows each change as a ``diff`` below a line that begins with the file's name. These tests
apply all changes to a copy of the project and run tests there: the quick ones that recipes name in
every run; all that they name, and the tests of the changed packages, in ``make stress``.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

TOP: Final = Path(__file__).parents[1]
RECIPES: Final = sorted((TOP / "docs" / "recipes").glob("add-*.md"))
CHANGING: Final = [path for path in RECIPES if "```diff" in path.read_text()]
COPIED: Final = ("src", "migrations", "tests", "docs", "benchmarks", "tools", "clients")
NEXT: Final = "NNNN"  # stands for the number of a new migration
# Files with quick tests that recipes name. If a recipe names a single test, it is quick unless it
# is in SLOW.
QUICK: Final = frozenset(
    {
        "tests/core/test_config.py",
        "tests/test_contract.py",
        "tests/ledger/test_postings.py",
        "tests/merchants/test_terms.py",
        "tests/test_queries.py",
    }
)
SLOW: Final = frozenset({"tests/cli/test_merchants.py::test_all_terms_are_set_shown_and_stored"})
# For each recipe, how many files and places it changes. The numbers may fall, but not rise. A place
# with nothing but an import does not count, because the linters report a missing import.
MOST: Final = {
    "add-a-command": (6, 6),
    "add-a-fee-rule": (12, 18),
    "add-a-field": (11, 12),
    "add-a-list-filter": (3, 3),
    "add-a-mail": (7, 7),
    "add-a-page": (5, 6),
    "add-a-posting-type": (11, 14),
    "add-a-role": (10, 17),
    "add-a-setting": (7, 8),
}
# Packages that the recipes change. `make stress` runs all their tests, because the tests that a
# recipe names may miss a defect.
CHANGED_PACKAGES: Final = (
    "adjustments", "portal", "console", "dashboard", "disputes", "figures", "gateways",
    "ledger", "mail", "merchants", "orders",
)  # fmt: skip
_PLACE: Final = re.compile(r"(?:^[+-].*\n)+", re.MULTILINE)
_IMPORT: Final = re.compile(r"\+(?:from \S+ )?import .*\n")
_FENCE: Final = re.compile(r"^`([^`\n]+)`[^\n]*\n+```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN: Final = re.compile(r'^make test ARGS="([^"]+)"$', re.MULTILINE)


class Change(NamedTuple):
    """A recipe's change of one file: each hunk's lines before and after it."""

    path: str
    hunks: list[tuple[list[str], list[str]]]


def parse_changes(recipe: Path) -> list[Change]:
    """Return the changes of a recipe in their order."""
    text = recipe.read_text()
    changes = []
    for path, diff in _FENCE.findall(text):
        hunks = []
        for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
            lines = [(line[:1], line[1:]) for line in hunk.splitlines()]
            assert all(sign in {" ", "+", "-", ""} for sign, _ in lines), (path, hunk)
            before = [line for sign, line in lines if sign != "+"]
            after = [line for sign, line in lines if sign != "-"]
            hunks.append((before, after))
        changes.append(Change(path, hunks))
    assert len(changes) == text.count("```diff"), "a diff without the name of its file above it"
    return changes


def apply_change(text: str, change: Change) -> str:
    """Apply the hunks of a change in their order. Raises ValueError if one does not fit."""
    lines, end = text.splitlines(), 0
    for before, after in change.hunks:
        starts = range(end, len(lines) - len(before) + 1)
        start = next((n for n in starts if lines[n : n + len(before)] == before), None)
        if start is None:
            hunk = "\n".join(before)
            msg = f"{change.path} does not contain, after the previous hunk:\n{hunk}"
            raise ValueError(msg)
        lines[start : start + len(before)] = after
        end = start + len(after)
    return "\n".join(lines) + "\n"


def apply_recipe(recipe: Path, top: Path) -> None:
    """Apply all changes of a recipe below ``top``."""
    number = len(list((top / "migrations").glob("*.sql"))) + 1
    for change in parse_changes(recipe):
        path = top / change.path.replace(NEXT, f"{number:04}")
        is_new = not any(before for before, _ in change.hunks)
        assert path.exists() != is_new, f"{change.path} exists already, or does not exist any more"
        path.write_text(apply_change("" if is_new else path.read_text(), change))


def copy_project(top: Path) -> Path:
    """Copy the files that recipes change or that tests need."""
    for name in COPIED:
        shutil.copytree(
            TOP / name, top / name, ignore=shutil.ignore_patterns("node_modules", "dist")
        )
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(TOP / name, top / name)
    return top


def named_tests(recipe: Path) -> list[str]:
    """Return the tests that a recipe names."""
    (words,) = _RUN.findall(recipe.read_text())
    return str(words).split()


def select_quick(tests: list[str]) -> list[str]:
    """Return the tests that every run includes."""
    return [test for test in tests if ("::" in test and test not in SLOW) or test in QUICK]


def environ() -> dict[str, str]:
    """Return the environment without pytest's own variables."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.mark.parametrize("recipe", CHANGING, ids=lambda path: path.stem)
def test_each_recipe_applies_to_the_current_code(recipe: Path, tmp_path: Path) -> None:
    for change in parse_changes(recipe):
        source, target = TOP / change.path, tmp_path / change.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.exists():
            shutil.copy(source, target)
    shutil.copytree(TOP / "migrations", tmp_path / "migrations", dirs_exist_ok=True)
    apply_recipe(recipe, tmp_path)


def test_each_recipe_names_its_tests() -> None:
    assert len(CHANGING) >= 5
    for recipe in CHANGING:
        assert select_quick(named_tests(recipe)), f"{recipe.name} names no quick test"


@pytest.mark.parametrize("recipe", CHANGING, ids=lambda path: path.stem)
def test_no_recipe_changes_more_places(recipe: Path) -> None:
    changes = parse_changes(recipe)
    diffs = [diff for _, diff in _FENCE.findall(recipe.read_text())]
    places = [place for diff in diffs for place in _PLACE.findall(diff)]
    files, most = MOST[recipe.stem]
    assert len({change.path for change in changes}) <= files
    assert len([place for place in places if not _IMPORT.fullmatch(place)]) <= most


def _selected(selection: str) -> list[str]:
    """Return pytest's arguments for the tests to run in the copy."""
    if selection == "packages":
        return ["-m", "not stress", *(f"tests/{name}" for name in CHANGED_PACKAGES)]
    tests = {test for recipe in CHANGING for test in named_tests(recipe)}
    return sorted(select_quick([*tests]) if selection == "quick" else tests)


@pytest.mark.parametrize(
    "selection",
    [
        "quick",
        pytest.param("all", marks=pytest.mark.stress),
        pytest.param("packages", marks=pytest.mark.stress),
    ],
)
def test_all_changes_together_work(selection: str, tmp_path: Path, postgres_files: Path) -> None:
    top = copy_project(tmp_path)
    for recipe in CHANGING:
        apply_recipe(recipe, top)
    environment = environ() | {"PYTHONPATH": str(top / "src")}
    # `make client` runs the same programs.
    for tool in ("python_client", "blocking_client", "javascript_client", "contract_tables"):
        command = [sys.executable, "-m", f"tools.{tool}"]
        subprocess.run(command, cwd=top, env=environment, check=True)
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_selected(selection)],
        cwd=top,
        env=environment | {"OPENTILL_TEST_POSTGRES": str(postgres_files)},
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stdout[-5000:] + process.stderr[-2000:]
    assert " passed" in process.stdout
