"""Mutants of SQL: without a condition or lock, or with another comparison, sign, order or limit."""

import hashlib
import importlib
import pkgutil
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import opentill
from mutants.model import Mutant
from opentill.db.query import Command, Query, Value

_TOKEN: Final = re.compile(
    r"""(?P<comment>--[^\n]*)|(?P<text>\be?'(?:[^']|'')*'|'(?:[^']|'')*')|(?P<param>\$\d+)
    |(?P<word>[a-zA-Z_][\w.]*)|(?P<number>\d[\d.]*)|(?P<sign><=|>=|<>|::|\|\||<<|[-=<>+*/%])
    |(?P<mark>[(),\[\];])""",
    re.VERBOSE,
)
_LOCK: Final = re.compile(
    r"\bfor\s+(?:no\s+key\s+)?(?:update|share)(?:\s+of\s+\w+)?(?:\s+skip\s+locked)?", re.IGNORECASE
)
_CLAUSE_KEYWORDS: Final = frozenset({  # a condition ends before any of these keywords
    "group", "order", "limit", "offset", "returning", "for", "union", "having", "window", "cross",
    "left", "full", "inner", "join", "select", "on", "where", "then", "do", "set", "using",
})  # fmt: skip
_COMPARISONS: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "<>": "="}
_SWAPPED: Final = {"greatest": "least", "least": "greatest", "min": "max", "max": "min"}


class Token(NamedTuple):
    """A token of SQL, and its depth in brackets and ``case`` expressions."""

    kind: str
    text: str
    start: int
    end: int
    depth: int


class Change(NamedTuple):
    """A part of a statement and its replacement."""

    kind: str
    start: int
    end: int
    new: str


def statements() -> Iterator[tuple[str, str, str]]:
    """Yield the module, name and SQL of every statement of the product."""
    visited: set[int] = set()
    names = [module.name for module in pkgutil.walk_packages(opentill.__path__, "opentill.")]
    for module_name in sorted(names, key=lambda name: (not name.endswith(".queries"), name)):
        if module_name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module_name)).items():
            items = enumerate(value) if isinstance(value, tuple) else [(None, value)]
            for index, statement in items:
                if isinstance(statement, Query | Value | Command) and id(statement) not in visited:
                    visited.add(id(statement))
                    yield module_name, name if index is None else f"{name}[{index}]", statement.sql


def digest(sql: str) -> str:
    """Return the digest by which a recording identifies a statement."""
    return hashlib.sha1(sql.encode(), usedforsecurity=False).hexdigest()[:12]


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of every statement."""
    for module, name, sql in statements():
        for change in changes(sql):
            replacement = sql[: change.start] + change.new + sql[change.end :]
            old = " ".join(sql[change.start : change.end].split())
            new = "dropped" if change.kind in {"condition", "tenant", "lock"} else change.new
            before = " ".join(sql[max(0, change.start - 25) : change.start].split())
            yield Mutant(
                module=module,
                location=name,
                kind=change.kind,
                description=f"… {before} [{old} → {new}] @{change.start}",
                digest=digest(sql),
                replacement=replacement,
            )


def changes(sql: str) -> Iterator[Change]:
    """Yield the possible changes of a statement."""
    tokens = _tokens_without_comments(sql)
    yield from _conditions(sql, tokens)
    for lock in _LOCK.finditer(sql):
        is_in_comment = any(
            token.kind == "comment" and token.start <= lock.start() < token.end
            for token in _tokenize(sql)
        )
        if not is_in_comment:
            yield Change("lock", lock.start(), lock.end(), "")
            if lock.group().endswith("locked"):
                waiting_lock = re.sub(r"\s+skip\s+locked", "", lock.group())
                yield Change("skip", lock.start(), lock.end(), waiting_lock)
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.text in _COMPARISONS:
            yield Change("comparison", token.start, token.end, _COMPARISONS[token.text])
        elif token.text in "+-" and before and after and _is_value(before) and _is_value(after):
            yield Change("sign", token.start, token.end, "-" if token.text == "+" else "+")
        elif token.text == "desc":
            yield Change("order", token.start, token.end, "asc")
        elif token.text in _SWAPPED and after and after.text == "(":
            yield Change("swap", token.start, token.end, _SWAPPED[token.text])
        elif token.text == "limit" and after and after.kind in {"param", "number"}:
            yield Change("limit", after.start, after.end, f"({after.text} + 1)")


def _is_value(token: Token) -> bool:
    return token.kind in {"word", "number", "param"} or token.text in "()"


def _tokenize(sql: str) -> list[Token]:
    tokens, depth = [], 0
    for match in _TOKEN.finditer(sql):
        kind, text = match.lastgroup or "", match.group()
        if kind == "word":
            text = text.lower()
        if text in {")", "]", "end"}:
            depth -= 1
        tokens.append(Token(kind, text, match.start(), match.end(), depth))
        if text in {"(", "[", "case"}:
            depth += 1
    return tokens


def _tokens_without_comments(sql: str) -> list[Token]:
    return [token for token in _tokenize(sql) if token.kind != "comment"]


def _conditions(sql: str, tokens: list[Token]) -> Iterator[Change]:
    """Yield changes that make a part of a condition true, or an alternative false."""
    for position, token in enumerate(tokens):
        following = tokens[position + 1].text if position + 1 < len(tokens) else ""
        if token.text in {"where", "on"} and following != "conflict":
            yield from _true_parts(sql, tokens, position + 1, token.depth)
        elif token.text == "(" and following not in {"select", "values", "with"}:
            parts, operator = _split_condition(tokens, position + 1, token.depth + 1)
            for part in parts if operator == "or" else ():
                text = sql[part[0].start : part[-1].end]
                yield Change("condition", part[0].start, part[-1].end, f"({text} and false)")


def _true_parts(sql: str, tokens: list[Token], start: int, depth: int) -> Iterator[Change]:
    parts, operator = _split_condition(tokens, start, depth)
    if operator == "or" and parts:
        parts = [[token for part in parts for token in part]]
    for part in parts:
        text = sql[part[0].start : part[-1].end]
        is_tenant = re.match(r"[\w.]*\b(merchant_id|currency)\b", text)
        kind = "tenant" if is_tenant else "condition"
        yield Change(kind, part[0].start, part[-1].end, f"({text} or true)")


def _split_condition(tokens: list[Token], start: int, depth: int) -> tuple[list[list[Token]], str]:
    """Split a condition at its outermost operators; return its parts, and "and" or "or"."""
    parts: list[list[Token]] = [[]]
    operator, is_between = "and", False
    for previous, token in zip([None, *tokens[start:]], tokens[start:], strict=False):
        if token.depth < depth or token.text == ";":
            break
        if token.depth > depth:
            parts[-1].append(token)
            continue
        is_distinct_from = (
            token.text == "from" and previous is not None and previous.text == "distinct"
        )
        if token.text in _CLAUSE_KEYWORDS or token.text == ",":
            break
        if token.text == "from" and not is_distinct_from:
            break
        if token.text in {"and", "or"} and not is_between:
            operator = "or" if token.text == "or" else operator
            parts.append([])
            continue
        if token.text == "and":
            is_between = False
        elif token.text == "between":
            is_between = True
        parts[-1].append(token)
    return [part for part in parts if part], operator
