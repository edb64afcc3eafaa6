"""Rules that the schema enforces independently of the code."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, get_args

import asyncpg
import pytest

from opentill.adjustments import model as operator
from opentill.core.settings import Environment
from opentill.disputes import model as disputes
from opentill.gateways.model import Method
from opentill.ledger import model as ledger
from opentill.ledger import postings
from opentill.merchants import model as merchants
from opentill.orders import model as orders
from opentill.payouts import model as payouts
from opentill.people import model as people
from opentill.people import permissions
from opentill.products import model as products
from opentill.refunds import model as refunds
from opentill.webhooks import model as webhooks
from support.catalogue import catalogue
from support.pooler import connect
from support.tables import TABLES, TENANT_TABLES
from support.transactions import module_database_url

__all__ = ["catalogue", "module_database_url"]

# Partial or small indexes over all merchants, which the worker and staff need.
GLOBAL_INDEXES: Final = {
    "checkouts_due",
    "payment_attempts_due",
    "payment_attempts_duplicates",
    "payment_attempts_ended",
    "payment_attempts_ended_of_environment",
    "refunds_due",
    "idempotency_keys_old",
    "epay_refunds_old",
    "epay_signatures_old",
    "epay_orders_again",
    "orders_due",
    "orders_reserve_due",
    "orders_creating_due",
    "epay_notifications_due",
    "epay_notifications_failed",
    "adjustments_due",
    "unmatched_disputes_due",
    "refund_cases_due",
    "refund_cases_open",
    "refunds_failed_newest",
    "brand_figures_of_all",
    "disputes_opened",
    "disputes_decided",
    "refused_requests_old",
    "payment_link_uses_open",
    "mails_due",
    "mails_last_changed",
    "mail_events_put_aside_newest",
    "gateway_tests_newest",
    "disputes_of_all",
    "disputes_responded",
    "payouts_of_all",
    "payouts_by_amount",
    "payouts_returned",
    "payouts_by_bank_reference",
    "products_by_words",
    "ignored_fields_old",
    "payout_transfers_of_run",
    "payout_requests_waiting",
    "approval_requests_due",
    "merchant_applications_by_visitor",
}


def test_the_first_column_of_a_tenant_table_is_the_merchant(catalogue: Any) -> None:
    rows = catalogue(
        """
        select table_name from information_schema.columns where table_schema = 'public'
            and column_name = 'merchant_id' and is_nullable = 'NO' and ordinal_position = 1
        """
    )
    assert {row["table_name"] for row in rows} >= TENANT_TABLES


def test_indexes_and_keys_of_tenant_tables_begin_with_the_merchant(catalogue: Any) -> None:
    rows = catalogue(
        """
        select t.relname as table, i.relname as index, x.indisunique as unique,
            (select attname from pg_attribute where attrelid = t.oid and attnum = x.indkey[0])
                as first
        from pg_index x join pg_class t on t.oid = x.indrelid
        join pg_class i on i.oid = x.indexrelid
        where t.relnamespace = 'public'::regnamespace
        """
    )
    global_indexes = {
        row["index"]
        for row in rows
        if row["table"] in TENANT_TABLES and row["first"] != "merchant_id"
    }
    assert global_indexes == GLOBAL_INDEXES
    assert not any(row["unique"] for row in rows if row["index"] in GLOBAL_INDEXES)


def test_foreign_keys_of_tenant_tables_begin_with_the_merchant_on_both_sides(
    catalogue: Any,
) -> None:
    rows = catalogue(
        """
        select c.conname as name, t.relname as table, r.relname as target,
            (select attname from pg_attribute where attrelid = c.conrelid and attnum = c.conkey[1])
                as first,
            (select attname from pg_attribute
                where attrelid = c.confrelid and attnum = c.confkey[1]) as target_first
        from pg_constraint c join pg_class t on t.oid = c.conrelid
        join pg_class r on r.oid = c.confrelid where c.contype = 'f'
        """
    )
    for row in rows:
        if row["table"] in TENANT_TABLES:
            column = "id" if row["target"] == "merchants" else "merchant_id"
            assert (row["first"], row["target_first"]) == ("merchant_id", column), row["name"]


def test_every_table_has_a_primary_key_or_full_replica_identity(catalogue: Any) -> None:
    rows = catalogue(
        """
        select conrelid::regclass::text as name from pg_constraint where contype = 'p'
        union select oid::regclass::text from pg_class where relreplident = 'f'
        """
    )
    assert {row["name"] for row in rows} >= set(TABLES)


def test_no_column_is_a_float_and_times_are_bigint(catalogue: Any) -> None:
    rows = catalogue(
        """
        select table_name, column_name, data_type from information_schema.columns
        where table_schema = 'public'
        """
    )
    for row in rows:
        column = f"{row['table_name']}.{row['column_name']}"
        assert row["data_type"] not in {"real", "double precision", "money"}, column
        if row["column_name"].endswith(("_minor", "_at", "_after")) or row["column_name"] == "at":
            assert row["data_type"] == "bigint", column


# Each row: table, column, the Literal with the values that the code writes.
LITERALS: Final = (
    ("products", "status", products.Status),
    ("checkouts", "status", orders.SessionStatus),
    ("orders", "status", orders.Status),
    ("orders", "source", orders.Source),
    ("orders", "refund_fee_policy", merchants.FeePolicy),
    ("orders", "payment_method", Method),
    ("orders", "reserve_status", orders.ReserveStatus),
    ("payment_attempts", "status", orders.AttemptStatus),
    ("payment_attempts", "method", Method),
    ("refunds", "status", refunds.Status),
    ("refunds", "held_from", ledger.Held),
    ("merchants", "status", merchants.Status),
    ("merchant_history", "event", merchants.Event),
    ("merchant_history", "from_status", merchants.Status),
    ("merchant_history", "to_status", merchants.Status),
    ("merchant_history", "capability", merchants.Capability),
    ("merchants", "refund_fee_policy", merchants.FeePolicy),
    ("merchants", "settlement_calendar", merchants.Calendar),
    ("merchant_terms", "refund_fee_policy", merchants.FeePolicy),
    ("merchant_terms", "settlement_calendar", merchants.Calendar),
    ("disputes", "status", disputes.Status),
    ("payouts", "status", payouts.Status),
    ("adjustments", "kind", operator.Kind),
    ("adjustments", "status", operator.Status),
    ("api_keys", "environment", Environment),
    ("members", "role", permissions.MerchantRole),
    ("staff", "role", permissions.StaffRole),
    ("person_links", "kind", people.LinkKind),
    ("person_links", "role", permissions.MerchantRole),
    ("person_links", "staff_role", permissions.StaffRole),
    ("events", "type", webhooks.Type),
    ("webhook_endpoints", "status", webhooks.Status),
    ("webhook_deliveries", "status", webhooks.DeliveryStatus),
    ("delivery_attempts", "outcome", webhooks.Outcome),
    ("entries", "type", postings.Type),
    ("entries", "from_account", postings.Account),
    ("entries", "to_account", postings.Account),
    ("entries", "source_type", postings.Cause),
)


# Tables whose rules an SQL function checks, instead of check constraints (decision 0110).
RULES: Final = {
    "orders": "order_keeps_rules",
    "payment_attempts": "attempt_keeps_rules",
    "checkouts": "session_keeps_rules",
    "entries": "entry_keeps_rules",
}
# The columns of entries that the database's list of postings restricts, and their position in a
# posting.
POSITIONS: Final = {"type": 0, "from_account": 1, "to_account": 2}


def _values_of_rule(catalogue: Any, function: str, column: str) -> set[str]:
    """Return the values that a table's function allows in a column."""
    [row] = catalogue("select prosrc from pg_proc where proname = $1", function)
    if function == RULES["entries"] and column in POSITIONS:
        postings = re.findall(r"'(\w+ \w+ \w+ [+-])'", row["prosrc"])
        return {posting.split()[POSITIONS[column]] for posting in postings}
    [values] = re.findall(rf"when not {column} in \(([^)]*)\)", row["prosrc"])
    return set(values.split("'")[1::2])


