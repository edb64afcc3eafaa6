"""Staff change a merchant's status and capabilities by the table, with a reason."""

import asyncio
from typing import Any, Final, get_args

import asyncpg
import msgspec
import pytest

from opentill import checkouts, merchants, payouts, refunds
from opentill.checkouts import Session, SessionBody
from opentill.core.errors import Contended, Invalid, NotFound, TooManyRequests
from opentill.db.database import Db, Tx
from opentill.merchants import (
    Actor,
    ApplicationForm,
    CapabilityOff,
    Merchant,
    applications,
    queries,
)
from opentill.merchants.model import (
    CAPABILITIES,
    DISABLED_CAPABILITIES,
    STATUSES,
    TRANSITIONS,
    StatusEvent,
)
from opentill.payouts import PayoutRequest
from opentill.refunds import RefundBody
from support import world
from support.world import NOW

ANN: Final = Actor("ann", "too many disputes")
FORM: Final = ApplicationForm(
    merchant="Harbour Books", currency="EUR", name="Ada", email="Ada@Example.com",
    website="https://harbour.example", business="Second-hand books\nand maps",
)  # fmt: skip


async def create_merchant_in(tx: Tx, status: str) -> Merchant:
    if status == "APPLIED":
        return await merchants.find(tx, await merchants.apply(tx, FORM, NOW, actor=ANN))
    merchant = await world.create_merchant(tx)
    events = {"ACTIVE": (), "SUSPENDED": ("suspended",), "CLOSED": ("suspended", "closed")}
    for event in events[status]:
        merchant = await merchants.change_status(tx, merchant.id, event, ANN, NOW)  # type: ignore[arg-type]
    return merchant


@pytest.mark.parametrize("status", STATUSES)
async def test_only_the_transitions_of_the_table_are_allowed(tx: Tx, status: str) -> None:
    allowed = {row.event: row.target for row in TRANSITIONS if row.source == status}
    for event in get_args(StatusEvent):
        merchant = await create_merchant_in(tx, status)
        if event in allowed:
            changed_merchant = await merchants.change_status(tx, merchant.id, event, ANN, NOW + 1)
            assert changed_merchant == await merchants.find(tx, merchant.id)
            assert changed_merchant.status == allowed[event]
            capabilities_off = {row for row in CAPABILITIES if changed_merchant.off(row)}
            assert capabilities_off == set(DISABLED_CAPABILITIES[changed_merchant.status])
            assert {changed_merchant.off(row) for row in capabilities_off} <= {ANN.reason}
        else:
            with pytest.raises(Invalid, match=r"merchant must be .*: this one is"):
                await merchants.change_status(tx, merchant.id, event, ANN, NOW + 1)
            assert (await merchants.find(tx, merchant.id)).status == status


async def test_capabilities_are_read_by_index_from_a_long_history(tx: Tx) -> None:
    merchant = await world.create_merchant(tx)
    await merchants.set_capability(tx, merchant.id, "charge", on=False, actor=ANN, now=NOW)
    await tx.execute(
        """
        insert into merchant_history (merchant_id, number, at, event, from_status, to_status,
            who, reason, notes)
        select $1, number, $2, 'noted', 'ACTIVE', 'ACTIVE', 'ann', '', 'called'
        from generate_series(100, 2500) as one (number)
        """,
        merchant.id,
        NOW,
    )
    assert await merchants.switched_off(tx, merchant.id) == {"charge": ANN.reason}
    await tx.execute("analyze merchant_history")
    arguments = {"merchant_id": merchant.id, "capability": CAPABILITIES}
    plan = await tx.fetch(
        f"explain {queries.STANDING.sql}", *queries.STANDING.values(None, arguments)
    )
    assert any("merchant_history_by_capability" in row[0] for row in plan)


