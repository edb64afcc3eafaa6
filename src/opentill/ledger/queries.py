"""All SQL about entries and balances."""

from collections.abc import Iterable
from typing import Annotated, Final

from msgspec import Meta

from opentill.db.query import WHOLE_TABLE_S, Command, Query, Value
from opentill.http.paging import PageQuery
from opentill.ledger.model import (
    Balance,
    BalanceCheck,
    Checked,
    CheckedBalance,
    Entry,
    MerchantId,
    PassesSum,
    TrialBalance,
    TypeSum,
    Violation,
)
from opentill.ledger.postings import (
    ACCOUNTS,
    MERCHANT_ACCOUNTS,
    Account,
    Type,
)
from opentill.list_counts import PartCount, lists


# SQL about each account is built from the table of accounts at import; it never contains any part
# of a request (decision 0050).
def each(piece: str, accounts: Iterable[Account] = ACCOUNTS, between: str = ", ") -> str:
    """Write a piece of SQL for each account, with the account's name in place of ``{0}``."""
    return between.join(piece.format(account) for account in accounts)


# SQL of the change of account {0} by an entry.
MOVED: Final = (
    "((to_account = '{0}')::int * amount_minor - (from_account = '{0}')::int * amount_minor)"
)
# SQL that says whether an entry's balances, number and time follow from the previous entry of the
# window `following`.
FOLLOWS: Final = (
    each(
        "{0}_after = lag({0}_after, 1, 0::bigint) over following + " + MOVED,
        MERCHANT_ACCOUNTS,
        " and ",
    )
    + " and number = lag(number, 1, 0::bigint) over following + 1"
    " and created_at >= lag(created_at, 1, 0::bigint) over following"
)
# Whether an entry `e` matches no row of the table of postings, whose columns are the parameters.
IS_UNKNOWN: Final = """
    not exists (
        select from unnest(:type::text[], :source::text[], :target::text[], :shown::int[])
            as p (type, source, target, shown)
        where (p.type, p.source, p.target, p.shown * e.amount_minor)
            = (e.type, e.from_account, e.to_account, e.shown_minor))
"""
_NAMES: Final = each("{0}")
_AFTER: Final = each("{0}_after", MERCHANT_ACCOUNTS)

