"""The merchant agreement: choice and rendering of its template, and templates that are refused."""

from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from opentill import agreement
from opentill.agreement import BrokenTemplate
from opentill.core.settings import Settings
from opentill.web.markdown import markdown

HEAD = (
    "---\neffectiveDate: 2026-02-03\nacceptanceStatement: I accept: all.\nactionLabel: Go on\n---\n"
)
BODY = (
    "# Terms\n\nBetween {{ operator_name }} and you, "
    "{{operator_address}}, {{ operator_contact }}.\n"
)


def _settings(folder: Path | None = None) -> Settings:
    return Settings(
        agreement_dir=folder,
        operator_name="Quay & Sons",
        operator_address="2 Pier",
        operator_contact="quay@example.com",
        public_url="https://pay.example",
    )


def _write_templates(tmp_path: Path, **templates: str) -> Path:
    """Write templates into a folder; the keyword ``v1_10`` is the template of version 1.10."""
    for name, text in templates.items():
        (tmp_path / f"{name.removeprefix('v').replace('_', '.')}.md").write_bytes(text.encode())
    return tmp_path


def test_the_shipped_agreement_is_complete() -> None:
    current = agreement.current(_settings())
    assert current.agreement_version == "1.0"
    assert (current.effective_date, current.effective_date_display) == (
        "2026-01-15",
        "January 15, 2026",
    )
    template = Path(agreement.__file__).with_name("1.0.md").read_bytes()
    assert current.template_sha256 == sha256(template).hexdigest()
    assert current.rendered_document_sha256 == sha256(current.markdown_content.encode()).hexdigest()
    assert current.document_url == "https://pay.example/legal/merchant-services-agreement"
    for value in ("Quay & Sons", "2 Pier", "quay@example.com"):
        assert value in current.markdown_content
    assert "{{" not in current.markdown_content
    assert "acceptanceStatement" not in current.markdown_content
    assert current.acceptance_statement
    assert current.action_label


def test_the_agreement_has_the_field_names_of_the_contract() -> None:
    assert list(msgspec.to_builtins(agreement.current(_settings()))) == [
        "agreementVersion",
        "effectiveDate",
        "effectiveDateDisplay",
        "templateSha256",
        "renderedDocumentSha256",
        "markdownContent",
        "acceptanceStatement",
        "actionLabel",
        "documentUrl",
    ]


def test_the_highest_version_in_the_folder_is_current(tmp_path: Path) -> None:
    folder = _write_templates(tmp_path, v1_9=HEAD + "old", v1_10=HEAD + BODY, v0_99=HEAD + "older")
    (folder / "README.md").write_text("about this folder", encoding="utf-8")
    current = agreement.current(_settings(folder))
    assert current.agreement_version == "1.10"
    assert current.effective_date_display == "February 3, 2026"
    assert current.acceptance_statement == "I accept: all."
    assert current.markdown_content == (
        "# Terms\n\nBetween Quay & Sons and you, 2 Pier, quay@example.com.\n"
    )


# Each row: a template of an agreement, and part of the error about it.
BROKEN = [
    ("", "must begin with fields"),
    ("# Terms\n", "must begin with fields"),
    ("\n" + HEAD + BODY, "must begin with fields"),
    (HEAD, "must begin with fields"),
    (HEAD.replace("2026-02-03", "soon") + BODY, "effectiveDate must be a date"),
    (HEAD.replace("2026-02-03", "2026-02-30") + BODY, "effectiveDate must be a date"),
    (HEAD.replace("actionLabel", "label") + BODY, 'a line "actionLabel: …"'),
    (HEAD.replace("I accept: all.", "") + BODY, 'a line "acceptanceStatement: …"'),
    (HEAD + "{{ operator }}", "{{ operator }} must be one of operator_name"),
]


@pytest.mark.parametrize(("template", "message"), BROKEN)
def test_an_error_of_a_broken_template_names_the_file_and_what_is_accepted(
    tmp_path: Path, template: str, message: str
) -> None:
    folder = _write_templates(tmp_path, v2_0=template)
    with pytest.raises(BrokenTemplate) as error:
        agreement.current(_settings(folder))
    assert str(error.value).startswith(str(folder / "2.0.md"))
    assert message in str(error.value)


def test_an_empty_or_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenTemplate, match=r"such as 1\.0\.md"):
        agreement.current(_settings(tmp_path))
    with pytest.raises(BrokenTemplate, match="must be a readable folder"):
        agreement.current(_settings(tmp_path / "nowhere"))


def test_a_template_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.0.md").write_bytes(b"---\n\xff")
    with pytest.raises(BrokenTemplate, match="UTF-8"):
        agreement.current(_settings(tmp_path))


def test_raw_html_and_script_links_in_markdown_are_shown_as_text() -> None:
    html = markdown('<script>alert(1)</script>\n\n[x](javascript:alert(1)) <b onclick="y">z</b>')
    assert "<script" not in html
    assert "<b" not in html
    assert "href" not in html
