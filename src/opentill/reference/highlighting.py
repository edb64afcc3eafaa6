"""Syntax highlighting of code: spans with the classes that ``reference.css`` colors.

Pygments only splits code into tokens. Its own HTML has more classes than the style sheet needs.
"""

import importlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from markupsafe import Markup, escape

# Name of a language, as guides and samples write it → module and class of its lexer.
_LEXERS: Final[Mapping[str, tuple[str, str]]] = {
    "sh": ("shell", "BashLexer"),
    "curl": ("shell", "BashLexer"),
    "json": ("data", "JsonLexer"),
    "python": ("python", "PythonLexer"),
    "js": ("javascript", "JavascriptLexer"),
    "javascript": ("javascript", "JavascriptLexer"),
}
# Beginning of a token's type → class of its span. Other tokens get no span.
_CLASSES: Final[Mapping[str, str]] = {
    "Token.Comment": "code-comment",
    "Token.Keyword": "code-keyword",
    "Token.Operator.Word": "code-keyword",
    "Token.Literal.Number": "code-number",
    "Token.Literal.String": "code-string",
    "Token.Name.Builtin": "code-name",
    "Token.Name.Function": "code-name",
    "Token.Name.Class": "code-name",
    "Token.Name.Decorator": "code-name",
    "Token.Name.Tag": "code-name",
    "Token.Name.Variable": "code-name",
}


class _Lexer(Protocol):
    """The part of a lexer of Pygments that is used here."""

    def get_tokens(self, text: str) -> Iterable[tuple[object, str]]:
        """Split a text into tokens: their types and texts."""
        ...


def highlight(text: str, language: str) -> Markup:
    """Return code as HTML whose text is exactly ``text``; code of an unknown language is plain."""
    place = _LEXERS.get(language.lower())
    if place is None:
        return escape(text)
    return Markup("").join(
        Markup('<span class="{}">{}</span>').format(class_, token)
        if (class_ := _class(str(kind)))
        else escape(token)
        for kind, token in _lexer(*place).get_tokens(text)
    )


def _class(kind: str) -> str:
    """Return the class of a type of token, "" if it has none."""
    return next((class_ for start, class_ in _CLASSES.items() if kind.startswith(start)), "")


@lru_cache
def _lexer(module: str, name: str) -> _Lexer:
    """Return a lexer that changes nothing of the text. It is imported for the first page only."""
    lexers: Any = importlib.import_module(f"pygments.lexers.{module}")
    return cast("_Lexer", getattr(lexers, name)(stripnl=False, ensurenl=False))
