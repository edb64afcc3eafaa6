"""The sentences of pages for people: the same in all languages, and none twice."""

import re
from collections import Counter
from string import Formatter
from typing import get_args

import pytest

from opentill.adjustments import KINDS
from opentill.app import FACES
from opentill.backoffice.faces import Face
from opentill.console import api as console
from opentill.dashboard import api as dashboard
from opentill.figures.statements import Reason
from opentill.ledger import TYPES
from opentill.orders import Status
from opentill.people import MERCHANT_ROLES, STAFF_ROLES
from opentill.web.catalogue import FRAME, LANGUAGES, Language


def _places(sentence: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(sentence) if name is not None}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_the_same_with_the_same_values(language: Language) -> None:
    for part in {id(part): part for face in FACES for part in face.parts}.values():
        english, sentences = part["en"], part[language]
        assert list(sentences) == list(english)
        assert {key: _places(one) for key, one in sentences.items()} == {
            key: _places(one) for key, one in english.items()
        }
        if language != "en":
            assert {key for key in english if english[key] == sentences[key]} == set()


@pytest.mark.parametrize("face", FACES)
def test_no_key_is_in_two_parts(face: Face) -> None:
    keys = Counter(key for part in (*face.parts, FRAME) for key in part["en"])
    assert [key for key, count in keys.items() if count > 1] == []


@pytest.mark.parametrize("face", FACES)
def test_roles_and_menu_have_their_names(face: Face) -> None:
    keys = set(face.sentences["en"])
    assert {f"role_{role}" for role in MERCHANT_ROLES} <= keys
    assert {f"staff_{role}" for role in STAFF_ROLES} <= keys
    assert {one.menu for one in face.pages if one.menu} <= keys


@pytest.mark.parametrize(
    ("pages", "beginning", "rows"),
    [
        (dashboard.FACE, "type_", TYPES),
        (console.FACE, "type_", TYPES),
        (dashboard.FACE, "status_", get_args(Status)),
        (console.FACE, "status_", get_args(Status)),
        (dashboard.FACE, "reason_", get_args(Reason)),
        (console.FACE, "adjust_kind_", KINDS),
        (console.FACE, "approval_", ("payout", *KINDS)),
    ],
)
def test_every_row_of_a_table_has_its_words(
    pages: Face, beginning: str, rows: tuple[str, ...]
) -> None:
    assert {f"{beginning}{row}" for row in rows} <= set(pages.sentences["en"])


_SAID = re.compile(r"""\bsay\(\s*["']([a-z]\w*)["']\s*[,)]""")


@pytest.mark.parametrize("face", FACES)
def test_what_a_template_says_is_in_the_catalogue_of_its_pages(face: Face) -> None:
    loader = face.environment.loader
    assert loader is not None
    for name in face.environment.list_templates(["html"]):
        said = set(_SAID.findall(loader.get_source(face.environment, name)[0]))
        assert said <= set(face.sentences["en"]), name
