"""The search terms of an order, by which it is found besides its ids.

A term is a text in the form in which texts are compared: without spaces around it, ASCII letters
in lower case, and a plain number with two decimals, so that ``42`` finds the amount ``42.00``. Its
place is the field that contains it: ``email``, ``amount`` and ``amount.`` with the currency,
``card``, ``clientReference``, or ``metadata.`` and a key. If the field's own text differs from the
term, the place ends in a colon and that text, so that a filter by metadata is exact. An order has
each of its terms once: if several fields contain the same text, its place joins the places of these
fields.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from opentill.core import money

LONGEST: Final = 100  # most characters of a term; a longer text is replaced by its digest
EMAIL: Final = "email"
AMOUNT: Final = "amount"
REFERENCE: Final = "clientReference"
CARD: Final = "card"  # the last four digits of the card that paid
_SEPARATOR: Final = "\x1f"  # separates the fields in a place
_NUMBER: Final = re.compile(r"(0|[1-9][0-9]{0,14})(?:\.([0-9]{1,2}))?", re.ASCII)
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str)

Terms = Mapping[str, str]  # from each term to its place


def term_of(text: str) -> str:
    """Return a text in the form in which texts are compared."""
    text = text.strip(" ")
    if number := _NUMBER.fullmatch(text):
        return f"{number[1]}.{(number[2] or '').ljust(2, '0')}"
    return _short(lower(text))


def lower(text: str) -> str:
    """Return a text without spaces around it and with A to Z in lower case."""
    return text.strip(" ").translate(_LOWER)


def _short(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def metadata_place(key: str, text: str) -> str:
    """Return the place of a metadata key whose value is the text."""
    place = f"metadata.{key}".replace(_SEPARATOR, " ")
    value = _short(text).replace(_SEPARATOR, " ")
    return place if value == term_of(text) else f"{place}:{value}"


def terms_of(
    email: str,
    amount_minor: int,
    currency: str,
    metadata: str,
    card_last4: str | None = None,
    *,
    reference: str | None = None,
    with_currency: bool = True,
) -> dict[str, str]:
    """Return the terms of an order, each with its place; ``metadata`` is JSON text.

    ``with_currency``: False for the terms as they were before migration 0054.
    Terms of the metadata are its texts, numbers and booleans, but not nested values.
    """
    places: dict[str, list[str]] = {}
    if email:
        places[term_of(email)] = [EMAIL]
    amount = places.setdefault(term_of(money.show(amount_minor, currency)), [])
    amount += (AMOUNT, amount_place(currency)) if with_currency else (AMOUNT,)
    if reference:
        places.setdefault(term_of(reference), []).append(REFERENCE)
    if card_last4:
        places.setdefault(term_of(card_last4), []).append(CARD)
    for key, text in _texts(metadata):
        places.setdefault(term_of(text), []).append(metadata_place(key, text))
    return {term: _SEPARATOR.join(sorted(fields)) for term, fields in places.items()}


def amount_place(currency: str) -> str:
    """Return the place of an amount in a currency."""
    return f"{AMOUNT}.{currency}"


def has_field(place: str, field: str) -> bool:
    """Whether a place contains a field.

    An amount that was indexed before migration 0054 has no currency, and may be in any.
    """
    fields = place.split(_SEPARATOR)
    if field in fields:
        return True
    return (
        field.startswith(f"{AMOUNT}.")
        and AMOUNT in fields
        and not any(name.startswith(f"{AMOUNT}.") for name in fields)
    )


def _texts(metadata: str) -> list[tuple[str, str]]:
    """Return the keys of metadata with a text, number or boolean, and that value as text."""
    try:
        values = _DECODER.decode(metadata)
    except (msgspec.DecodeError, UnicodeError):  # no JSON object, so OpenTill did not write it
        return []
    texts = ((key, _text(bytes(value))) for key, value in values.items())
    return [(key, text) for key, text in texts if text.strip(" ")]


def _text(value: bytes) -> str:
    """Return a value as text, a number as it was sent; "" for null and nested values."""
    if value.startswith(b'"'):
        return _TEXT.decode(value)
    return "" if value.startswith((b"{", b"[", b"null")) else value.decode()
