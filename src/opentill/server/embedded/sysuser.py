"""The system user that PostgreSQL runs as: another one when OpenTill itself runs as root.

PostgreSQL refuses to run as root. A user of its own then owns the database's files, and may search,
not list, the directories above them and above the programs: by an entry for this user in their
access control lists, so that a private ``/root`` stays closed to all others, or by the search bit
(``o+x``) on file systems without such lists.
"""

import os
import pwd
import shutil
import stat
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

NAME: Final = "opentill-postgres"
_ACL: Final = "system.posix_acl_access"
_VERSION: Final = struct.pack("<I", 2)
_NO_ID: Final = 0xFFFFFFFF
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 1, 2, 4, 8, 16, 32
_SEARCH: Final = 1


def ids(owned: Path) -> tuple[int, int] | None:
    """Return the user and group id to run PostgreSQL as; None for those of this process.

    ``owned`` is the database's directory. If it exists its owner is taken: a volume may come from
    another machine. Raises ``OSError`` if no user can be made.
    """
    if os.geteuid() != 0:
        return None
    if owned.exists():
        status = owned.stat()
        if status.st_uid != 0:
            return status.st_uid, status.st_gid
    entry = _existing() or _made()
    return entry.pw_uid, entry.pw_gid


def _existing() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _made() -> pwd.struct_passwd:
    """Make the user with the system's tool: of Debian and Red Hat, or of BusyBox."""
    tools = (
        ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"),
        ("adduser", "-S", "-D", "-H"),
    )
    for tool, *options in tools:
        program = shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")
        if program is not None:
            subprocess.run([program, *options, NAME], check=False, capture_output=True)  # noqa: S603 - fixed words
            if entry := _existing():
                return entry
    message = f"cannot add the system user {NAME!r}, and PostgreSQL does not run as root"
    raise OSError(message)


def naming(uid: int, folder: Path) -> Mapping[str, str]:
    """Return the environment in which a user id without a name has one.

    PostgreSQL makes no database for a user without a name, as which containers often run. The
    library nss_wrapper reads names from files, made here in ``folder``, which the caller removes.
    Raises ``OSError`` if the library is needed and not installed.
    """
    try:
        pwd.getpwuid(uid)
    except KeyError:
        library = nss_wrapper()
    else:
        return {}
    if library is None:
        message = (
            f"user id {uid} has no name on this system, and PostgreSQL makes no database without;"
            " install libnss-wrapper, run as a user that /etc/passwd has, or set"
            " OPENTILL_DATABASE_URL"
        )
        raise OSError(message)
    folder.mkdir()
    (folder / "passwd").write_text(f"{NAME}:x:{uid}:{uid}::/nonexistent:/bin/false\n")
    (folder / "group").write_text(f"{NAME}:x:{uid}:\n")
    for path, mode in ((folder, 0o755), (folder / "passwd", 0o644), (folder / "group", 0o644)):
        path.chmod(mode)  # despite the umask: the reader may be another user
    return {
        "LD_PRELOAD": str(library),
        "NSS_WRAPPER_PASSWD": str(folder / "passwd"),
        "NSS_WRAPPER_GROUP": str(folder / "group"),
    }


def nss_wrapper() -> Path | None:
    """Find the library nss_wrapper where Debian or Red Hat install it."""
    places = ("lib/*-linux-*/", "lib64/", "lib/")
    found = (path for place in places for path in Path("/usr").glob(f"{place}libnss_wrapper.so"))
    return next(found, None)


def let_through(target: Path, uid: int) -> None:
    """Let the user search all directories above ``target``. Raises ``OSError``."""
    for directory in target.resolve().parents:
        status = directory.stat()
        if not status.st_mode & stat.S_IXOTH and status.st_uid != uid:
            _allow_search(directory, status.st_mode, uid)


def _allow_search(directory: Path, mode: int, uid: int) -> None:
    try:
        entries = _read(directory, mode)
        entries[_USER, uid] = entries.get((_USER, uid), 0) | _SEARCH
        # The mask limits the named entries; a later chmod of the group's bits changes the mask.
        entries[_MASK, _NO_ID] = entries.get((_MASK, _NO_ID), entries[_GROUP, _NO_ID]) | _SEARCH
        os.setxattr(directory, _ACL, _packed(entries))
    except (OSError, AttributeError):  # no such lists on this file system, or no Linux
        directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _read(directory: Path, mode: int) -> dict[tuple[int, int], int]:
    """Return the list as ``{(kind, id): permissions}``, made from the mode if there is none."""
    try:
        packed = os.getxattr(directory, _ACL)
    except OSError:
        return {
            (_OWNER, _NO_ID): mode >> 6 & 7,
            (_GROUP, _NO_ID): mode >> 3 & 7,
            (_OTHER, _NO_ID): mode & 7,
        }
    return {(kind, who): rights for kind, rights, who in struct.iter_unpack("<HHI", packed[4:])}


def _packed(entries: dict[tuple[int, int], int]) -> bytes:
    """Pack in the kernel's order: by kind, then by id."""
    rows = (struct.pack("<HHI", kind, entries[kind, who], who) for kind, who in sorted(entries))
    return _VERSION + b"".join(rows)


def make_readable(programs: Path) -> None:
    """Let everybody read and run the programs below ``programs``, which hold no secret.

    A virtual environment that was installed with a strict umask is closed to the other user.
    """
    for path in (programs, *programs.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            wanted = mode | (0o555 if path.is_dir() or mode & stat.S_IXUSR else 0o444)
            if wanted != mode:
                path.chmod(wanted)
