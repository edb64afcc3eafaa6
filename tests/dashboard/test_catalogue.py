"""The dashboard's sentences: the same in all languages, and none twice."""

from collections import Counter
from string import Formatter

import pytest

from opentill.dashboard.api import PAGES
from opentill.dashboard.catalogue import PARTS, SENTENCES
from opentill.people import MERCHANT_ROLES, STAFF_ROLES
from opentill.web.catalogue import FRAME, LANGUAGES, Language


def _places(sentence: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_the_same_with_the_same_values(language: Language) -> None:
    for part in PARTS:
        english, sentences = part["en"], part[language]
        assert list(sentences) == list(english)
        assert {key: _places(one) for key, one in sentences.items()} == {
            key: _places(one) for key, one in english.items()
        }
        if language != "en":
            assert {key for key in english if english[key] == sentences[key]} == set()


def test_no_key_is_in_two_parts() -> None:
    keys = Counter(key for part in (*PARTS, FRAME) for key in part["en"])
    assert [key for key, count in keys.items() if count > 1] == []


def test_roles_and_menu_have_their_names() -> None:
    keys = set(SENTENCES["en"])
    assert {f"role_{role}" for role in MERCHANT_ROLES} <= keys
    assert {f"staff_{role}" for role in STAFF_ROLES} <= keys
    assert {one.menu for one in PAGES if one.menu} <= keys
