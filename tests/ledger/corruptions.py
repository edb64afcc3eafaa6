"""Statements that corrupt the books, the rules that must report them, and how to run them.

``tests/ledger/test_check.py`` runs those in ``ORDER_CORRUPTIONS``, ``test_check_of_features.py``
those in ``FEATURE_CORRUPTIONS``.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from opentill.db.database import Tx
from opentill.integrity import event_queries

RUNNING = "each balance after is the one before plus this entry, numbered 1, 2, 3 …"
SUM = "the balance equals the sum of its entries"
ZERO = "the sum over all accounts is zero"
ROW = "entries have a balance row"
MOVE = "every entry is a movement of the table"
PAYMENT = "an order has its PAYMENT exactly when the platform was paid"
FEE = "an order has the FEE of its gross less its net exactly when it was paid"
ATTEMPT = "a paid order was paid by exactly one attempt"
COUNTS = "an order counts its refunds, and they are at most what was paid"
REFUND = "a refund is frozen, then refunded or unfrozen, and returned if it is reversed"
KEPT = "each balance is what orders, refunds, disputes and the operator keep there"
SOURCE = "every entry of an order or refund has one"
SESSION = "a session is open as long as its order can be paid"
HISTORY = "the history leads to the status, by transitions of the table"

# SQL that corrupts the books of a paid order with three refunds, and the violated rules. Before,
# the entries are 1 PAYMENT and 2 FEE; the refund of 1.00 failed (3 FREEZE, 6 UNFREEZE), that of
# 2.00 succeeded (4 FREEZE, 7 REFUND), that of 3.00 is in progress (5 FREEZE).
ORDER_CORRUPTIONS: Final = (
    ("update entries set amount_minor = 1000 where number = 1", {RUNNING, SUM, PAYMENT}),
    ("update entries set amount_minor = 1, shown_minor = -1 where number = 2", {RUNNING, SUM, FEE}),
    ("update entries set pending_after = pending_after + 1 where number = 3", {RUNNING}),
    ("update entries set available_after = 1 where number = 2", {RUNNING}),
    ("update entries set frozen_after = 0 where number = 4", {RUNNING}),
    ("update entries set reserve_after = 7 where number = 7", {RUNNING}),
    ("update entries set number = 8 where number = 7", {RUNNING}),
    ("update entries set number = number + 1 where number = 7", {RUNNING}),
    ("update entries set created_at = created_at - 1 where number = 4", {RUNNING}),
    ("update entries set created_at = created_at + 1 where number = 4", {RUNNING, SUM}),
    ("delete from entries where number = 7", {SUM, REFUND}),
    ("delete from entries where number = 1", {RUNNING, SUM, PAYMENT}),
    ("delete from entries where number = 2", {RUNNING, SUM, FEE}),
    ("delete from entries where number = 3", {RUNNING, SUM, REFUND}),
    ("delete from entries", {SUM, PAYMENT, FEE, REFUND}),
    ("delete from balances", {ROW, KEPT}),
    ("update balances set pending = pending + 1, gateway = gateway - 1", {SUM}),
    ("update balances set frozen = frozen + 1, gateway = gateway - 1", {SUM, KEPT}),
    ("update balances set bank = bank + 1", {SUM, ZERO}),
    ("update balances set entries = entries + 1", {SUM}),
    ("update balances set last_at = last_at + 1", {SUM}),
    ("update entries set type = 'PAYOUT' where number = 1", {MOVE, PAYMENT}),
    ("update entries set type = 'CHARGEBACK' where number = 2", {MOVE, FEE}),
    ("update entries set shown_minor = -shown_minor where number = 1", {MOVE}),
    ("update entries set from_account = 'bank' where number = 1", {MOVE, SUM}),
    ("update entries set from_account = 'available' where number = 5", {RUNNING, SUM, REFUND}),
    ("update entries set source_id = 'order_other' where number = 1", {PAYMENT, SOURCE}),
    ("update entries set source_id = 're_other' where number = 7", {REFUND, SOURCE}),
    ("update orders set paid_at = null, status = 'PENDING' where paid_at is not null",
     {PAYMENT, FEE, ATTEMPT, COUNTS, SESSION, HISTORY}),
    ("update orders set gross_settled_minor = 1000 where paid_at is not null", {PAYMENT, FEE}),
    ("update orders set net_settled_minor = 960 where paid_at is not null", {FEE}),
    ("update orders set paid_attempt_id = 'att_other' where paid_at is not null", {ATTEMPT}),
    ("update payment_attempts set status = 'DECLINED' where status = 'SUCCEEDED'", {ATTEMPT}),
    ("update payment_attempts set status = 'SUCCEEDED' where status = 'SUBMITTED'", {ATTEMPT}),
    ("update orders set refunded_minor = 201 where paid_at is not null", {COUNTS}),
    ("update orders set refund_held_minor = 501 where paid_at is not null", {COUNTS}),
    ("update orders set refund_debit_minor = 499 where paid_at is not null", {COUNTS}),
    ("update refunds set amount_minor = 301 where status = 'PROCESSING'", {COUNTS}),
    ("update refunds set debit_minor = 301 where status = 'PROCESSING'", {COUNTS, REFUND, KEPT}),
    (("update refunds set status = 'SUCCEEDED', try_at = null, succeeded_at = 1 "
     "where status = 'PROCESSING'"), {COUNTS, REFUND, KEPT}),
    (("update refunds set status = 'FAILED', try_at = null, failed_at = 1 "
     "where status = 'PROCESSING'"), {COUNTS, REFUND, KEPT}),
    (("update refunds set status = 'SUCCEEDED', failed_at = null, succeeded_at = 1 "
     "where status = 'FAILED'"), {COUNTS, REFUND}),
    ("delete from refunds where status = 'SUCCEEDED'", {COUNTS, SOURCE}),
    (("update orders set status = 'REFUNDED', refunded_minor = amount_minor, "
     "refund_held_minor = amount_minor where paid_at is not null"), {COUNTS, HISTORY}),
    ("update checkouts set status = 'OPEN' where status = 'COMPLETE'", {SESSION}),
    ("update checkouts set status = 'COMPLETE' where status = 'OPEN'", {SESSION}),
    ("delete from order_history where number = 2", {HISTORY}),
    ("delete from order_history", {HISTORY}),
    ("update order_history set to_status = 'FAILED' where number = 2", {HISTORY}),
    ("update order_history set event = 'voided' where event = 'confirmed'", {HISTORY}),
    ("update order_history set at = at - 1 where number = 2", {HISTORY}),
    ("update orders set status = 'CREATING' where status = 'PENDING'", {HISTORY}),
    ("update orders set history_number = history_number + 1", {HISTORY}),
)  # fmt: skip

DISPUTE = "a dispute has the entries of its status, and an entry its dispute"
DISPUTED = "an order is DISPUTED by one open dispute, and a CHARGEBACK by one that was lost"
STANDS = "an order stands in pending until it is settled, and in reserve while that is held"
LISTS = "the totals of lists are the numbers of their rows"
PAYOUT = "a payout has left with its fee, and is back with it exactly when it failed"
OF_PAYOUT = "every entry of a payout has one"
ADJUSTMENT = "an adjustment has its one entry exactly when it is done"
OF_OPERATOR = "every entry of an operator has its movement"
UNFROZEN = "operators unfreeze only what operators froze"
NOTIFICATION = "an Epay order has a notification exactly when it was paid"
SUBMITTED = "an Epay order is what was submitted, and what was submitted an Epay order"
AGAIN = "orders under one Epay number ask for the same, and only the last can still be paid"
FIGURES = "figures are the sums of the entries that are counted"
AWAITED = "awaited money is what its entries left in the account"
FAILED = "failed attempts are counted in the quarter hour that they name"
DIRECT = "direct payments are counted in the quarter hour that they name"
BRANDS = "payments by card brand are counted once, in their month"
RESERVED = "prepaid balances reserve the fees of attempts that may still be paid"
DIRECTLY = "an order was paid directly exactly if its attempt took a prepaid fee"
EVENTS = event_queries.SENTENCE

_REVERSED: Final = "status = 'FAILED' and succeeded_at is not null"
_AFFECTED: Final = (  # the condition selects orders with a reversed refund
    "(merchant_id, id) in (select merchant_id, order_id from refunds "
    "where status = 'FAILED' and succeeded_at is not null)"
)
# Repeats an entry of a refund with other accounts or, without the unique key, with the same.
_REPEAT: Final = """
    insert into entries (merchant_id, currency, number, id, type, from_account, to_account,
        amount_minor, shown_minor, pending_after, available_after, frozen_after, reserve_after,
        source_type, source_id, description, created_at)
    select e.merchant_id, e.currency, e.number + 1000, e.id || 'x', e.type, {}, {}, e.amount_minor,
        e.shown_minor, e.pending_after, e.available_after, e.frozen_after, e.reserve_after,
        e.source_type, e.source_id, e.description, e.created_at
    from entries e join refunds r on r.merchant_id = e.merchant_id and r.id = e.source_id
    where e.type = 'REFUND' and {}
