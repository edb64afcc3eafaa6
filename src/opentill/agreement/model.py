"""What an agreement is: a template of one version, and the document made of it."""

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from opentill.core.errors import ConfigurationError


class Agreement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The agreement in force. Digests are SHA-256 in lower-case hexadecimal.

    ``templateSha256`` is of the template's bytes, ``renderedDocumentSha256`` of
    ``markdownContent`` as UTF-8.
    """

    agreement_version: str
    effective_date: Annotated[
        str, Meta(description="YYYY-MM-DD", extra_json_schema={"format": "date"})
    ]
    effective_date_display: Annotated[str, Meta(description="such as January 15, 2026")]
    template_sha256: str = msgspec.field(name="templateSha256")
    rendered_document_sha256: str = msgspec.field(name="renderedDocumentSha256")
    markdown_content: str
    acceptance_statement: str
    action_label: str
    document_url: Annotated[str, Meta(extra_json_schema={"format": "uri"})]


class BrokenTemplate(ConfigurationError):
    """A template that cannot be used; the text says which file and what would be accepted."""

    def __init__(self, path: Path, accepted: str) -> None:
        """``accepted`` goes on from the path: "must be …"."""
        super().__init__(f"{path}: {accepted}")
