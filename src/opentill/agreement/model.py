"""The agreement: a version's template and the document rendered from it."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from opentill.core.errors import ConfigurationError

AgreementStatus = Literal["NONE", "ACCEPTED", "OUTDATED"]


class Agreement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The agreement in force. Digests are SHA-256 in lower-case hexadecimal.

    ``templateSha256`` is the digest of the template's bytes, ``renderedDocumentSha256`` the digest
    of ``markdownContent`` as UTF-8.
    """

    agreement_version: Annotated[
        str,
        Meta(
            description="The version of the agreement. It is counted apart from the version of "
            "the API."
        ),
    ]
    effective_date: Annotated[
        str,
        Meta(
            description="Since when it is in force: `YYYY-MM-DD`.",
            extra_json_schema={"format": "date"},
        ),
    ]
    effective_date_display: Annotated[
        str, Meta(description="The same date as people write it: `January 15, 2026`.")
    ]
    template_sha256: Annotated[
        str,
        Meta(
            description="The digest of the template, before the operator's name and address were "
            "filled in."
        ),
    ] = msgspec.field(name="templateSha256")
    rendered_document_sha256: Annotated[
        str, Meta(description="The digest of `markdownContent`: what somebody who agrees has read.")
    ] = msgspec.field(name="renderedDocumentSha256")
    markdown_content: Annotated[str, Meta(description="The whole agreement, as Markdown.")]
    acceptance_statement: Annotated[
        str, Meta(description="The sentence that somebody who accepts the agreement agrees to.")
    ]
    action_label: Annotated[str, Meta(description="The words on the button that accepts it.")]
    document_url: Annotated[
        str,
        Meta(
            description="The page that shows it to everyone.", extra_json_schema={"format": "uri"}
        ),
    ]


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """An owner's acceptance of a version, with the time, the IP address and the User-Agent."""

    merchant_id: str
    agreement_version: str
    template_sha256: str
    document_sha256: str
    person_id: str
    person: str
    accepted_at: int
    address: str
    device: str


class AcceptedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The owner who accepts, with IP address and User-Agent."""

    person_id: str
    name: str
    email: str
    address: str
    device: str


class BrokenTemplate(ConfigurationError):
    """A template is invalid. The text names the file and says what would be accepted."""

    def __init__(self, path: Path, accepted: str) -> None:
        """``accepted`` is the message after the path: it says what the file must be."""
        super().__init__(f"{path}: {accepted}")
