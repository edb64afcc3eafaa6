"""The chapters: Markdown templates, filled with values of the deployment.

Facts of the code (business codes, limits, waits, headers) are inserted from there, so that chapters
cannot contradict it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2
import msgspec
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

from opentill import ledger, merchants, orders, webhooks
from opentill.core import errors
from opentill.core.errors import Problem
from opentill.core.settings import SANDBOX, Settings
from opentill.reference.document import slug
from opentill.reference.highlighting import highlight
from opentill.web import templates
from opentill.webhooks import signing


class Chapter(msgspec.Struct, frozen=True):
    """A chapter: ``/docs/guides/{name}``, rendered from ``guides/{name}.md``."""

    name: str
    title: str
    about: str  # a one-line summary


CHAPTERS: Final = (
    Chapter("quickstart", "Get started", "From an API key to a first payment, in five requests."),
    Chapter("authentication", "Authentication", "How to send an API key, and how to replace one."),
    Chapter("payments", "Payments", "Checkout sessions, orders, refunds and your balance."),
    Chapter("formats", "Amounts, times and ids", "The format of each kind of field."),
    Chapter("errors", "Errors", "Every error code, and what to do about it."),
    Chapter("idempotency", "Idempotent requests", "How to retry a request without doing it twice."),
    Chapter("paging", "Pagination", "Pages, filters and exports."),
    Chapter("webhooks", "Webhooks", "How to receive events and verify their signatures."),
    Chapter("testing", "Testing", "Test cards, and cases to try before you go live."),
    Chapter("limits", "Limits", "Rate limits, and the largest values of fields."),
    Chapter("epay", "Epay", "For shops that have an Epay integration."),
    Chapter(
        "clients",
        "Client libraries",
        "Python and JavaScript clients, and versions of the API.",
    ),
)
BY_NAME: Final[Mapping[str, Chapter]] = {chapter.name: chapter for chapter in CHAPTERS}


class Advice(msgspec.Struct, frozen=True):
    """When a business code occurs and what to do about it, in Markdown."""

    when: str
    then: str


_AGAIN: Final = "Wait as many seconds as `Retry-After` says, then send it again"
ADVICE: Final[Mapping[type[Problem], Advice]] = {
    errors.Invalid: Advice(
        "A field is invalid, or a rule does not allow the request. `error.field` names the field, "
        "`error.reason` says what is accepted. For JSON that cannot be parsed the field is `body`.",
        "Correct the request. Sending the same request again gives the same error.",
    ),
    errors.Unauthorized: Advice(
        "The API key is missing, wrong, expired, revoked or of the other environment, or the key "
        "does not allow the address that the request came from.",
        "Check the key. The response does not say which of these it was.",
    ),
    errors.NotPermitted: Advice(
        "The person's role does not permit this, or the person must have logged in within the last "
        "ten minutes. A request with an API key gets it if the operator has switched off `charge` "
        "or `refund` for your account, or if the agreement is not accepted: `error.field` says "
        "which, `error.reason` why.",
        "Do what `error` says, then send the request again. A person logs in again, or asks an "
        "owner of the team for another role.",
    ),
    errors.NotFound: Advice(
        "The path is unknown, or you have no object with this id. Objects of other merchants are "
        "not found either.",
        "Check the path and the id.",
    ),
    errors.MethodNotAllowed: Advice(
        "The path exists, but not for this method. The header `Allow` lists its methods.",
        "Use another method.",
    ),
    errors.Conflict: Advice(
        "A request with the same `Idempotency-Key` is still running.",
        "Send the same request again after a moment.",
    ),
    errors.PayloadTooLarge: Advice("The body is larger than 64 KiB.", "Send a smaller body."),
    errors.UnsupportedMediaType: Advice(
        "The body is not `application/json`.",
        "Send JSON with `Content-Type: application/json`.",
    ),
    errors.KeyReused: Advice(
        "The `Idempotency-Key` was used for another request.",
        "Use a new key for a new request.",
    ),
    errors.TooManyRequests: Advice("A rate limit is reached.", f"{_AGAIN}."),
    errors.Internal: Advice(
        "An error of the server. The response does not describe it.",
        "Send it again with the same `Idempotency-Key`. If the error remains, give the operator "
        "the `x-request-id`.",
    ),
    errors.Unavailable: Advice(
        "The database does not respond, or a gateway on which the request depends.",
        f"{_AGAIN} with the same `Idempotency-Key`.",
    ),
}


class Section(msgspec.Struct, frozen=True):
    """A section of a chapter, for the search index."""

    heading: str
    anchor: str
    text: str


class Texts:
    """Renders the chapters with the values of a deployment."""

    def __init__(self, settings: Settings) -> None:
        """Prepare rendering without reading files."""
        loader = jinja2.FileSystemLoader(Path(__file__).parent / "guides")
        self._environment = jinja2.Environment(
            loader=loader,
            autoescape=False,  # noqa: S701 - it is Markdown, which is escaped when it is rendered
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._values = _values(settings)
        self._markdown = MarkdownIt("commonmark", {"html": False}, renderer_cls=_Renderer)
        self._markdown.enable("table")

    def markdown(self, chapter: Chapter) -> str:
        """Return a chapter as Markdown."""
        text = self._environment.get_template(f"{chapter.name}.md").render(self._values)
        return f"# {chapter.title}\n\n{chapter.about}\n\n{text.strip()}\n"

    def html(self, chapter: Chapter) -> Markup:
        """Render a chapter as HTML."""
        tokens = self.tokens(chapter)
        options, environment = self._markdown.options, dict[str, Any]()
        html = self._markdown.renderer.render(tokens, options, environment)
        return Markup(html)  # noqa: S704 - the renderer escapes

    def sections(self, chapter: Chapter) -> tuple[Section, ...]:
        """Return the sections of a chapter; the first has the chapter's title."""
        heading, anchor, sections = chapter.title, "", list[Section]()
        text: list[str] = [chapter.about]
        tokens = self.tokens(chapter)
        for index, token in enumerate(tokens):
            if token.type == "heading_open":
                sections.append(Section(heading, anchor, " ".join(text)))
                heading, text = tokens[index + 1].content, []
                anchor = slug(heading)
            elif token.type in ("inline", "fence") and tokens[index - 1].type != "heading_open":
                text.append(_plain(token))
        return (*sections, Section(heading, anchor, " ".join(text)))

    def tokens(self, chapter: Chapter) -> list[Token]:
        """Return a chapter as Markdown tokens."""
        text = self._environment.get_template(f"{chapter.name}.md").render(self._values)
        return self._markdown.parse(text)


