"""The identity of a command's user: a staff member who has logged in, or the machine's owner.

``opentill login`` stores the login's token in a private file. Commands that write check that the
login is active and that its role has the permission, and name the person in the audit log. With
``--as-root`` they run as the machine's owner; so they do without a login if the deployment has no
staff or no real money (decision 0098). Only persons can request and approve actions that need two
persons.
"""

import hashlib
import os
import pwd
import stat
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from opentill.core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentill.core.settings import Settings
    from opentill.db.database import Db
    from opentill.merchants import Actor
    from opentill.people import Login, Permission

# An approver must have logged in, because the machine's owner could be the requesting person.
_BY_PEOPLE: Final = "approvals.decide"


class NotAllowed(ConfigurationError):
    """The user may not run the command or is unknown. The text is one line that says what to do."""


class StoredLogin(msgspec.Struct, frozen=True):
    """A login in the file of logins."""

    name: str  # the person's name in the audit log
    token: str


class _Claim(msgspec.Struct, frozen=True):
    """The claimed identity, until it is verified against the database."""

    permission: "Permission"
    login: StoredLogin | None = None
    as_root: bool = False


_command = ""  # the command of this process
_claim: _Claim | None = None  # the claimed identity; None until ``actor`` is called


def begin(command: str) -> None:
    """Set the command of this process; ``command`` is its name without ``opentill``."""
    global _command, _claim
    _command, _claim = command, None


def actor(reason: str, *, as_root: bool) -> "Actor":
    """Return the claimed actor of the command; opening the database verifies the claim.

    Raises NotAllowed.
    """
    global _claim  # noqa: PLW0603 - a process runs one command
    from opentill.merchants import Actor
    from opentill.people import command_permission

    permission = command_permission(_command)
    user = system_user()
    if as_root:
        _check_owner(permission)
        _claim = _Claim(permission, as_root=True)
        return Actor(f"root ({user})", reason)
    login = stored_login()
    _claim = _Claim(permission, login)
    if permission == _BY_PEOPLE:
        require_person()
    return Actor(login.name if login else user, reason)


def is_root() -> bool:
    """Whether the command runs as the machine's owner by ``--as-root``."""
    return _claim is not None and _claim.as_root


def require_person(what: str = "do this") -> None:
    """Raise NotAllowed, which says ``what`` to do, unless a logged-in person runs the command."""
    if _claim is None or _claim.login is None:
        hint = ", and no --as-root" if _claim is not None and _claim.as_root else ""
        message = f"somebody who has logged in must {what}: opentill login{hint}"
        raise NotAllowed(message)


def check_requester(*, needs_approval: bool) -> None:
    """Raise NotAllowed for a request that needs approval if no logged-in person makes it.

    The machine's owner could otherwise make a request and approve it by their own login. Must be
    called before the request is committed.
    """
    if needs_approval:
        require_person("ask for what needs a second person")


def system_user() -> str:
    """Return the name of the user of this process, ignoring the environment."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # the user has no name, as in a container
        return f"user {os.geteuid()}"


def _check_owner(permission: "Permission") -> None:
    """Raise NotAllowed unless this process runs as the machine's owner."""
    from opentill import config

    if permission == _BY_PEOPLE:
        message = "who approves must have logged in: opentill login, and no --as-root"
        raise NotAllowed(message)
    owners = {0}
    with suppress(OSError):
        owners.add(config.load(os.environ).data_dir.stat().st_uid)
    if os.geteuid() not in owners:
        message = "--as-root is for root and for the owner of the data directory: opentill login"
        raise NotAllowed(message)
    sys.stderr.write("opentill: as the machine's owner; the audit log says so\n")


def is_claimed() -> bool:
    """Whether the command needs an identity that the database has to verify."""
    return _claim is not None and not _claim.as_root


