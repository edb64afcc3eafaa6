"""Reasons of the audit log as the console writes them."""

import pytest

from opentill.console import audit_reasons
from opentill.web.language import Localizer


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("", "–"),
        ("on the page of payment links", "–"),
        ("on the page about security", "–"),
        ("in the console", "–"),
        ("as staff, admin", "As staff, with the role Administrator"),
        ("invited by ann@example.com (per_01m8)", "Invited by \u2068ann@example.com\u2069"),
        ("by the merchant's API", "Through the API"),
        ("seen on the <bank> statement", "seen on the &lt;bank&gt; statement"),
    ],
)
def test_a_reason_is_written_in_words(reason: str, text: str) -> None:
    assert str(audit_reasons.write(Localizer("merchant", "en"), reason)) == text
