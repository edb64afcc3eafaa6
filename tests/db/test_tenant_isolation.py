"""No statement reads or changes another merchant's rows, even if they have the same ids.

One merchant uses every feature, through the API, the Epay API, the worker's jobs and the operator's
functions. Meanwhile ``db.tenant_examiner`` runs each statement again beside merchants with the same
ids. A statement on merchants' rows that was not run fails the test, unless ``EXPLAINED`` has it.
"""

from typing import Final

import pytest

from db.business import Business
from db.tenant_examiner import NAMES, Examiner
from opentill import (
    orders,
)
from opentill.db.query import Value
from support.api_server import ApiServer
from support.epay_shop import Inbox
from support.statements import EVERYWHERE

# Prefixes of statements that this test does not require.
EXCLUDED: Final = (
    "integrity.queries.",
    "ledger.queries.RULES",
    "ledger.queries.UNKNOWN",
)

# Statements that this test need not run. The comments say why, or which tests run them.
EXPLAINED: Final = frozenset(
    f"{feature}.{name}"
    for feature, names in {
        # these read rows of all merchants, or one row by an id that is unique over all merchants
        "checkouts.queries": "BY_PUBLIC_ID DUE COUNT_DUE GATEWAY_TESTS",
        "disputes.queries": "ANYWHERE SEARCH OF_ALL UNFORWARDED CHANGE_REFUSAL",
        "payment_links.queries": "BY_SLUG ANYWHERE SEARCH NOTE_ENDED",
        "adjustments.queries": "ANYWHERE",
        # these are about merchants of an old server: tests/epay_import, as is BY_OLD_NUMBER
        "epay_import.queries": "OF_PIDS INSERT STATE FINISH",
        "orders.imported_queries": "STATES INSERT",
        "refunds.imported_queries": "INSERT EXISTS NUMBER_TAKEN AMOUNT COPY REDUCE DELETE",
        "epay.imported_queries": "INSERT_CREDENTIALS REPLACE_KEYS INSERT_ORDERS INSERT_NOTICES"
        " START_NOTICES ORDER_OF_NUMBER HAS_V2",
        # staff read and close the cases of all merchants: tests/deposits, tests/console
        "deposits.queries": "OPEN_CASES CASES_OF_ATTEMPTS CLOSE_CASE",
        # these run in tests/payouts, tests/db/test_row_locks.py and tests/console/test_books.py
        "payouts.queries": "ANYWHERE LOCK_AVAILABLE BY_REFERENCE RETURNED",
        "reconciliation.queries": "BETWEEN NAMED ADD_DIFFERENCES SUMS_OF_PAYOUTS ADD_BOOKING",
        # this runs in tests/reconciliation/test_period.py
        "reconciliation.queries ": "ADD_EARLY",
        # these read rows of all merchants, which tests/payouts/test_returned_accounts.py tests
        "payouts.queries   ": "HELD_SINCE CONFIRM_ACCOUNT",
        # these process a run with payouts of many merchants, which tests/payouts/test_runs.py tests
        "payouts.queries  ": "NEXT_DUE_MERCHANTS PUT_IN_FILE SUMS_OF_RUNS IN_RUN TRANSFERS"
        " ADD_TRANSFER IS_IN_RUN ACCOUNT ADD_ACCOUNT REQUEST_ANYWHERE WAITING_OF_RUN RUN_EXCEEDS"
        " MOVED_BY_RUN ACCOUNTS_OF_PAYOUTS",
        # these run in tests/approvals; all but the search by an id are limited to a merchant
        "approvals.queries": "ANYWHERE WAITING WAITING_OF_SUBJECT INSERT BY_ID DECIDE DECIDED",
        # these read rows of all merchants, which tests/ledger/test_general.py tests
        "ledger.queries ": "BALANCES_AT MERCHANTS_AFTER",
        "list_counts.queries": "CHANGED",
        "figures.queries": "BEHIND BEHIND_OF",
        # the worker runs these for all or several merchants, which tests/mail tests
        "mail.queries": "ANYWHERE NEWEST CLAIM EXPIRE_LEASES GIVE_UP PRUNE UNREAD_MERCHANTS"
        " AUDIT_ENTRIES NEW_LOGINS DIGEST_MERCHANTS"
        " DEAD_LETTERS PRUNE_DEAD_LETTERS DEAD_LETTERS_AFTER"
        " SKIP_UNREAD NEAR_DEADLINES"
        " QUEUE HEAD LOCK_HEAD HAS_CAUSE",  # the last four return 0 or no row here
        "people.queries  ": "INSERT_LOGIN LOGIN LOGIN_BY_ID LOGIN_OF_API LOCK_REFRESHED LOGINS",
        "people.access_queries": "LOGIN_WITH_WORKPLACES",
        # long lists use these for pages after the thousandth, read from the oldest row
        "checkouts.queries  ": " ".join(
            f"PAGES{filters}{index}"
            for filters in (
                "",
                "_BY_PRODUCT_ID",
                "_BY_STATUS_BY_LATE",
                "_BY_STATUS_BY_LATE_BY_PRODUCT_ID",
            )
            for index in (1, 2)
        ),
        # these look for a person's rows at any merchant: tests/approvals,
        # tests/dashboard/test_team.py
        "merchants.queries      ": "SOLO_SUMS RECORD_SOLO_MOVEMENTS KEYS_MADE_BY",
        # these process rows of several merchants at once: tests/dashboard/test_requests.py
        "http.queries": "PRUNE INSERT_REFUSED TRIM_REFUSED PRUNE_REFUSED"
        " UPSERT_IGNORED TRIM_IGNORED PRUNE_IGNORED",
        "products.queries": "MERCHANT_OF",
        # commands run these: tests/cli/test_accounting.py
        "ledger.queries": "OVERDUE TRIAL_BALANCE",
        "figures.queries ": "PAID_BY_MERCHANT RANGE_SUMS",
        # no direct payment is refunded here: tests/figures/test_direct_payments.py
        "figures.direct_refund_queries": "OF_MERCHANT OF_ALL",
        # staff run these: tests/console
        "figures.brand_queries": "DIFFER RECOUNT DISPUTES_OF_ALL PAYMENTS_OF_ALL",
        "figures.gateway_queries": "DIFFER RECOUNT",
        "ledger.queries   ": "VIOLATED PASSES CHECKS",
        "orders.payments.queries ": "LAST_REFUSED LAST_PAID",
        "epay.queries  ": "FAILED_NOTICES PAID_TWICE",
        "merchants.queries  ": "SEARCH_AUDIT",
        "people.queries   ": "STAFF_INVITATIONS WITHDRAW_OF_STAFF",
        "payouts.queries ": "DUE REQUESTS_DECIDED",
        "adjustments.queries  ": "DECIDED RECHARGES",
        # these are about applicants, who have no rows yet: tests/merchants/test_standing.py
        "merchants.queries   ": "INSERT_APPLICATION APPLICATION COUNT_APPLIED APPLIED_BY WAITING"
        " APPLIED_FROM WAITS_FROM",
        # this runs in tests/cli/test_orders.py
        "merchants.queries ": "OF_KEY",
        # the number of matches decides which of these runs: tests/orders/search/test_search.py
        "orders.search.queries": "WAITING BY_TERM1 BY_TERM3 BY_TERM4 BY_TERM_AND_MORE1"
        " BY_TERM_AND_MORE4 BY_COLUMNS_BY_PRODUCT_ID0 BY_COLUMNS_BY_PRODUCT_ID1"
        " BY_COLUMNS_BY_PRODUCT_ID2 BY_COLUMNS_BY_PRODUCT_ID3 BY_COLUMNS_BY_PRODUCT_ID4"
        " BY_COLUMNS_BY_STATUS4 BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID0"
        " BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID1 BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID3"
        " BY_COLUMNS_BY_STATUS_BY_PRODUCT_ID4 "
        + " ".join(
            f"BY_SHOWN_BY_SHOWN{columns}{number}"
            for columns in ("", "_BY_PRODUCT_ID", "_BY_METHOD", "_BY_PRODUCT_ID_BY_METHOD")
            for number in (1, 3, 4)
        ),
        # these read parts of hours: tests/orders/search/test_search.py
        "orders.search.shown_queries": "EXCEPTIONS STATUSES",
        "merchants.queries": "INSERT_KEY REVOKE_KEY LOCKED_KEY REPLACE_KEY"
        " AUTHENTICATE_LIMITED AUTHENTICATE INSERT_AUDIT AUDIT_CHAIN NEWEST_AUDIT",
        # this is about a closed merchant: tests/onboarding
        "merchants.queries    ": "CLOSED_AT",
        "webhooks.queries": "ANYWHERE SEARCH PRUNE_ATTEMPTS PRUNE_DELIVERIES PRUNE_ENDPOINTS"
        " PRUNE_EVENTS PRUNE_RESENDS DISABLE",
        "webhooks.dispatch_queries": "OLDEST",
        # this deletes the oldest of many attempts: tests/webhooks/test_dispatch.py
        "webhooks.dispatch_queries ": "FORGET_ATTEMPTS",
        # an endpoint that works again: tests/webhooks/test_recovery.py
        "webhooks.dispatch_queries  ": "ADVANCE",
        # a shop that works again: tests/epay/test_recovery.py
        "epay.queries    ": "BY_OLD_NUMBER",
        "epay.recovery_queries": "CLAIM_EARLY RECORD_EARLY_FAILURE RELEASE_OLDEST ADDRESSES",
        # lists of thousands of rows use these: tests/webhooks/test_delivery_log.py, test_catchup.py
        "webhooks.queries ": "DELIVERIES_SCANNED_TO EVENTS_SCANNED_TO",
        "webhooks.catchup_queries": "EVENTS_READ_TO RESENDS_READ_TO",
        "refunds.queries": "ANYWHERE GATEWAYS_DUE",
        # staff and processes read the accounts of all merchants, which tests/gateways tests
        "gateways.rules.queries": "INSERT UPDATE",
        "gateways.accounts.queries": "STORED LIST BY_ID STORED_BY_ID IDS_OF INSERT FREE_PREPAID",
        # tests/dashboard/test_gateway_accounts.py runs these for two merchants
        "gateways.accounts.queries ": "LIST_OWN HAS_LABEL ALLOWED_GATEWAYS ALLOW_GATEWAYS"
        " ALLOW_NO_GATEWAYS",
        # these return 0 here
        "adjustments.queries ": "FROZEN",
        "refunds.queries ": "RETURNED_FEES",
        "checkouts.queries ": "ATTEMPTS",
        # Epay is set up with these before the merchant has rows: tests/epay/test_placing_orders.py
        "epay.queries": "MERCHANT_OF_PID LIST_PID INSERT ALL SET_TYPE",
        # these are for repeated requests, and for pruning: tests/epay/test_refunds.py
        "epay.queries ": "REFUND_OF_REQUEST PRUNE_REQUESTS PRUNE_SIGNATURES",
        # false here, because nobody pays the number: tests/epay/test_numbers_again.py
        "epay.queries   ": "IS_BEING_PAID",
        # no account has a day limit here: tests/gateways/test_day_limits.py
        "orders.payments.queries    ": "RELEASE_LIMIT COUNT_AGAIN",
        "orders.transition_queries  ": "SUBMITTED_WITHIN_LIMIT SUBMITTED_PREPAID_WITHIN_LIMIT",
        # this queries a gateway before it is due: tests/gateways/test_query_frequency.py
        "orders.payments.queries  ": "QUERY_SOON",
        # these are about members; tests/portal/test_permissions.py tests each role
        "people.queries": "MEMBERS MEMBER SET_ROLE WITHDRAW ALL_MEMBERS SET_MEMBER REMOVE_MEMBER"
        " OTHER_OWNERS WORKPLACES NOTE_VISIT INSERT_LINK LINK USE_LINK OPEN_RESET INVITATIONS",
        # these run in tests/agreement/test_acceptance.py
        "agreement.queries": "INSERT ACCEPTED ANY ALL",
        # commands run this: tests/cli/test_rates.py
        "rates.queries": "MISSING",
        # long exports use this: tests/orders/export/test_export.py
        "orders.export.queries": "EXPORT_EDGES AFTER",
        # these store a card that is reported after its payment: tests/orders/test_cards.py
        "orders.queries   ": "STORE_CARD REINDEX",
        # this marks a batch of any merchant: tests/orders/search/test_search.py
        "orders.search.queries ": "INDEX_AGAIN",
        # these are over all merchants: tests/console/test_search.py and test_payments.py
        "orders.search.across_merchants_queries": "NEWEST_OF_PLACES PENDING_OF_ALL"
        " OF_REFS NEWEST_OF_ALL "
        + " ".join(f"NEWEST_OF_ALL_BY_SHOWN_BY_{shown}0" for shown in orders.SHOWN_STATUSES),
        "payouts.queries    ": "OF_REFERENCE",
        # these are over all merchants: tests/console/test_payouts.py
        "payouts.overview_queries": "OF_ALL OF_AMOUNTS RUNS_OF_PAYOUTS",
        # this reads orders of many merchants by both ids: tests/console/test_disputes.py
        "orders.customers.queries": "OF_ORDERS",
        "products.queries ": "SEARCH_ALL",
        "merchants.queries        ": "ALL_NAMES",
        # this is for payments in a batch: tests/orders/payments/test_confirmation.py
        "orders.payments.queries": "ATTEMPTS_OF_GATEWAYS",
        # these run in tests/pages and tests/ledger
        "orders.queries": "MERCHANT_OF ANYWHERE FORGOTTEN OLD_HISTORY PRUNE_HISTORY LAST_ATTEMPT",
        "orders.settlement.queries": "DUE_MERCHANTS",
        "orders.payments.direct_queries": "UNCOUNTED_MERCHANTS",
        "orders.payments.queries   ": "UNCOUNTED_MERCHANTS QUERY_NOW SCHEDULE_CHECK SET_CUSTOMER",
        # these find errors in the books: tests/ledger/test_incremental.py
        "ledger.incremental_queries": "NEXT WRONG UNKNOWN",
    }.items()
    for feature, names in [(feature.strip(), names)]
    for name in names.split()
)

