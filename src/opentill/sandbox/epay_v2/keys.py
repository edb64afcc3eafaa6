"""The keys of the simulated Epay V2 server and of its only account, and their signatures."""

import base64
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

FOLDER: Final = "epay_v2"
PID: Final = "1001"
PRIVATE_KEY: Final = "private_key.txt"  # of the account
PUBLIC_KEY: Final = "platform_public_key.txt"
_PLATFORM_KEY: Final = "platform_private_key.txt"
_UNSIGNED: Final = frozenset({"sign", "sign_type"})


class Account(msgspec.Struct, frozen=True):
    """The public key of the account, and the key of the platform."""

    public_key: RSAPublicKey
    platform_key: RSAPrivateKey

    def sign(self, values: Mapping[str, str | int], *, wrongly: bool = False) -> str:
        """Return the platform's signature; ``wrongly``: one of other values."""
        content = signed_text(values) + (" " if wrongly else "")
        signature = self.platform_key.sign(content.encode(), PKCS1v15(), SHA256())
        return base64.b64encode(signature).decode()

    def is_signed(self, values: Mapping[str, str]) -> bool:
        """Whether the account signed a request."""
        try:
            signature = base64.b64decode(values.get("sign", ""), validate=True)
            content = signed_text(values).encode()
            self.public_key.verify(signature, content, PKCS1v15(), SHA256())
        except (ValueError, InvalidSignature):
            return False
        return True


def signed_text(values: Mapping[str, str | int]) -> str:
    """Return the sorted values that are not blank."""
    texts = {name: str(value) for name, value in values.items() if name not in _UNSIGNED}
    return "&".join(f"{name}={text}" for name, text in sorted(texts.items()) if text.strip())


def load(data_dir: Path) -> Account | None:
    """Read the files of ``create``; None if there are none."""
    folder = data_dir / FOLDER
    if not folder.is_dir():
        return None
    account, platform = _read(folder / PRIVATE_KEY), _read(folder / _PLATFORM_KEY)
    return Account(account.public_key(), platform)


def create(data_dir: Path) -> Path:
    """Create the keys unless there are some; return their folder."""
    folder = data_dir / FOLDER
    if folder.is_dir():
        return folder
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    parts = Path(tempfile.mkdtemp(prefix=".epay_v2-", dir=data_dir))  # only its owner can read it
    try:
        account, platform = (generate_private_key(65537, 2048) for _ in range(2))
        public = platform.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        (parts / PRIVATE_KEY).write_text(_private(account))
        (parts / PUBLIC_KEY).write_text(base64.b64encode(public).decode())
        (parts / _PLATFORM_KEY).write_text(_private(platform))
        parts.rename(folder)
    except BaseException:
        shutil.rmtree(parts, ignore_errors=True)
        raise
    return folder


def _private(key: RSAPrivateKey) -> str:
    """Return a key as such servers show it: one line of Base64."""
    der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return base64.b64encode(der).decode()


def _read(path: Path) -> RSAPrivateKey:
    key = load_der_private_key(base64.b64decode(path.read_text()), None)
    if not isinstance(key, RSAPrivateKey):
        msg = f"{path} has no RSA key"
        raise TypeError(msg)
    return key
