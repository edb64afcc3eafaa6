"""``opentill login|logout|whoami``: in whose name commands run."""

import os
import platform
import sys
from typing import Annotated, Any

import typer

from opentill.cli import identity, session
from opentill.cli.registration import add


def register(app: typer.Typer) -> None:
    """Add the commands."""
    add(app, "login", login)
    add(app, "logout", logout)
    add(app, "whoami", whoami)


def login(
    email: Annotated[str, typer.Option(help="Your email address.")] = "",
    *,
    code: Annotated[
        str, typer.Option(help="The code of your authenticator, or a recovery code.")
    ] = "",
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input.")
    ] = False,
) -> dict[str, Any]:
    """Log in as staff: commands then run under your name.

    The login ends after an hour without a command, and after twelve hours in any case. Dangerous
    commands need a login within the last ten minutes.
    """
    identity.check_writable()
    email = email or typer.prompt("Email", err=True)
    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = typer.prompt("Password", hide_input=True, err=True)
        code = code or typer.prompt("Code, if you have a second factor", default="", err=True)
    return session.run(_log_in(email, password, code))


async def _log_in(email: str, password: str, code: str) -> dict[str, Any]:
    from opentill import people
    from opentill.core.errors import Invalid, or_not_found
    from opentill.people import Browser, Credentials

    settings = session.settings()
    device = f"opentill, {identity.system_user()} on {platform.node()}"
    async with session.database(settings) as db:
        credentials = Credentials(
            email=email, password=password, code=code, browser=Browser("127.0.0.1", device),
            # Whoever runs commands has the deployment's secrets already.
            is_known_browser=True,
        )  # fmt: skip
        now = await session.now(db)
        try:
            new_login = await people.log_in(
                db, credentials, settings.secret_key, now, people.begin_for_commands
            )
        except people.WrongCredentials:
            reason = "password must be that of this email address, with the code of its second"
            code = "where there is one: of the authenticator or, instead of a passkey, a recovery"
            raise Invalid("password", f"{reason} factor {code} code") from None
        login = or_not_found(
            await people.find(db, new_login.token, "127.0.0.1", now, use="command")
        )
        try:
            identity.check_staff(login, settings)
        except identity.NotAllowed:
            await db.run(lambda tx: people.end(tx, login))
            raise
    identity.store_login(identity.StoredLogin(people.actor_of(login, "").who, new_login.token))
    return {"email": login.email, "name": login.name, "role": login.staff_role}


def logout() -> dict[str, Any]:
    """Log out: end the login and remove it from its file."""
    from opentill import people

    stored = identity.stored_login()
    if stored is None:
        return {"loggedIn": False}

    async def work() -> None:
        async with session.database() as db:
            now = await session.now(db)
            login = await people.find(db, stored.token, "127.0.0.1", now, use="command")
            if login is not None:
                await db.run(lambda tx: people.end(tx, login))

    session.run(work())
    identity.store_login(None)
    return {"loggedIn": False}


def whoami() -> dict[str, Any]:
    """Show under whose name commands run."""
    stored = identity.stored_login()
    if stored is None:
        return {"loggedIn": False, "user": identity.system_user(), "uid": os.getuid()}

    async def work() -> dict[str, Any]:
        settings = session.settings()
        async with session.database(settings) as db:
            login = await identity.find(db, stored.token, settings, await session.now(db))
        return {
            "loggedIn": True,
            "email": login.email,
            "name": login.name,
            "role": login.staff_role,
            "provedAt": login.proved_at,
        }

    return session.run(work())