async def test_a_capability_switched_off_stays_off_after_a_suspension(tx: Tx) -> None:
    merchant = await world.create_merchant(tx)

    async def switch(capability: Any, *, on: bool, reason: str) -> Merchant:
        return await merchants.set_capability(
            tx, merchant.id, capability, on=on, actor=Actor("ben", reason), now=NOW
        )

    await switch("payout", on=False, reason="bank details missing")
    await merchants.change_status(tx, merchant.id, "suspended", ANN, NOW)
    suspended = await switch("refund", on=False, reason="under review")
    assert (suspended.charge_off, suspended.refund_off, suspended.payout_off) == (
        ANN.reason, "under review", ANN.reason,
    )  # fmt: skip
    with pytest.raises(Invalid, match="resume the merchant"):
        await switch("charge", on=True, reason="done")
    resumed = await merchants.change_status(
        tx, merchant.id, "resumed", Actor("ann", "explained"), NOW
    )
    assert (resumed.charge_off, resumed.refund_off, resumed.payout_off) == (
        None, "under review", "bank details missing",
    )  # fmt: skip
    assert (await switch("payout", on=False, reason="wrong bank")).payout_off == "wrong bank"
    assert (await switch("payout", on=True, reason="done")).payout_off is None
    with pytest.raises(Invalid, match="it is on"):
        await switch("payout", on=True, reason="done")


async def test_the_history_has_author_and_reason_of_each_change_and_is_immutable(tx: Tx) -> None:
    merchant = await world.create_merchant(tx)
    await merchants.change_status(
        tx, merchant.id, "suspended", ANN, NOW + 1, notes="call from the bank\n7 Nov"
    )
    await merchants.add_note(tx, merchant.id, "asked for invoices", Actor("ben", "x"), NOW + 2)
    lines = await merchants.status_history(tx, merchant.id)
    assert [(line.number, line.event, line.who, line.reason, line.notes) for line in lines] == [
        (3, "noted", "ben", "", "asked for invoices"),
        (2, "suspended", "ann", "too many disputes", "call from the bank\n7 Nov"),
        (1, "created", "opentill", "merchant created", ""),
    ]
    rows = await merchants.audit_log(tx, merchant.id)
    assert [row.action for row in rows[:2]] == ["merchants note", "merchants suspend"]
    assert rows[1].subject == "ACTIVE → SUSPENDED, off: charge, payout"
    for statement in ("update merchant_history set reason = ''", "delete from merchant_history"):
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            async with tx.transaction():
                await tx.execute(statement)
    with pytest.raises(asyncpg.CheckViolationError, match="merchants_status_takes_capabilities"):
        async with tx.transaction():
            await tx.execute("update merchants set charge_off = null where id = $1", merchant.id)


@pytest.mark.parametrize(
    ("actor", "notes", "field"),
    [
        (Actor("ann", " "), "", "reason"),
        (Actor("ann", "x" * 501), "", "reason"),
        (Actor("ann", "a\u202eb"), "", "reason"),
        (Actor("", "why"), "", "by"),
        (ANN, "x" * 2001, "notes"),
        (ANN, "a\x00b", "notes"),
    ],
)
async def test_reasons_and_notes_are_checked(tx: Tx, actor: Actor, notes: str, field: str) -> None:
    merchant = await world.create_merchant(tx)
    with pytest.raises(Invalid) as refused:
        await merchants.change_status(tx, merchant.id, "suspended", actor, NOW, notes=notes)
    assert refused.value.field == field
    with pytest.raises(NotFound):
        await merchants.change_status(tx, "mer_0", "suspended", ANN, NOW)


async def test_an_operation_whose_capability_is_off_is_refused(tx: Tx) -> None:
    order = await world.pay_order(tx, await world.create_order(tx))
    shop = order.merchant_id
    for capability in CAPABILITIES:
        await merchants.set_capability(tx, shop, capability, on=False, actor=ANN, now=NOW)
    body = RefundBody()
    payout_request = PayoutRequest(amount_minor=1, reference="W-1", reason="weekly", by="ann")
    for operation in (
        lambda: checkouts.open_session(tx, shop, SessionBody(product_id=order.product_id), NOW),
        lambda: refunds.create(tx, shop, order.id, body, NOW),
        lambda: payouts.create(tx, shop, payout_request, None, NOW),
    ):
        with pytest.raises(CapabilityOff, match=ANN.reason):
            await operation()
    forced = await refunds.create(tx, shop, order.id, body, NOW, forced=True)
    assert forced.status == "PROCESSING"
    due = [payout for payout in await payouts.list_due(tx, 100) if payout.merchant_id == shop]
    assert {payout.waits_for(NOW) for payout in due} <= {"payouts off"}


