"""Responses, files and events say whether an order's money is real."""

import csv
import json

import pytest

from opentill import orders
from opentill.core.money import Money
from opentill.db.database import Tx
from opentill.gateways import GatewayPaymentEvent, PaymentOutcome
from opentill.orders import OrderDetail, OrderOut, export_columns
from opentill.orders.export import queries as export_queries
from opentill.orders.model import Order
from support import world
from support.export_lines import export_line

# Each row: way of payment ("": unpaid; +: in a batch), the deployment's present livemode, the
# expected livemode.
PAID = [
    ("", True, True),
    ("", False, False),
    ("sandbox", True, False),
    ("sandbox", False, False),
    ("sandbox+", True, False),
    ("stripe", True, True),
    ("stripe", False, True),  # the deployment became a test deployment after the payment
    ("stripe+", False, True),
    ("manual", True, True),
    ("manual", False, False),
    ("manual, test", False, False),
    ("manual, live", False, True),  # the deployment became a test deployment after the confirmation
]


async def create_order(tx: Tx, payment: str) -> Order:
    """Create an order that was paid in one of the ways of ``PAID``."""
    order = await world.create_order(tx)
    key = (order.merchant_id, order.id)
    if payment.startswith("manual"):
        live = {"manual": None, "manual, test": False, "manual, live": True}[payment]
        await orders.confirm_manually(tx, *key, "ann", "seen", world.NOW, livemode=live)
    elif payment:
        attempt = await world.submit_attempt(tx, order, gateway=payment.rstrip("+"))
        amount = Money(order.amount_minor, order.currency)
        if payment.endswith("+"):
            outcome = PaymentOutcome(status="SUCCEEDED", amount=amount)
            gateway_event = GatewayPaymentEvent(attempt_id=attempt.id, outcome=outcome)
            report = orders.Report(attempt.gateway, gateway_event)
            assert await orders.confirm_many(tx, [report], world.NOW) == {report.key}
        else:
            await world.report_payment(tx, attempt, "SUCCEEDED", amount=amount)
    return await orders.find(tx, *key)


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize(("payment", "deployment", "expected"), PAID)
async def test_responses_and_files_say_whether_money_is_real(
    tx: Tx, payment: str, deployment: bool, expected: bool, is_stored: bool
) -> None:
    """This includes orders that were paid before the column ``livemode`` existed."""
    order = await create_order(tx, payment)
    if not is_stored:
        # Without the stored value, only the deployment's mode is known.
        if payment.startswith("manual"):
            expected = deployment
        await tx.execute("update orders set livemode = null where id = $1", order.id)
        order = await orders.find(tx, order.merchant_id, order.id)
        assert order.livemode is None
    order_with_livemode = await orders.with_livemode(tx, order, deployment=deployment)
    assert OrderDetail.from_order(order_with_livemode).livemode is expected
    assert OrderOut.from_order(order_with_livemode).livemode is expected
    exported = await export_queries.EXPORT.get(
        tx, merchant_id=order.merchant_id, after_at=0, after_id="", until_at=2**62, until_id="",
        livemode=deployment,
    )  # fmt: skip
    assert exported == export_line(order_with_livemode)
    (cells,) = csv.reader([(exported or b"").decode()])
    names = [column.name for column in export_columns.COLUMNS]
    assert cells[names.index("livemode")] == ("true" if expected else "false")


async def _events(tx: Tx, order: Order, after: str = "") -> dict[str, object]:
    rows = await tx.fetch(
        "select type, body from events where merchant_id = $1 and id > $2", order.merchant_id, after
    )
    return {row["type"]: json.loads(row["body"])["data"].get("livemode") for row in rows}


@pytest.mark.parametrize(
    ("payment", "is_stored", "live"),
    [
        ("sandbox", True, False),
        ("sandbox", False, False),
        ("sandbox+", True, False),
        ("sandbox+", False, False),
        ("stripe", True, True),
        ("stripe", False, True),
        ("stripe+", True, True),
        ("stripe+", False, True),
        ("manual, test", True, False),
        ("manual, live", True, True),
    ],
)
async def test_events_of_paid_orders_say_whether_money_is_real(
    tx: Tx, payment: str, is_stored: bool, live: bool
) -> None:
    """This includes orders that were paid before the column ``livemode`` existed."""
    order = await create_order(tx, payment)
    after = ""
    if not is_stored:  # the payment's own events lack the field, so they are skipped
        await tx.execute("update orders set livemode = null where id = $1", order.id)
        after = await tx.fetchval("select max(id) from events")
    await world.report_refund(tx, await world.create_refund(tx, order, "1.00"), "SUCCEEDED")
    await world.report_refund(tx, await world.create_refund(tx, order, "1.00"), "REFUSED")
    settled = await world.settle_order(tx, order)
    await world.report_dispute(tx, settled, "OPENED")
    confirmed = ("order.paid", "checkout.completed") if is_stored else ()
    assert await _events(tx, order, after) == dict.fromkeys(
        (*confirmed, "order.refunded", "refund.failed", "order.settled", "dispute.created"), live
    )


async def test_events_of_unpaid_orders_have_no_livemode(tx: Tx) -> None:
    order = await world.create_order_in(tx, "CLOSED")
    assert await _events(tx, order) == {"order.closed": None, "checkout.expired": None}
