"""Changes of an account repeat their checks after they have locked the account."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import pytest

from opentill import people
from opentill.core.errors import Invalid, NotFound
from opentill.core.ids import new_id
from opentill.db.clock import now_ms
from opentill.db.database import Db, Tx
from opentill.people import logins, passkeys, passwords, queries, second_factor, totp
from support.people import CHEAP_HASH, PASSWORD, TESTER, new_address
from support.waits import find_waiting_session

SECRET_KEY: Final = "k" * 40
BROWSER: Final = people.Browser("192.0.2.1", "Testfox/1.0")
NEW_PASSWORD: Final = "seven slow rivers sing"


@pytest.fixture
async def ada(db: Db) -> people.Person:
    now, stored = now_ms(), await passwords.hash_password(PASSWORD, CHEAP_HASH)
    person = people.Person(
        id=new_id("per"), email=new_address(), name="Ada", password=stored, totp_secret=None,
        totp_pending=None, totp_period=0, created_at=now, updated_at=now,
    )  # fmt: skip
    async with db.transaction() as tx:
        await queries.INSERT_PERSON.run(tx, person)
    return person


@pytest.fixture
async def login(db: Db, ada: people.Person) -> people.Login:
    new_login = await people.log_in(db, _credentials(ada), SECRET_KEY, now_ms())
    login = await people.find(db, new_login.token, BROWSER.address, now_ms())
    assert login is not None
    return login


def _credentials(person: people.Person, code: str = "") -> logins.Credentials:
    return logins.Credentials(
        email=person.email, password=PASSWORD, browser=BROWSER, code=code, is_known_browser=True
    )


async def _until_done_or_blocked(db: Db, task: asyncio.Task[Any]) -> None:
    """Wait until a task is done, or waits for a row that another transaction has locked."""
    async with asyncio.timeout(30), db.connection() as observer:
        while not task.done():
            if await find_waiting_session(observer) is not None:
                return
            await asyncio.sleep(0.002)


async def _set_password(tx: Tx, person: people.Person) -> None:
    """Change the password and end all logins, as a reset does."""
    stored = await passwords.hash_password(NEW_PASSWORD, CHEAP_HASH)
    await queries.SET_PASSWORD.run(tx, id=person.id, password=stored, now=now_ms())
    await queries.END_OTHER_LOGINS.run(tx, person_id=person.id, but="")


async def _during_reset(db: Db, person: people.Person, work: Awaitable[object]) -> object:
    """Run ``work`` while the password is being changed; return its result or exception."""
    async with db.transaction() as tx:
        await _set_password(tx, person)
        task = asyncio.ensure_future(_outcome(work))
        await _until_done_or_blocked(db, task)
    return await task


async def _outcome(work: Awaitable[object]) -> object:
    try:
        return await work
    except Exception as error:  # noqa: BLE001 - the test says which one it may be
        return error


async def test_a_login_with_a_password_that_is_being_changed_fails(
    db: Db, ada: people.Person
) -> None:
    outcome = await _during_reset(
        db, ada, people.log_in(db, _credentials(ada), SECRET_KEY, now_ms())
    )
    assert isinstance(outcome, people.WrongCredentials)
    async with db.connection() as tx:
        assert await queries.LOGINS.all(tx, person_id=ada.id) == []


async def test_a_step_up_with_a_password_that_is_being_changed_fails(
    db: Db, ada: people.Person, login: people.Login
) -> None:
    proof = people.prove(db, login, _credentials(ada), SECRET_KEY, now_ms())
    assert isinstance(await _during_reset(db, ada, proof), people.WrongCredentials)


async def test_a_change_of_password_does_not_undo_a_reset(
    db: Db, ada: people.Person, login: people.Login
) -> None:
    change = people.change_password(
        db, login, _credentials(ada), "nine quiet herons wait", SECRET_KEY, now_ms()
    )
    assert isinstance(await _during_reset(db, ada, change), people.WrongCredentials)
    async with db.connection() as tx:
        person = await queries.PERSON.one(tx, id=ada.id)
    assert await passwords.matches(NEW_PASSWORD, person.password)


async def test_a_login_needs_a_second_factor_that_was_set_up_meanwhile(
    db: Db, ada: people.Person, login: people.Login
) -> None:
    async with db.transaction() as tx:
        await second_factor.begin(tx, login, SECRET_KEY)
    async with db.transaction() as tx:
        secret = await second_factor.pending_secret(tx, login, SECRET_KEY)
        await second_factor.confirm(tx, login, _code(secret), SECRET_KEY, now_ms())
        task = asyncio.ensure_future(
            _outcome(people.log_in(db, _credentials(ada), SECRET_KEY, now_ms()))
        )
        await _until_done_or_blocked(db, task)
    assert isinstance(new_login := await task, people.NewLogin)
    assert new_login.pending


async def test_confirming_a_replaced_secret_is_refused(
    db: Db, ada: people.Person, login: people.Login
) -> None:
    """Another page may replace the secret between showing and confirming it."""
    async with db.transaction() as tx:
        await second_factor.begin(tx, login, SECRET_KEY)
        replaced_secret = await second_factor.pending_secret(tx, login, SECRET_KEY)

    async def confirm() -> None:
        await db.run(
            lambda tx: second_factor.confirm(
                tx, login, _code(replaced_secret), SECRET_KEY, now_ms()
            )
        )

    async with db.transaction() as tx:
        await second_factor.begin(tx, login, SECRET_KEY)
        task = asyncio.ensure_future(_outcome(confirm()))
        await _until_done_or_blocked(db, task)
    assert isinstance(await task, Invalid)
    async with db.connection() as observer:
        assert (await queries.PERSON.one(observer, id=ada.id)).totp_secret is None


async def test_removing_both_factors_concurrently_weakens_all_logins(
    db: Db, ada: people.Person, login: people.Login
) -> None:
    async with db.transaction() as tx:
        await second_factor.begin(tx, login, SECRET_KEY)
        secret = await second_factor.pending_secret(tx, login, SECRET_KEY)
        await second_factor.confirm(tx, login, _code(secret), SECRET_KEY, now_ms())
        passkey = people.model.Passkey(
            id=new_id("pk"), person_id=ada.id, credential=ada.id.encode(), public_key=b"x",
            sign_count=0, name="Phone", created_at=0, used_at=None,
        )  # fmt: skip
        await queries.INSERT_PASSKEY.run(tx, passkey)

    async def remove_passkey() -> None:
        await db.run(lambda tx: passkeys.remove(tx, login, passkey.id, now_ms()))

    async with db.transaction() as tx:
        await second_factor.remove(tx, login, now_ms())
        task = asyncio.ensure_future(_outcome(remove_passkey()))
        await _until_done_or_blocked(db, task)
    assert await task is None
    async with db.connection() as observer:
        assert [login.strong for login in await queries.LOGINS.all(observer, person_id=ada.id)] == [
            False
        ]


def _code(secret: str) -> str:
    return totp.code_at(secret, now_ms() // 1000 // totp.PERIOD_S)


@pytest.mark.parametrize("kind", ["invitation", "reset"])
async def test_only_one_of_concurrently_created_links_is_valid(
    db: Db, ada: people.Person, kind: str
) -> None:
    email = new_address()

    async def create_link() -> str:
        async def work(tx: Tx) -> people.NewLink:
            if kind == "reset":
                return await people.offer_new_password(tx, ada.email, now_ms(), actor=TESTER)
            return await people.invite(tx, email, now_ms(), staff_role="support", actor=TESTER)

        return (await db.run(work)).token

    async def is_valid(token: str) -> bool:
        async with db.connection() as tx:
            try:
                await people.read_link(tx, token, now_ms())
            except NotFound:
                return False
            return True

    tokens = await asyncio.gather(*(create_link() for _ in range(8)))
    assert sum([await is_valid(token) for token in tokens]) == 1
