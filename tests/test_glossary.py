"""Code, messages and documents use the terms of the glossary, not the words that it bans.

The column *not* of ``docs/glossary.md`` lists banned words and phrases, separated by commas:

- Plain text is banned, with the usual endings of a word, in prose (comments, docstrings and other
  strings, templates, comments of SQL, documents) and in Python names: ``by hand`` also bans
  ``by_hand`` and ``ByHand``.
- Text in backticks is banned in code only, and its case matters.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

TOP: Final = Path(__file__).parents[1]
PAGES: Final = ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG")
# For each file or folder and words with their context, the reason why they are allowed: a word has
# another sense here, or clients or the schema depend on the name.
_NOTICE: Final = "a column of epay_notifications, and a column that a command prints"
_ATTEMPT: Final = "a column of delivery_attempts, and a column of the API"
_MIGRATION: Final = "migrations are never edited"
EXCEPTIONS: Final = {
    ("src/opentill/people/passwords.py", "lanes"): "a parameter of Argon2, RFC 9106",
    ("src/opentill/core/encryption.py", "opentill sealed 1"): "stored secrets depend on it",
    ("src/opentill/http/handling.py", "answer {} {}"): "stored responses depend on it",
    ("src/opentill/epay", "sealed key"): "a column: the encrypted key of Epay credentials",
    ("src/opentill/epay/queries.py", "tries, answer"): _NOTICE,
    ("src/opentill/epay/queries.py", "answer = :result"): _NOTICE,
    ("src/opentill/epay/recovery_queries.py", "tries, answer"): _NOTICE,
    ("src/opentill/epay/recovery_queries.py", "answer = :result"): _NOTICE,
    ("src/opentill/orders/transition_queries.py", "tries, answer"): _NOTICE,
    ("src/opentill/epay/model.py", '"answer"'): _NOTICE,
    ("src/opentill/epay/imported_queries.py", "tries, answer"): _NOTICE,
    ("src/opentill/epay/imported_queries.py", "and answer = "): _NOTICE,
    ("src/opentill/cli/epay.py", '"answer"'): _NOTICE,
    ("src/opentill/webhooks/queries.py", "request, answer"): _ATTEMPT,
    ("src/opentill/webhooks/dispatch_queries.py", "request, answer"): _ATTEMPT,
    ("src/opentill/webhooks/wire.py", '"answer"'): _ATTEMPT,
    ("src/opentill/webhooks/api.py", '"answer"'): _ATTEMPT,
    ("src/opentill/client/model.py", '"answer"'): _ATTEMPT,
    ("tools/python_models.py", '"answer"'): _ATTEMPT,
    ("tools/plain_names.py", '"told"'): "one of the names that it bans",
    ("migrations/0004_search.sql", "e-mail"): _MIGRATION,
    ("migrations/0054_search_words.sql", "e-mail"): _MIGRATION,
    ("tests/cli/test_balance.py", '"frozen by hand"'): "the command prints it",
}
# For each package whose identifiers and SQL contain it, a column with a banned name, and the
# reason.
COLUMNS: Final = {
    ("webhooks", "step"): "a column of webhook_deliveries",
    ("", "step"): "the same column, in the benchmark of deliveries",
}
_BEGIN: Final = r"(?<!\w)"
_BEGIN_OF_PROSE: Final = r"(?<![\w-])"
_ENDS: Final = "(?:s|es|ed|d|ing|er|ers)?"
_SQL: Final = re.compile(r"f?\W*(?:with|select|insert|update|delete) ")
_PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


class BannedWord(NamedTuple):
    """A banned word in a file, with its line and the term to use instead."""

    place: str
    word: str
    term: str

    def __str__(self) -> str:
        """Format it like a compiler's message."""
        return f"{self.place}: {self.word!r}: {self.term}"


