"""Documents are short and link to each other; the files, tests and code they quote exist."""

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
_REFERENCE: Final = re.compile(rf"(?<![\w/.]){_FOLDERS}/[\w./-]*\w(?:::\w+)?")
_SNIPPET: Final = re.compile(
    r"^`([^`\n]+)`[^\n]*\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
# A file that a recipe creates has a diff that only adds lines.
_NEW_FILE: Final = re.compile(r"^`([^`\n]+)`[^\n]*\n+```diff\n(?:\+.*\n)+^```$", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def prose(text: str) -> str:
    """Remove code blocks: they may name files that do not exist yet."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_file_and_test_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text()
    new_files = set(_NEW_FILE.findall(text))
    for reference in _REFERENCE.findall(prose(text)):
        path, _, test = reference.partition("::")
        if path in new_files:
            continue
        assert (TOP / path).exists(), reference
        assert not test or f"def {test}(" in (TOP / path).read_text(), reference


ANATOMY: Final = (TOP / "docs" / "anatomy-of-a-feature.md").read_text()
SNIPPETS: Final = _SNIPPET.findall(ANATOMY)


def blocks(snippet: str) -> Iterator[list[str]]:
    """Yield the lines of a snippet between its gaps."""
    for block in re.split(rf"^{GAP}\n", snippet, flags=re.MULTILINE):
        yield [line for line in block.splitlines() if line]


@pytest.mark.parametrize(("path", "snippet"), SNIPPETS, ids=[path for path, _ in SNIPPETS])
def test_a_snippet_is_part_of_its_file(path: str, snippet: str) -> None:
    lines, end = [line for line in (TOP / path).read_text().splitlines() if line], 0
    for block in blocks(snippet):
        starts = range(end, len(lines) - len(block) + 1)
        start = next((n for n in starts if lines[n : n + len(block)] == block), None)
        assert start is not None, "\n".join(block)
        end = start + len(block)


def test_there_is_a_snippet_of_each_kind_of_file() -> None:
    kinds = {Path(path).name for path, _ in SNIPPETS}
    files = {"api.py", "model.py", "service.py", "queries.py", "events.py", "jobs.py"}
    assert files | {"test_refunds.py"} == kinds
    assert ANATOMY.count("```python") == len(SNIPPETS)


MOST_WORDS: Final = {"README.md": 900, "CONTRIBUTING.md": 1200, "ARCHITECTURE.md": 1500}
INDEXES: Final = ("developers.md", "operators.md", "contributors.md")


@pytest.mark.parametrize(("name", "most"), MOST_WORDS.items())
def test_introductory_documents_are_short(name: str, most: int) -> None:
    assert len((TOP / name).read_text().split()) <= most


def _links(document: Path) -> set[Path]:
    links = _LINK.findall(document.read_text())
    return {(document.parent / link).resolve() for link in links if "://" not in link}


def test_the_readme_links_to_every_document() -> None:
    assert set((TOP / "docs").glob("*.md")) - _links(TOP / "README.md") == set()


def test_an_index_page_leads_to_every_recipe() -> None:
    linked = {path for name in INDEXES for path in _links(TOP / "docs" / name)}
    assert set((TOP / "docs" / "recipes").glob("*.md")) - linked == set()


def test_the_diagram_of_layers_shows_the_checked_layers() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    block = (TOP / "ARCHITECTURE.md").read_text().partition("```text\n")[2].partition("```")[0]
    diagram = re.findall(r"│ (\w.*?) +│$", block, re.MULTILINE)
    assert [line.split(" · ") for line in diagram] == [layer.split(" | ") for layer in layers]