@pytest.mark.parametrize("table", RULES)
def test_rules_are_called_with_the_columns_of_their_parameters(catalogue: Any, table: str) -> None:
    [row] = catalogue(
        """
        select pg_get_constraintdef(c.oid) as text, p.proargnames as names, c.convalidated
        from pg_constraint c join pg_proc p on p.proname = $2
        where c.contype = 'c' and c.conname = $1 || '_keep_rules'
        """,
        table,
        RULES[table],
    )
    assert row["text"] == f"CHECK ({RULES[table]}({', '.join(row['names'])}))"
    assert row["convalidated"]


@pytest.mark.parametrize(("table", "column", "literal"), LITERALS)
def test_a_check_constraint_holds_exactly_the_words_of_the_code(
    catalogue: Any, table: str, column: str, literal: Any
) -> None:
    if table in RULES:
        sets_of_values = [_values_of_rule(catalogue, RULES[table], column)]
    else:
        rows = catalogue(
            """
            select pg_get_constraintdef(c.oid) as text from pg_constraint c
            join pg_attribute a on a.attrelid = c.conrelid and a.attnum = any (c.conkey)
            where c.contype = 'c' and c.conrelid = $1::regclass and a.attname = $2
                and cardinality(c.conkey) = 1
            """,
            table,
            column,
        )
        sets_of_values = [set(row["text"].split("'")[1::2]) for row in rows if "ANY" in row["text"]]
    assert sets_of_values == [set(get_args(literal))]