REQUIRED: Final = [
    name
    for name, statement in EVERYWHERE.items()
    if "merchant_id" in statement.sql and name not in EXPLAINED and not name.startswith(EXCLUDED)
]


def test_no_statement_reads_or_changes_another_merchants_rows_with_the_same_ids(
    examined: tuple[ApiServer, Examiner], inbox: Inbox
) -> None:
    api_server, examiner = examined
    with examiner.examining():
        business = Business(api_server, inbox, examiner)
        business.use_products()
        business.use_sessions()
        business.use_payment_links()
        business.confirm_payments()
        business.send_events()
        business.refund_orders()
        business.settle_orders()
        business.dispute_orders()
        business.read_payment_page()
        business.run_the_operators_functions()
        business.count_figures()
        business.send_mail()
        business.use_epay()
        business.read_lists_and_check_books()
        business.read_balance_pages()
        business.search_orders()
        business.filter_lists()
        business.pay_directly()
    assert not examiner.problems, "\n".join(examiner.problems)
    missing = [name for name in REQUIRED if name not in examiner.examined]
    assert not missing, " ".join(missing)


def test_a_statement_without_a_condition_on_the_merchant_is_reported(
    examined: tuple[ApiServer, Examiner], inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_server, _ = examined
    leak = Value(
        int, "select count(*) from products where merchant_id = :merchant_id or name <> ''"
    )
    monkeypatch.setitem(NAMES, id(leak), "planted.LEAK")
    examiner = Examiner(str(api_server.settings.database_url))
    with examiner.examining():
        business = Business(api_server, inbox, examiner)
        business.use_products()
        assert not examiner.problems
        api_server.tx(lambda tx: leak.get(tx, merchant_id=business.id))
    assert any(line.startswith("planted.LEAK") for line in examiner.problems)
