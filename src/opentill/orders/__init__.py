"""Orders: from the open session to the money received, and back."""

from opentill.orders.cards import of_attempt as card_of_attempt
from opentill.orders.cards import of_order as card_of
from opentill.orders.cards import shown as show_card
from opentill.orders.customers.model import CustomerOrder, CustomerSums
from opentill.orders.customers.service import (
    MAX_SUMMED,
    find_customers,
    recent_customers,
    sums_of_customer,
)
from opentill.orders.events import livemode_of, metadata
from opentill.orders.export.service import chunks as export_csv
from opentill.orders.export.service import counted as counted_export
from opentill.orders.fees import with_fee_of
from opentill.orders.livemode import known as all_with_livemode
from opentill.orders.livemode import known_one as with_livemode
from opentill.orders.livemode import noted_one as with_noted_livemode
from opentill.orders.model import (
    TRANSITIONS,
    Event,
    HistoryRow,
    NewOrder,
    Order,
    OrderNote,
    PaymentAttempt,
    Status,
    Transition,
)
from opentill.orders.order_history import (
    complete_refund,
    count_refund,
    hold_refund,
    note,
    release_refund,
)
from opentill.orders.order_notes import add_note, notes_of
from opentill.orders.payments.confirmation import ENDS, confirm_many
from opentill.orders.payments.confirmation import MOST as CONFIRMED_TOGETHER
from opentill.orders.payments.duplicates import given_back, given_back_manually, is_kept
from opentill.orders.payments.failed_attempts import count_failed, uncounted_since, with_uncounted
from opentill.orders.payments.manual import awaits_confirmation, confirm_manually, revoke_manually
from opentill.orders.payments.model import FailedAttempts, Payer, PaymentIntent, Report
from opentill.orders.payments.outcomes import apply_outcome
from opentill.orders.payments.service import ask, callback_url, start_attempt, submit
from opentill.orders.search.filters import (
    Email,
    ExportQuery,
    OrdersQuery,
    choose,
    count,
    count_late,
    count_of_products,
    has_product,
    of_customer,
)
from opentill.orders.search.filters import page as list_page
from opentill.orders.search.lookups import find_by_anything, orders_of
from opentill.orders.search.model import Concerned
from opentill.orders.service import (
    attempt_of,
    attempts,
    exists,
    find,
    find_anywhere,
    find_attempt,
    history,
    last_attempt,
    lock,
    merchant_of,
    newest,
    of_ids,
    place,
    set_method,
    set_payment_link,
    settled_share,
)
from opentill.orders.settlement.service import (
    Settled,
    due_merchants,
    settle_batch,
    settle_one,
    settleable,
)
from opentill.orders.transitions import Change, can, reverse_refund, transition
from opentill.orders.wire import OrderDetail, OrderOut

__all__ = [
    "CONFIRMED_TOGETHER",
    "ENDS",
    "MAX_SUMMED",
    "TRANSITIONS",
    "Change",
    "Concerned",
    "CustomerOrder",
    "CustomerSums",
    "Email",
    "Event",
    "ExportQuery",
    "FailedAttempts",
    "HistoryRow",
    "NewOrder",
    "Order",
    "OrderDetail",
    "OrderNote",
    "OrderOut",
    "OrdersQuery",
    "Payer",
    "PaymentAttempt",
    "PaymentIntent",
    "Report",
    "Settled",
    "Status",
    "Transition",
    "add_note",
    "all_with_livemode",
    "apply_outcome",
    "ask",
    "attempt_of",
    "attempts",
    "awaits_confirmation",
    "callback_url",
    "can",
    "card_of",
    "card_of_attempt",
    "choose",
    "complete_refund",
    "confirm_manually",
    "confirm_many",
    "count",
    "count_failed",
    "count_late",
    "count_of_products",
    "count_refund",
    "counted_export",
    "due_merchants",
    "exists",
    "export_csv",
    "find",
    "find_anywhere",
    "find_attempt",
    "find_by_anything",
    "find_customers",
    "given_back",
    "given_back_manually",
    "has_product",
    "history",
    "hold_refund",
    "is_kept",
    "last_attempt",
    "list_page",
    "livemode_of",
    "lock",
    "merchant_of",
    "metadata",
    "newest",
    "note",
    "notes_of",
    "of_customer",
    "of_ids",
    "orders_of",
    "place",
    "recent_customers",
    "release_refund",
    "reverse_refund",
    "revoke_manually",
    "set_method",
    "set_payment_link",
    "settle_batch",
    "settle_one",
    "settleable",
    "settled_share",
    "show_card",
    "start_attempt",
    "submit",
    "sums_of_customer",
    "transition",
    "uncounted_since",
    "with_fee_of",
    "with_livemode",
    "with_noted_livemode",
    "with_uncounted",
]
