"""A retired account of each adapter: a late payment, its refund, and its report."""

import io
from typing import Final

import pytest

from gateways import adapter_stories as stories
from gateways.adapter_stories import Sites, sites
from gateways.conforming_providers import StripeProvider
from opentill import orders, reconciliation, refunds
from opentill.core.errors import Invalid
from opentill.db.database import Db
from opentill.gateways import Gateway, Gateways
from opentill.gateways.conformance import Provider
from opentill.gateways.model import Bills, Reports
from opentill.orders import Order
from opentill.reconciliation import Report, Result
from opentill.refunds import jobs as refund_jobs
from support import world
from support.past_bills import bounds, move_to_past, yesterday
from support.people import TESTER
from support.transactions import db
from support.world import HOUR

__all__ = ["db", "sites"]
ACCOUNT: Final = "ga_of_a_retired_account"


@pytest.mark.parametrize("name", stories.NAMES)
async def test_a_retired_account_is_paid_late_refunds_and_agrees_with_its_report(
    db: Db, sites: Sites, name: str
) -> None:
    provider = sites.get(name)
    adapter = provider.make_gateway(provider.url)
    gateways = Gateways({}, {}, {}, livemode=False)
    stories.add_account(gateways, ACCOUNT, provider, adapter)
    currency = provider.amount.currency
    order = await stories.create_order(db, currency)
    other_order = await stories.create_order(db, currency)
    attempt = await stories.pay(db, gateways, order, provider)
    assert attempt is not None
    assert attempt.status == "ACTION_REQUIRED", attempt
    stories.add_account(gateways, ACCOUNT, provider, adapter, status="RETIRED")
    with pytest.raises(Invalid, match="method"):
        await stories.pay(db, gateways, other_order, provider)

    await stories.approve(provider, attempt)
    await stories.deliver_callbacks(db, gateways, ACCOUNT, provider, attempt.id)
    if name == "paypal":  # the callback reports the approval, and the query captures
        await stories.query(db, gateways, provider)
    order = await read(db, order)
    assert (order.status, order.paid_attempt_id) == ("PAID", attempt.id)
    assert provider.taken(attempt.id)

    refund_id = await refund(db, gateways, provider, order)
    result = await reconcile(db, provider, adapter, attempt.id, refund_id)
    ours = {attempt.id, refund_id}
    assert not [row for row in result.differences if row.reference in ours], result.differences
    assert result.matched == 2  # the payment and its refund
    await adapter.close()


async def read(db: Db, order: Order) -> Order:
    """Return the order as it is now."""
    return await db.read(lambda tx: orders.find(tx, order.merchant_id, order.id))


async def refund(db: Db, gateways: Gateways, provider: Provider, order: Order) -> str:
    """Refund a part; staff send it themselves if the provider has no refunds. Return its id."""
    now = stories.real_now()
    created = await db.run(lambda tx: world.create_refund(tx, order, "4.00", now))
    assert order.paid_attempt_id is not None
    for step in range(3):
        later = now + 1000 + step * HOUR
        await refund_jobs.send_due(db, gateways, stories.public_url(provider), later)
    if not provider.refunds:
        assert (await find_refund(db, created)).status == "PROCESSING"
        await db.run(lambda tx: world.report_refund(tx, created, "SUCCEEDED", now + 3 * HOUR))
    else:
        assert provider.refunded(order.paid_attempt_id) == 400
    assert (await find_refund(db, created)).status == "SUCCEEDED"
    return created.id


async def find_refund(db: Db, refund: refunds.Refund) -> refunds.Refund:
    """Return a refund as it is now."""
    return await db.read(lambda tx: refunds.find(tx, refund.merchant_id, refund.id))


async def reconcile(
    db: Db, provider: Provider, adapter: Gateway, attempt_id: str, refund_id: str
) -> Result:
    """Compare the provider's report, or a file if the provider has none."""
    now = stories.real_now()
    since: int | None = now - HOUR
    until: int | None = None
    if isinstance(adapter, Bills):
        wallet = getattr(provider, "wallet")  # noqa: B009 - only wallets have bills
        move_to_past(wallet.folder.parent, attempt_id)
        since, until = bounds(yesterday())
    elif adapter.name == "sandbox":
        since = None
    elif isinstance(adapter, Reports):
        now += 5 * HOUR  # payments of this hour are in the report
    if isinstance(provider, StripeProvider):
        book_at_stripe(provider, attempt_id)
    if isinstance(adapter, Reports):
        return await reconciliation.reconcile_fetched(
            db, adapter, ACCOUNT, since, until, TESTER, now
        )
    currency = provider.amount.currency
    rows = (
        "kind,reference,amount,currency,settled_at",
        f"payment,{attempt_id},9.99,{currency},{now}",
        f"refund,{refund_id},4.00,{currency},{now}",
    )
    file = io.BytesIO("\n".join(rows).encode())
    report = Report(
        gateway=ACCOUNT, file=file, name="report.csv", since=since, until=now + 9 * HOUR
    )
    return await reconciliation.reconcile_file(db, report, TESTER, now)


def book_at_stripe(provider: StripeProvider, attempt_id: str) -> None:
    """Add what happened to a payment to the balance of the simulated Stripe."""
    server = provider.server
    intent_id = server.find_session(attempt_id)["payment_intent"]
    server.balance.add("charge", 999, "eur", server.charge(intent_id))
    for refund in list(server.refunds.values()):
        if refund["payment_intent"] == intent_id:
            server.balance.add("refund", -refund["amount"], "eur", refund)