# ── concurrent requests ──


async def test_a_session_opens_before_a_concurrent_suspension_or_is_refused(db: Db) -> None:
    merchant = await db.run(world.create_merchant)
    mug = await db.run(lambda tx: world.create_product(tx, merchant.id))

    async def open_session(tx: Tx) -> Session:
        return await checkouts.open_session(tx, merchant.id, SessionBody(product_id=mug.id), NOW)

    async def suspend(tx: Tx) -> Merchant:
        return await merchants.change_status(tx, merchant.id, "suspended", ANN, NOW)

    # While a transaction opens a session, the suspension waits.
    async with db.connection() as tx:
        async with tx.transaction():
            await open_session(tx)
            suspension = asyncio.create_task(db.run(suspend))
            assert not (await asyncio.wait([suspension], timeout=0.3))[0]
        assert (await suspension).status == "SUSPENDED"
    await db.run(lambda tx: merchants.change_status(tx, merchant.id, "resumed", ANN, NOW))
    # A session that read the merchant before the commit of a suspension is refused.
    async with db.connection() as tx:
        async with tx.transaction():
            await suspend(tx)
            opening = asyncio.create_task(db.run(open_session))
            assert not (await asyncio.wait([opening], timeout=0.3))[0]
        with pytest.raises((CapabilityOff, Contended)):
            await opening
    async with db.connection() as tx:
        count = "select count(*) from checkouts where merchant_id = $1"
        assert await tx.fetchval(count, merchant.id) == 1


async def test_no_session_opens_after_the_commit_of_a_suspension(db: Db, database_url: str) -> None:
    merchant = await db.run(world.create_merchant)
    mug = await db.run(lambda tx: world.create_product(tx, merchant.id))
    pool = await Db.connect(database_url, 8, acquire_timeout_s=20)
    opened_count, is_over = 0, False

    async def open_sessions() -> None:
        nonlocal opened_count
        body = SessionBody(product_id=mug.id)
        while not is_over:
            try:
                await pool.autocommit(lambda tx: checkouts.open_session(tx, merchant.id, body, NOW))
            except CapabilityOff:
                return
            opened_count += 1

    count = "select count(*) from checkouts where merchant_id = $1"
    try:
        clients = [asyncio.create_task(open_sessions()) for _ in range(8)]
        async with asyncio.timeout(60):
            while not opened_count:
                await asyncio.sleep(0.01)
        await db.run(lambda tx: merchants.change_status(tx, merchant.id, "suspended", ANN, NOW))
        async with db.connection() as tx:
            count_after_suspension = await tx.fetchval(count, merchant.id)
        await asyncio.wait_for(asyncio.gather(*clients), 20)
    finally:
        is_over = True
        await pool.close()
    assert count_after_suspension == opened_count > 0
    async with db.connection() as tx:
        assert await tx.fetchval(count, merchant.id) == count_after_suspension


# ── applications ──


async def test_an_applicant_cannot_take_payments(tx: Tx) -> None:
    merchant_id = await merchants.apply(tx, FORM, NOW, address="192.0.2.1")
    merchant = await merchants.find(tx, merchant_id)
    assert (merchant.status, merchant.charge_off) == ("APPLIED", applications.UNDECIDED)
    (application,) = [
        row for row in await merchants.waiting_applications(tx) if row.merchant_id == merchant_id
    ]
    assert (application.email, application.merchant_name, application.settlement_currency) == (
        "ada@example.com", "Harbour Books", "EUR",
    )  # fmt: skip
    (line,) = await merchants.status_history(tx, merchant_id)
    assert (line.event, line.who, line.to_status) == ("applied", "ada@example.com", "APPLIED")


