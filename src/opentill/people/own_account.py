"""What persons change about their own account: name, password and language of mails."""

import msgspec

from opentill import merchants
from opentill.core.languages import Language
from opentill.db.database import Db, Tx
from opentill.http import inputs
from opentill.people import logins, passwords, queries
from opentill.people.logins import Credentials
from opentill.people.model import LONGEST_NAME, Login
from opentill.people.second_factor import actor_of


async def prove_for_password(
    db: Db, login: Login, credentials: Credentials, secret_key: str, now: int
) -> logins.Proof:
    """Check the current password, and a code unless a factor was proved in the last ten minutes.

    Raises TooManyRequests and WrongCredentials.
    """
    is_factor_proved = login.strong and login.is_proved(now) and not credentials.code
    return await logins.prove(
        db, login, credentials, secret_key, now, factor_proved=is_factor_proved
    )


async def change_password(
    db: Db, login: Login, credentials: Credentials, new: str, secret_key: str, now: int
) -> logins.Proof:
    """Set a new password, end all other logins and give this one a new token.

    ``credentials`` has the current password. A second factor counts as proved for ten minutes.
    Raises TooManyRequests, WrongCredentials and Invalid.
    """
    passwords.check("password", new, login.email, login.name)
    proof = await prove_for_password(db, login, credentials, secret_key, now)
    password_hash = await passwords.hash_password(new, who=login.email)

    async def work(tx: Tx) -> None:
        await logins.lock_unchanged(tx, proof.person)
        await queries.SET_PASSWORD.run(tx, id=login.person_id, password=password_hash, now=now)
        await logins.end_other_logins(tx, login)
        actor = actor_of(login, "on the page about security")
        await merchants.record_audit(tx, actor, "people password", "", login.person_id, now)

    await db.run(work)
    person = msgspec.structs.replace(proof.person, password=password_hash)
    return logins.Proof(person, proof.token)


async def change_name(tx: Tx, login: Login, name: str, now: int) -> None:
    """Set the name that colleagues see. Raises Invalid."""
    new_name = inputs.check_name("name", name, LONGEST_NAME)
    if new_name == login.name:
        return
    await queries.SET_NAME.run(tx, id=login.person_id, name=new_name, now=now)
    actor = actor_of(login, "on the page about security")
    subject = f"{login.person_id} {login.name} → {new_name}"
    await merchants.record_audit(tx, actor, "people rename", "", subject, now)


async def change_language(tx: Tx, login: Login, language: Language, now: int) -> None:
    """Set the language in which the person of a login gets mails that concern only them."""
    await queries.SET_LANGUAGE.run(tx, id=login.person_id, language=language, now=now)
