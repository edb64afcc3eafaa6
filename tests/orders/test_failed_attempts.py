"""A payment that can still be paid, and whose last attempt failed, has a status of its own."""

from pathlib import Path
from typing import Final

import pytest

from opentill import orders
from opentill.db import batches
from opentill.db.database import Tx
from opentill.integrity import rules
from opentill.orders import Order, ShownStatus
from opentill.orders.search import shown_counts
from support import world
from support.world import HOUR, NOW

_MIGRATION: Final = Path(__file__, "../../../migrations/0082_failed_attempts_before.sql").resolve()
_DAY: Final = (NOW - HOUR, NOW + 24 * HOUR)


async def shown(tx: Tx, order: Order) -> ShownStatus:
    """Return the status that pages show, and check that it is the only one that is counted."""
    counts = await shown_counts.count(tx, order.merchant_id, None, _DAY)
    status = (await orders.find(tx, order.merchant_id, order.id)).shown_status
    assert +counts == {status: 1}
    return status


async def attempt(tx: Tx, order: Order, status: str, at: int) -> None:
    await world.report_payment(tx, await world.submit_attempt(tx, order, at), status, at)


async def test_another_attempt_replaces_the_failed_one(tx: Tx) -> None:
    order = await world.create_order(tx)
    assert await shown(tx, order) == "PENDING"
    await attempt(tx, order, "DECLINED", NOW + 1)
    assert await shown(tx, order) == "ATTEMPT_FAILED"
    second = await world.submit_attempt(tx, order, NOW + 2)
    assert await shown(tx, order) == "CREATING"
    await world.report_payment(tx, second, "ACTION_REQUIRED", NOW + 3)
    assert await shown(tx, order) == "PENDING"
    await world.report_payment(tx, second, "DECLINED", NOW + 4)  # the customer did not confirm it
    assert await shown(tx, order) == "ATTEMPT_FAILED"
    await attempt(tx, order, "SUCCEEDED", NOW + 5)
    assert await shown(tx, order) == "PAID"
    assert not (await orders.find(tx, order.merchant_id, order.id)).attempt_failed


async def test_an_older_attempt_that_fails_late_hides_no_newer_one(tx: Tx) -> None:
    order = await world.create_order(tx)
    first = await world.submit_attempt(tx, order, NOW + 1)
    await world.report_payment(tx, first, "ACTION_REQUIRED", NOW + 2)
    await attempt(tx, order, "ACTION_REQUIRED", NOW + 3)
    await world.report_payment(tx, first, "DECLINED", NOW + 4)
    assert await shown(tx, order) == "PENDING"


@pytest.mark.parametrize(("status", "expected"), [("DECLINED", True), ("ACTION_REQUIRED", False)])
async def test_the_migration_finds_attempts_that_failed_before(
    tx: Tx, status: str, expected: bool
) -> None:
    order = await world.create_order(tx)
    await attempt(tx, order, "DECLINED", NOW + 1)
    await attempt(tx, order, status, NOW + 2)
    await tx.execute("update orders set attempt_failed = false")
    await batches.apply(tx, batches.parse_file(_MIGRATION.read_text()) or [], "1s")
    stored = await orders.find(tx, order.merchant_id, order.id)
    assert stored.attempt_failed == expected


async def test_the_counts_agree_with_the_orders(tx: Tx) -> None:
    order = await world.create_order(tx)
    await attempt(tx, order, "DECLINED", NOW + 1)
    assert (await rules.check_books(tx))[1] == []
