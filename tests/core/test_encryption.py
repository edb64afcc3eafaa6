"""An encrypted secret can be decrypted only with its key and purpose."""

import pytest

from opentill.core.encryption import WrongKey, decrypt, encrypt

KEY = "a-secret-key-of-at-least-16"


@pytest.mark.parametrize("text", ["", "whsec_abc", "密钥" * 100])
def test_decryption_returns_the_encrypted_text(text: str) -> None:
    encrypted = encrypt(KEY, "test mer_1", text)
    assert decrypt(KEY, "test mer_1", encrypted) == text
    assert not text or text.encode() not in encrypted


def test_encrypting_the_same_text_twice_differs() -> None:
    assert len({encrypt(KEY, "test", "x") for _ in range(100)}) == 100


@pytest.mark.parametrize(("key", "purpose"), [(KEY + "x", "test mer_1"), (KEY, "test mer_2")])
def test_decryption_with_another_key_or_purpose_fails(key: str, purpose: str) -> None:
    with pytest.raises(WrongKey):
        decrypt(key, purpose, encrypt(KEY, "test mer_1", "x"))


def test_decryption_fails_after_any_byte_changed() -> None:
    encrypted = encrypt(KEY, "test", "whsec_abc")
    for index in range(len(encrypted)):
        changed = bytearray(encrypted)
        changed[index] ^= 1
        with pytest.raises(WrongKey):
            decrypt(KEY, "test", bytes(changed))
    for length in range(len(encrypted)):
        with pytest.raises(WrongKey):
            decrypt(KEY, "test", encrypted[:length])
