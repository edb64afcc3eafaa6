"""Documents are short and link to each other; all that they name or quote exists."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TOP: Final = Path(__file__).parents[1]
DOCUMENTS: Final = (
    TOP / "SECURITY.md",
    TOP / "CONTRIBUTING.md",
    *sorted((TOP / "docs").glob("*.md")),
    *sorted((TOP / "docs" / "recipes").glob("*.md")),
)
GAP: Final = "…"
_FOLDERS: Final = r"(?:src|tests|migrations|docs|benchmarks|mutants|\.github)"
_NAMED: Final = re.compile(rf"(?<![\w/.]){_FOLDERS}/[\w./-]*\w(?:::\w+)?")
_SNIPPET: Final = re.compile(
    r"^`([^`\n]+)`[^\n]*\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
# A file that a recipe makes: its diff only adds lines.
_NEW: Final = re.compile(r"^`([^`\n]+)`[^\n]*\n+```diff\n(?:\+.*\n)+^```$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def prose(text: str) -> str:
    """Leave out programs and changes, which are about files that are not there yet."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_file_and_test_that_is_named_is_there(document: Path) -> None:
    text = document.read_text()
    new = set(_NEW.findall(text))
    for named in _NAMED.findall(prose(text)):
        path, _, test = named.partition("::")
        if path in new:
            continue
        assert (TOP / path).exists(), named
        assert not test or f"def {test}(" in (TOP / path).read_text(), named


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in _LINK.findall(prose(document.read_text())):
        assert "://" in link or (document.parent / link).exists(), link


ANATOMY: Final = (TOP / "docs" / "anatomy-of-a-feature.md").read_text()
SNIPPETS: Final = _SNIPPET.findall(ANATOMY)


def parts(snippet: str) -> Iterator[list[str]]:
    """Yield what stands together in a snippet: its lines between gaps."""
    for part in re.split(rf"^{GAP}\n", snippet, flags=re.MULTILINE):
        yield [line for line in part.splitlines() if line]


@pytest.mark.parametrize(("path", "snippet"), SNIPPETS, ids=[path for path, _ in SNIPPETS])
def test_a_snippet_stands_in_its_file(path: str, snippet: str) -> None:
    lines, done = [line for line in (TOP / path).read_text().splitlines() if line], 0
    for part in parts(snippet):
        starts = range(done, len(lines) - len(part) + 1)
        at = next((n for n in starts if lines[n : n + len(part)] == part), None)
        assert at is not None, "\n".join(part)
        done = at + len(part)


def test_there_is_a_snippet_of_each_kind_of_file() -> None:
    kinds = {Path(path).name for path, _ in SNIPPETS}
    of_a_feature = {"api.py", "model.py", "service.py", "queries.py", "events.py", "jobs.py"}
    assert of_a_feature | {"test_refunds.py"} == kinds
    assert ANATOMY.count("```python") == len(SNIPPETS)


# How many words each entrance to the project has at most, and the index page of each reader.
LONGEST: Final = {"README.md": 900, "CONTRIBUTING.md": 1200, "ARCHITECTURE.md": 1500}
INDEXES: Final = ("developers.md", "operators.md", "contributors.md")


@pytest.mark.parametrize(("name", "most"), LONGEST.items())
def test_what_everybody_reads_is_short(name: str, most: int) -> None:
    assert len((TOP / name).read_text().split()) <= most


def _links(document: Path) -> set[Path]:
    links = _LINK.findall(document.read_text())
    return {(document.parent / link).resolve() for link in links if "://" not in link}


def test_the_readme_leads_to_every_document_in_one_click() -> None:
    assert set((TOP / "docs").glob("*.md")) - _links(TOP / "README.md") == set()


def test_an_index_page_leads_to_every_recipe() -> None:
    linked = {path for name in INDEXES for path in _links(TOP / "docs" / name)}
    assert set((TOP / "docs" / "recipes").glob("*.md")) - linked == set()


def test_the_drawing_of_the_layers_shows_those_that_are_checked() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    block = (TOP / "ARCHITECTURE.md").read_text().partition("```text\n")[2].partition("```")[0]
    drawing = re.findall(r"│ (\w.*?) +│$", block, re.MULTILINE)
    assert [line.split(" · ") for line in drawing] == [layer.split(" | ") for layer in layers]