def _values(settings: Settings) -> dict[str, Any]:
    base = templates.base_path(settings.public_url)
    signature, timestamp, old = signing.header_names(settings.webhook_header_prefix)
    return {
        "server": settings.public_url.rstrip("/"),
        "docs": f"{base}/docs",
        "guides": f"{base}/docs/guides",
        "base": base,
        "prefix": merchants.PREFIXES[settings.environment],
        "environment": settings.environment,
        "other_prefix": next(
            prefix for name, prefix in merchants.PREFIXES.items() if name != settings.environment
        ),
        "livemode": settings.livemode,
        "sandbox": SANDBOX in settings.gateways,
        "per_address": settings.limit_ip_per_minute,
        "sessions": settings.limit_checkouts_per_minute,
        "payments": settings.limit_payments_per_minute,
        "resends": settings.limit_resends_per_minute,
        "codes": [
            (problem.status, problem.code, problem.message, advice.when, advice.then)
            for problem, advice in ADVICE.items()
        ],
        "export_columns": orders.EXPORT_COLUMNS,
        "statement_columns": ledger.STATEMENT_COLUMNS,
        "waits": [_duration(wait) for wait in webhooks.WAITS_MS],
        "signature_header": signature,
        "timestamp_header": timestamp,
        "old_signature_header": old,
    }


