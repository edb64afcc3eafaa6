"""The API of epusdt and its fork bepusdt, with their callbacks."""

from opentill.sandbox.epusdt.dialect import FORK_PATH, PATH, Epusdt
from opentill.sandbox.epusdt.keys import CREDENTIAL_FILE, create, load

__all__ = ["CREDENTIAL_FILE", "FORK_PATH", "PATH", "Epusdt", "create", "load"]
