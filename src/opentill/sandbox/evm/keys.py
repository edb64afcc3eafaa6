"""The key in the address of the simulated node, as services of nodes have one."""

import secrets
from pathlib import Path
from typing import Final

from opentill.sandbox.secret_files import create_secret, load_secret

FOLDER: Final = "evm"
CREDENTIAL_FILE: Final = "node_key.txt"


def load(data_dir: Path) -> str | None:
    """Read the key of ``create``; None if there is none."""
    return load_secret(data_dir / FOLDER / CREDENTIAL_FILE)


def create(data_dir: Path) -> Path:
    """Create the key unless there is one; return its folder."""
    return create_secret(data_dir / FOLDER / CREDENTIAL_FILE, secrets.token_hex(16))
