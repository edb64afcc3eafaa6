"""Weak passwords are refused, and passwords are stored as Argon2id hashes."""

import unicodedata

import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from opentill.core.errors import Invalid
from opentill.people import passwords
from opentill.people.passwords import COST, Cost

REFUSED_PASSWORDS = (
    ("short", "password must have"),
    ("elevenchars", "password must have"),
    ("x" * 257, "password must have"),
    ("password1234", "common"),
    ("Password2024!!", "common"),
    ("P@ssw0rd12345", "common"),
    ("passwordpassword", "common"),
    ("qwertyuiop123", "common"),
    ("aaaaaaaaaaaa", "common"),
    ("abababababab", "common"),
    ("abcdefghijklmn", "common"),
    ("123456789012", "common"),
    ("98765432109876", "common"),
    ("letmein letmein", "common"),
    ("admin-password", "common"),
    ("correct horse battery staple", "common"),
    ("lovelace1815!!", "common"),  # the password consists of the person's own name and year
)


@pytest.mark.parametrize(("password", "reason"), REFUSED_PASSWORDS)
def test_a_password_that_is_short_or_easily_guessed_is_refused(password: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason) as refusal:
        passwords.check("password", password, "ada@example.com", "Ada Lovelace")
    assert refusal.value.field == "password"


@pytest.mark.parametrize(
    "password",
    [
        "nine purple lanterns hum",
        "vK8#qz1!mR0p",
        "我的猫不喜欢星期三的雨天吗",
        "dragon eats monkey soup",
    ],
)
def test_any_other_password_is_accepted(password: str) -> None:
    passwords.check("password", password, "ada@example.com", "Ada Lovelace")


async def test_a_password_is_stored_as_argon2id_at_the_cost_that_owasp_recommends() -> None:
    stored = await passwords.hash_password("nine purple lanterns hum")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert Cost(19456, 2) == COST
    assert await passwords.matches("nine purple lanterns hum", stored)
    assert not await passwords.matches("nine purple lanterns hum ", stored)
    assert stored != await passwords.hash_password("nine purple lanterns hum")


async def test_no_password_matches_a_missing_account() -> None:
    assert not await passwords.matches("", None)
    assert not await passwords.matches("anything", None)


def _hash_of_an_older_version(password: str) -> str:
    kdf = Argon2id(salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=32)
    return kdf.derive_phc_encoded(password.encode())


# Each row: one password in two Unicode encodings.
ENCODINGS = [
    ("b\u00fccher im regen lesen", "bu\u0308cher im regen lesen"),
    ("nine purple lanterns hum", "nine\u3000purple\u00a0lanterns hum"),
    ("ｖＫ８＃ｑｚ１！ｍＲ０ｐ", "vK8#qz1!mR0p"),
]


@pytest.mark.parametrize(("chosen", "typed"), ENCODINGS)
async def test_a_password_matches_however_a_keyboard_encodes_it(chosen: str, typed: str) -> None:
    assert await passwords.matches(typed, await passwords.hash_password(chosen))
    assert await passwords.matches(chosen, await passwords.hash_password(typed))


@pytest.mark.parametrize(("normal", "typed"), ENCODINGS)
async def test_a_password_that_was_stored_unnormalized_still_matches(
    normal: str, typed: str
) -> None:
    for password in (normal, typed):
        stored = _hash_of_an_older_version(password)
        assert await passwords.matches(password, stored)
        renewed = await passwords.rehash_if_needed(password, stored)
        if unicodedata.is_normalized("NFKC", password):
            assert renewed is None
            continue
        assert renewed is not None
        assert await passwords.matches(normal, renewed)
        assert await passwords.matches(typed, renewed)
        assert await passwords.rehash_if_needed(password, renewed) is None
    assert not await passwords.matches("another one entirely", stored)


def test_the_length_of_a_password_is_checked_after_normalization() -> None:
    with pytest.raises(Invalid, match="password must have"):
        passwords.check("password", "u\u0308" * 6 + "\u00fc" * 5, "ada@example.com", "Ada")
