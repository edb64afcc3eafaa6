"""Payments and members whose events become mails, and the mails that were queued."""

from opentill import orders, people
from opentill.core.money import Money
from opentill.db.database import Db, Tx
from opentill.mail import jobs, outbox
from opentill.mail.model import Mail
from opentill.orders import Order, Payer
from opentill.people import Browser
from opentill.people import queries as people_queries
from opentill.people.model import digest
from support import world
from support.mailing import mail_settings
from support.people import TESTER

NOW = world.NOW
SETTINGS = mail_settings("smtp://mail.test")
HOUR_MS = 3_600_000


async def read_mails(tx: Tx) -> list[Mail]:
    """Return the queued mails, newest first."""
    return await outbox.list_newest(tx, None, None, 100)


async def queue_mails(db: Db, now: int = NOW) -> int:
    """Queue the mails about events; return their number."""
    return await jobs.queue_event_mails(db, SETTINGS, now)


async def create_order(db: Db) -> Order:
    """Create an order that nobody has paid."""
    return await db.run(world.create_order)


async def pay(tx: Tx, order: Order, locale: str = "en", now: int = NOW) -> Order:
    """Pay an order by card, as a customer with this language."""
    locked = await orders.lock(tx, order.merchant_id, order.id)
    payer = Payer(email="ann@example.com", name="Ann", ip="192.0.2.7", locale=locale)
    attempt = await orders.start_attempt(tx, locked, "sandbox", "CREDIT_CARD", payer, now)
    await world.report_payment(
        tx, attempt, "SUCCEEDED", now, amount=Money(order.amount_minor, order.currency)
    )
    return await orders.find(tx, order.merchant_id, order.id)


async def add_member(tx: Tx, merchant_id: str, role: people.MerchantRole, email: str) -> None:
    """Create a person who has accepted an invitation with this role."""
    invitation = await people.invite(
        tx, email, NOW, merchant_id=merchant_id, role=role, actor=TESTER
    )
    person = people.Person(
        id=f"per_{email.partition('@')[0]:0>26}", email=email, name=role, password="$argon2id$x",
        totp_secret=None, totp_pending=None, totp_period=0, created_at=NOW, updated_at=NOW,
        confirmed=True,
    )  # fmt: skip
    await people_queries.INSERT_PERSON.run(tx, person)
    login = await people.begin(tx, person, Browser("192.0.2.1", "Testfox/1.0"), NOW)
    login_row = await people_queries.LOGIN.first(tx, token_sha256=digest(login.token))
    assert login_row is not None
    await people.accept(tx, invitation.token, login_row, NOW)
