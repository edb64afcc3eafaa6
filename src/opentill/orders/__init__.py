"""Orders: from the open session to payment, settlement and refund."""

from opentill.orders.cards import brand_name, format_card
from opentill.orders.cards import of_attempt as card_of_attempt
from opentill.orders.cards import of_order as card_of
from opentill.orders.customers.model import (
    CustomerMethod,
    CustomerOrder,
    CustomerSums,
    CustomerTotal,
    OrderCustomer,
    RecentCustomers,
)
from opentill.orders.customers.service import (
    MAX_SUMMED,
    add_last_payments,
    find_customers,
    find_customers_of_orders,
    newest_of_customer,
    recent_customers,
    sort_customers,
    sums_of_customer,
    totals_of_customers,
    totals_of_recent,
)
from opentill.orders.events import livemode_of, metadata
from opentill.orders.export.service import export_csv, export_csv_limited, read_selection
from opentill.orders.export_columns import COLUMNS as EXPORT_COLUMNS
from opentill.orders.imported import find_states as find_imported_states
from opentill.orders.imported import insert as insert_imported
from opentill.orders.imported_model import ImportedOrder
from opentill.orders.livemode import all_with_livemode, with_livemode, with_paid_livemode
from opentill.orders.model import (
    OPERATOR,
    TRANSITIONS,
    Event,
    HistoryRow,
    NewOrder,
    Order,
    OrderNote,
    PaymentAttempt,
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
from opentill.orders.payments.confirmation import BATCH as CONFIRMATION_BATCH
from opentill.orders.payments.confirmation import ENDS as ATTEMPT_ENDS
from opentill.orders.payments.confirmation import confirm_many
from opentill.orders.payments.counted_attempts import (
    count_direct,
    count_failed,
    find_uncounted_since,
    list_uncounted_merchants,
)
from opentill.orders.payments.duplicates import (
    apply_duplicate_return,
    needs_manual_return,
    record_duplicate_return,
)
from opentill.orders.payments.intents import start_attempt
from opentill.orders.payments.manual import awaits_confirmation, confirm_manually, revoke_manually
from opentill.orders.payments.model import (
    DirectPayments,
    FailedAttempts,
    Payer,
    PaymentIntent,
    Report,
)
from opentill.orders.payments.outcomes import apply_outcome
from opentill.orders.payments.prepaid import fee_of
from opentill.orders.payments.service import (
    OrderState,
    close_page,
    query_attempt,
    submit,
)
from opentill.orders.pricing import with_fee_of
from opentill.orders.receipt_numbers import receipt_number
from opentill.orders.search.across_merchants import Matches, find_matches
from opentill.orders.search.across_merchants import list_newest as list_newest_of_all
from opentill.orders.search.filters import (
    CountedPage,
    Email,
    ExportQuery,
    ListChoice,
    OrdersQuery,
    count,
    count_by_refunds,
    count_late_payments,
    count_of_products,
    has_product,
    list_counted,
    list_customer_page,
    list_page,
    resolve_query,
)
from opentill.orders.search.lookups import find_by_anything, find_by_part, look_up
from opentill.orders.search.model import OrderRef
from opentill.orders.search.product_sales import GrossSales, sum_product_sales
from opentill.orders.service import (
    attempts,
    decisive_attempts,
    exists,
    find,
    find_anywhere,
    find_attempt,
    find_many,
    find_reported_attempt,
    history,
    last_attempt,
    list_newest,
    lock,
    merchant_of,
    place,
    set_method,
    set_payment_link,
    settled_share,
)
from opentill.orders.settlement.service import (
    Settled,
    list_due_merchants,
    preview_settlements,
    settle_batch,
    settle_one,
)
from opentill.orders.statuses import (
    EXPORTED_STATUS,
    SHOWN_STATUSES,
    RefundProgress,
    ShownStatus,
    Status,
)
from opentill.orders.transitions import Change, can, reverse_refund, transition
from opentill.orders.wire import OrderDetail, OrderOut

__all__ = [
    "ATTEMPT_ENDS",
    "CONFIRMATION_BATCH",
    "EXPORTED_STATUS",
    "EXPORT_COLUMNS",
    "MAX_SUMMED",
    "OPERATOR",
    "SHOWN_STATUSES",
    "TRANSITIONS",
    "Change",
    "CountedPage",
    "CustomerMethod",
    "CustomerOrder",
    "CustomerSums",
    "CustomerTotal",
    "DirectPayments",
    "Email",
    "Event",
    "ExportQuery",
    "FailedAttempts",
    "GrossSales",
    "HistoryRow",
    "ImportedOrder",
    "ListChoice",
    "Matches",
    "NewOrder",
    "Order",
    "OrderCustomer",
    "OrderDetail",
    "OrderNote",
    "OrderOut",
    "OrderRef",
    "OrderState",
    "OrdersQuery",
    "Payer",
    "PaymentAttempt",
    "PaymentIntent",
    "RecentCustomers",
    "RefundProgress",
    "Report",
    "Settled",
    "ShownStatus",
    "Status",
    "Transition",
    "add_last_payments",
    "add_note",
    "all_with_livemode",
    "apply_duplicate_return",
    "apply_outcome",
    "attempts",
    "awaits_confirmation",
    "brand_name",
    "can",
    "card_of",
    "card_of_attempt",
    "close_page",
    "complete_refund",
    "confirm_manually",
    "confirm_many",
    "count",
    "count_by_refunds",
    "count_direct",
    "count_failed",
    "count_late_payments",
    "count_of_products",
    "count_refund",
    "decisive_attempts",
    "exists",
    "export_csv",
    "export_csv_limited",
    "fee_of",
    "find",
    "find_anywhere",
    "find_attempt",
    "find_by_anything",
    "find_by_part",
    "find_customers",
    "find_customers_of_orders",
    "find_imported_states",
    "find_many",
    "find_matches",
    "find_reported_attempt",
    "find_uncounted_since",
    "format_card",
    "has_product",
    "history",
    "hold_refund",
    "insert_imported",
    "last_attempt",
    "list_counted",
    "list_customer_page",
    "list_due_merchants",
    "list_newest",
    "list_newest_of_all",
    "list_page",
    "list_uncounted_merchants",
    "livemode_of",
    "lock",
    "look_up",
    "merchant_of",
    "metadata",
    "needs_manual_return",
    "newest_of_customer",
    "note",
    "notes_of",
    "place",
    "preview_settlements",
    "query_attempt",
    "read_selection",
    "receipt_number",
    "recent_customers",
    "record_duplicate_return",
    "release_refund",
    "resolve_query",
    "reverse_refund",
    "revoke_manually",
    "set_method",
    "set_payment_link",
    "settle_batch",
    "settle_one",
    "settled_share",
    "sort_customers",
    "start_attempt",
    "submit",
    "sum_product_sales",
    "sums_of_customer",
    "totals_of_customers",
    "totals_of_recent",
    "transition",
    "with_fee_of",
    "with_livemode",
    "with_paid_livemode",
]
