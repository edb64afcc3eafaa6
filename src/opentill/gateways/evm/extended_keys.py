"""Addresses from an extended public key (BIP-32), without any private key.

``cryptography`` multiplies and checks points of secp256k1, but does not add them; the addition is a
few lines here. All inputs are public, so timing does not matter.
"""

import hashlib
import hmac
from typing import Final, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from opentill.gateways.evm import addresses

# Parameters of secp256k1 (SEC 2, section 2.4.1).
_PRIME: Final = 2**256 - 2**32 - 977
_ORDER: Final = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_LONGEST_TEXT: Final = 120  # characters; an extended key has 111
_SIZE: Final = 78  # bytes: version, depth, fingerprint, number, chain code and key
# Versions of public keys by coin and purpose; wallets write xpub for Ethereum.
_XPUB: Final = bytes.fromhex("0488b21e")
_PRIVATE: Final = frozenset(map(bytes.fromhex, ("0488ade4", "04358394", "049d7878", "04b2430c")))
_OUR_DEPTHS: Final = (3, 4)  # m/44'/60'/0' and m/44'/60'/0'/0
MOST_CHILDREN: Final = 2**31  # children from this number on need the private key


class ExtendedKey(msgspec.Struct, frozen=True):
    """A public key from which the public keys of its children follow."""

    depth: int
    chain_code: bytes
    key: bytes  # 33 bytes, compressed

    @classmethod
    def read(cls, text: str) -> Self:
        """Read an ``xpub…``. Raises ValueError, without the text, if it is anything else."""
        data = _decode(text)
        if data[:4] in _PRIVATE:
            msg = (
                "an extended public key, xpub…; this is a PRIVATE key: whoever has it can spend all"
                " your money. Treat it as exposed, and never enter it anywhere"
            )
            raise ValueError(msg)
        if data[:4] != _XPUB:
            msg = "an extended public key that begins with xpub"
            raise ValueError(msg)
        _point(data[45:])
        return cls(depth=data[4], chain_code=data[13:45], key=data[45:])

    def child(self, number: int) -> "ExtendedKey":
        """Return a child (CKDpub of BIP-32). Raises ValueError for a number that has none.

        One number in 2**127 has none; the next one is to be used then.
        """
        if not 0 <= number < MOST_CHILDREN:
            msg = "the number of a child must be 0 to 2147483647"
            raise ValueError(msg)
        data = self.key + number.to_bytes(4, "big")
        digest = hmac.digest(self.chain_code, data, "sha512")
        scalar = int.from_bytes(digest[:32], "big")
        if not 0 < scalar < _ORDER:
            msg = "this number has no child"
            raise ValueError(msg)
        offset = ec.derive_private_key(scalar, ec.SECP256K1()).public_key().public_numbers()
        x, y = _add((offset.x, offset.y), _point(self.key))
        key = bytes((2 + (y & 1),)) + x.to_bytes(32, "big")
        return ExtendedKey(depth=self.depth + 1, chain_code=digest[32:], key=key)

    @property
    def address(self) -> str:
        """The address of this key, in lower case."""
        x, y = _point(self.key)
        return addresses.of_public_key(b"\x04" + x.to_bytes(32, "big") + y.to_bytes(32, "big"))

    @property
    def fingerprint(self) -> str:
        """A text that identifies the key and does not reveal it."""
        return hashlib.sha256(self.chain_code + self.key).hexdigest()[:32]


def read_receiving_key(text: str) -> ExtendedKey:
    """Read the key whose children are receiving addresses, as wallets number them.

    Accepts the account's key (``m/44'/60'/0'``), whose receiving addresses are below its child 0,
    and that child itself (``m/44'/60'/0'/0``). Raises ValueError.
    """
    key = ExtendedKey.read(text)
    if key.depth not in _OUR_DEPTHS:
        msg = (
            "the extended public key of an account (m/44'/60'/0') or of its receiving addresses"
            f" (m/44'/60'/0'/0); this one is {key.depth} levels below its seed"
        )
        raise ValueError(msg)
    return key.child(0) if key.depth == _OUR_DEPTHS[0] else key


def _decode(text: str) -> bytes:
    """Decode Base58Check. Raises ValueError."""
    msg = "an extended public key, xpub… with 111 characters, copied completely"
    if not 0 < len(text) <= _LONGEST_TEXT or not set(text) <= set(_ALPHABET):
        raise ValueError(msg)
    number = 0
    for character in text:
        number = number * 58 + _ALPHABET.index(character)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    payload, checksum = data[:-4], data[-4:]
    digest = hashlib.sha256(hashlib.sha256(payload).digest()).digest()
    if len(payload) != _SIZE or digest[:4] != checksum:
        raise ValueError(msg)
    return payload


def _point(key: bytes) -> tuple[int, int]:
    """Return the coordinates of a compressed key. Raises ValueError unless it is on the curve."""
    try:
        public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256K1(), key)
    except ValueError:
        msg = "an extended public key whose point is on the curve"
        raise ValueError(msg) from None
    encoded = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return int.from_bytes(encoded[1:33], "big"), int.from_bytes(encoded[33:], "big")


def _add(point: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Add two points of the curve. Raises ValueError if the sum is the point at infinity."""
    if point[0] == other[0]:
        if point[1] != other[1]:
            msg = "this number has no child"
            raise ValueError(msg)
        slope = 3 * point[0] * point[0] * pow(2 * point[1], -1, _PRIME)
    else:
        slope = (other[1] - point[1]) * pow(other[0] - point[0], -1, _PRIME)
    x = (slope * slope - point[0] - other[0]) % _PRIME
    return x, (slope * (point[0] - x) - point[1]) % _PRIME
