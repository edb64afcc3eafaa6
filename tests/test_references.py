"""Every rule of the contract, decision, file and link that text cites exists.

Code, tests and documents cite a rule as ``contract.md#its-anchor``, a decision record by its number
and everything else by its path.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TOP: Final = Path(__file__).parents[1]
CONTRACT: Final = TOP / "docs" / "contract.md"
LONGEST_RECORD: Final = 60  # lines that fit on one screen
RECORDS: Final = sorted((TOP / "docs" / "decisions").glob("*.md"))
FOLDERS: Final = (
    "src", "docs", "tests", "migrations", "mutants", "benchmarks", "clients", "examples",
)  # fmt: skip
TEXT: Final = frozenset(
    ".css .go .html .in .java .js .json .md .mjs .php .py .sql .svg .toml .ts .yaml".split()
)
SKIPPED: Final = frozenset({"__pycache__", "dist", "node_modules"})


def _files() -> Iterator[Path]:
    yield from (path for path in TOP.glob("*") if path.suffix in TEXT)
    yield from (TOP / "Makefile", TOP / "Dockerfile")
    for folder in FOLDERS:
        for path in (TOP / folder).rglob("*"):
            if path.suffix in TEXT and not SKIPPED.intersection(path.parts):
                yield path


FILES: Final = sorted(_files())
TEXTS: Final = {path: path.read_text() for path in FILES}
PAGES: Final = [path for path in FILES if path.suffix == ".md" and "src" not in path.parts]
NAMES: Final = {path: str(path.relative_to(TOP)) for path in FILES}


def _locate(path: Path, text: str, match: re.Match[str]) -> str:
    """Format the line and text of a match like a compiler's message."""
    return f"{NAMES[path]}:{text.count(chr(10), 0, match.start()) + 1}: {match[0].strip()}"


