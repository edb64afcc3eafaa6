"""The system user that runs PostgreSQL if OpenTill itself runs as root.

PostgreSQL refuses to run as root. A dedicated user then owns the database's files and may search
(not list) the directories above them and above the programs. An ACL entry grants that, and keeps a
private ``/root`` closed to others; on file systems without ACLs, ``o+x`` grants it.
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


def user_ids(owned: Path) -> tuple[int, int] | None:
    """Return the user and group id to run PostgreSQL as; None for those of this process.

    ``owned`` is the database's directory. If it exists, its owner is used, because a volume may
    come from another machine. Raises ``OSError`` if no user can be created.
    """
    if os.geteuid() != 0:
        return None
    if owned.exists():
        status = owned.stat()
        if status.st_uid != 0:
            return status.st_uid, status.st_gid
    entry = _find_user() or _create_user()
    return entry.pw_uid, entry.pw_gid


def _find_user() -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(NAME)
    except KeyError:
        return None


def _create_user() -> pwd.struct_passwd:
    """Create the user with the tool of Debian and Red Hat, or of BusyBox."""
    tools = (
        ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"),
        ("adduser", "-S", "-D", "-H"),
    )
    for tool, *options in tools:
        program = shutil.which(tool) or shutil.which(tool, path="/usr/sbin:/sbin")
        if program is not None:
            subprocess.run([program, *options, NAME], check=False, capture_output=True)  # noqa: S603 - fixed arguments
            if entry := _find_user():
                return entry
    message = f"cannot add the system user {NAME!r}, and PostgreSQL does not run as root"
    raise OSError(message)


def name_environment(uid: int, folder: Path) -> Mapping[str, str]:
    """Return environment variables that give a user id without a name one.

    initdb requires a user with a name, which containers often lack. The library nss_wrapper reads
    names from files; they are created in ``folder``, which the caller removes. Raises ``OSError``
    if the library is needed but not installed.
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
        path.chmod(mode)  # the umask must not hide them from another user, who reads them
    return {
        "LD_PRELOAD": str(library),
        "NSS_WRAPPER_PASSWD": str(folder / "passwd"),
        "NSS_WRAPPER_GROUP": str(folder / "group"),
    }


def nss_wrapper() -> Path | None:
    """Return the path of the library nss_wrapper on Debian or Red Hat, None if it is missing."""
    folders = ("lib/*-linux-*/", "lib64/", "lib/")
    paths = (path for each in folders for path in Path("/usr").glob(f"{each}libnss_wrapper.so"))
    return next(paths, None)


def allow_path(target: Path, uid: int) -> None:
    """Allow the user to search all directories above ``target``. Raises ``OSError``."""
    for directory in target.resolve().parents:
        status = directory.stat()
        if not status.st_mode & stat.S_IXOTH and status.st_uid != uid:
            _allow_search(directory, status.st_mode, uid)


def _allow_search(directory: Path, mode: int, uid: int) -> None:
    try:
        entries = _read_acl(directory, mode)
        entries[_USER, uid] = entries.get((_USER, uid), 0) | _SEARCH
        # The mask limits what the user's entry permits, so it must permit searching as well.
        entries[_MASK, _NO_ID] = entries.get((_MASK, _NO_ID), entries[_GROUP, _NO_ID]) | _SEARCH
        os.setxattr(directory, _ACL, _pack_acl(entries))
    except (OSError, AttributeError):  # the file system has no ACLs, or this is not Linux
        directory.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _read_acl(directory: Path, mode: int) -> dict[tuple[int, int], int]:
    """Return the ACL as ``{(kind, id): permissions}``, derived from the mode if there is none."""
    try:
        packed = os.getxattr(directory, _ACL)
    except OSError:
        return {
            (_OWNER, _NO_ID): mode >> 6 & 7,
            (_GROUP, _NO_ID): mode >> 3 & 7,
            (_OTHER, _NO_ID): mode & 7,
        }
    return {(kind, who): rights for kind, rights, who in struct.iter_unpack("<HHI", packed[4:])}


def _pack_acl(entries: dict[tuple[int, int], int]) -> bytes:
    """Encode the entries in the kernel's order: by kind, then by id."""
    rows = (struct.pack("<HHI", kind, entries[kind, who], who) for kind, who in sorted(entries))
    return _VERSION + b"".join(rows)


def make_readable(programs: Path) -> None:
    """Make ``programs``, which contain no secret, readable and executable by everybody.

    The other user cannot read a virtual environment that was installed with a strict umask.
    """
    for path in (programs, *programs.rglob("*")):
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            target_mode = mode | (0o555 if path.is_dir() or mode & stat.S_IXUSR else 0o444)
            if target_mode != mode:
                path.chmod(target_mode)