@cache
def entries(top: Path = TOP) -> tuple[tuple[re.Pattern[str], bool, str], ...]:
    """Read the glossary; return a pattern, whether it is for code only, and the right term."""
    patterns = []
    for line in (top / "docs" / "glossary.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 5 or cells[0] in {"term", "---"}:
            continue
        words = filter(None, (word.strip() for word in cells[4].split(",")))
        patterns += [(*_pattern(word), cells[0]) for word in words]
    return tuple(patterns)


@cache
def _any_of(top: Path, code: bool) -> re.Pattern[str]:
    """Combine all patterns for prose or for code, to skip most texts quickly."""
    patterns = [pattern for pattern, code_only, _ in entries(top) if code_only is code]
    begin = _BEGIN if code else _BEGIN_OF_PROSE
    choices = "|".join(f"(?:{pattern.pattern.removeprefix(begin)})" for pattern in patterns)
    return re.compile(f"{begin}(?:{choices})", patterns[0].flags)


@cache
def _words_of(name: str) -> str:
    """Put spaces between the words of a name."""
    return " ".join(_PARTS.findall(name))


@cache
def _suspect(name: str, package: str, top: Path) -> str:
    """Return the words of a name if one of them may be banned."""
    words = _words_of(_without_columns(name, package))
    return words if _any_of(top, False).search(words) else ""


def _pattern(word: str) -> tuple[re.Pattern[str], bool]:
    if word.startswith("`"):
        return re.compile(rf"{_BEGIN}{re.escape(word.strip('`'))}(?!\w)"), True
    stem = r"\s+".join(map(re.escape, word.split()))
    if " " not in word:
        stem = rf"{stem}{_ENDS}|{stem[:-1]}ing" if word.endswith("e") else rf"{stem}{_ENDS}"
    return re.compile(rf"{_BEGIN_OF_PROSE}(?:{stem})(?![\w-])", re.IGNORECASE), False


def _without_columns(text: str, package: str) -> str:
    """Remove the package's ``COLUMNS`` from an identifier, a key or an SQL statement."""
    for column_package, column in COLUMNS:
        if column_package == package and text.strip("\"'") == column:
            return ""
        if column_package == package and _SQL.match(text):
            text = re.sub(rf"\b{column}\b", "", text)
    return text


def _search(path: str, line: int, text: str, top: Path, *, code: bool) -> Iterator[BannedWord]:
    """Find the banned words in a text that begins in ``line``."""
    if _any_of(top, code).search(text) is None:
        return
    for pattern, code_only, term in entries(top):
        if code_only is not code:
            continue
        for match in pattern.finditer(text):
            context = text[max(0, match.start() - 40) : match.end() + 40]
            if not any(path.startswith(place) and words in context for place, words in EXCEPTIONS):
                row = line + text.count("\n", 0, match.start())
                yield BannedWord(f"{path}:{row}", " ".join(match[0].split()), term)


def in_python(path: Path, top: Path = TOP) -> list[BannedWord]:
    """Return the banned words of a Python file."""
    name = str(path.relative_to(top))
    banned: list[BannedWord] = []
    package = "".join(path.relative_to(top).parts[2:3]).removesuffix(".py")
    comments: dict[int, str] = {}
    code: dict[int, list[str]] = {}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        row = token.start[0]
        if token.type == tokenize.COMMENT:
            comments[row] = token.string
        elif token.type in {tokenize.NAME, tokenize.OP}:
            parts = code.setdefault(row, [])
            both = parts and parts[-1][-1].isidentifier() and token.string[0].isidentifier()
            parts.append(f" {token.string}" if both else token.string)
            if token.type == tokenize.NAME and not token.string.startswith("__"):
                words = _suspect(token.string, package, top)
                if words:
                    banned += _search(name, row, words, top, code=False)
        elif tokenize.tok_name[token.type] in {"STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE"}:
            text = _without_columns(token.string, package)
            banned += _search(name, row, text, top, code=False)
    for row, pieces in code.items():
        banned += _search(name, row, "".join(pieces), top, code=True)
    for row, text in _join_comments(comments):
        banned += _search(name, row, text, top, code=False)
    return banned


def _join_comments(lines: dict[int, str]) -> Iterator[tuple[int, str]]:
    """Join the comments of consecutive lines into one text."""
    rows = sorted(lines)
    while rows:
        first, text = rows[0], lines[rows[0]]
        while len(rows) > 1 and rows[1] == rows[0] + 1:
            text = f"{text}\n{lines[rows[1]].lstrip('# ')}"
            rows = rows[1:]
        rows = rows[1:]
        yield first, text


_FENCED: Final = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_SPAN: Final = re.compile(r"`[^`\n]*`|\]\([^)\s]*\)|<a id=[^>]*>")


def in_document(path: Path, top: Path = TOP) -> list[BannedWord]:
    """Return the banned words in a document's prose, code and links."""
    name, text = str(path.relative_to(top)), path.read_text()
    if path.name == "glossary.md":
        text = re.sub(r"\|[^|\n]*\|$", "|", text, flags=re.MULTILINE)
    unfenced = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    prose = _SPAN.sub(lambda span: " " * len(span[0]), unfenced)
    banned = list(_search(name, 1, prose, top, code=False))
    for span in _SPAN.finditer(unfenced):
        row = unfenced.count("\n", 0, span.start()) + 1
        banned += _search(name, row, span[0], top, code=True)
    return banned


def in_text(path: Path, top: Path = TOP) -> list[BannedWord]:
    """Return the banned words of a template or style sheet, or of the comments of SQL."""
    text = path.read_text()
    if path.suffix == ".sql":
        lines = text.split("\n")
        text = "\n".join(line.partition("--")[2] for line in lines)
    text = re.sub(r"\{%.*?%\}", lambda tag: "\n" * tag[0].count("\n"), text, flags=re.DOTALL)
    return list(_search(str(path.relative_to(top)), 1, text, top, code=False))


def documents(top: Path = TOP) -> list[Path]:
    """Return the documents for readers, including the chapters of the API reference."""
    chapters = top / "src" / "opentill" / "reference" / "guides"
    pages = (top / f"{page}.md" for page in PAGES)
    return [*pages, *sorted((top / "docs").rglob("*.md")), *sorted(chapters.glob("*.md"))]


def sources(top: Path = TOP, package: str = "") -> list[Path]:
    """Return the files of a package, or of all packages, without third-party files."""
    folder = top / "src" / "opentill"
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".py", ".html", ".css", ".js"}
        and not path.with_suffix(".license.txt").exists()
        and (not package or path.relative_to(folder).parts[0].removesuffix(".py") == package)
    ]