# Post lists of movements in one statement: the lock of a balance's row orders all entries of its
# merchant and currency. A book has the changes of one balance and the number of its new entries.
# The balances after an entry are the new balances minus the changes by later entries of its book.
# An entry's id consists of its time, its number and random characters, so that entries of the same
# millisecond also sort by number. The parameters are the columns of `ledger.service.Book` and
# `Row`; one plan serves any number of them (decision 0111).
POST = Query(
    Balance,
    f"""
    with after as (
        update balances b set
            {each("{0} = b.{0} + change.{0}")},
            entries = b.entries + change.entries,
            last_at = greatest(b.last_at, :now::bigint)
        from unnest((select :merchant_id::text[]), :currency::text[], :entries::bigint[],
                {each(":{0}::bigint[]")})
            with ordinality as change (merchant_id, currency, entries, {_NAMES}, book)
        where b.merchant_id = change.merchant_id and b.currency = change.currency
        returning b.*, change.book
    ), written as (
        insert into entries (merchant_id, currency, number, id, type, from_account, to_account,
            amount_minor, shown_minor, {_AFTER}, source_type, source_id, description, created_at)
        select a.merchant_id, a.currency, a.entries - m.later,
            'txn_' || lpad(to_hex(a.last_at), 12, '0')
                || lpad(to_hex(a.entries - m.later), 10, '0') || m.random,
            m.type, m.source, m.target, m.amount_minor, m.shown_minor,
            {each("a.{0} - m.later_{0}", MERCHANT_ACCOUNTS)},
            m.cause_type, m.cause_id, m.description, a.last_at
        from unnest((select :book::bigint[]), :later::bigint[], :random::text[], :type::text[],
                :source::text[], :target::text[], :amount_minor::bigint[], :shown_minor::bigint[],
                :cause_type::text[], :cause_id::text[], :description::text[],
                {each(":later_{0}::bigint[]", MERCHANT_ACCOUNTS)})
            as m (book, later, random, type, source, target, amount_minor, shown_minor,
                cause_type, cause_id, description, {each("later_{0}", MERCHANT_ACCOUNTS)})
        join after a on a.book = m.book
    )
    select merchant_id, currency, {_NAMES}, entries, last_at, prepaid_reserved from after
    """,  # noqa: S608 - interpolates constants of this program only
)
# Lock balances of merchants and currencies in the global lock order.
LOCK_MANY = Query(
    Balance,
    """
    select b.* from unnest((select :merchant_id::text[]), :currency::text[])
        as wanted (merchant_id, currency)
    join balances b on b.merchant_id = wanted.merchant_id and b.currency = wanted.currency
    order by b.merchant_id, b.currency for update of b
    """,
)
# Create the balance's row, which POST only updates: in an upsert, PostgreSQL would check the
# constraints against the row to insert too, which has only the changes, and these may be negative.
OPEN = Command(
    f"""
    insert into balances (merchant_id, currency, {_NAMES}, entries, last_at)
    values (:merchant_id, :currency, {each("0")}, 0, 0)
    on conflict (merchant_id, currency) do nothing
    """,  # noqa: S608 - interpolates constants of this program only
)
BALANCE = Query(
    Balance, "select * from balances where merchant_id = :merchant_id and currency = :currency"
)
BALANCES_OF = Query(
    Balance, "select * from balances where merchant_id = any (:merchant_ids::text[])"
)
BALANCES = Query(
    Balance, "select * from balances where merchant_id = :merchant_id order by currency"
)
# The last entry before a time. Of entries in the same millisecond, the one with the greatest id was
# written last (decision 0011).
LAST_BEFORE = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and currency = :currency and created_at < :before
    order by created_at desc, id desc limit 1
    """,
)
BETWEEN = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and currency = :currency
        and number > :after and number <= :last
    order by number limit :limit
    """,
)
# The entries of several causes, found by the unique key that prevents posting a movement twice.
CAUSED_BY = Query(
    Entry,
    """
    select e.* from unnest(:source_type::text[], :source_id::text[])
        as cause (source_type, source_id)
    join entries e on e.merchant_id = :merchant_id and e.source_type = cause.source_type
        and e.source_id = cause.source_id
    order by e.currency, e.number
    """,
)

# The changes of each of the merchant's accounts in a range of entry numbers, by type of entry.
SUMS_BY_TYPE = Query(
    TypeSum,
    f"""
    select type, count(*) as entries,
        {each("sum(" + MOVED + ")::bigint as {0}", MERCHANT_ACCOUNTS)}
    from entries
    where merchant_id = :merchant_id and currency = :currency
        and number > :after and number <= :last
    group by type order by type
    """,  # noqa: S608 - interpolates constants of this program only
)
# A merchant's entries after the entry with time `:at` and id `:id`, oldest first.
FOLLOWING = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and (created_at, id) > (:at, :id) and created_at <= :until
        and type <> all (:without::text[])
    order by created_at, id limit :limit
    """,
)
FOLLOWING_OF_TYPE = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and type = :type
        and (created_at, id) > (:at, :id) and created_at <= :until
    order by created_at, id limit :limit
    """,
)
OF_CAUSE = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and source_type = :source_type and source_id = :source_id
    order by number
    """,
)


class ListQuery(PageQuery, frozen=True, rename="camel"):
    """Which movements to list."""

    type: (
        Annotated[Type, Meta(description="a balance transaction type such as PAYMENT or REFUND")]
        | None
    ) = None


LISTS = lists(Entry, "entries", ListQuery)
# Without the fees of payments, which people see in the row of their payment. A fee that was taken
# from the prepaid balance has a row of its own, because its payment has no entry.
ROW_LISTS = lists(
    Entry,
    "entries",
    PageQuery,
    only="not (type = 'FEE' and source_type = 'order' and from_account <> 'prepaid')",
)
COUNTS_BY_TYPE = Query(
    PartCount,
    """
    select '' as part, type as kind, count(*) as rows from entries
    where merchant_id = :merchant_id and created_at between :since and :until group by type
    """,
)
# Fees of payouts, those that the operator charged, and those of the prepaid balance. The indexes
# are those of `entries_once` and `entries_newest_of_prepaid`.
OTHER_FEES = Value(
    int,
    """
    select (
        select count(*) from entries
        where merchant_id = :merchant_id and source_type in ('payout', 'operator') and type = 'FEE'
            and created_at between :since and :until
    ) + (
        select count(*) from entries
        where merchant_id = :merchant_id and (from_account = 'prepaid' or to_account = 'prepaid')
            and type = 'FEE' and created_at between :since and :until
    )
    """,
)
FEES_OF_ORDERS = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and source_type = 'order' and source_id = any (:ids::text[])
        and type = 'FEE'
    """,
)
CURRENCY = Value(str, "select settlement_currency from merchants where id = :merchant_id")
ENTRIES = Value(int, "select count(*) from entries", timeout_s=WHOLE_TABLE_S)


