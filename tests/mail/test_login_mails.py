"""Logins from new devices and networks become mails to their people."""

import msgspec

from mail.triggered_mails import HOUR_MS, NOW, SETTINGS, add_member, create_order, read_mails
from opentill import people
from opentill.db.database import Db, Tx
from opentill.mail import jobs, queries
from opentill.people import Browser, logins
from opentill.people import queries as people_queries


async def test_a_login_from_a_new_device_or_network_is_mailed_once(db: Db) -> None:
    order = await create_order(db)
    await db.run(lambda tx: add_member(tx, order.merchant_id, "owner", "owner@example.com"))
    await jobs.find_start(db, NOW)

    async def log_in(address: str, device: str, *, logs_out: bool = False) -> None:
        async def create_data(tx: Tx) -> None:
            person = await people.find_by_email(tx, "owner@example.com")
            new_login = await people.begin(tx, person, Browser(address, device), NOW + 1)
            if logs_out:
                await people_queries.END_LOGIN.run(tx, person_id=person.id, id=new_login.id)

        await db.run(create_data)

    await log_in("192.0.2.1", "Testfox/1.0")
    await log_in("192.0.2.1", "Testfox/2.5")  # the same browser has a newer version
    await log_in("203.0.113.5", "Testfox/1.0")
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 2) == 2
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 3) == 0
    # The person logs out before the mails are queued.
    await log_in("203.0.113.6", "Testfox/1.0", logs_out=True)
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 4) == 1
    async with db.connection() as tx:
        assert await queries.NEW_LOGINS.all(tx, since=NOW, pending_until=NOW, limit=10) == []
        count = "select count(*) from begun_logins"
        assert await tx.fetchval(count) == 1, "the login with which the owner joined"
        await people.prune(tx, NOW + HOUR_MS + 1)
        assert await tx.fetchval(count) == 0


async def test_a_password_without_the_second_factor_is_mailed_as_that(db: Db) -> None:
    order = await create_order(db)
    await db.run(lambda tx: add_member(tx, order.merchant_id, "owner", "owner@example.com"))
    await jobs.find_start(db, NOW)

    async def log_in(number: int, address: str = "192.0.2.1") -> people.Login:
        async def create_data(tx: Tx) -> people.Login:
            person = await people.find_by_email(tx, "owner@example.com")
            await tx.execute("update persons set totp_secret = 'x' where id = $1", person.id)
            browser = Browser(address, "Testfox/1.0")
            new = await people.begin(tx, person, browser, NOW + number)
            logins = await people_queries.LOGINS.all(tx, person_id=person.id)
            return next(login for login in logins if login.id == new.id)

        return await db.run(create_data)

    pending_ends = NOW + people.PENDING_MS
    await log_in(1)
    assert await jobs.queue_login_mails(db, SETTINGS, pending_ends) == 0, "it may be proved yet"
    assert await jobs.queue_login_mails(db, SETTINGS, pending_ends + 1) == 1
    # The device and the address are still unknown to the mails about complete logins.
    proved = await log_in(2)
    await db.run(lambda tx: logins.renew(tx, proved, "token", NOW + 2, strong=True))
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 3) == 1
    # The person gets no mail about a complete login if it was ended before its second factor was
    # proved, only the one about the correct password.
    ended = await log_in(4, "203.0.113.5")
    await db.run(lambda tx: logins.end_by_id(tx, proved, ended.id))
    assert await jobs.queue_login_mails(db, SETTINGS, NOW + 5) == 1
    async with db.connection() as tx:
        contents = [msgspec.json.decode(mail.data) for mail in await read_mails(tx)]
    assert sorted((content["address"], content["pending"]) for content in contents) == [
        ("192.0.2.1", False), ("192.0.2.1", True), ("203.0.113.5", True),
    ]  # fmt: skip
