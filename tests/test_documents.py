"""What SECURITY.md, CONTRIBUTING.md and the recipes name is there, and so is what they quote."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TOP: Final = Path(__file__).parents[1]
DOCUMENTS: Final = (
    TOP / "SECURITY.md",
    TOP / "CONTRIBUTING.md",
    *sorted((TOP / "docs" / "recipes").glob("*.md")),
)
GAP: Final = "…"
_FOLDERS: Final = r"(?:src|tests|migrations|docs|benchmarks|mutants|\.github)"
_NAMED: Final = re.compile(rf"(?<![\w/.]){_FOLDERS}/[\w./-]*\w(?:::\w+)?")
_SNIPPET: Final = re.compile(
    r"^`([^`\n]+)`[^\n]*\n+```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
_LINK: Final = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def prose(text: str) -> str:
    """Leave out programs and changes, which are about files that are not there yet."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_file_and_test_that_is_named_is_there(document: Path) -> None:
    for named in _NAMED.findall(prose(document.read_text())):
        path, _, test = named.partition("::")
        if "NNNN" in path:  # a migration that the reader writes
            continue
        assert (TOP / path).exists(), named
        assert not test or f"def {test}(" in (TOP / path).read_text(), named


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in _LINK.findall(prose(document.read_text())):
        assert "://" in link or (document.parent / link).exists(), link


SNIPPETS: Final = _SNIPPET.findall((TOP / "CONTRIBUTING.md").read_text())


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
    assert (TOP / "CONTRIBUTING.md").read_text().count("```python") == len(SNIPPETS)
