"""A search finds the same orders whether all, some or none of them are indexed."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import asyncpg
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opentill import orders
from opentill.core.errors import Invalid
from opentill.db.database import Db, Tx
from opentill.list_counts import FOREVER
from opentill.orders import SHOWN_STATUSES, Order, ShownStatus, service, statuses
from opentill.orders.search import customer_words, filters, terms
from opentill.orders.search import jobs as indexing
from opentill.orders.search import queries as search_queries
from opentill.orders.search import service as search
from opentill.orders.search.filters import ExportQuery, ListChoice, OrdersQuery
from opentill.orders.search.model import ExportCursor
from support import filled_database, world
from support.examples import examples
from support.list_connection import SingleTransactionDb
from support.transactions import RunRolledBack

DAY: Final = 86_400_000
_numbers: Final = itertools.count(1)
EMAILS: Final = ("", "ada@example.com", "Ada@Example.com", "ada@example.community", "bob@x.org")
# The name under which a customer pays, by their email address in small letters.
NAMES: Final = {"ada@example.com": "Ada Brook", "bob@x.org": "Zoë-Marie Brook"}
VALUES: Final = ("ada@example.com", "7", "7.00", "Pro", "pro", "")
emails = st.sampled_from(EMAILS)
metadata = st.dictionaries(st.sampled_from("abc"), st.sampled_from(VALUES), max_size=3)
STATUSES: Final = ("PENDING", "CREATING", "CLOSED")
METHODS: Final = (None, "ALIPAY", "CREDIT_CARD")
CLOSED_AS: Final = (None, "CANCELED", "DECLINED")
PAID: Final[Sequence[dict[str, Any]]] = (
    {"status": "PAID"},
    {"status": "SETTLED", "settled_at": world.NOW},
    {"status": "SETTLED", "settled_at": world.NOW, "refunded_minor": 1, "refund_held_minor": 1},
    {"status": "PAID", "refunded_minor": 1, "refund_held_minor": 2},
    {"status": "DISPUTED", "refunded_minor": 1, "refund_held_minor": 2},
    {"status": "DISPUTED", "refund_failed": True},
)
SHOWN_CHOICES: Final[Sequence[tuple[ShownStatus, ...]]] = (
    (), ("PENDING",), ("CREATING", "CLOSED"), ("FAILED", "ATTEMPT_FAILED"), ("ATTEMPT_FAILED",),
    ("REVOKED", "CLOSED"), ("PAID",),
    ("REFUND_FAILED", "REFUND_PENDING", "PARTIALLY_REFUNDED", "REFUNDED"), ("DISPUTED",),
    SHOWN_STATUSES,
)  # fmt: skip
changes = st.lists(
    st.tuples(
        st.sampled_from(["new", "new", "new", "email", "status", "index", "index"]),
        emails,
        metadata,
        st.sampled_from([700, 999]),
        st.integers(0, 3 * DAY),
        st.integers(0, 40),
    ),
    max_size=30,
)
queries = st.fixed_dictionaries(
    {},
    optional={
        "status": st.sampled_from(STATUSES),
        "customer_email": st.sampled_from([email for email in EMAILS if email]),
        "amount": st.sampled_from(["7", "07.00", "9.99", "9.9"]),
        "metadata": st.dictionaries(
            st.sampled_from("ab"), st.sampled_from(VALUES), min_size=1, max_size=2
        ),
        "query": st.sampled_from(
            "ada@example.com|ada@exam|ada@example.com |7|PRO|bob|zz|9.99|example.com|@x.org|brook"
            "|brook a|zoe|Marie Brook|$9.99|7,00".split("|")
        ),
        "start_date": st.integers(0, 3 * DAY).map(lambda ms: world.NOW + ms),
    },
)
choices = st.builds(
    ListChoice,
    shown=st.sampled_from(SHOWN_CHOICES),
    method=st.sampled_from(METHODS),
)


async def insert(tx: Tx, order: Order, **columns: Any) -> str:
    """Insert a copy of an order with other values in some columns; return its id."""
    row = dict(await tx.fetchrow("select * from orders where id = $1", order.id))
    row |= {"id": f"order_{next(_numbers):026}", **columns}
    places = ", ".join(f"${number}" for number in range(1, len(row) + 1))
    await tx.execute(f"insert into orders ({', '.join(row)}) values ({places})", *row.values())
    return str(row["id"])


async def apply_changes(tx: Tx, order: Order, changes: Sequence[Any]) -> None:
    """Insert and change orders, and index some in between."""
    ids: list[str] = [order.id]
    for change, email, values, amount, at, number in changes:
        order_id = ids[number % len(ids)]
        if change == "new":
            text = msgspec.json.encode(values).decode()
            columns = {"customer_email": email, "metadata": text, "amount_minor": amount}
            columns["customer_name"] = NAMES.get(email.lower())
            columns |= {"created_at": world.NOW + at, "platform_fee_minor": 0}
            columns |= {"payment_method": METHODS[number % 3], "status": STATUSES[number % 3]}
            if number % 4 == 3:
                columns |= {"paid_at": world.NOW, **PAID[number // 4 % len(PAID)]}
            elif columns["status"] == "CLOSED":
                columns["closed_as"] = CLOSED_AS[number // 3 % 3]
            else:
                columns["attempt_failed"] = number // 3 % 2 == 1
            ids.append(await insert(tx, order, **columns))
        elif change == "email":
            await tx.execute(
                "update orders set customer_email = $2, customer_name = $3 where id = $1",
                order_id,
                email,
                NAMES.get(email.lower()),
            )
        elif change == "status":
            status = STATUSES[number % 3]
            unpaid = "update orders set status = $2 where id = $1 and paid_at is null"
            await tx.execute(unpaid, order_id, status)
        else:
            await index(tx, order.merchant_id, batch=1 + number // 4)


async def index(tx: Tx, merchant_id: str, batch: int = 1000, many: int = 2) -> int:
    """Index a batch of orders, and store the counts of terms that ``many`` orders have."""
    return await indexing._index(tx, merchant_id, batch, many)


def _shown_status(row: asyncpg.Record) -> str:
    progress = statuses.refund_progress(
        row["amount_minor"], row["refunded_minor"], row["refund_held_minor"],
        has_failed=row["refund_failed"],
    )  # fmt: skip
    return statuses.shown_status(
        row["status"], progress, row["closed_as"], attempt_failed=row["attempt_failed"]
    )


async def read_matches(tx: Tx, order: Order, query: OrdersQuery, choice: ListChoice) -> list[str]:
    """Return the matching orders by reading every order, newest first."""
    rows = await tx.fetch("select * from orders where merchant_id = $1", order.merchant_id)
    start = query.start_date or 0
    matches = [
        row
        for row in rows
        if row["created_at"] >= start
        and query.status in {None, row["status"]}
        and (not choice.shown or _shown_status(row) in choice.shown)
        and choice.method in {None, row["payment_method"]}
        and _fits(row, query)
    ]
    if query.query is not None:
        term = terms.term_of(query.query)
        exact = {row["id"] for row in rows if term in _terms(row)}
        amount = {"$9.99": 999, "7,00": 700}.get(query.query)
        exact = exact or {row["id"] for row in rows if row["amount_minor"] == amount}
        if exact or len(term) < 3:
            matches = [row for row in matches if row["id"] in exact]
        else:
            matches = [row for row in matches if _is_of_customer(row, query.query)]
    matches.sort(key=lambda row: (row["created_at"], row["id"]), reverse=True)
    return [row["id"] for row in matches]


def _is_of_customer(row: asyncpg.Record, text: str) -> bool:
    email, prefix = row["customer_email"], customer_words.prefix_of(text)
    words = customer_words.words_of(email, row["customer_name"]) if email else ()
    return any(word.startswith(prefix) for word in words)


def _terms(row: asyncpg.Record) -> set[str]:
    values = msgspec.json.decode(row["metadata"]).values()
    texts = [row["customer_email"], f"{row['amount_minor'] / 100:.2f}", *values]
    return {terms.term_of(text) for text in texts if text}


def _fits(row: asyncpg.Record, query: OrdersQuery) -> bool:
    values = msgspec.json.decode(row["metadata"])
    email = query.customer_email
    return (
        (email is None or row["customer_email"].lower() == email.lower())
        and (query.amount is None or row["amount_minor"] == round(float(query.amount) * 100))
        and all(values.get(key) == value != "" for key, value in (query.metadata or {}).items())
    )


@settings(max_examples=examples(60))
@given(
    edits=changes, fields=queries, choice=st.just(ListChoice()) | choices, size=st.integers(1, 4)
)
def test_pages_totals_and_exports_equal_those_of_a_full_scan(
    run_rolled_back: RunRolledBack,
    edits: Sequence[Any],
    fields: dict[str, Any],
    choice: ListChoice,
    size: int,
) -> None:
    async def check(tx: Tx) -> None:
        order = await world.create_order(tx)
        await apply_changes(tx, order, edits)
        db = SingleTransactionDb(tx)
        query = OrdersQuery(**fields, size=size)
        matches = await read_matches(tx, order, query, choice)
        of_any_status = msgspec.structs.replace(choice, shown=())
        ids = await read_matches(tx, order, query, of_any_status)
        rows = await tx.fetch("select * from orders where id = any ($1)", ids)
        expected_counts = Counter(map(_shown_status, rows))
        pages = -(-len(matches) // size)
        for number in range(1, pages + 2):
            page_query = msgspec.structs.replace(query, page=number)
            page, total = await filters.list_page(db, order.merchant_id, page_query, choice)
            assert total == len(matches)
            assert [row.id for row in page] == matches[(number - 1) * size : number * size]
            counted = await filters.list_counted(db, order.merchant_id, page_query, choice)
            assert (counted.orders, counted.total) == (page, total)
            assert counted.counts is not None
            assert +counted.counts == expected_counts
        export = ExportQuery(**fields)
        selection = await filters.resolve_query(db, order.merchant_id, export, choice)
        if selection is None:  # no order has two statuses
            assert not matches
            return
        if selection.is_everything:
            return
        exported: list[str] = []
        cursor = ExportCursor(0, "")
        while rows := await search.list_after(db, selection.filters, selection.text, cursor, size):
            exported += [row.id for row in rows]
            cursor = ExportCursor(rows[-1].created_at, rows[-1].id)
        assert exported == matches[::-1]

    run_rolled_back(check)


def test_stored_counts_of_terms_equal_the_index(run_rolled_back: RunRolledBack) -> None:
    """They stay equal when email addresses change. Terms of few orders are not counted."""

    async def check(tx: Tx) -> None:
        order = await world.create_order(tx)
        for number in range(9):
            await insert(
                tx, order, customer_email=EMAILS[1 + number % 2], metadata=f'{{"n":"n{number}"}}'
            )
            if number % 3 == 2:
                await index(tx, order.merchant_id, many=3)
        for email in ("", "bob@x.org", "ada@example.com"):
            await tx.execute(
                "update orders set customer_email = $1 where metadata like '%n1%'", email
            )
            await index(tx, order.merchant_id, many=3)
        rows = await tx.fetch(
            """
            select term, count(*) as indexed, (
                select coalesce(sum(rows), -1) from search_counts c where c.merchant_id = $1
                    and c.term = t.term and c.place = t.place) as counted
            from search_terms t where merchant_id = $1 group by term, place order by term
            """,
            order.merchant_id,
        )  # fmt: skip
        counts = {row["term"]: (row["counted"], row["indexed"]) for row in rows}
        assert counts["9.99"] == (10, 10)
        assert counts["ada@example.com"] == (9, 9)
        assert counts["n1"] == (-1, 1)
        assert "bob@x.org" not in counts

    run_rolled_back(check)


async def test_an_order_is_found_by_the_e_mail_that_its_customer_enters(tx: Tx) -> None:
    order = await world.create_order(tx)
    await index(tx, order.merchant_id)
    await orders.start_attempt(
        tx,
        await service.lock(tx, order.merchant_id, order.id),
        "sandbox",
        "CREDIT_CARD",
        orders.Payer(email="Eve@example.com", name=None, ip="192.0.2.7", locale="en"),
        world.NOW,
    )
    for _ in range(2):
        query = OrdersQuery(customer_email="eve@EXAMPLE.com")
        page, total = await filters.list_page(SingleTransactionDb(tx), order.merchant_id, query)
        assert [row.id for row in page] == [order.id]
        assert total == 1
        await index(tx, order.merchant_id)
    assert not await search_queries.PENDING.all(tx, merchant_id=order.merchant_id)


def test_a_search_may_match_the_beginnings_of_two_hundred_addresses(
    run_rolled_back: RunRolledBack,
) -> None:
    async def check(tx: Tx) -> None:
        order = await world.create_order(tx)
        for number in range(201):
            await insert(tx, order, customer_email=f"a{number:03}@example.com")
        await index(tx, order.merchant_id)
        db = SingleTransactionDb(tx)
        query = OrdersQuery(query="a10", size=3)
        page, total = await filters.list_page(db, order.merchant_id, query)
        assert total == 10
        assert [row.customer_email for row in page] == [f"a10{n}@example.com" for n in (9, 8, 7)]
        await insert(tx, order, customer_email="b@example.com")
        await index(tx, order.merchant_id)
        await tx.execute("update orders set customer_email = 'a1' || customer_email where true")
        await index(tx, order.merchant_id)
        with pytest.raises(Invalid, match="more than 200 customers"):
            await filters.list_page(db, order.merchant_id, OrdersQuery(query="a1a"))

    run_rolled_back(check)


def test_orders_that_were_indexed_without_words_and_currencies_are_indexed_again(
    run_rolled_back: RunRolledBack,
) -> None:
    async def check(tx: Tx) -> None:
        order = await world.create_order(tx)
        merchant_id, db = order.merchant_id, SingleTransactionDb(tx)
        for _ in range(2):
            await insert(tx, order, customer_email="eve@example.com", customer_name="Eve Brook")
        await index(tx, merchant_id)
        await tx.execute("delete from search_words")
        await tx.execute("update search_terms set place = 'amount' where place like 'amount%'")
        await tx.execute("update search_counts set place = 'amount' where place like 'amount%'")
        await tx.execute("insert into search_reindexing values ($1, $2, '')", merchant_id, 10**15)
        marked = [await search_queries.INDEX_AGAIN.get(tx, limit=2) for _ in range(4)]
        assert marked == [2, 1, 0, None]
        for is_indexed in (False, True):
            for text, number in (("$9.99", 3), ("€9.99", 0), ("brook", 2), ("9.99", 3)):
                query = OrdersQuery(query=text)
                assert (await filters.list_page(db, merchant_id, query))[1] == number
            if not is_indexed:
                await index(tx, merchant_id)
        assert await tx.fetchval("select count(*) from search_terms where place = 'amount'") == 0

    run_rolled_back(check)


async def test_workers_index_each_order_once_and_only_if_enough_have_changed(db: Db) -> None:
    async with db.transaction() as tx:
        order = await filled_database.create_filled_merchant(tx, 30)
        await search_queries.ADD_HEAD.run(tx, merchant_id=order.merchant_id)
    assert await indexing.index_orders(db) == 0
    async with db.transaction() as tx:
        assert await search_queries.LOCK_HEAD.get(tx, merchant_id=order.merchant_id)
        assert await indexing.index_orders(db, at_least=1) == 0  # another worker holds the lock
    assert await indexing.index_orders(db, at_least=1) == 31
    order_filters = search.OrderFilters(
        merchant_id=order.merchant_id,
        since=0,
        until=FOREVER,
        conditions=(search.Condition("9.99", terms.AMOUNT),),
    )
    _, total = await search.list_page(db, order_filters, None, 1, 1)
    assert total == 31
