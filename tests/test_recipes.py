"""The recipes for changes of the code: each fits the code, and together they work.

A recipe shows every change as a ``diff`` under a line that begins with the file's name. Here all of
them are made in a copy of the project, and the tests that the recipes name run in it: in every run
those that are quick, in ``make stress`` all, and all that are quick of the packages concerned.
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
COPIED: Final = ("src", "migrations", "tests", "docs", "benchmarks", "tools")
NEXT: Final = "NNNN"  # the number of a new migration
# Of the files of tests that recipes name; single tests that they name are quick, but for those that
# start commands.
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
# How many files each recipe changes, and in how many places: it may get shorter, not longer.
MOST: Final = {
    "add-a-command": (6, 6),
    "add-a-fee-rule": (12, 18),
    "add-a-field": (11, 12),
    "add-a-list-filter": (3, 3),
    "add-a-mail": (7, 7),
    "add-a-page": (5, 6),
    "add-a-posting-type": (11, 14),
    "add-a-role": (10, 17),
    "add-a-setting": (7, 9),
}
# The folders of tests of what the recipes change and of what shows it. All their quick tests run at
# night: those that a recipe names cannot find what the recipe forgot.
CONCERNED: Final = (
    "adjustments", "portal", "console", "dashboard", "disputes", "figures", "gateways",
    "ledger", "mail", "merchants", "orders",
)  # fmt: skip
_FENCE: Final = re.compile(r"^`([^`\n]+)`[^\n]*\n+```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN: Final = re.compile(r'^make test ARGS="([^"]+)"$', re.MULTILINE)


class Change(NamedTuple):
    """What a recipe changes in one file: for each place the lines before, and after."""

    path: str
    places: list[tuple[list[str], list[str]]]


def changes(recipe: Path) -> list[Change]:
    """Return the changes of a recipe, in its order."""
    text = recipe.read_text()
    found = []
    for path, diff in _FENCE.findall(text):
        places = []
        for place in re.split(r"^@@\n", diff, flags=re.MULTILINE):
            lines = [(line[:1], line[1:]) for line in place.splitlines()]
            assert all(sign in {" ", "+", "-", ""} for sign, _ in lines), (path, place)
            before = [rest for sign, rest in lines if sign != "+"]
            after = [rest for sign, rest in lines if sign != "-"]
            places.append((before, after))
        found.append(Change(path, places))
    assert len(found) == text.count("```diff"), "a diff without the name of its file above it"
    return found


def changed(text: str, change: Change) -> str:
    """Make a change, each place after the one before it. Raises ValueError if one is not there."""
    lines, done = text.splitlines(), 0
    for before, after in change.places:
        starts = range(done, len(lines) - len(before) + 1)
        at = next((n for n in starts if lines[n : n + len(before)] == before), None)
        if at is None:
            shown = "\n".join(before)
            msg = f"{change.path} has no longer, after what was changed in it before:\n{shown}"
            raise ValueError(msg)
        lines[at : at + len(before)] = after
        done = at + len(after)
    return "\n".join(lines) + "\n"


def make(recipe: Path, top: Path) -> None:
    """Make all changes of a recipe below ``top``."""
    number = len(list((top / "migrations").glob("*.sql"))) + 1
    for change in changes(recipe):
        path = top / change.path.replace(NEXT, f"{number:04}")
        is_new = not any(before for before, _ in change.places)
        assert path.exists() != is_new, f"{change.path} is there already, or no longer"
        path.write_text(changed("" if is_new else path.read_text(), change))


def copy(top: Path) -> Path:
    """Copy what the recipes change, and what their tests need; compiled, as it was before."""
    for name in COPIED:
        shutil.copytree(TOP / name, top / name)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md"):
        shutil.copy(TOP / name, top / name)
    return top


def named(recipe: Path) -> list[str]:
    """Return the tests that a recipe names."""
    found: list[str] = _RUN.findall(recipe.read_text())
    return found[0].split()


def quick(tests: list[str]) -> list[str]:
    """Return those that run every time."""
    return [one for one in tests if ("::" in one and one not in SLOW) or one in QUICK]


def environ() -> dict[str, str]:
    """The environment without what tells a test that it runs inside another run of pytest."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


@pytest.mark.parametrize("recipe", CHANGING, ids=lambda path: path.stem)
def test_each_recipe_fits_the_code_as_it_is(recipe: Path, tmp_path: Path) -> None:
    for change in changes(recipe):
        kept = TOP / change.path
        place = tmp_path / change.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if kept.exists():
            shutil.copy(kept, place)
    shutil.copytree(TOP / "migrations", tmp_path / "migrations", dirs_exist_ok=True)
    make(recipe, tmp_path)


def test_each_recipe_names_the_tests_that_show_it() -> None:
    assert len(CHANGING) >= 5
    for recipe in CHANGING:
        assert len(_RUN.findall(recipe.read_text())) == 1, recipe.name
        assert quick(named(recipe)), f"{recipe.name}: nothing that runs every time"


@pytest.mark.parametrize("recipe", CHANGING, ids=lambda path: path.stem)
def test_no_recipe_grows(recipe: Path) -> None:
    made = changes(recipe)
    diffs = [diff for _, diff in _FENCE.findall(recipe.read_text())]
    places = sum(len(re.findall(r"(?:^[+-].*\n)+", diff, re.MULTILINE)) for diff in diffs)
    files, most = MOST[recipe.stem]
    assert len({change.path for change in made}) <= files
    assert places <= most


def _run(much: str) -> list[str]:
    """Return the tests that run in the copy: quick, all, or those of the packages concerned."""
    if much == "packages":
        return ["-m", "not stress", *(f"tests/{name}" for name in CONCERNED)]
    tests = {test for recipe in CHANGING for test in named(recipe)}
    return sorted(quick([*tests]) if much == "quick" else tests)


@pytest.mark.parametrize(
    "much",
    [
        "quick",
        pytest.param("all", marks=pytest.mark.stress),
        pytest.param("packages", marks=pytest.mark.stress),
    ],
)
def test_all_changes_together_work(much: str, tmp_path: Path, postgres_files: Path) -> None:
    top = copy(tmp_path)
    for recipe in CHANGING:
        make(recipe, top)
    here = environ() | {"PYTHONPATH": str(top / "src")}
    for tool in ("tools.python_client", "tools.contract_tables"):  # as `make client`
        subprocess.run([sys.executable, "-m", tool], cwd=top, env=here, check=True)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_run(much)],
        cwd=top,
        env=here | {"OPENTILL_TEST_POSTGRES": str(postgres_files)},
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    assert " passed" in ran.stdout