def _duration(length_ms: int) -> str:
    minutes = length_ms // 60_000
    number, unit = (minutes // 60, "hour") if minutes >= 60 else (minutes, "minute")  # noqa: PLR2004 - minutes of an hour
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _plain(token: Token) -> str:
    """Return the text of a line without markup."""
    breaks = ("softbreak", "hardbreak")
    return "".join(" " if one.type in breaks else one.content for one in token.children or (token,))


_LANGUAGES: Final[Mapping[str, str]] = {
    "sh": "Shell", "json": "JSON", "http": "HTTP", "python": "Python", "js": "JavaScript",
}  # fmt: skip


_MOST_NARROW: Final = 2  # columns of a table whose cards need no labels


def _headings(tokens: Sequence[Token], table: int) -> list[str]:
    """Return the headings of the table that begins at token ``table``."""
    headings: list[str] = []
    for at in range(table, len(tokens)):
        if tokens[at].type == "th_open":
            heading = _plain(tokens[at + 1])
            headings.append(heading[:1].upper() + heading[1:])
        elif tokens[at].type == "thead_close":
            break
    return headings


def _is_program(tokens: Sequence[Token], at: int) -> bool:
    """Whether a token is code in a language of its own, not JSON or the like."""
    if not 0 <= at < len(tokens) or tokens[at].type != "fence":
        return False
    return tokens[at].info.partition(" ")[0] in {"sh", "python", "js"}


def _tab(tokens: Sequence[Token], at: int, name: str, code: str) -> str:
    """Render one of several blocks of code that follow each other as a tab, named ``name``."""
    first = at
    while _is_program(tokens, first - 1):
        first -= 1
    start = '<div class="languages" role="group" aria-label="Sample in several languages">\n'
    end = "</div>\n"
    return (
        f"{start if at == first else ''}"
        f'<details name="sample-{first}" data-language="{name}"{" open" if at == first else ""}>'
        f'<summary>{name}</summary><pre tabindex="0" role="group" aria-label="{name}"><code>'
        f"{code}</code></pre></details>\n"
        f"{end if not _is_program(tokens, at + 1) else ''}"
    )


class _Renderer(RendererHTML):
    """Markdown as the reference shows it: headings that can be linked to, code in figures."""

    def heading_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Give a heading an anchor that is made of its words."""
        del options, env
        return f'<{tokens[idx].tag} id="{slug(tokens[idx + 1].content)}">'

    def fence(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Render code as a figure; the text after the language is its caption."""
        del options, env
        language, _, label = tokens[idx].info.partition(" ")
        caption = escape(label or _LANGUAGES.get(language, "Example"))
        beside = (_is_program(tokens, at) for at in (idx - 1, idx + 1))
        if _is_program(tokens, idx) and any(beside):
            return _tab(tokens, idx, caption, highlight(tokens[idx].content, language))
        return (
            f'<figure class="sample"><figcaption>{caption}</figcaption>'
            f'<pre tabindex="0" role="group" aria-label="{caption}"><code>'
            f"{highlight(tokens[idx].content, language)}</code></pre></figure>\n"
        )

    def table_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Make a table scrollable. On a phone, its rows are cards, with labels if it is wide."""
        del options, env
        kind = "wide" if len(_headings(tokens, idx)) > _MOST_NARROW else "narrow"
        return (
            f'<div class="table {kind}" tabindex="0" role="group" aria-label="Table">'
            '<table role="table">'
        )

    def thead_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Name the role, which style sheets that change the display would remove."""
        del tokens, idx, options, env
        return '<thead role="rowgroup">'

    def tbody_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Name the role, as ``thead_open`` does."""
        del tokens, idx, options, env
        return '<tbody role="rowgroup">'

    def tr_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Name the role, as ``thead_open`` does."""
        del tokens, idx, options, env
        return '<tr role="row">'

    def th_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Name the role, as ``thead_open`` does."""
        del tokens, idx, options, env
        return '<th role="columnheader" scope="col">'

    def td_open(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Name the column, which a card on a phone shows before its value."""
        del options, env
        start, column = idx, 0
        while tokens[start].type != "tr_open":
            start -= 1
            column += tokens[start].type == "td_open"
        while tokens[start].type != "table_open":
            start -= 1
        return f'<td role="cell" data-label="{escape(_headings(tokens, start)[column])}">'

    def table_close(self, tokens: Sequence[Token], idx: int, options: object, env: object) -> str:
        """Close the elements of ``table_open``."""
        del tokens, idx, options, env
        return "</table></div>"
