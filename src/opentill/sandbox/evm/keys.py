"""The key in the address of the simulated node, as services of nodes have one."""

import secrets
from pathlib import Path
from typing import Final

FOLDER: Final = "evm"
CREDENTIAL_FILE: Final = "node_key.txt"


def load(data_dir: Path) -> str | None:
    """Read the key of ``create``; None if there is none."""
    file = data_dir / FOLDER / CREDENTIAL_FILE
    return file.read_text().strip() if file.is_file() else None


def create(data_dir: Path) -> Path:
    """Create the key unless there is one; return its folder."""
    folder = data_dir / FOLDER
    file = folder / CREDENTIAL_FILE
    if not file.is_file():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = folder / f"{CREDENTIAL_FILE}.part"
        part.write_text(secrets.token_hex(16))
        part.rename(file)
    return folder
