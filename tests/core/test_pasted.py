"""Text that was copied from a page has invisible marks around it."""

import pytest

from opentill.core.pasted import trim
from opentill.http.inputs import check_email
from opentill.people.logins import normalize_email

COPIES = [
    "\u2068ada@example.com\u2069",
    "\u200eada@example.com\u200f",
    " \u202aada@example.com\u202c\n",
    "\ufeffada@example.com\u200b",
    "\u2068\u2068ada@example.com\u2069\u2069\u00a0",
]


@pytest.mark.parametrize("copy", COPIES)
def test_a_copied_address_is_the_address(copy: str) -> None:
    assert trim(copy) == "ada@example.com"
    assert check_email("email", copy) == "ada@example.com"
    assert normalize_email(copy) == "ada@example.com"


def test_marks_within_a_text_stay() -> None:
    assert trim("\u2068a\u200fb \u2069") == "a\u200fb"


def test_every_kind_of_space_is_trimmed() -> None:
    spaces = [character for character in map(chr, range(0x110000)) if character.isspace()]
    assert [trim(f"{space}a{space}") for space in spaces] == ["a"] * len(spaces)