"""
_WITHOUT_KEY: Final = "alter table entries drop constraint entries_once;"
_OUT: Final = "r.source = 'GATEWAY' and e.to_account = 'gateway'"
_BACK: Final = "e.from_account = 'gateway'"

# SQL that corrupts refunds that a provider reversed or that were made at the provider.
_OF_REFUNDS: Final = (
    # the posting of the reversal is missing, has another amount, or is repeated
    ("delete from entries where type = 'REFUND' and from_account = 'gateway'", REFUND),
    (("update entries set amount_minor = amount_minor - 1, shown_minor = shown_minor - 1 "
     "where type = 'REFUND' and from_account = 'gateway'"), REFUND),
    (_REPEAT.format("e.from_account", "'frozen'", _BACK), REFUND),
    (_WITHOUT_KEY + _REPEAT.format("e.from_account", "e.to_account", _BACK), REFUND),
    # the reversal went to an account that does not hold the order's money
    (("update entries set to_account = 'pending' where type = 'REFUND' "
     "and from_account = 'gateway' and to_account = 'available'"), STANDS),
    # a refund made at the provider is not posted, is posted twice, or is posted from frozen money
    (("delete from entries where type = 'REFUND' and to_account = 'gateway' "
     "and from_account <> 'frozen'"), REFUND),
    (_REPEAT.format("'frozen'", "e.to_account", _OUT), REFUND),
    (_WITHOUT_KEY + _REPEAT.format("e.from_account", "e.to_account", _OUT), REFUND),
    (("update entries set from_account = 'frozen' where type = 'REFUND' "
     "and to_account = 'gateway' and from_account <> 'frozen'"), REFUND),
    ("update refunds set source = 'REQUEST' where source = 'GATEWAY'", REFUND),
    (("update refunds set source = 'GATEWAY' where source = 'REQUEST' "
     f"and {_REVERSED}"), REFUND),
    # the refund lacks its failure or its success
    (f"update refunds set status = 'SUCCEEDED' where {_REVERSED}", REFUND),
    (f"update refunds set succeeded_at = null where {_REVERSED}", REFUND),
    # the order still counts the reversed refund, or does not count the provider's refund
    (f"update orders set refunded_minor = refunded_minor + 200 where {_AFFECTED}", COUNTS),
    (f"update orders set refund_held_minor = refund_held_minor + 200 where {_AFFECTED}", COUNTS),
    (f"update orders set refund_debit_minor = refund_debit_minor + 200 where {_AFFECTED}", COUNTS),
    (f"update orders set status = 'REFUNDED' where status = 'PAID' and {_AFFECTED}", COUNTS),
    (("update orders set refunded_minor = 0 "
     "where (merchant_id, id) in (select merchant_id, order_id from refunds "
     "where source = 'GATEWAY')"), COUNTS),
    ("delete from refunds where source = 'GATEWAY'", SOURCE),
    ("delete from order_history where event = 'refund_reversed'", HISTORY),
    # the merchant's event is missing
    (("delete from events where type = 'refund.failed' "
     "and body like '%\"reversed\":true%'"), EVENTS),
    (("delete from events where type = 'order.refunded' and exists (select from refunds r "
     "where r.merchant_id = events.merchant_id "
     "and r.source = 'GATEWAY' and position(r.id in body) > 0)"), EVENTS),
)  # fmt: skip

# SQL that corrupts payments that went to the merchant directly.
_OF_DIRECT: Final = (
    ("update balances set prepaid_reserved = prepaid_reserved + 1 where prepaid > 0", RESERVED),
    ("update payment_attempts set prepaid_held = false where prepaid_held", RESERVED),
    ("update payment_attempts set prepaid_minor = 41 where prepaid_held", RESERVED),
    ("update orders set paid_directly = false where paid_directly", DIRECTLY),
    ("update orders set paid_directly = true where status = 'SETTLED'", DIRECTLY),
    ("update orders set paid_directly = false where paid_directly", FEE),
    ("update orders set paid_directly = false where paid_directly", PAYMENT),
    ("delete from entries where type = 'FEE' and from_account = 'prepaid'", FEE),
    ("update orders set due_at = 1, settle_at = 1 where paid_directly", STANDS),
    ("delete from entries where type = 'FEE' and to_account = 'prepaid'", REFUND),
    ("update refunds set fee_returned_minor = 0 where fee_returned_minor > 0", REFUND),
    ("update refunds set debit_minor = 1 where fee_returned_minor > 0", REFUND),
    ("update refunds set fee_returned_minor = 1 where debit_minor > 0", REFUND),
    ("delete from entries where source_type = 'operator' and to_account = 'prepaid'", ADJUSTMENT),
)  # fmt: skip

FEATURE_CORRUPTIONS: Final = (
    *_OF_REFUNDS,
    *_OF_DIRECT,
    ("delete from events", EVENTS),
    ("delete from events where type = 'order.paid'", EVENTS),
    ("delete from events where type = 'order.closed'", EVENTS),
    ("delete from events where type = 'order.settled'", EVENTS),
    ("delete from events where type = 'checkout.completed'", EVENTS),
    ("delete from events where type = 'checkout.expired'", EVENTS),
    ("delete from events where type = 'order.refunded'", EVENTS),
    ("delete from events where type = 'refund.failed'", EVENTS),
    ("delete from events where type = 'dispute.created'", EVENTS),
    ("delete from events where type = 'dispute.closed'", EVENTS),
    ("delete from events where type = 'payout.paid'", EVENTS),
    ("delete from events where type = 'payout.failed'", EVENTS),
    (("insert into events select merchant_id, id || 'x', null, type, body, created_at from events "
     "where type = 'order.paid'"), EVENTS),
    ("update events set type = 'payout.paid' where type = 'payout.failed'", EVENTS),
    ("delete from entries where source_type = 'dispute' and type = 'CHARGEBACK'", DISPUTE),
    ("delete from disputes where status = 'LOST'", DISPUTE),
    ("delete from disputes where status = 'OPEN'", DISPUTED),
    ("update disputes set status = 'LOST' where status = 'OPEN'", DISPUTED),
    ("update orders set charged_back_minor = 1 where status = 'CHARGEBACK'", DISPUTED),
    ("update orders set settle_at = null where status = 'PAID'", STANDS),
    ("update orders set settled_at = 1, settle_at = null where status = 'PAID'", STANDS),
    ("delete from list_changes", LISTS),
    ("insert into list_changes select * from list_changes limit 1", LISTS),
    ("update payouts set status = 'PENDING' where status = 'FAILED'", PAYOUT),
    ("delete from entries where source_type = 'payout' and from_account = 'bank'", PAYOUT),
    ("delete from payouts where status = 'FAILED'", OF_PAYOUT),
    ("delete from entries where source_type = 'operator' and type = 'FREEZE'", ADJUSTMENT),
    ("update adjustments set amount_minor = 1 where kind = 'recharge'", ADJUSTMENT),
    ("delete from adjustments where kind = 'recharge'", OF_OPERATOR),
    ("update adjustments set kind = 'unfreeze' where kind = 'freeze'", UNFROZEN),
    ("update orders set source = 'EPAY' where status = 'PAID'", NOTIFICATION),
    ("update orders set source = 'EPAY' where status = 'PAID'", SUBMITTED),
    (("insert into epay_orders (merchant_id, out_trade_no, submission, order_id, checkout_id, "
     "type, name, money, money_type, notify_url, return_url, param, created_at) "
     "select merchant_id, 'INV-1', 2, id, checkout_id, '', 'VIP', '9.99', 'USD', '', '', '', 1 "
     "from orders where status = 'PAID'"), AGAIN),
    ("update figures set paid_minor = paid_minor + 1", FIGURES),
    ("delete from figures", FIGURES),
    ("update figure_heads set number = number + 1", FIGURES),
    ("delete from awaited_figures", AWAITED),
    ("update awaited_figures set amount_minor = amount_minor + 1", AWAITED),
    ("delete from attempt_figures", FAILED),
    ("update payment_attempts set counted_at = null where counted_at is not null", FAILED),
    ("update direct_figures set paid_minor = paid_minor + 1", DIRECT),
    ("update payment_attempts set direct_counted_at = null", DIRECT),
    ("update brand_figures set payments = payments + 1", BRANDS),
    ("update brand_figures set volume_minor = volume_minor - 1", BRANDS),
    ("update brand_figures set month = month - 86400000", BRANDS),
)  # fmt: skip


async def drop_constraints(tx: Tx) -> None:
    """Drop all check constraints and foreign keys, which would refuse corruptions."""
    statements = await tx.fetch(
        "select format('alter table %s drop constraint %I', conrelid::regclass, conname)"
        " from pg_constraint where contype in ('c', 'f') and conparentid = 0"
        " and connamespace = 'public'::regnamespace"
    )
    await tx.execute("; ".join(row[0] for row in statements))


@asynccontextmanager
async def corrupted(tx: Tx, statement: str) -> AsyncIterator[None]:
    """Run a statement without triggers, and roll it back at the end of the block."""
    transaction = tx.transaction()
    await transaction.start()
    try:
        await tx.execute("set local session_replication_role = replica")
        assert not (await tx.execute(statement)).endswith(" 0")
        yield
    finally:
        await transaction.rollback()
