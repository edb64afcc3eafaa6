"""Customers are found by the beginnings of the parts of their names and email addresses."""

import pytest

from opentill.orders.search import customer_words
from opentill.orders.search.customer_words import prefix_of, words_of

FOUND = [
    # name, email, searched text
    ("Ada Brook", "", "ada"),
    ("Ada Brook", "", "Ada  Brook"),
    ("Ada Brook", "", "brook"),
    ("Ada Brook", "", "Brook Ad"),
    ("Ada Maria Brook", "", "maria b"),
    ("Zoë O’Neill-Ünal", "", "zoe"),
    ("Zoë O’Neill-Ünal", "", "neill"),
    ("Zoe", "", "Zoë"),
    ("Иван Петров", "", "петров"),
    ("王小明", "", "王"),
    ("王小明", "", "小明"),
    ("Ａｄａ", "", "ada"),
    (None, "ada.brook@shop.example", "ADA.B"),
    (None, "ada.brook@shop.example", "brook@shop"),
    (None, "ada.brook@shop.example", "@shop.example"),
    (None, "ada.brook@shop.example", "\N{FIRST STRONG ISOLATE}brook\N{POP DIRECTIONAL ISOLATE}"),
    (None, "ada+tea_2@example.com", "tea"),
    ("Ada", "a@b.example", "a@"),
]
NOT_FOUND = [
    ("Ada Brook", "", "rook"),
    ("Ada Brook", "", "ada x"),
    ("Ada", "ada@example.com", "%"),
    ("Ada", "ada@example.com", "_da"),
    ("Ada", "ada@example.com", "a\\da"),
]


def _is_found(name: str | None, email: str, text: str) -> bool:
    prefix = prefix_of(text)
    return bool(prefix) and any(word.startswith(prefix) for word in words_of(email, name))


@pytest.mark.parametrize(("name", "email", "text"), FOUND)
def test_a_customer_is_found_by_a_part(name: str | None, email: str, text: str) -> None:
    assert _is_found(name, email, text)


@pytest.mark.parametrize(("name", "email", "text"), NOT_FOUND)
def test_a_customer_is_not_found_by_other_texts(name: str | None, email: str, text: str) -> None:
    assert not _is_found(name, email, text)


@pytest.mark.parametrize("text", ["", " ", "@", "\0", "...", "%", "\u200b"])
def test_no_word_begins_with_a_text_without_letters(text: str) -> None:
    assert not any(word.startswith(prefix_of(text) or "-") for word in words_of("a@b.c", "Ada"))


@pytest.mark.parametrize(
    "name", ["a " * 500, "x" * 1000, "\0", "\ud800", "\N{COMBINING ACUTE ACCENT}" * 99, "ﷺ" * 200]
)
def test_a_customer_has_few_short_words_without_nul(name: str) -> None:
    result = words_of("ada@example.com", name)
    assert len(result) <= 16
    assert all(0 < len(word) <= customer_words.LONGEST and "\0" not in word for word in result)
