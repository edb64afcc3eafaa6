"""Who runs a command: somebody of the staff who has logged in, or the machine's owner.

``opentill login`` keeps the token of a login in a file that only its user can read. A command that
acts names the person of that login in the audit log, after looking whether the login still holds
and whether their role may do what the command does. ``--as-root`` runs it as the machine's owner,
and so does a deployment that has no staff yet, or no real money (decision 0098). What needs two
persons is asked for and approved by people alone.
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

# Whoever approves is a person who has logged in: the machine's owner could be the one who asked.
_BY_PEOPLE: Final = "approvals.decide"


class NotAllowed(ConfigurationError):
    """Who runs the command may not, or is not known; the text is one line that says what to do."""


class Kept(msgspec.Struct, frozen=True):
    """A login as its file has it."""

    name: str  # of the person, as the audit log names them
    token: str


class _Claim(msgspec.Struct, frozen=True):
    """Who a command says that it is run by, until a database was asked."""

    permission: "Permission"
    login: Kept | None = None
    as_root: bool = False


_command = ""  # that this process runs
_claim: _Claim | None = None  # of that command


def begin(command: str) -> None:
    """Note which command this process runs; ``command`` is its name without ``opentill``."""
    global _command, _claim
    _command, _claim = command, None


def actor(reason: str, *, as_root: bool) -> "Actor":
    """Return who runs the command, for the audit log; the database is asked when it is opened.

    Raises NotAllowed.
    """
    global _claim  # noqa: PLW0603 - as above
    from opentill.merchants import Actor
    from opentill.people import command_permission

    permission = command_permission(_command)
    user = system_user()
    if as_root:
        _check_owner(permission)
        _claim = _Claim(permission, as_root=True)
        return Actor(f"root ({user})", reason)
    login = kept()
    _claim = _Claim(permission, login)
    if permission == _BY_PEOPLE:
        require_person()
    return Actor(login.name if login else user, reason)


def is_root() -> bool:
    """Return whether the command runs as the machine's owner, by ``--as-root``."""
    return _claim is not None and _claim.as_root


def require_person(what: str = "do this") -> None:
    """Check that somebody who has logged in runs the command. Raises NotAllowed."""
    if _claim is None or _claim.login is None:
        hint = ", and no --as-root" if _claim is not None and _claim.as_root else ""
        message = f"somebody who has logged in must {what}: opentill login{hint}"
        raise NotAllowed(message)


def check_asker(*, waits: bool) -> None:
    """Check who asks for something that needs a second person: a person, too. Raises NotAllowed.

    Whoever may act as the machine's owner could approve it by their own login. Called before the
    request is committed.
    """
    if waits:
        require_person("ask for what needs a second person")


def system_user() -> str:
    """Return the name of the user who runs this process, whatever the environment says."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a user without a name, as in a container
        return f"user {os.geteuid()}"


def _check_owner(permission: "Permission") -> None:
    """Check that this process is run by the machine's owner. Raises NotAllowed."""
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


async def verify(db: "Db", found: "Settings") -> None:
    """Check who runs the command against the database. Raises NotAllowed."""
    claim = _claim
    if claim is None or claim.as_root:
        return
    if claim.login is None:
        if found.livemode and await _has_staff(db):
            message = "who acts must have logged in: opentill login, or --as-root on this machine"
            raise NotAllowed(message)
        return
    login = await find(db, claim.login.token, found)
    _check_role(login, claim.permission)
    from opentill import people
    from opentill.cli import session
    from opentill.people import NEED_PROOF

    if people.actor_of(login, "").who != claim.login.name:
        # The file is its user's own, who could have written any name beside the token.
        message = f"{_file()} names somebody else than who has logged in: opentill login"
        raise NotAllowed(message)

    if claim.permission in NEED_PROOF and not login.is_proved(await session.now(db)):
        message = "your login is older than ten minutes, too old for this: opentill login"
        raise NotAllowed(message)


async def find(db: "Db", token: str, found: "Settings") -> "Login":
    """Return the login of somebody of the staff. Raises NotAllowed if it does not hold."""
    from opentill import people
    from opentill.cli import session

    login = await people.find(db, token, "127.0.0.1", await session.now(db), use="command")
    if login is None:
        message = "your login has ended: opentill login"
        raise NotAllowed(message)
    check_staff(login, found)
    return login


def check_staff(login: "Login", found: "Settings") -> None:
    """Check that a login is one of staff, as strong as it has to be. Raises NotAllowed."""
    if login.is_pending:
        message = "your login lacks the second factor that you have set up since: opentill login"
        raise NotAllowed(message)
    if login.staff_role is None:
        message = f"{login.email} is nobody of this deployment's staff"
        raise NotAllowed(message)
    if found.livemode and not login.strong:
        message = f"staff need a second factor: set one up at {found.public_url}/security"
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


def kept() -> Kept | None:
    """Return the login that was kept for this deployment. Raises NotAllowed for an open file."""
    path = _file()
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                message = f"{path} must be readable by you alone: chmod 600 {path}"
                raise NotAllowed(message)
            logins = msgspec.json.decode(file.read(), type=dict[str, Kept])
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        message = f"{path} has the logins of this user and cannot be read: {error}"
        raise NotAllowed(message) from None
    return logins.get(_deployment())


def keep(login: Kept | None) -> None:
    """Keep a login of this deployment in the file, or forget it. Raises NotAllowed."""
    path = _file()
    logins: dict[str, Kept] = {}
    with suppress(OSError, msgspec.DecodeError):
        logins = msgspec.json.decode(path.read_bytes(), type=dict[str, Kept])
    logins.pop(_deployment(), None)
    if login is not None:
        logins[_deployment()] = login
    with _new_file(path) as file:
        file.write(msgspec.json.encode(logins))
        file.flush()
        Path(file.name).replace(path)


def check_writable() -> None:
    """Check that a login can be kept, before there is one. Raises NotAllowed."""
    with _new_file(_file()) as file:
        Path(file.name).unlink()


@contextmanager
def _new_file(path: Path) -> "Iterator[IO[bytes]]":
    """Give a new file beside ``path`` that nobody else can read. Raises NotAllowed."""
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
    """Return a name for the deployment of these settings: where its data is."""
    from opentill import config

    found = config.load(os.environ)
    place = found.database_url or str(found.data_dir.resolve())
    return hashlib.sha256(place.encode()).hexdigest()[:32]
