"""Addresses from extended public keys: published vectors, and keys that are refused."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentill.gateways.evm.addresses import read_address, with_checksum
from opentill.gateways.evm.extended_keys import ExtendedKey, read_receiving_key
from opentill.gateways.evm.keccak import keccak256
from opentill.gateways.evm.tokens import CONTRACTS
from support.ganache import ACCOUNT_XPUB, XPUB

# Public derivation in the test vectors 1 and 2 of BIP-32: parent, number, child.
DERIVATIONS = [
    (
        "xpub68Gmy5EdvgibQVfPdqkBBCHxA5htiqg55crXYuXoQRKfDBFA1WEjWgP6LHhwBZeNK1VTsfTFUHCdrfp1bgwQ9xv5ski8PX9rL2dZXvgGDnw",
        1,
        "xpub6ASuArnXKPbfEwhqN6e3mwBcDTgzisQN1wXN9BJcM47sSikHjJf3UFHKkNAWbWMiGj7Wf5uMash7SyYq527Hqck2AxYysAA7xmALppuCkwQ",
    ),
    (
        "xpub661MyMwAqRbcFW31YEwpkMuc5THy2PSt5bDMsktWQcFF8syAmRUapSCGu8ED9W6oDMSgv6Zz8idoc4a6mr8BDzTJY47LJhkJ8UB7WEGuduB",
        0,
        "xpub69H7F5d8KSRgmmdJg2KhpAK8SR3DjMwAdkxj3ZuxV27CprR9LgpeyGmXUbC6wb7ERfvrnKZjXoUmmDznezpbZb7ap6r1D3tgFxHmwMkQTPH",
    ),
]  # fmt: skip
# The accounts that every tool for Ethereum derives from the usual mnemonic of test chains.
ADDRESSES = [
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
]
# The private key of ``XPUB``, which everybody knows.
XPRV = (
    "xprv9zz7v8QuW9DB5aPK3A4sGm1Nd3gNbg3NznE3Gu3TUPDFCEvZwALBrjY5d5h8eyKywqqFkKXDaxAKsmL4qVMzN3wBGaC2h3WoJT74EVuGwZi"
)  # fmt: skip


@pytest.mark.parametrize(("parent", "number", "child"), DERIVATIONS)
def test_children_are_those_of_bip_32(parent: str, number: int, child: str) -> None:
    assert ExtendedKey.read(parent).child(number) == ExtendedKey.read(child)


@pytest.mark.parametrize("key", [ACCOUNT_XPUB, XPUB])
def test_receiving_addresses_are_those_of_a_wallet(key: str) -> None:
    receiving = read_receiving_key(key)
    assert [with_checksum(receiving.child(n).address) for n in range(3)] == ADDRESSES


def test_keccak_is_that_of_ethereum_and_not_sha_3() -> None:
    # Hashes of the empty text and of an event in the specification of ERC-20's interface.
    assert keccak256(b"").hex() == (
        "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    )
    assert keccak256(b"Transfer(address,address,uint256)").hex() == (
        "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
    )
    assert keccak256(b"") != hashlib.sha3_256(b"").digest()


@given(st.binary(max_size=500))
def test_the_permutation_is_that_of_sha_3(data: bytes) -> None:
    # Keccak-256 and SHA3-256 differ only in the padding, so that a message whose last block is
    # padded by the caller has the same hash.
    rate = 136
    padded = bytearray(data) + b"\x06" + bytes(rate - 1 - len(data) % rate)
    padded[-1] |= 0x80
    from opentill.gateways.evm import keccak

    state = [0] * 25
    for begin in range(0, len(padded), rate):
        for word in range(rate // 8):
            at = begin + 8 * word
            state[word] ^= int.from_bytes(padded[at : at + 8], "little")
        state = keccak._permute(state)
    digest = b"".join(word.to_bytes(8, "little") for word in state[:4])
    assert digest == hashlib.sha3_256(data).digest()


@pytest.mark.parametrize(
    "address",
    [
        # The examples of EIP-55.
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
        "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
        *(address for _, _, address, _ in CONTRACTS),
    ],
)
def test_the_checksum_is_that_of_eip_55(address: str) -> None:
    assert with_checksum(address.lower()) == address
    assert read_address(address) == read_address(address.lower()) == address.lower()
    wrong = address[:2] + address[2:].swapcase()
    with pytest.raises(ValueError, match="capitals fit its checksum"):
        read_address(wrong)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "copied completely"),
        (XPUB[:-1], "copied completely"),
        (XPUB[:-1] + "5", "copied completely"),  # another checksum
        (XPUB.replace("xpub", "zpub"), "copied completely"),
        ("1" * 200, "copied completely"),
        ("É" * 111, "copied completely"),
        (XPRV, "PRIVATE key"),
        (DERIVATIONS[1][0], "0 levels below its seed"),
        (DERIVATIONS[0][2], "2 levels below its seed"),
    ],
)
def test_other_keys_are_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as error:
        read_receiving_key(text)
    assert not text or text not in str(error.value)


@pytest.mark.parametrize("number", [-1, 2**31, 2**32])
def test_hardened_children_need_the_private_key(number: int) -> None:
    with pytest.raises(ValueError, match="0 to 2147483647"):
        ExtendedKey.read(XPUB).child(number)
