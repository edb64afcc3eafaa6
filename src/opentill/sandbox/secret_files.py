"""Secrets that the simulated providers share with shops, one file each in the data directory."""

from pathlib import Path


def load_secret(file: Path) -> str | None:
    """Return the secret of a file; None if there is no such file."""
    return file.read_text().strip() if file.is_file() else None


def create_secret(file: Path, secret: str) -> Path:
    """Write a secret unless the file exists, whole or not at all; return its folder."""
    if not file.is_file():
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = file.with_name(f"{file.name}.part")
        part.write_text(secret)
        part.rename(file)
    return file.parent
