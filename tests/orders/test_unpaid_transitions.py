"""The statement for transitions to CREATING and PENDING writes all that they require."""

import msgspec

from opentill import orders
from opentill.db.database import Tx
from opentill.orders import transition_queries
from opentill.orders.model import TRANSITIONS, Order
from support.world import NOW, create_order


def test_the_transitions_to_creating_and_pending_have_no_postings_and_no_events() -> None:
    rows = [row for row in TRANSITIONS if row.target in ("CREATING", "PENDING")]
    assert {row.event for row in rows} == {"submitted", "accepted", "declined"}
    assert not [row for row in rows if row.session or row.postings or row.emits]


async def test_a_submitted_payment_writes_only_the_columns_of_the_payer(tx: Tx) -> None:
    order = await create_order(tx)
    payer = orders.Payer(email="eve@example.com", name="Eve", ip="203.0.113.9", locale="en")
    await orders.start_attempt(tx, order, "sandbox", "ALIPAY", payer, NOW + 5)
    after = await orders.find(tx, order.merchant_id, order.id)
    assert _changed_fields(order, after) == {
        "status", "history_number", "updated_at", *transition_queries.OF_UNPAID
    }  # fmt: skip
    assert (after.customer_email, after.customer_name, after.payer_ip) == (
        "eve@example.com",
        "Eve",
        "203.0.113.9",
    )


def _changed_fields(before: Order, after: Order) -> set[str]:
    names = msgspec.structs.fields(Order)
    return {
        field.name for field in names if getattr(before, field.name) != getattr(after, field.name)
    }