def rule_sql(holds: str, violations: str, condition: str = "") -> str:
    """Return the statement that finds violations of a rule; ``holds`` is the rule as a sentence.

    ``violations`` selects merchant, subject and detail of each violation. A violation whose detail
    is null, because a row is missing, is returned with another detail.
    """
    return f"""
    select '{holds}' as rule, found.merchant_id, found.subject,
        coalesce(found.detail, 'a row that belongs to it is missing') as detail
    from ({violations}) as found{condition}
    """  # noqa: S608 - interpolates constants of this program only


FOLLOWS_SENTENCE: Final = "each balance after is the one before plus this entry, numbered 1, 2, 3 …"
MOVES_SENTENCE: Final = "every entry is a movement of the table"
# The rules of `opentill ledger check`; each statement returns the violations.
RULES = (
    Query(
        Violation,
        rule_sql(
            FOLLOWS_SENTENCE,
            f"""
        select merchant_id, id as subject, 'entry ' || number || ' of ' || currency as detail
        from (
            select e.merchant_id, e.id, e.number, e.currency,
                not ({FOLLOWS}) as wrong
            from entries e
            window following as (partition by merchant_id, currency order by number)
        ) as checked where wrong
            """,  # noqa: S608 - interpolates constants of this program only
        ),
        timeout_s=WHOLE_TABLE_S,
    ),
    Query(
        Violation,
        rule_sql(
            "the balance equals the sum of its entries",
            f"""
        select b.merchant_id, b.currency as subject,
            'the balance row and its entries differ' as detail
        from balances b left join (
            select merchant_id, currency, count(*) as entries, max(created_at) as last_at,
                {each("sum(" + MOVED + ") as {0}")}
            from entries group by merchant_id, currency
        ) e using (merchant_id, currency)
        where (b.entries, b.last_at, {each("b.{0}")})
            is distinct from (e.entries, e.last_at, {each("e.{0}")})
            """,  # noqa: S608 - interpolates constants of this program only
        ),
        timeout_s=WHOLE_TABLE_S,
    ),
    Query(
        Violation,
        rule_sql(
            "the sum over all accounts is zero",
            f"""
        select merchant_id, currency as subject, 'the accounts do not add up' as detail
        from balances
        where {each("{0}", between=" + ")} <> 0
            """,  # noqa: S608 - interpolates constants of this program only
        ),
        timeout_s=WHOLE_TABLE_S,
    ),
    Query(
        Violation,
        rule_sql(
            "entries have a balance row",
            """
        select e.merchant_id, e.currency as subject, 'entries without a balance' as detail
        from entries e left join balances b using (merchant_id, currency)
        where b.merchant_id is null group by e.merchant_id, e.currency
            """,
        ),
        timeout_s=WHOLE_TABLE_S,
    ),
)
UNKNOWN_MOVES = Query(
    Violation,
    rule_sql(
        MOVES_SENTENCE,
        f"""
    select merchant_id, id as subject,
        type || ' from ' || from_account || ' to ' || to_account as detail
    from entries e where {IS_UNKNOWN}
        """,  # noqa: S608 - interpolates constants of this program only
    ),
    timeout_s=WHOLE_TABLE_S,
)
# The end of the last finished pass, null if there is none. `finished_at` is 0 if there is none, and
# null after a check by an older version: then `checked_at` is the end, unless a pass is running.
_FINISHED: Final = (
    "nullif(coalesce(c.finished_at, case when c.checked_to = 0 then c.checked_at end), 0)"
)
CHECKED = Query(
    Checked,
    """
    select coalesce(sum(violations), 0)::bigint as violations,
        coalesce(sum(greatest(entries, checked_to)), 0)::bigint as entries
    from ledger_checks
    """,
)
# The number of balances whose last pass ended before `:since`. Merchants without entries are
# included; merchants created after `:since` are not.
OVERDUE = Value(
    int,
    f"""
    select count(*) from ledger_checks c
    where merchant_id < :made_before and coalesce({_FINISHED}, 0) < :since
    """,  # noqa: S608 - interpolates constants of this program only
)
VIOLATED = Query(
    CheckedBalance,
    """
    select merchant_id, currency, violations, checked_at from ledger_checks
    where violations > 0 order by checked_at, merchant_id, currency limit :limit
    """,
)
CHECKS = Query(
    BalanceCheck,
    f"""
    select b.merchant_id, b.currency, b.entries, coalesce(c.checked_to, 0) as checked_to,
        coalesce(greatest(c.entries, c.checked_to), 0) as entries_checked,
        coalesce(c.violations, 0) as violations, {_FINISHED} as finished_at,
        case when c.found > 0 and c.checked_to > 0 then c.found_rows
            when c.violations > 0 then c.violation_rows else '[]' end as rows
    from balances b
    left join ledger_checks c on c.merchant_id = b.merchant_id and c.currency = b.currency
    where :merchant_id::text is null or b.merchant_id = :merchant_id
    order by coalesce(c.violations, 0) > 0 desc, coalesce(c.checked_to, 0) > 0 desc,
        {_FINISHED} nulls first, b.merchant_id, b.currency limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
PASSES = Query(
    PassesSum,
    f"""
    select count(*) as balances, count(*) filter (where {_FINISHED} is null) as unfinished,
        min({_FINISHED}) as oldest, coalesce(sum(b.entries), 0)::bigint as entries,
        coalesce(sum(greatest(c.entries, c.checked_to)), 0)::bigint as entries_checked
    from balances b
    left join ledger_checks c on c.merchant_id = b.merchant_id and c.currency = b.currency
    """,  # noqa: S608 - interpolates constants of this program only
)
# The sum of each account over all merchants, or over one.
TRIAL_BALANCE = Query(
    TrialBalance,
    f"""
    select currency, count(*) as merchants, {each("sum({0})::bigint as {0}")}
    from balances where :merchant_id::text is null or merchant_id = :merchant_id
    group by currency order by currency
    """,  # noqa: S608 - interpolates constants of this program only
)

# The balances after a time: the present ones minus the changes by later entries.
BALANCES_AT = Query(
    Balance,
    f"""
    select b.merchant_id, b.currency, {each("b.{0} - coalesce(later.{0}, 0) as {0}")},
        b.entries - coalesce(later.entries, 0) as entries, b.last_at, 0 as prepaid_reserved
    from balances b left join lateral (
        select count(*) as entries, {each("sum(" + MOVED + ")::bigint as {0}")}
        from entries e
        where e.merchant_id = b.merchant_id and e.currency = b.currency and e.created_at > :at
    ) later on true
    where (b.merchant_id, b.currency) > (:after, :after_currency)
        and (:merchant_id::text is null or b.merchant_id = :merchant_id)
    order by b.merchant_id, b.currency limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
MERCHANTS_AFTER = Query(
    MerchantId,
    """
    select distinct merchant_id from balances where merchant_id > :after
    order by merchant_id limit :limit
    """,
)
