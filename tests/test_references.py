"""What text refers to exists: rules of the contract, links, decisions, files; and all of it here.

Code, tests and documents cite a rule as ``contract.md#its-anchor``, a decision record by its number
and everything else by its path. Nothing is cited that a reader cannot open.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

TOP: Final = Path(__file__).parents[1]
CONTRACT: Final = TOP / "docs" / "contract.md"
LONGEST_RECORD: Final = 60  # lines: one screen
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


def _lines(path: Path, text: str, found: re.Match[str]) -> str:
    """Say where something was found, as compilers do."""
    return f"{NAMES[path]}:{text.count(chr(10), 0, found.start()) + 1}: {found[0].strip()}"


def _found(pattern: re.Pattern[str]) -> list[tuple[Path, re.Match[str]]]:
    """Return all matches in all files but this one, which has to name what it looks for."""
    here = Path(__file__)
    return [
        (path, match)
        for path, text in TEXTS.items()
        if path != here
        for match in pattern.finditer(text)
    ]


# The contract.

_ANCHOR: Final = re.compile(r'<a id="([a-z0-9]+(?:-[a-z0-9]+)*)"></a>')
_CITED: Final = re.compile(r"\bcontract\.md(?:#([\w-]*))?")
# Who may name the contract as a whole.
WHOLE: Final = frozenset((*PAGES, TOP / "tests" / "test_contract.py"))
_HEADING: Final = re.compile(r"^(#{2,4}) (.*)$", re.MULTILINE)


def test_each_rule_of_the_contract_has_one_anchor() -> None:
    text = CONTRACT.read_text()
    anchors = _ANCHOR.findall(text)
    assert len(anchors) == text.count("<a id=") > 0
    assert sorted(set(anchors)) == sorted(anchors)
    bare = [title for _, title in _HEADING.findall(text) if not _ANCHOR.match(title)]
    assert bare == []


def test_each_rule_that_is_cited_is_in_the_contract() -> None:
    anchors = set(_ANCHOR.findall(CONTRACT.read_text()))
    citations = _found(_CITED)
    assert citations
    unknown = [
        _lines(path, TEXTS[path], match)
        for path, match in citations
        if (match[1] not in anchors if match[1] is not None else path not in WHOLE)
    ]
    assert unknown == []


# What cannot be opened by a reader.

_OUTSIDE: Final = re.compile(
    r"""
      \bspec\ ?§ | \bproduct\ ?§ | [Pp]roduct(?:'s)?\ decisions? | [Qq]uality\ promise
    | \bdecisions\)?\ \(?§ | (?<![\w.-])(?:spec|product|quality|epay|architecture)\.md
    | \bepay_vectors\b | /work/
    """,
    re.VERBOSE,
)
# Whose sections may be cited: published, and to be had by everybody.
_PUBLISHED: Final = re.compile(r"RFC \d|draft-ietf|WHATWG|OpenAPI 3|libpq|PostgreSQL protocol|NIST")
_NEAR: Final = 120  # characters: "RFC 8259 §4, §8.2"
LOOK_FOR_SECTIONS: Final = ("schemas.py", "test_document_forms.py")  # to show none to users


def test_nothing_is_cited_that_is_not_here() -> None:
    assert [_lines(path, TEXTS[path], match) for path, match in _found(_OUTSIDE)] == []


def test_a_section_is_of_a_published_standard() -> None:
    stray = [
        _lines(path, TEXTS[path], match)
        for path, match in _found(re.compile("§ ?[^ ]*"))
        if path.name not in LOOK_FOR_SECTIONS
        and not _PUBLISHED.search(TEXTS[path][max(0, match.start() - _NEAR) : match.start()])
    ]
    assert stray == []


# Links between documents.

_FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


@cache
def _prose(path: Path) -> str:
    """Return a document without its examples; lines stay where they are."""
    return _FENCED.sub(lambda found: "\n" * found[0].count("\n"), TEXTS[path])


@cache
def _places(path: Path) -> frozenset[str]:
    """Return what a link into a document may name: its anchors, and its headings as forges do."""
    titles = re.findall(r"^#+ (.*)$", _prose(path), re.MULTILINE)
    plain = (re.sub(r"<[^>]*>|[`*]", "", title).strip().lower() for title in titles)
    slugs = (re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain)
    return frozenset((*slugs, *_ANCHOR.findall(TEXTS[path])))


def test_each_link_leads_somewhere() -> None:
    dead = []
    links = 0
    for path in PAGES:
        text = _CODE.sub(lambda found: " " * len(found[0]), _prose(path))
        for link in _LINK.finditer(text):
            if "://" in link[1] or link[1].startswith("mailto:"):
                continue
            links += 1
            name, _, place = link[1].partition("#")
            target = (path.parent / name).resolve() if name else path
            there = target.exists() and (not place or place in _places(target))
            if not there:
                dead.append(_lines(path, text, link))
    assert links > 0
    assert dead == []


# Decision records.

_NUMBER: Final = re.compile(r"\b(?:[Dd]ecisions?[ /]|decisions/)(\d{4})\b")
_SHORT: Final = re.compile(r"\b(00\d\d)\b")  # within the records themselves
_TITLE: Final = re.compile(r"# (\d{4})\. \w")
_BY: Final = re.compile(r"^Superseded (?:in part )?by (?:.*\n)+?\n", re.MULTILINE)
_OF: Final = re.compile(r"^Supersedes (?:.*\n)+?\n", re.MULTILINE)
_RECORD: Final = re.compile(r"\[(\d{4})\]\((\d{4})-[\w-]+\.md\)")


def test_each_record_has_its_number() -> None:
    numbers = [path.name[:4] for path in RECORDS]
    assert len(set(numbers)) == len(numbers)  # numbers of records that are being written are free
    titles = [_TITLE.match(path.read_text()) for path in RECORDS]
    assert [title and title[1] for title in titles] == numbers


_FORM: Final = re.compile(
    r"^(?:\*\*|## )(Context|Decision|Consequences|Enforced by)\b", re.MULTILINE
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_each_record_has_the_same_parts(record: Path) -> None:
    parts = _FORM.findall(record.read_text())
    assert parts == ["Context", "Decision", "Consequences", "Enforced by"]
    assert len(record.read_text().splitlines()) <= LONGEST_RECORD


def test_each_decision_that_is_cited_is_recorded() -> None:
    numbers = {path.name[:4] for path in RECORDS}
    cited = _found(_NUMBER)
    for path in RECORDS:
        cited += [(path, match) for match in _SHORT.finditer(_CODE.sub("", _prose(path)))]
    assert cited
    unknown = [_lines(path, TEXTS[path], m) for path, m in cited if m[1] not in numbers]
    assert unknown == []


def _told(path: Path, form: re.Pattern[str]) -> set[str]:
    """Return the records that a paragraph right below the title of a record names."""
    found = form.search(path.read_text())
    if found is None:
        return set()
    above = path.read_text()[: found.start()].splitlines()
    assert all(not line or line.startswith(("# ", "Supersede")) for line in above), path.name
    named = _RECORD.findall(found[0])
    assert named, f"{path.name}: {found[0]}"
    assert all(shown == linked for shown, linked in named), path.name
    return {number for number, _ in named}


def test_a_record_that_replaces_another_and_that_one_name_each_other() -> None:
    by = {(path.name[:4], new) for path in RECORDS for new in _told(path, _BY)}
    of = {(old, path.name[:4]) for path in RECORDS for old in _told(path, _OF)}
    assert by
    assert by == of
    assert all(old < new for old, new in by)


def test_that_a_record_is_replaced_is_said_in_one_form() -> None:
    other = []
    for path in RECORDS:
        rest = _OF.sub("", _BY.sub("", path.read_text()))
        other += [path.name for _ in re.finditer(r"[Ss]upersede|^\*\*Status", rest, re.MULTILINE)]
    assert other == []


# Files that documents name.

_SUFFIX: Final = re.compile(r"\.(?:py|md|sql|toml|lock|yaml|svg|html|css|json|in)$")
_PATH: Final = re.compile(r"`([\w.*<>-]+(?:/[\w.*<>-]+)*/?)`")
_ROOTS: Final = (TOP, TOP / "src" / "opentill", TOP / "tests")
# What looks like a file of ours and is none.
NOT_OURS: Final = {
    "opentill_piggy.py": "the made-up gateway of a recipe",
    "migrations/NNNN_order_reference.sql": "the migration of a recipe",
    "migrations/NNNN_goodwill.sql": "the migration of a recipe",
    "migrations/NNNN_accountants.sql": "the migration of a recipe",
    "src/opentill/cli/products.py": "the file of a recipe",
    "src/opentill/dashboard/rates.py": "the file of a recipe",
    "src/opentill/dashboard/templates/rates.html": "the file of a recipe",
    "tests/dashboard/test_rates.py": "the test of a recipe",
    "tests/cli/test_products.py": "the test of a recipe",
}


def _is_there(path: Path, name: str) -> bool:
    """Tell whether a name leads to a file: from the top, the package, the tests, or by itself."""
    pattern = re.sub(r"<\w+>", "*", name.rstrip("/"))
    if any(any(root.glob(pattern)) for root in (*_ROOTS, path.parent)):
        return True
    return "/" not in name and any(any((TOP / folder).rglob(pattern)) for folder in FOLDERS)


def _named_files(path: Path) -> Iterator[re.Match[str]]:
    """Yield what looks like a file or a folder of ours: by its ending, or where its path begins."""
    tops = {one.name for root in _ROOTS for one in root.iterdir() if one.is_dir()}
    for found in _PATH.finditer(_prose(path)):
        first, slash, _ = found[1].partition("/")
        if _SUFFIX.search(found[1]) or (slash and first in tops - SKIPPED):
            yield found


def test_each_file_that_a_document_names_is_there() -> None:
    missing = []
    named = 0
    for path in PAGES:
        for found in _named_files(path):
            named += 1
            if found[1] not in NOT_OURS and not _is_there(path, found[1]):
                missing.append(_lines(path, _prose(path), found))
    assert named > 0
    assert missing == []


def test_each_exception_is_still_needed() -> None:
    named = {found[1] for path in PAGES for found in _named_files(path)}
    assert sorted(set(NOT_OURS) - named) == []
