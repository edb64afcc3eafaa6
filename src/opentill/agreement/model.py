"""What an agreement is: a template of one version, and the document made of it."""

import msgspec


class Agreement(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The agreement as it is shown (spec §2.8). Digests are SHA-256 in lower-case hexadecimal.

    ``template_sha256`` is of the template file's bytes, ``rendered_document_sha256`` of
    ``markdown_content`` as UTF-8.
    """

    agreement_version: str
    effective_date: str  # YYYY-MM-DD
    effective_date_display: str  # January 15, 2026
    template_sha256: str = msgspec.field(name="templateSha256")
    rendered_document_sha256: str = msgspec.field(name="renderedDocumentSha256")
    markdown_content: str
    acceptance_statement: str
    action_label: str
    document_url: str


class BrokenTemplate(Exception):  # noqa: N818 - names what is wrong, as problems do
    """A template that cannot be used; the text says which file and what would be accepted."""