async def verify(db: "Db", settings: "Settings", now: int) -> None:
    """Verify the claimed identity against the database. Raises NotAllowed."""
    claim = _claim
    if claim is None:
        return
    if claim.login is None:
        if settings.livemode and await _has_staff(db):
            message = "who acts must have logged in: opentill login, or --as-root on this machine"
            raise NotAllowed(message)
        return
    login = await find(db, claim.login.token, settings, now)
    _check_role(login, claim.permission)
    from opentill import people
    from opentill.people import NEED_PROOF

    if people.actor_of(login, "").who != claim.login.name:
        # The user could have written any name into the file.
        message = f"{_file()} names somebody else than who has logged in: opentill login"
        raise NotAllowed(message)

    if claim.permission in NEED_PROOF and not login.is_proved(now):
        message = "your login is older than ten minutes, too old for this: opentill login"
        raise NotAllowed(message)


async def find(db: "Db", token: str, settings: "Settings", now: int) -> "Login":
    """Return the active login of a staff member. Raises NotAllowed."""
    from opentill import people

    login = await people.find(db, token, "127.0.0.1", now, use="command")
    if login is None:
        message = "your login has ended: opentill login"
        raise NotAllowed(message)
    check_staff(login, settings)
    return login


def check_staff(login: "Login", settings: "Settings") -> None:
    """Raise NotAllowed unless a login belongs to staff and has the required second factor."""
    if login.is_pending:
        message = "your login lacks the second factor that you have set up since: opentill login"
        raise NotAllowed(message)
    if login.staff_role is None:
        message = f"{login.email} is nobody of this deployment's staff"
        raise NotAllowed(message)
    if settings.livemode and not login.strong:
        message = f"staff need a second factor: set one up at {settings.public_url}/security"
        raise NotAllowed(message)


def _check_role(login: "Login", permission: "Permission") -> None:
    from opentill.people import staff_may

    if login.staff_role is None or not staff_may(login.staff_role, permission):
        message = f"the role {login.staff_role} may not do this: it needs {permission}"
        raise NotAllowed(message)


async def _has_staff(db: "Db") -> bool:
    from opentill import people

    async with db.connection() as tx:
        return bool((await people.all_members_and_staff(tx))[1])


def stored_login() -> StoredLogin | None:
    """Return the stored login of this deployment. Raises NotAllowed for an unprotected file."""
    path = _file()
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                message = f"{path} must be readable by you alone: chmod 600 {path}"
                raise NotAllowed(message)
            logins = msgspec.json.decode(file.read(), type=dict[str, StoredLogin])
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        message = f"{path} has the logins of this user and cannot be read: {error}"
        raise NotAllowed(message) from None
    return logins.get(_deployment())


def store_login(login: StoredLogin | None) -> None:
    """Store a login of this deployment in the file, or remove it. Raises NotAllowed."""
    path = _file()
    logins: dict[str, StoredLogin] = {}
    with suppress(OSError, msgspec.DecodeError):
        logins = msgspec.json.decode(path.read_bytes(), type=dict[str, StoredLogin])
    logins.pop(_deployment(), None)
    if login is not None:
        logins[_deployment()] = login
    with _new_file(path) as file:
        file.write(msgspec.json.encode(logins))
        file.flush()
        Path(file.name).replace(path)


def check_writable() -> None:
    """Raise NotAllowed if a login could not be stored; called before logging in."""
    with _new_file(_file()) as file:
        Path(file.name).unlink()


@contextmanager
def _new_file(path: Path) -> "Iterator[IO[bytes]]":
    """Create a private temporary file next to ``path``. Raises NotAllowed."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            yield file
    except OSError as error:
        reason = f"{error.strerror}; XDG_CONFIG_HOME may name a directory that can"
        message = f"{path} cannot be written: {reason}"
        raise NotAllowed(message) from None


def _file() -> Path:
    place = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(place) / "opentill" / "logins.json"


def _deployment() -> str:
    """Return the deployment's key in the file: a digest of its database URL or data directory."""
    from opentill import config

    settings = config.load(os.environ)
    data_place = settings.database_url or str(settings.data_dir.resolve())
    return hashlib.sha256(data_place.encode()).hexdigest()[:32]
