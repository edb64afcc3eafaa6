"""An order has a search term for each searchable text, with the fields that contain the text."""

import pytest

from opentill.orders.search import terms

EQUAL_TEXTS = [
    # Each row: text of an order, search text that finds it.
    ("Ada@Example.COM", "ada@example.com"),
    (" ada@example.com ", "ADA@EXAMPLE.COM"),
    ("42", "42.00"),
    ("42.0", "42"),
    ("0.5", "0.50"),
    ("Straße", "straße"),
    ("x" * 101, "X" * 101),
]
DIFFERENT_TEXTS = [
    ("042", "42"),
    ("42.001", "42.00"),
    ("1e3", "1000"),
    ("-5", "5"),
    ("É", "é"),  # only ASCII letters are compared without case
    ("x" * 101, "x" * 102),
    ("٤٢", "42"),
]


@pytest.mark.parametrize(("text", "query"), EQUAL_TEXTS)
def test_texts_that_differ_in_case_or_form_are_one_term(text: str, query: str) -> None:
    assert terms.term_of(text) == terms.term_of(query)
    assert len(terms.term_of(text)) <= terms.LONGEST


@pytest.mark.parametrize(("text", "query"), DIFFERENT_TEXTS)
def test_different_texts_are_different_terms(text: str, query: str) -> None:
    assert terms.term_of(text) != terms.term_of(query)


METADATA = [
    ('{"cart": "A-7"}', {"a-7": "metadata.cart:A-7"}),
    ('{"cart": "a-7"}', {"a-7": "metadata.cart"}),
    ('{"n": 7}', {"7.00": "metadata.n:7"}),
    ('{"n": 7.00}', {"7.00": "metadata.n"}),
    ('{"n": 1e999}', {"1e999": "metadata.n"}),
    (f'{{"n": {"9" * 5000}}}', {terms.term_of("9" * 5000): "metadata.n"}),
    ('{"paid": true, "left": null, "list": ["x"], "in": {"a": "b"}}', {"true": "metadata.paid"}),
    ('{"a": "x", "b": "X"}', {"x": "metadata.a\x1fmetadata.b:X"}),
    ('{"empty": "", "spaces": "  "}', {}),
    ('{"a\\u001fb": "x"}', {"x": "metadata.a b"}),
    ("no JSON", {}),
]


@pytest.mark.parametrize(("metadata", "expected"), METADATA)
def test_each_value_of_metadata_is_a_term(metadata: str, expected: dict[str, str]) -> None:
    assert terms.terms_of("", 999, "USD", metadata) == {"9.99": "amount\x1famount.USD", **expected}


def test_an_order_has_each_term_once() -> None:
    metadata = '{"mail": "ada@example.com", "cart": "42"}'
    places = terms.terms_of("Ada@example.com", 42, "JPY", metadata)
    assert places == {
        "ada@example.com": "email\x1fmetadata.mail",
        "42.00": "amount\x1famount.JPY\x1fmetadata.cart:42",
    }
    place = places["42.00"]
    assert terms.has_field(place, terms.AMOUNT)
    assert terms.has_field(place, "amount.JPY")
    assert not terms.has_field(place, "amount.USD")
    assert terms.has_field("amount\x1fcard", "amount.USD")  # indexed without its currency
    assert terms.has_field(place, terms.metadata_place("cart", "42"))
    assert not terms.has_field(place, terms.metadata_place("cart", "42.00"))
