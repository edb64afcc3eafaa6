"""Message catalogues are up to date, nearly complete if offered, and keep the placeholders."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from babel.messages import Catalog, Message
from tools import messages

from opentill.core import languages
from opentill.core.languages import Area
from opentill.web import translations
from opentill.web.language import Localizer, names
from opentill.web.translations import NC_

AREAS = list(messages.AREAS)
GLOSSARY = messages.ROOT / "docs" / "glossary-chinese.md"
CATALOGUES = [(area, language) for area in AREAS for language in messages.languages(area)]
# Matches a call that translates a computed text.
_COMPUTED = re.compile(r"(?<!\w)(?:_|N_|\w*gettext)\(\s*(?:f\"|\"[^\"]*\" ?[~+])")


@pytest.fixture(scope="module")
def templates() -> dict[str, Catalog]:
    return {area: messages.extract_template(area) for area in AREAS}


def _texts(catalogue: Catalog) -> Iterator[Message]:
    return (message for message in catalogue if message.id)


@pytest.mark.parametrize("area", AREAS)
def test_templates_have_the_texts_of_the_source(area: str, templates: dict[str, Catalog]) -> None:
    stored = (messages.FOLDER / f"{area}.pot").read_text("utf-8")
    assert stored == messages.format_catalogue(templates[area]), "run `make messages`"


@pytest.mark.parametrize(("area", "language"), CATALOGUES)
def test_catalogues_have_exactly_the_texts_of_their_template(
    area: str, language: str, templates: dict[str, Catalog]
) -> None:
    expected = {(message.context, message.id) for message in _texts(templates[area])}
    assert {
        (text.context, text.id) for text in _texts(messages.read_catalogue(area, language))
    } == expected


@pytest.mark.parametrize(("area", "language"), CATALOGUES)
def test_offered_languages_are_complete_and_translations_keep_the_placeholders(
    area: str, language: str
) -> None:
    text = messages.catalogue_path(area, language).read_text("utf-8")
    is_offered = languages.share_translated(text) >= languages.LEAST_SHARE
    allowed = set() if is_offered else {"fuzzy", "not translated"}
    problems = [
        f"{message.id}: {problem}"
        for message in _texts(messages.read_catalogue(area, language))
        for problem in messages.find_problems(message)
        if problem not in allowed
    ]
    assert problems == []


@pytest.mark.parametrize(("area", "language"), CATALOGUES)
def test_few_translations_equal_the_english_text(area: str, language: str) -> None:
    texts = [
        message for message in _texts(messages.read_catalogue(area, language)) if message.string
    ]
    same = [message for message in texts if message.string == message.id]
    assert len(same) <= max(2, 0.1 * len(texts))


def test_all_texts_can_be_formatted(templates: dict[str, Catalog]) -> None:
    for message in chain(*map(_texts, templates.values())):
        for text in [message.id] if isinstance(message.id, str) else message.id:
            assert "%(" not in text
            text.format_map(dict.fromkeys(messages.placeholders(text), ""))


def test_no_call_translates_a_computed_text() -> None:
    """Only literals can be extracted; N_ marks literals that are translated later."""
    for area in AREAS:
        for file in messages.source_files(area):
            assert _COMPUTED.search(file.read_text("utf-8")) is None, file


def test_a_language_is_offered_if_its_catalogue_is_nearly_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = '#: a.py\nmsgid "{number}"\nmsgstr "{text}"\n\n'
    header = 'msgid ""\nmsgstr ""\n"Language: fr\\n"\n\n'

    def write(language: str, area: str, translated: int, fuzzy: int = 0) -> None:
        file = tmp_path / language / "LC_MESSAGES" / f"{area}.po"
        file.parent.mkdir(parents=True, exist_ok=True)
        texts = [
            ("#, fuzzy\n" if number < fuzzy else "")
            + entry.format(number=number, text="x" if number < translated else "")
            for number in range(100)
        ]
        file.write_text(header + "".join(texts))

    monkeypatch.setattr(languages, "FOLDER", tmp_path)
    write("fr", "customer", 95)
    write("fr", "merchant", 94)
    write("pt_BR", "customer", 100, fuzzy=6)
    write("pt_BR", "merchant", 100, fuzzy=5)
    languages.offered.cache_clear()
    names.cache_clear()
    try:
        assert languages.offered("customer") == ("en", "fr")
        assert languages.offered("merchant") == ("en", "pt-BR")
        assert names("customer") == {"en": "English", "fr": "Français"}
        assert Localizer("merchant", "fr").language == "en"
    finally:
        languages.offered.cache_clear()
        names.cache_clear()


def test_plural_forms_follow_the_rules_of_the_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    english = Localizer("customer", "en")
    payments = ("{number} payment", "{number} payments")
    assert english.ngettext(*payments, 1) == "1 payment"
    assert english.ngettext(*payments, 1234) == "1,234 payments"
    assert english.npgettext("a list", *payments, 2) == "2 payments"
    assert english.pgettext("a list", "Open <{name}>", name="<b>") == "Open &lt;&lt;b&gt;&gt;"

    file = tmp_path / "zh_Hans" / "LC_MESSAGES" / "customer.po"
    file.parent.mkdir(parents=True)
    file.write_text(
        'msgid ""\nmsgstr ""\n"Language: zh_Hans\\n"\n'
        '"Plural-Forms: nplurals=1; plural=0;\\n"\n"Content-Type: text/plain; charset=utf-8\\n"\n\n'
        'msgid "{number} payment"\nmsgid_plural "{number} payments"\n'
        'msgstr[0] "{number} 笔付款"\n\n'
        'msgctxt "a gate"\nmsgid "Open"\nmsgstr "开"\n\nmsgid "Open"\nmsgstr "待付款"\n'
    )
    monkeypatch.setattr(languages, "FOLDER", tmp_path)
    area: Area = "customer"
    translations.catalogue.cache_clear()
    try:
        plural = translations.translate_plural(area, "zh-Hans", *payments, 3)
        assert plural == "{number} 笔付款"
        assert translations.translate(area, "zh-Hans", "Open") == "待付款"
        assert translations.translate(area, "zh-Hans", NC_("a gate", "Open")) == "开"
        assert translations.translate(area, "zh-Hans", NC_("a book", "Open")) == "Open"
    finally:
        translations.catalogue.cache_clear()


# Words that the glossary refuses for one term, and that are right for another one.
_RIGHT_ELSEWHERE = {"付款", "费用", "发票"}


@pytest.mark.parametrize("area", AREAS)
def test_chinese_texts_use_the_terms_of_their_glossary(area: str) -> None:
    rows = [
        [cell.strip() for cell in line.strip("|\n").split("|")]
        for line in GLOSSARY.read_text("utf-8").splitlines()
        if line.startswith("| ") and not line.startswith("| term")
    ]
    banned = {word for row in rows for word in row[3].split(", ") if word} - _RIGHT_ELSEWHERE
    assert len(banned) > 10
    uses = [
        (word, message.string)
        for message in _texts(messages.read_catalogue(area, "zh_Hans"))
        for word in banned
        if word in str(message.string)
    ]
    assert uses == []
