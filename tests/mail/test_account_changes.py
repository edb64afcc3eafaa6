"""Changes of an account are mailed to its person, and those of staff to the administrators."""

import msgspec
import pytest

from opentill import mail, people
from opentill.core.ids import new_id
from opentill.db.database import Db, Tx
from opentill.mail import jobs, outbox, rendering
from opentill.mail.model import Mail
from opentill.merchants import Actor
from opentill.people import Login, lost_factors, passkeys, queries, second_factor, totp
from opentill.people.lifetimes import HOUR_MS
from opentill.people.model import digest
from support import world
from support.mailing import mail_settings
from support.people import TESTER, new_address

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
KEY = SETTINGS.secret_key


async def _logged_in_person(tx: Tx, role: people.StaffRole | None = None) -> Login:
    """Create a person, who is staff if ``role`` is given, and log in."""
    person = people.Person(
        id=new_id("per"), email=new_address(), name="Ann", password="$argon2id$x", totp_secret=None,
        totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW, language="en",
    )  # fmt: skip
    await queries.INSERT_PERSON.run(tx, person)
    if role is not None:
        await queries.SET_STAFF.run(tx, person_id=person.id, role=role, now=NOW)
    new_login = await people.begin(tx, person, people.Browser("192.0.2.1", "Testfox/1.0"), NOW)
    login = await queries.LOGIN.first(tx, token_sha256=digest(new_login.token))
    assert login is not None
    return login


async def _queue_mails(db: Db) -> list[Mail]:
    """Queue the mails about audit entries, and return all mails."""
    await jobs.queue_audit_mails(db, SETTINGS, NOW)
    async with db.connection() as tx:
        return await outbox.list_newest(tx, None, None, 100)


def _changes(mails: list[Mail], topic: str, to: str) -> list[str]:
    """Return the changes that mails of a topic report to an address."""
    matching_mails = [row for row in mails if row.topic == topic and row.recipient == to]
    return sorted(msgspec.json.decode(row.data)["change"] for row in matching_mails)


async def _add_and_remove_passkey(tx: Tx, login: Login) -> None:
    passkey = people.model.Passkey(
        id=new_id("pk"), person_id=login.person_id, credential=login.person_id.encode(),
        public_key=b"x", sign_count=0, name="per_00000000000000000000000000", created_at=NOW,
        used_at=None,
    )  # fmt: skip
    await queries.INSERT_PASSKEY.run(tx, passkey)
    await queries.STRENGTHEN.run(tx, id=login.id)
    await passkeys.remove(tx, login, passkey.id, NOW)


async def _add_authenticator(tx: Tx, login: Login, clock: int) -> None:
    await second_factor.begin(tx, login, KEY)
    secret = await second_factor.pending_secret(tx, login, KEY)
    await second_factor.confirm(tx, login, totp.code_at(secret, clock), KEY, NOW)


