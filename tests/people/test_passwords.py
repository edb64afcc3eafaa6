"""Which passwords are refused, and how they are stored."""

import pytest

from opentill.core.errors import Invalid
from opentill.people import passwords
from opentill.people.passwords import COST, Cost

REFUSED = (
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
    ("lovelace1815!!", "common"),  # the person's own name and year
)


@pytest.mark.parametrize(("password", "why"), REFUSED)
def test_a_password_that_is_short_or_easily_guessed_is_refused(password: str, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refusal:
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
def test_any_other_password_is_taken(password: str) -> None:
    passwords.check("password", password, "ada@example.com", "Ada Lovelace")


async def test_a_password_is_stored_as_argon2id_at_the_cost_that_owasp_asks_for() -> None:
    stored = await passwords.hashed("nine purple lanterns hum")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert Cost(19456, 2) == COST
    assert await passwords.matches("nine purple lanterns hum", stored)
    assert not await passwords.matches("nine purple lanterns hum ", stored)
    assert stored != await passwords.hashed("nine purple lanterns hum")


async def test_nobody_has_no_password() -> None:
    assert not await passwords.matches("", None)
    assert not await passwords.matches("anything", None)
