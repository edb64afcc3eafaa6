"""Links for a new password and invitations are mailed on request, up to a limit."""

import re
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

import pytest

from opentill import mail, people
from opentill.core.ids import new_id
from opentill.core.languages import Language
from opentill.db import rate_limits
from opentill.db.database import Db, Tx
from opentill.mail import outbox, rendering
from opentill.mail.model import HOUR_MS, INVITATIONS_PER_DAY, Mail
from opentill.merchants import Actor
from opentill.people import queries
from opentill.people.lifetimes import LINK_MS
from opentill.web.translations import translate
from support import world
from support.mailing import mail_settings
from support.people import TESTER, new_address

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
MINUTE_MS = 60_000


async def _create_person(tx: Tx) -> str:
    person = people.Person(
        id=new_id("per"), email=new_address(), name="Ann", password="$argon2id$x", totp_secret=None,
        totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    await queries.INSERT_PERSON.run(tx, person)
    return person.email


async def _request_password(db: Db, email: str, now: int = NOW) -> None:
    await db.run(lambda tx: mail.request_new_password(tx, SETTINGS, email, "en", now))


async def _mails(db: Db, email: str) -> list[Mail]:
    async with db.connection() as tx:
        mails = await outbox.list_newest(tx, None, None, 100)
    return [row for row in mails if row.recipient == email]


async def test_requesting_a_password_link_does_not_replace_a_link_created_by_staff(db: Db) -> None:
    email = await db.run(_create_person)
    staff_link = await db.run(lambda tx: people.offer_new_password(tx, email, NOW, actor=TESTER))
    await _request_password(db, email)
    (requested_mail,) = await _mails(db, email)
    text = (await rendering.render(db, SETTINGS, requested_mail, NOW + 1)).decode()
    assert "Our team has already created a link for" in text
    assert "/reset/" not in text
    async with db.connection() as tx:
        link, _ = await people.read_link(tx, staff_link.token, NOW + 1)
        assert link.created_by == TESTER.who
    for age_ms in (LINK_MS, LINK_MS + 1):  # the link created by staff has expired
        assert b"/reset/" in await rendering.render(db, SETTINGS, requested_mail, NOW + age_ms)


async def test_an_address_gets_at_most_one_password_link_in_twelve_minutes(db: Db) -> None:
    """A stranger's requests cannot lock the account's owner out for long."""
    account_email, unknown_email = await db.run(_create_person), new_address()
    start = NOW // HOUR_MS * HOUR_MS
    for minute in range(60):
        for email in (account_email, account_email, unknown_email):
            await _request_password(db, email, start + minute * MINUTE_MS)
    assert [len(await _mails(db, email)) for email in (account_email, unknown_email)] == [5, 5]
    await _request_password(db, account_email, start + 60 * MINUTE_MS)
    await _request_password(db, account_email, start + 65 * MINUTE_MS)
    assert len(await _mails(db, account_email)) == 6


async def _create_merchant_and_actor(db: Db) -> tuple[str, Actor]:
    async def create(tx: Tx) -> tuple[str, Actor]:
        merchant = await world.create_merchant(tx)
        return merchant.id, Actor(people.named(new_address(), new_id("per")), "for a test")

    return await db.run(create)


async def _invite(
    db: Db, merchant_id: str | None, actor: Actor, email: str, now: int = NOW, **variables: Any
) -> bool:
    """Invite an address to a merchant, or to the staff; return whether a mail is queued."""
    role: dict[str, Any] = {"merchant_id": merchant_id, "role": "viewer"}
    if merchant_id is None:
        role = {"staff_role": "auditor"}
    invitation = mail.NewInvitation(email=email, by="Eve", language="en", **role, **variables)
    _, mailed = await db.run(lambda tx: mail.invite(tx, SETTINGS, invitation, actor, now))
    return mailed


async def test_one_inviters_mails_do_not_block_invitations_from_others(db: Db) -> None:
    victim = await db.run(_create_person)
    for number in range(3):
        merchant_id, eve = await _create_merchant_and_actor(db)
        for _ in range(10):
            await _invite(db, merchant_id, eve, victim, NOW + number)
        with pytest.raises(mail.TooManyMails):
            await _invite(db, merchant_id, eve, victim, NOW + number)
    merchant_id, ada = await _create_merchant_and_actor(db)
    assert await _invite(db, merchant_id, ada, victim, NOW + 9)
    assert await _invite(db, None, ada, victim, NOW + 9)
    await _request_password(db, victim, NOW + 9)
    assert [row.topic for row in await _mails(db, victim)].count("reset") == 1


async def test_the_invitations_of_a_person_in_a_day_are_limited(db: Db) -> None:
    merchant_id, eve = await _create_merchant_and_actor(db)
    other_merchant_id, mallory = await _create_merchant_and_actor(db)
    for number in range(INVITATIONS_PER_DAY):
        await _invite(db, merchant_id, eve, new_address(), NOW + number)
    for inviting_merchant in (merchant_id, other_merchant_id, None):
        with pytest.raises(mail.TooManyInvitations) as refused:
            await _invite(db, inviting_merchant, eve, new_address(), NOW + 99)
        assert "a person may invite 50 times in 24 hours, and a merchant 200 times" in str(
            refused.value.reason
        )
        assert 0 < refused.value.retry_after_s <= refused.value.window_s == 24 * 3600
    assert await _invite(db, merchant_id, mallory, new_address(), NOW + 99)
    assert await _invite(db, other_merchant_id, mallory, new_address(), NOW + 99)
    # The limit does not apply to TESTER, who is not a person.
    assert await _invite(db, merchant_id, TESTER, new_address(), NOW + 99)
    assert await _invite(db, merchant_id, eve, new_address(), NOW + 99, has_applied=True)
    async with db.connection() as tx:
        await rate_limits.prune(tx, NOW + 23 * HOUR_MS)
    with pytest.raises(mail.TooManyInvitations):
        await _invite(db, merchant_id, eve, new_address(), NOW + 23 * HOUR_MS)
    assert await _invite(db, merchant_id, eve, new_address(), NOW + 24 * HOUR_MS + 99)


async def test_the_invitations_of_a_merchant_in_a_day_are_limited(
    db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "INVITATIONS_OF_MERCHANT_PER_DAY", 3)
    merchant_id, _ = await _create_merchant_and_actor(db)
    for number in range(3):
        _, member = await _create_merchant_and_actor(db)
        await _invite(db, merchant_id, member, new_address(), NOW + number)
    other_merchant_id, last_member = await _create_merchant_and_actor(db)
    with pytest.raises(mail.TooManyInvitations):
        await _invite(db, merchant_id, last_member, new_address(), NOW + 9)
    assert await _invite(db, other_merchant_id, last_member, new_address(), NOW + 9)


@pytest.mark.parametrize("language", ["en", "zh-Hans", "zh-Hant"])
async def test_the_subject_of_an_invitation_contains_no_text_of_the_inviter(
    db: Db, language: Language
) -> None:
    lure = "Your account is locked, call +1 900 555"

    merchant_id = (await db.run(lambda tx: world.create_merchant(tx, name=lure))).id
    invited_email = new_address()
    invitation = mail.NewInvitation(
        email=invited_email, by=lure, language=language, merchant_id=merchant_id, role="viewer"
    )
    await db.run(lambda tx: mail.invite(tx, SETTINGS, invitation, TESTER, NOW))
    (invitation_mail,) = await _mails(db, invited_email)
    parsed = message_from_bytes(
        await rendering.render(db, SETTINGS, invitation_mail, NOW), policy=policy.SMTP
    )
    assert isinstance(parsed, EmailMessage)
    assert parsed["subject"] == translate(
        "merchant", language, "You have been invited to a team on OpenTill"
    )
    assert "900" not in str(parsed["from"])
    for kind in ("plain", "html"):
        part = parsed.get_body((kind,))
        assert part is not None
        text = re.sub(r"<[^>]+>", " ", part.get_content())
        lines = [line for line in re.sub(r"[ \t]+", " ", text).splitlines() if lure in line]
        label = translate("merchant", language, "Merchant")
        inviter = translate("merchant", language, "Invited by")
        assert len(lines) == 2, text
        assert label in lines[0]
        assert inviter in lines[1]