def banned_words(path: Path, top: Path = TOP) -> list[BannedWord]:
    """Return the banned words of a file."""
    search = {".py": in_python, ".md": in_document}.get(path.suffix, in_text)
    return search(path, top)


@pytest.mark.parametrize("document", documents(), ids=lambda path: path.stem)
def test_documents_use_the_terms_of_the_glossary(document: Path) -> None:
    assert [str(word) for word in banned_words(document)] == []


PACKAGES: Final = sorted(
    {path.relative_to(TOP / "src/opentill").parts[0].removesuffix(".py") for path in sources()}
)


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_use_the_terms_of_the_glossary(package: str) -> None:
    assert [str(word) for path in sources(package=package) for word in banned_words(path)] == []


TEST_FOLDERS: Final = (
    "cli", "core", "deploy", "http", "ledger", "mail", "merchants", "onboarding",
    "orders", "outgoing", "pages", "payment_links", "payouts", "rates", "reconciliation",
    "reference", "refunds", "sandbox", "server", "spec", "web",
)  # fmt: skip


@pytest.mark.parametrize(
    "folder",
    ["benchmarks", "clients", "examples", "tools", *(f"tests/{name}" for name in TEST_FOLDERS)],
)
def test_other_code_uses_the_terms_of_the_glossary(folder: str) -> None:
    paths = [
        path
        for path in sorted((TOP / folder).rglob("*"))
        if path.suffix in {".py", ".md"} and "node_modules" not in path.parts
    ]
    assert paths
    assert [str(word) for path in paths for word in banned_words(path)] == []


def test_migrations_use_the_terms_of_the_glossary() -> None:
    paths = sorted((TOP / "migrations").glob("*.sql"))
    assert [str(word) for path in paths for word in banned_words(path)] == []


def test_the_glossary_is_in_alphabetical_order() -> None:
    text = (TOP / "docs" / "glossary.md").read_text()
    terms = [term.casefold() for term in re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)[1:]]
    assert len(terms) > 100
    assert terms == sorted(terms)


def test_banned_words_are_found_in_prose_and_code() -> None:
    assert len(entries()) > 40
    prose = _search("", 1, "It answers by hand", TOP, code=False)
    assert {banned.word for banned in prose} == {"answers", "by hand"}
    assert [banned.word for banned in _search("", 1, "a: Whose = 1", TOP, code=True)] == ["Whose"]


@pytest.mark.parametrize("exception", EXCEPTIONS, ids=" ".join)
def test_every_exception_is_needed(
    exception: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(EXCEPTIONS, exception)
    place = TOP / exception[0]
    paths = sorted(place.rglob("*.py")) or [place]
    assert [word for path in paths for word in banned_words(path)]


def test_a_column_is_exempt_in_sql_keys_and_identifiers_only() -> None:
    for code in ('"""\n    select d.step, d.attempts"""', '"step"', "step"):
        assert "step" not in _without_columns(code, "webhooks")
        assert "step" in _without_columns(code, "gateways")
    for prose in ('"the next step"', '"""Select the next step."""', "next_step"):
        assert "step" in _without_columns(prose, "webhooks")
