"""The API token of the simulated epusdt server, and its signature."""

import hashlib
import math
import secrets
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from opentill.sandbox.secret_files import create_secret, load_secret

FOLDER: Final = "epusdt"
CREDENTIAL_FILE: Final = "api_token.txt"


def load(data_dir: Path) -> str | None:
    """Read the token of ``create``; None if there is none."""
    return load_secret(data_dir / FOLDER / CREDENTIAL_FILE)


def create(data_dir: Path) -> Path:
    """Create the token unless there is one; return its folder."""
    return create_secret(data_dir / FOLDER / CREDENTIAL_FILE, secrets.token_urlsafe(24))


def sign(params: Mapping[str, Any], token: str) -> str:
    """Return the MD5 of the sorted values that are not empty, and the token."""
    texts = {name: _text(value) for name, value in params.items() if name != "signature"}
    content = "&".join(f"{name}={text}" for name, text in sorted(texts.items()) if text) + token
    return hashlib.md5(content.encode(errors="replace"), usedforsecurity=False).hexdigest()


def _text(value: object) -> str:
    """Return a value as Go writes it: floats in their shortest form, without an exponent."""
    if value is None:
        return ""
    if isinstance(value, float) and math.isfinite(value):
        digits = f"{Decimal(repr(value)):f}"
        return digits.rstrip("0").rstrip(".") if "." in digits else digits
    return str(value)
