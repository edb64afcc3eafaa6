"""Mutants of SQL: a condition or lock dropped; another comparison, sign, order or limit."""

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
_ENDS: Final = frozenset({
    "group", "order", "limit", "offset", "returning", "for", "union", "having", "window", "cross",
    "left", "full", "inner", "join", "select", "on", "where", "then", "do", "set", "using",
})  # fmt: skip
_OTHER: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "<>": "="}
_SWAPPED: Final = {"greatest": "least", "least": "greatest", "min": "max", "max": "min"}


class Token(NamedTuple):
    """A token of SQL, and its depth in brackets and cases."""

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
    """Yield module, name and text of every statement of the product."""
    seen: set[int] = set()
    names = [module.name for module in pkgutil.walk_packages(opentill.__path__, "opentill.")]
    for module_name in sorted(names, key=lambda name: (not name.endswith(".queries"), name)):
        if module_name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module_name)).items():
            several = enumerate(value) if isinstance(value, tuple) else [(None, value)]
            for index, statement in several:
                if isinstance(statement, Query | Value | Command) and id(statement) not in seen:
                    seen.add(id(statement))
                    yield module_name, name if index is None else f"{name}[{index}]", statement.sql


def digest(sql: str) -> str:
    """Return the name of a statement in a recording."""
    return hashlib.sha1(sql.encode(), usedforsecurity=False).hexdigest()[:12]


def mutants() -> Iterator[Mutant]:
    """Yield every mutant of every statement."""
    for module, name, sql in statements():
        for change in changes(sql):
            changed = sql[: change.start] + change.new + sql[change.end :]
            old = " ".join(sql[change.start : change.end].split())
            new = "dropped" if change.kind in {"condition", "tenant", "lock"} else change.new
            before = " ".join(sql[max(0, change.start - 25) : change.start].split())
            yield Mutant(
                module=module,
                place=name,
                kind=change.kind,
                what=f"… {before} [{old} → {new}] @{change.start}",
                digest=digest(sql),
                changed=changed,
            )


def changes(sql: str) -> Iterator[Change]:
    """Yield the possible changes of a statement."""
    tokens = _tokens(sql)
    yield from _conditions(sql, tokens)
    for lock in _LOCK.finditer(sql):
        if not any(t.kind == "comment" and t.start <= lock.start() < t.end for t in _all(sql)):
            yield Change("lock", lock.start(), lock.end(), "")
            if lock.group().endswith("locked"):
                waits = re.sub(r"\s+skip\s+locked", "", lock.group())
                yield Change("skip", lock.start(), lock.end(), waits)
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if token.text in _OTHER:
            yield Change("comparison", token.start, token.end, _OTHER[token.text])
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


def _all(sql: str) -> list[Token]:
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


def _tokens(sql: str) -> list[Token]:
    return [token for token in _all(sql) if token.kind != "comment"]


def _conditions(sql: str, tokens: list[Token]) -> Iterator[Change]:
    """Yield changes that make a part of a condition true, or an alternative false."""
    for at, token in enumerate(tokens):
        if token.text in {"where", "on"} and tokens[at + 1].text != "conflict":
            yield from _parts(sql, tokens, at + 1, token.depth)
        elif token.text == "(" and tokens[at + 1].text not in {"select", "values", "with"}:
            words = _parts_of(tokens, at + 1, token.depth + 1)
            if words[1] == "or":
                for part in words[0]:
                    text = sql[part[0].start : part[-1].end]
                    yield Change("condition", part[0].start, part[-1].end, f"({text} and false)")


def _parts(sql: str, tokens: list[Token], start: int, depth: int) -> Iterator[Change]:
    parts, word = _parts_of(tokens, start, depth)
    if word == "or" and parts:
        parts = [[token for part in parts for token in part]]
    for part in parts:
        text = sql[part[0].start : part[-1].end]
        tenant = re.match(r"[\w.]*\b(merchant_id|currency)\b", text)
        kind = "tenant" if tenant else "condition"
        yield Change(kind, part[0].start, part[-1].end, f"({text} or true)")


def _parts_of(tokens: list[Token], start: int, depth: int) -> tuple[list[list[Token]], str]:
    """Split a condition at its own level; return the parts and the word between them."""
    parts: list[list[Token]] = [[]]
    word, between = "and", False
    for before, token in zip([None, *tokens[start:]], tokens[start:], strict=False):
        if token.depth < depth or token.text == ";":
            break
        here = token.depth == depth
        distinct = token.text == "from" and before is not None and before.text == "distinct"
        if here and (token.text in _ENDS or (token.text == "from" and not distinct)):
            break
        if here and token.text == ",":
            break
        if here and token.text in {"and", "or"} and not between:
            word = "or" if token.text == "or" else word
            parts.append([])
            continue
        if here and token.text == "and":
            between = False
        elif here and token.text == "between":
            between = True
        parts[-1].append(token)
    return [part for part in parts if part], word