# ── statements that the database refuses; each runs in a transaction that is rolled back ──


@pytest.fixture(scope="module")
def books(module_database_url: str) -> str:
    """Address of a database with the rows of ``_BOOKS``."""

    async def fill() -> None:
        connection = await connect(module_database_url)
        try:
            await connection.execute(_BOOKS)
        finally:
            await connection.close()

    asyncio.run(fill())
    return module_database_url


@pytest.fixture
def refuses(books: str) -> Callable[[str], str]:
    """A function that runs a statement and returns the name of its error, or ""."""

    async def run(statement: str) -> str:
        connection = await connect(books)
        try:
            await connection.execute("begin")
            await connection.execute(statement)
            # A commit would check these constraints too.
            await connection.execute("set constraints all immediate")
        except asyncpg.PostgresError as error:
            return type(error).__name__
        else:
            return ""
        finally:
            await connection.close()  # closing the connection rolls the transaction back

    return lambda statement: asyncio.run(run(statement))


_ENTRY: Final = (
    "insert into entries values ('mer_1', '{currency}', {number}, 'txn_{number}', '{type}', "
    "'{source}', '{target}', {amount}, {amount}, {pending}, 0, 0, 0, 'operator', '{cause}', '', 1)"
)


def _entry(**changes: Any) -> str:
    row = {"currency": "USD", "number": 2, "type": "PAYMENT", "source": "gateway"}
    more = {"target": "pending", "amount": 1, "pending": 1, "cause": "c2"}
    return _ENTRY.format(**row | more | changes)


_BOOKS: Final = f"""
    insert into merchants values ('mer_1', 'M', 'USD', 1, 0.04, '[]', 'KEPT', 0, 7, 'EVERY_DAY', 0,
        180, 1500, 0, '{{}}', 1, 1);
    insert into balances values ('mer_1', 'USD', 1, 0, 0, 0, -1, 0, 0, 1, 1);
    {_entry(number=1, cause="c1")};
    insert into products values ('mer_1', 'prod_1', 'P', '', null, 1, 'USD', 'ACTIVE', '{{}}', 1,
        1);
    insert into checkouts values ('mer_1', 'cs_1', 'prod_1', 'order_1', 1, 'USD', 'OPEN', null,
        null, null, '', null, 'M', 2, 1, 1);
    insert into orders (merchant_id, id, checkout_id, product_id, product_name, product_description,
        source, status, history_number, currency, amount_minor, platform_fee_rate,
        platform_fee_minor, settled_currency, exchange_rate, usd_exchange_rate,
        gross_settled_minor, net_settled_minor,
        refund_fee_policy, customer_email, payer_ip, refunded_minor, refund_held_minor,
        refund_debit_minor, reserve_rate, reserve_minor, reserve_status, metadata, created_at,
        updated_at, terms_version, fees, settlement_delay_days, settlement_calendar, reserve_days,
        dispute_fee_minor)
    values ('mer_1', 'order_1', 'cs_1', 'prod_1', 'P', '', 'API', 'PENDING', 1, 'USD', 100, 0.04, 4,
        'USD', 1, 1, 100, 96, 'KEPT', '', '', 0, 0, 0, 0, 0, 'NONE', '{{}}', 1, 1, 1, '[]', 7,
        'EVERY_DAY', 180, 1500);
    insert into order_history values ('mer_1', 'order_1', 1, 1, 'opened', null, 'PENDING', 'cs_1');
    insert into audit_log values (null, 'aud_1', 1, 'me', 'test', 'mer_1', 'x', 'because');
"""
_IMMUTABLE: Final = "IntegrityConstraintViolationError"