async def test_an_address_has_at_most_one_pending_application(
    tx: Tx, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id = await merchants.apply(tx, FORM, NOW)
    assert await merchants.apply(tx, FORM, NOW + 1) == merchant_id
    await merchants.change_status(tx, merchant_id, "declined", ANN, NOW + 2)
    assert await merchants.apply(tx, FORM, NOW + 3) != merchant_id
    monkeypatch.setattr(applications, "MOST_WAITING", await merchants.count_waiting(tx))
    with pytest.raises(TooManyRequests):
        await merchants.apply(tx, changed(FORM, email="b@example.com"), NOW)


async def test_one_network_cannot_fill_the_list_of_applications(
    tx: Tx, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def apply(name: str, address: str, now: int) -> str | int:
        """Apply from an address; return the merchant's id, or the seconds to wait."""
        form = changed(FORM, email=f"{name}@example.com")
        try:
            async with tx.transaction():
                return await merchants.apply(tx, form, now, address=address)
        except TooManyRequests as refused:
            return refused.retry_after_s

    day = 24 * 3_600_000
    # All addresses are in one /64 network.
    addresses = [f"2001:db8::{number}" for number in range(applications.MAX_PER_DAY)]
    for number, address in enumerate(addresses):
        assert isinstance(await apply(f"a{number}", address, NOW + number * 1000), str)
    assert await apply("more", addresses[0], NOW + 5000) == day // 1000 - 5
    assert isinstance(await apply("more", addresses[0], NOW + day), str)
    # If the list is full, only networks without a pending application may apply.
    monkeypatch.setattr(applications, "MOST_WAITING", await merchants.count_waiting(tx))
    assert await apply("again", addresses[0], NOW + 3 * day) == 3600
    merchant_id = await apply("late", "192.0.2.7", NOW + 3 * day)
    assert isinstance(merchant_id, str)
    assert await apply("later", "192.0.2.7", NOW + 3 * day) == 3600
    await merchants.change_status(tx, merchant_id, "declined", ANN, NOW + 3 * day)
    assert isinstance(await apply("later", "192.0.2.7", NOW + 3 * day), str)
    monkeypatch.setattr(applications, "MAX_PENDING", await merchants.count_waiting(tx))
    assert await apply("last", "192.0.2.8", NOW + 3 * day) == 3600


async def test_concurrent_applications_are_counted_exactly(db: Db) -> None:
    async def apply(number: int) -> str | None:
        # Nine email addresses apply, each twice.
        form = changed(FORM, email=f"{number % 9}@example.com")
        try:
            return await db.run(lambda tx: merchants.apply(tx, form, NOW, address="192.0.2.1"))
        except TooManyRequests:
            return None

    merchant_ids = set(await asyncio.gather(*map(apply, range(18)))) - {None}
    assert len(merchant_ids) == applications.MAX_PER_DAY
    async with db.connection() as tx:
        assert await merchants.count_waiting(tx) == applications.MAX_PER_DAY


def changed(form: ApplicationForm, **changes: str) -> ApplicationForm:
    return msgspec.structs.replace(form, **changes)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("merchant", ""),
        ("merchant", "x" * 201),
        ("merchant", "a\u202eb"),
        ("merchant", "a\nb"),
        ("currency", "XXX"),
        ("currency", "usd"),
        ("name", "\x00"),
        ("email", "ada"),
        ("email", "a@b.example\r\nBcc: c@d.example"),
        ("website", "javascript:alert(1)"),
        ("website", "https://a:b@c.example"),
        ("website", "https://c.example/{CHECKOUT_SESSION_ID}"),
        ("business", " \n "),
        ("business", "x" * 2001),
    ],
)
def test_the_application_form_is_validated(field: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        merchants.check_application(changed(FORM, **{field: text}))
    assert refused.value.field == field
