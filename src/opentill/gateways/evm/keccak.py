"""Keccak-256 as Ethereum uses it.

It is not the SHA3-256 of ``hashlib``: NIST changed the padding after Ethereum had chosen Keccak.
Only addresses are hashed here, which are public, so timing does not matter.
"""

from typing import Final

_WORD: Final = (1 << 64) - 1
_RATE: Final = 136  # bytes
_ROUNDS: Final = 24


def _round_constants() -> tuple[int, ...]:
    """Return the constants of the mapping iota, which a shift register generates."""
    constants: list[int] = []
    register = 1
    for _ in range(_ROUNDS):
        constant = 0
        for position in range(7):
            if register & 1:
                constant |= 1 << ((1 << position) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


def _rotations() -> tuple[tuple[int, int, int], ...]:
    """Return the mappings rho and pi as rows of source word, target word, and rotation."""
    moves = [(0, 0, 0)]
    x, y = 1, 0
    for count in range(24):
        target = (y, (2 * x + 3 * y) % 5)
        moves.append((x + 5 * y, target[0] + 5 * target[1], (count + 1) * (count + 2) // 2 % 64))
        x, y = target
    return tuple(moves)


_CONSTANTS: Final = _round_constants()
_MOVES: Final = _rotations()


def _rotate(word: int, by: int) -> int:
    return ((word << by) | (word >> (64 - by))) & _WORD


def _permute(state: list[int]) -> list[int]:
    for constant in _CONSTANTS:
        columns = [
            state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20]
            for x in range(5)
        ]
        mixed = [columns[x - 1] ^ _rotate(columns[(x + 1) % 5], 1) for x in range(5)]
        moved = [0] * 25
        for source, target, by in _MOVES:
            moved[target] = _rotate(state[source] ^ mixed[source % 5], by)
        state = [
            moved[word]
            ^ (~moved[word - word % 5 + (word + 1) % 5] & moved[word - word % 5 + (word + 2) % 5])
            for word in range(25)
        ]
        state[0] ^= constant
    return state


def keccak256(data: bytes) -> bytes:
    """Return the Keccak-256 hash of ``data``, 32 bytes."""
    padded = bytearray(data) + b"\x01" + bytes(_RATE - 1 - len(data) % _RATE)
    padded[-1] |= 0x80
    state = [0] * 25
    for begin in range(0, len(padded), _RATE):
        for word in range(_RATE // 8):
            at = begin + 8 * word
            state[word] ^= int.from_bytes(padded[at : at + 8], "little")
        state = _permute(state)
    return b"".join(word.to_bytes(8, "little") for word in state[:4])
