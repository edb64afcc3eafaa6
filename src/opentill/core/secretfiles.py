"""Secrets in files, and a database password separate from the URL, as containers provide them.

``OPENTILL_SECRET_KEY_FILE=/run/secrets/key`` sets ``OPENTILL_SECRET_KEY`` to the content of the
file. The secret is then not in the environment, which container engines show to everybody who may
inspect a container.
"""

import os
import stat
from collections.abc import Set as AbstractSet
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

from opentill.core.setting_rows import SettingError
from opentill.core.settings import Settings

SUFFIX: Final = "_FILE"
LARGEST_BYTES: Final = 65_536


def read_files(secret: AbstractSet[str], options: str, variables: dict[str, str]) -> dict[str, str]:
    """Replace each variable ``NAME_FILE`` by ``NAME`` with the content of the file.

    Returns the path of the file of each ``NAME``. Only the settings in ``secret`` and variables
    that begin with ``options``, the prefix of gateways' options, may be in files. Raises
    ``SettingError``.
    """
    files: dict[str, str] = {}
    for variable in [name for name in variables if name.endswith(SUFFIX)]:
        name = variable.removesuffix(SUFFIX)
        if name not in secret and not name.startswith(options):
            continue
        if name in variables:
            message = f"{name} and {variable} are both given; leave one of them out"
            raise SettingError(message)
        files[name] = variables.pop(variable)
        variables.update({name: _content(path, name + SUFFIX) for name, path in files.items()})
    return files


def _content(path: str, variable: str) -> str:
    """Read a secret from a file, without the line ends that editors append."""
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                message = f"{variable} names {path}, which is no regular file, nor a link to one"
                raise SettingError(message)
            content = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        message = f"{variable} names {path}, which cannot be read: {error.strerror}"
        raise SettingError(message) from None
    if len(content) > LARGEST_BYTES:
        message = f"{variable} names {path}, which is longer than {LARGEST_BYTES} bytes"
        raise SettingError(message)
    try:
        text = content.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        text = ""
    if not text:
        message = f"{variable} names {path}, which holds no text"
        raise SettingError(message)
    return text


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file. Opening a FIFO does not wait for a process that writes to it."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def check_password(settings: Settings) -> None:
    """Raise ``SettingError`` if the separate password has no URL, or a URL has a password too."""
    if not settings.database_url:
        message = "OPENTILL_DATABASE_PASSWORD needs OPENTILL_DATABASE_URL: whose password it is"
        raise SettingError(message)
    for url in (settings.database_url, settings.database_read_url or ""):
        parts = urlsplit(url)
        if ":" in parts.netloc.rpartition("@")[0] or "password" in parse_qs(parts.query):
            message = (
                "the database's address and OPENTILL_DATABASE_PASSWORD both have a password;"
                " leave one of them out"
            )
            raise SettingError(message)


def add_password(url: str | None, password: str) -> str | None:
    """Return the URL with the separate password added, percent-encoded."""
    if not url or not password:
        return url
    return f"{url}{'&' if '?' in url else '?'}password={quote(password, safe='')}"