async def test_changes_of_an_account_are_mailed_to_its_person(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = NOW // 1000 // totp.PERIOD_S
    monkeypatch.setattr(second_factor, "now_ms", lambda: NOW)
    await jobs.find_start(db, NOW)
    ann = await db.run(_logged_in_person)
    shop = (await db.run(world.create_merchant)).id

    async def change(tx: Tx) -> None:
        await queries.SET_MEMBER.run(
            tx, merchant_id=shop, person_id=ann.person_id, role="viewer", now=NOW
        )
        await _add_and_remove_passkey(tx, ann)
        await _add_authenticator(tx, ann, clock)
        await second_factor.renew_codes(tx, ann, NOW)
        await second_factor.remove(tx, ann, NOW)
        await people.change_role(tx, shop, ann.person_id, "support", NOW, actor=TESTER)
        await people.remove(tx, shop, ann.person_id, NOW, actor=TESTER)

    await db.run(change)
    mails = await _queue_mails(db)
    assert _changes(mails, "account_change", ann.email) == [
        "authenticator_off", "authenticator_on", "codes", "passkey_off", "removed", "role",
    ]  # fmt: skip
    assert {row.recipient for row in mails} == {ann.email}, "staff get no mail about members"


async def test_both_addresses_learn_that_one_replaced_the_other(db: Db) -> None:
    await jobs.find_start(db, NOW)
    ann = await db.run(_logged_in_person)
    new = f"new-{ann.email}"
    await db.run(lambda tx: people.change_email(tx, ann.email, new, NOW, actor=TESTER))
    mails = await _queue_mails(db)
    assert {row.recipient for row in mails} == {ann.email, new}
    for address in (ann.email, new):
        assert _changes(mails, "account_change", address) == ["email"]


async def test_changes_of_staff_are_mailed_to_the_other_administrators(db: Db) -> None:
    await jobs.find_start(db, NOW)
    grace, judy, sam = [
        await db.run(lambda tx, role=role: _logged_in_person(tx, role))
        for role in ("admin", "admin", "support")
    ]

    async def change(tx: Tx) -> None:
        await _add_and_remove_passkey(tx, grace)
        await people.change_staff_role(tx, sam.person_id, "auditor", NOW, actor=TESTER)
        await people.remove_staff(tx, sam.person_id, NOW, actor=TESTER)

    await db.run(change)
    mails = await _queue_mails(db)
    assert _changes(mails, "account_change", grace.email) == ["passkey_off"]
    assert _changes(mails, "account_change_staff", grace.email) == ["removed", "role"]
    assert _changes(mails, "account_change_staff", judy.email) == ["passkey_off", "removed", "role"]
    assert _changes(mails, "account_change", sam.email) == ["removed", "role"]
    assert _changes(mails, "account_change_staff", sam.email) == []
    (mail_to_judy,) = [
        row for row in mails if row.recipient == judy.email and b"passkey" in row.data.encode()
    ]
    text = (await rendering.render(db, SETTINGS, mail_to_judy, NOW)).decode()
    assert grace.email in text


async def test_a_reset_of_factors_is_mailed_when_requested_and_when_done(db: Db) -> None:
    await jobs.find_start(db, NOW)
    ann, judy = (
        await db.run(_logged_in_person),
        await db.run(lambda tx: _logged_in_person(tx, "admin")),
    )

    async def begin(tx: Tx) -> None:
        passkey = people.model.Passkey(
            id=new_id("pk"), person_id=ann.person_id, credential=b"c", public_key=b"x",
            sign_count=0, name="Phone", created_at=NOW, used_at=None,
        )  # fmt: skip
        await queries.INSERT_PASSKEY.run(tx, passkey)
        actor = Actor("root (admin)", "lost the phone")
        await lost_factors.request_reset(tx, ann.email, NOW, actor=actor, wait_ms=HOUR_MS)

    await db.run(begin)
    mails = await _queue_mails(db)
    (request_mail,) = [row for row in mails if row.topic == "factors_waiting"]
    assert request_mail.recipient == ann.email
    text = (await rendering.render(db, SETTINGS, request_mail, NOW)).decode().replace("=\r\n", "")
    token = text.partition("/keep-factors/")[2][:43]
    async with db.connection() as tx:
        assert (await lost_factors.read_stop_link(tx, token)).email == ann.email
    assert await lost_factors.end_due(db, NOW + HOUR_MS) == 1
    mails = await _queue_mails(db)
    assert _changes(mails, "account_change", ann.email) == ["factors_ended"]
    assert judy.email not in {row.recipient for row in mails}, "Ann is not staff"
    assert b"/keep-factors/" not in await rendering.render(db, SETTINGS, request_mail, NOW)


def test_a_mail_has_a_sentence_for_every_change_of_an_account() -> None:
    from opentill.mail.account_changes import ACCOUNT_CHANGES
    from opentill.mail.people_templates import ACCOUNT_CHANGE

    names: set[str] = set()
    for change in ACCOUNT_CHANGES.values():
        names.update([change] if isinstance(change, str) else change.values())
    assert names <= set(ACCOUNT_CHANGE)
    assert "factors_waiting" in {topic.name for topic in mail.TOPICS}
