"""Addresses of Ethereum and their checksum (EIP-55).

Stored and compared in lower case, shown with the checksum.
"""

import re
from typing import Final

from opentill.gateways.evm.keccak import keccak256

_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]{40}", re.ASCII)
_DIGITS: Final = 40
_UPPER_FROM: Final = 8  # a letter is a capital if the hash has such a digit or a higher one there


def with_checksum(address: str) -> str:
    """Return an address with the capitals of EIP-55."""
    digits = address[2:].lower()
    digest = keccak256(digits.encode()).hex()
    return "0x" + "".join(
        digit.upper() if int(digest[place], 16) >= _UPPER_FROM else digit
        for place, digit in enumerate(digits)
    )


def read_address(text: str) -> str:
    """Return an address in lower case.

    Raises ValueError unless it is one, with the right checksum if it has capitals. The zero address
    is refused too, because tokens that are sent there are lost.
    """
    if _ADDRESS.fullmatch(text) is None:
        msg = "an address: 0x and 40 hexadecimal digits"
        raise ValueError(msg)
    lower = text.lower()
    if text[2:] not in (text[2:].lower(), text[2:].upper()) and text != with_checksum(text):
        msg = "an address whose capitals fit its checksum; copy it again"
        raise ValueError(msg)
    if lower == "0x" + "0" * _DIGITS:
        msg = "another address than the zero address"
        raise ValueError(msg)
    return lower


def of_public_key(uncompressed: bytes) -> str:
    """Return the address of a public key, 65 bytes, in lower case."""
    return "0x" + keccak256(uncompressed[1:])[-20:].hex()
