"""New passwords that anybody may ask for, for any address."""

from opentill import mail, people
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.mail import letters, outbox
from opentill.mail.catalogue import SENTENCES
from opentill.mail.model import Mail
from opentill.people import queries
from opentill.people.model import LINK_MS
from support import world
from support.mailing import settings_of
from support.people import TESTER, address

NOW = world.NOW
SETTINGS = settings_of("smtp://mail.test")
MINUTE_MS = 60_000


async def _person(tx: Tx) -> str:
    person = people.Person(
        id=new_id("per"), email=address(), name="Ann", password="$argon2id$x", totp_secret=None,
        totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    await queries.INSERT_PERSON.run(tx, person)
    return person.email


async def _ask(db: Db, email: str, now: int = NOW) -> None:
    await db.run(lambda tx: mail.ask_for_new_password(tx, SETTINGS, email, "en", now))


async def _mails(db: Db, email: str) -> list[Mail]:
    async with db.connection() as tx:
        found = await outbox.newest(tx, None, None, 100)
    return [one for one in found if one.recipient == email]


async def test_a_link_that_was_made_by_hand_works_whoever_asks_for_another(db: Db) -> None:
    email = await db.run(_person)
    by_hand = await db.run(lambda tx: people.offer_new_password(tx, email, NOW, actor=TESTER))
    await _ask(db, email)
    (asked,) = await _mails(db, email)
    told = (await letters.write(db, SETTINGS, asked, NOW + 1)).decode()
    assert SENTENCES["en"]["reset_offered"][:40] in told
    assert "/reset/" not in told
    async with db.connection() as tx:
        link, _ = await people.read_link(tx, by_hand.token, NOW + 1)
        assert link.created_by == TESTER.who
    for late in (LINK_MS, LINK_MS + 1):  # over; and then, of those that were asked for, the newest
        assert b"/reset/" in await letters.write(db, SETTINGS, asked, NOW + late)


async def test_an_address_gets_half_of_its_messages_at_most_from_anybody(db: Db) -> None:
    known, unknown = await db.run(_person), address()
    for wait in range(0, 60, 5):
        for email in (known, known, unknown):
            await _ask(db, email, NOW + wait * MINUTE_MS)
    assert [len(await _mails(db, email)) for email in (known, unknown)] == [5, 5]
    later = NOW + 59 * MINUTE_MS
    await db.run(lambda tx: outbox.count_asked(tx, known, later))  # persons may send it more
    await _ask(db, known, NOW + 60 * MINUTE_MS)
    await _ask(db, known, NOW + 65 * MINUTE_MS)
    assert len(await _mails(db, known)) == 6