def _find_all(pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    """Return all matches in all files except this one, which contains the patterns."""
    this_file = Path(__file__)
    return [
        (path, match)
        for path, text in TEXTS.items()
        if path != this_file
        for match in pattern.finditer(text)
    ]


# ── the contract ──

_ANCHOR: Final = re.compile(r'<a id="([a-z0-9]+(?:-[a-z0-9]+)*)"></a>')
_CITATION: Final = re.compile(r"\bcontract\.md(?:#([\w-]*))?")
# These files may cite the contract without an anchor.
WITHOUT_ANCHOR: Final = frozenset((*PAGES, TOP / "tests" / "test_contract.py"))
_HEADING: Final = re.compile(r"^(#{2,4}) (.*)$", re.MULTILINE)


def test_each_rule_of_the_contract_has_one_anchor() -> None:
    text = CONTRACT.read_text()
    anchors = _ANCHOR.findall(text)
    assert len(anchors) == text.count("<a id=") > 0
    assert sorted(set(anchors)) == sorted(anchors)
    without_anchor = [title for _, title in _HEADING.findall(text) if not _ANCHOR.match(title)]
    assert without_anchor == []


def test_each_rule_that_is_cited_is_in_the_contract() -> None:
    anchors = set(_ANCHOR.findall(CONTRACT.read_text()))
    citations = _find_all(_CITATION)
    assert citations
    unknown = [
        _locate(path, TEXTS[path], match)
        for path, match in citations
        if (match[1] not in anchors if match[1] is not None else path not in WITHOUT_ANCHOR)
    ]
    assert unknown == []


# ── sources outside of the repository ──

_OUTSIDE: Final = re.compile(
    r"""
      \bspec\ ?§ | \bproduct\ ?§ | [Pp]roduct(?:'s)?\ decisions? | [Qq]uality\ promise
    | \bdecisions\)?\ \(?§ | (?<![\w.-])(?:spec|product|quality|epay|architecture)\.md
    | \bepay_vectors\b | /work/
    """,
    re.VERBOSE,
)
# Sections of these published standards may be cited.
_PUBLISHED: Final = re.compile(r"RFC \d|draft-ietf|WHATWG|OpenAPI 3|libpq|PostgreSQL protocol|NIST")
# How many characters may be between a standard and its section, as in "RFC 8259 §4, §8.2".
_DISTANCE: Final = 120
# These files remove or ban section signs.
WITH_SECTION_SIGNS: Final = ("schemas.py", "test_document_forms.py")


def test_no_source_outside_of_the_repository_is_cited() -> None:
    assert [_locate(path, TEXTS[path], match) for path, match in _find_all(_OUTSIDE)] == []


def test_only_sections_of_published_standards_are_cited() -> None:
    stray = [
        _locate(path, TEXTS[path], match)
        for path, match in _find_all(re.compile("§ ?[^ ]*"))
        if path.name not in WITH_SECTION_SIGNS
        and not _PUBLISHED.search(TEXTS[path][max(0, match.start() - _DISTANCE) : match.start()])
    ]
    assert stray == []


# ── links between documents ──

_FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


@cache
def _prose(path: Path) -> str:
    """Return a document with blank lines in place of its code blocks."""
    return _FENCED.sub(lambda match: "\n" * match[0].count("\n"), TEXTS[path])


@cache
def _fragments(path: Path) -> frozenset[str]:
    """Return the fragments of links to a document: its anchors, and the slugs of its headings."""
    titles = re.findall(r"^#+ (.*)$", _prose(path), re.MULTILINE)
    plain = (re.sub(r"<[^>]*>|[`*]", "", title).strip().lower() for title in titles)
    slugs = (re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain)
    return frozenset((*slugs, *_ANCHOR.findall(TEXTS[path])))


def test_each_link_has_a_target() -> None:
    dead = []
    links = 0
    for path in PAGES:
        text = _CODE.sub(lambda match: " " * len(match[0]), _prose(path))
        for link in _LINK.finditer(text):
            if "://" in link[1] or link[1].startswith("mailto:"):
                continue
            links += 1
            name, _, fragment = link[1].partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (fragment and fragment not in _fragments(target)):
                dead.append(_locate(path, text, link))
    assert links > 0
    assert dead == []


# ── decision records ──

_NUMBER: Final = re.compile(r"\b(?:[Dd]ecisions?[ /]|decisions/)(\d{4})\b")
_SHORT: Final = re.compile(r"\b(00\d\d)\b")  # records cite a number without the word "decision" too
_TITLE: Final = re.compile(r"# (\d{4})\. \w")
_SUPERSEDED: Final = re.compile(r"^Superseded (?:in part )?by (?:.*\n)+?\n", re.MULTILINE)
_SUPERSEDES: Final = re.compile(r"^Supersedes (?:.*\n)+?\n", re.MULTILINE)
_RECORD: Final = re.compile(r"\[(\d{4})\]\((\d{4})-[\w-]+\.md\)")


def test_each_record_has_its_number() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(set(numbers)) == len(numbers)  # numbers need not be consecutive
    titles = [_TITLE.match(path.read_text()) for path in RECORDS]
    assert [title and title[1] for title in titles] == numbers


_PART: Final = re.compile(
    r"^(?:\*\*|## )(Context|Decision|Consequences|Enforced by)\b", re.MULTILINE
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_each_record_has_the_same_parts(record: Path) -> None:
    parts = _PART.findall(record.read_text())
    assert parts == ["Context", "Decision", "Consequences", "Enforced by"]
    assert len(record.read_text().splitlines()) <= LONGEST_RECORD


def test_each_decision_that_is_cited_is_recorded() -> None:
    numbers = {path.name[:4] for path in RECORDS}
    citations = _find_all(_NUMBER)
    for path in RECORDS:
        citations += [(path, match) for match in _SHORT.finditer(_CODE.sub("", _prose(path)))]
    assert citations
    unknown = [_locate(path, TEXTS[path], m) for path, m in citations if m[1] not in numbers]
    assert unknown == []


def _linked_records(path: Path, pattern: re.Pattern[str]) -> set[str]:
    """Return the records to which a record's paragraph about its successors or precursors links."""
    paragraph = pattern.search(path.read_text())
    if paragraph is None:
        return set()
    above = path.read_text()[: paragraph.start()].splitlines()
    assert all(not line or line.startswith(("# ", "Supersede")) for line in above), path.name
    links = _RECORD.findall(paragraph[0])
    assert links, f"{path.name}: {paragraph[0]}"
    assert all(text == target for text, target in links), path.name
    return {number for number, _ in links}


def test_a_record_and_its_successor_link_to_each_other() -> None:
    superseded = {
        (path.name[:4], new) for path in RECORDS for new in _linked_records(path, _SUPERSEDED)
    }
    supersedes = {
        (old, path.name[:4]) for path in RECORDS for old in _linked_records(path, _SUPERSEDES)
    }
    assert superseded
    assert superseded == supersedes
    assert all(old < new for old, new in superseded)


def test_superseded_records_are_marked_in_one_form() -> None:
    others = []
    for path in RECORDS:
        text = _SUPERSEDES.sub("", _SUPERSEDED.sub("", path.read_text()))
        others += [path.name for _ in re.finditer(r"[Ss]upersede|^\*\*Status", text, re.MULTILINE)]
    assert others == []


# ── files that documents name ──

_SUFFIX: Final = re.compile(r"\.(?:py|md|sql|toml|lock|yaml|svg|html|css|json|in)$")
_PATH: Final = re.compile(r"`([\w.*<>-]+(?:/[\w.*<>-]+)*/?)`")
_ROOTS: Final = (TOP, TOP / "src" / "opentill", TOP / "tests")
# Names that look like files of this project, and what they are.
EXCEPTIONS: Final = {
    "opentill_piggy.py": "the made-up gateway of a recipe",
    "test_piggy.py": "its tests",
    "migrations/NNNN_order_reference.sql": "the migration of a recipe",
    "migrations/NNNN_goodwill.sql": "the migration of a recipe",
    "migrations/NNNN_accountants.sql": "the migration of a recipe",
    "src/opentill/cli/products.py": "the file of a recipe",
    "src/opentill/dashboard/rates.py": "the file of a recipe",
    "src/opentill/dashboard/templates/rates.html": "the file of a recipe",
    "tests/dashboard/test_rates.py": "the test of a recipe",
    "tests/cli/test_products.py": "the test of a recipe",
}


def _exists(path: Path, name: str) -> bool:
    """Whether a file has this name, or this path from a root or from the document's folder."""
    pattern = re.sub(r"<\w+>", "*", name.rstrip("/"))
    if any(any(root.glob(pattern)) for root in (*_ROOTS, path.parent)):
        return True
    return "/" not in name and any(any((TOP / folder).rglob(pattern)) for folder in FOLDERS)


def _named_files(path: Path) -> Iterator[re.Match[str]]:
    """Yield the names that look like paths, by their suffix or their first folder."""
    tops = {folder.name for root in _ROOTS for folder in root.iterdir() if folder.is_dir()}
    for match in _PATH.finditer(_prose(path)):
        first, slash, _ = match[1].partition("/")
        if _SUFFIX.search(match[1]) or (slash and first in tops - SKIPPED):
            yield match


def test_each_file_that_a_document_names_exists() -> None:
    names = [(path, match) for path in PAGES for match in _named_files(path)]
    missing = [
        _locate(path, _prose(path), match)
        for path, match in names
        if match[1] not in EXCEPTIONS and not _exists(path, match[1])
    ]
    assert names
    assert missing == []


def test_each_exception_is_still_needed() -> None:
    names = {match[1] for path in PAGES for match in _named_files(path)}
    assert sorted(set(EXCEPTIONS) - names) == []
