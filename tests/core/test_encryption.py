"""Sealed secrets: they open for their purpose and nothing else."""

import pytest

from opentill.core.encryption import WrongKey, decrypt, encrypt

KEY = "a-secret-key-of-at-least-16"


@pytest.mark.parametrize("text", ["", "whsec_abc", "密钥" * 100])
def test_what_is_sealed_opens(text: str) -> None:
    encrypted = encrypt(KEY, "test mer_1", text)
    assert decrypt(KEY, "test mer_1", encrypted) == text
    assert not text or text.encode() not in encrypted


def test_the_same_text_never_looks_the_same() -> None:
    assert len({encrypt(KEY, "test", "x") for _ in range(100)}) == 100


@pytest.mark.parametrize(("key", "purpose"), [(KEY + "x", "test mer_1"), (KEY, "test mer_2")])
def test_another_key_or_purpose_does_not_open_it(key: str, purpose: str) -> None:
    with pytest.raises(WrongKey):
        decrypt(key, purpose, encrypt(KEY, "test mer_1", "x"))


def test_a_changed_byte_anywhere_does_not_open() -> None:
    encrypted = encrypt(KEY, "test", "whsec_abc")
    for place in range(len(encrypted)):
        changed = bytearray(encrypted)
        changed[place] ^= 1
        with pytest.raises(WrongKey):
            decrypt(KEY, "test", bytes(changed))
    for length in range(len(encrypted)):
        with pytest.raises(WrongKey):
            decrypt(KEY, "test", encrypted[:length])
