"""Sealed secrets: they open for their purpose and nothing else."""

import pytest

from opentill.core.encryption import WrongKey, seal, unseal

KEY = "a-secret-key-of-at-least-16"


@pytest.mark.parametrize("text", ["", "whsec_abc", "密钥" * 100])
def test_what_is_sealed_opens(text: str) -> None:
    sealed = seal(KEY, "test mer_1", text)
    assert unseal(KEY, "test mer_1", sealed) == text
    assert not text or text.encode() not in sealed


def test_the_same_text_never_looks_the_same() -> None:
    assert len({seal(KEY, "test", "x") for _ in range(100)}) == 100


@pytest.mark.parametrize(("key", "purpose"), [(KEY + "x", "test mer_1"), (KEY, "test mer_2")])
def test_another_key_or_purpose_does_not_open_it(key: str, purpose: str) -> None:
    with pytest.raises(WrongKey):
        unseal(key, purpose, seal(KEY, "test mer_1", "x"))


def test_a_changed_byte_anywhere_does_not_open() -> None:
    sealed = seal(KEY, "test", "whsec_abc")
    for place in range(len(sealed)):
        changed = bytearray(sealed)
        changed[place] ^= 1
        with pytest.raises(WrongKey):
            unseal(KEY, "test", bytes(changed))
    for length in range(len(sealed)):
        with pytest.raises(WrongKey):
            unseal(KEY, "test", sealed[:length])