REFUSED: Final = (
    *(
        (statement.format(table), _IMMUTABLE)
        for table in ("entries", "order_history", "audit_log")
        for statement in (
            "update {} set merchant_id = merchant_id",
            "delete from {}",
            "truncate {}",
        )
    ),
    ("truncate orders cascade", _IMMUTABLE),
    ("truncate balances cascade", _IMMUTABLE),
    ("delete from merchants", "ForeignKeyViolationError"),
    ("delete from balances", _IMMUTABLE),
    ("update balances set currency = 'EUR'", _IMMUTABLE),
    # The entry leads to another balance than the stored one.
    (_entry(), "ForeignKeyViolationError"),
    ("update balances set entries = 2; " + _entry(pending=2), "ForeignKeyViolationError"),
    ("update balances set entries = 3; " + _entry(), "ForeignKeyViolationError"),
    ("update balances set entries = 2, last_at = 2; " + _entry(), "ForeignKeyViolationError"),
    (_entry(currency="EUR"), "ForeignKeyViolationError"),
    ("delete from orders", "ForeignKeyViolationError"),
    ("update balances set pending = pending + 1", "CheckViolationError"),
    ("update balances set frozen = -1, pending = 2", "CheckViolationError"),
    ("update balances set reserve = -1, pending = 2", "CheckViolationError"),
    (_entry(amount=0), "CheckViolationError"),
    (_entry(amount=-1), "CheckViolationError"),
    (_entry(type="GIFT"), "CheckViolationError"),
    (_entry(target="pocket"), "CheckViolationError"),
    (_entry(source="pending"), "CheckViolationError"),
    (_entry(number=0), "CheckViolationError"),
    (_entry(number=1), "UniqueViolationError"),
    (_entry(cause="c1"), "UniqueViolationError"),
    ("update orders set status = 'PAID'", "CheckViolationError"),
    ("update orders set status = 'SETTLED', paid_at = 1", "CheckViolationError"),
    ("update orders set status = 'REFUNDED', paid_at = 1", "CheckViolationError"),
    ("update orders set status = 'LOST'", "CheckViolationError"),
    ("update orders set refund_held_minor = 101", "CheckViolationError"),
    ("update orders set refund_held_minor = -1", "CheckViolationError"),
    ("update orders set refunded_minor = 1", "CheckViolationError"),
    ("update orders set refund_debit_minor = 101", "CheckViolationError"),
    ("update orders set platform_fee_minor = 101", "CheckViolationError"),
    ("update orders set net_settled_minor = 101", "CheckViolationError"),
    ("update orders set exchange_rate = 0", "CheckViolationError"),
    ("update products set price_minor = 0", "CheckViolationError"),
    ("update products set name = ''", "CheckViolationError"),
    ("update merchants set platform_fee_rate = 1", "CheckViolationError"),
)


@pytest.mark.parametrize(("statement", "error"), REFUSED, ids=[row[0][:60] for row in REFUSED])
def test_the_database_refuses_a_statement_that_breaks_a_rule(
    refuses: Callable[[str], str], statement: str, error: str
) -> None:
    assert refuses(statement) == error


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("update orders set quantity = 100", "orders_quantity"),
        ("update orders set status = 'LOST'", "orders_status_check"),
        ("update checkouts set methods = '{}'", "checkouts_methods"),
        (_entry(number=0), "entries_number_check"),
        (_entry(type="GIFT"), "entries_follow_postings"),
    ],
)
def test_a_refusal_names_the_rule(books: str, statement: str, rule: str) -> None:
    async def run() -> str:
        connection = await connect(books)
        try:
            await connection.execute(statement)
        except asyncpg.CheckViolationError as error:
            return error.constraint_name or ""
        finally:
            await connection.close()
        return ""

    assert asyncio.run(run()) == rule


def test_a_valid_update_is_accepted(refuses: Callable[[str], str]) -> None:
    assert refuses("update orders set status = 'PAID', paid_at = 2") == ""
