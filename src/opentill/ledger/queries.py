"""All SQL about entries and balances."""

from opentill.db.query import Command, Query, Value
from opentill.ledger.model import Balance, Checked, Entry, Violation
from opentill.list_counts import lists

# Post lists of movements in one statement: the lock of a balance's row orders all entries of its
# merchant and currency; running balances are window sums over the movements.
# An entry's id is made of its time, its number and random characters, so that entries of the same
# millisecond sort in the order of their numbers too.
# The movements are `ledger.service.Row`s.
POST = Query(
    Balance,
    """
    with move as (
        select m.*,
            (case target when 'pending' then amount_minor else 0 end
             - case source when 'pending' then amount_minor else 0 end) as pending,
            (case target when 'available' then amount_minor else 0 end
             - case source when 'available' then amount_minor else 0 end) as available,
            (case target when 'frozen' then amount_minor else 0 end
             - case source when 'frozen' then amount_minor else 0 end) as frozen,
            (case target when 'reserve' then amount_minor else 0 end
             - case source when 'reserve' then amount_minor else 0 end) as reserve,
            (case target when 'gateway' then amount_minor else 0 end
             - case source when 'gateway' then amount_minor else 0 end) as gateway,
            (case target when 'bank' then amount_minor else 0 end
             - case source when 'bank' then amount_minor else 0 end) as bank,
            (case target when 'platform' then amount_minor else 0 end
             - case source when 'platform' then amount_minor else 0 end) as platform
        from unnest(:merchant_id::text[], :currency::text[], :random::text[], :type::text[],
                    :source::text[], :target::text[], :amount_minor::bigint[],
                    :shown_minor::bigint[], :cause_type::text[], :cause_id::text[],
                    :description::text[])
            with ordinality as m (merchant_id, currency, random, type, source, target,
                amount_minor, shown_minor, cause_type, cause_id, description, n)
    ), change as (
        select merchant_id, currency, sum(pending) as pending, sum(available) as available,
            sum(frozen) as frozen, sum(reserve) as reserve, sum(gateway) as gateway,
            sum(bank) as bank, sum(platform) as platform, count(*) as entries
        from move group by merchant_id, currency
    ), after as (
        update balances b set
            pending = b.pending + change.pending,
            available = b.available + change.available,
            frozen = b.frozen + change.frozen,
            reserve = b.reserve + change.reserve,
            gateway = b.gateway + change.gateway,
            bank = b.bank + change.bank,
            platform = b.platform + change.platform,
            entries = b.entries + change.entries,
            last_at = greatest(b.last_at, :now::bigint)
        from change
        where b.merchant_id = change.merchant_id and b.currency = change.currency
        returning b.*
    ), written as (
        insert into entries (merchant_id, currency, number, id, type, from_account, to_account,
            amount_minor, shown_minor, pending_after, available_after, frozen_after, reserve_after,
            source_type, source_id, description, created_at)
        select m.merchant_id, m.currency, a.entries - m.later,
            'txn_' || lpad(to_hex(a.last_at), 12, '0')
                || lpad(to_hex(a.entries - m.later), 10, '0') || m.random,
            m.type, m.source, m.target, m.amount_minor, m.shown_minor,
            a.pending - m.later_pending, a.available - m.later_available,
            a.frozen - m.later_frozen, a.reserve - m.later_reserve,
            m.cause_type, m.cause_id, m.description, a.last_at
        from after a join (
            select move.*, count(*) over later as later,
                coalesce(sum(pending) over later, 0) as later_pending,
                coalesce(sum(available) over later, 0) as later_available,
                coalesce(sum(frozen) over later, 0) as later_frozen,
                coalesce(sum(reserve) over later, 0) as later_reserve
            from move
            window later as (partition by merchant_id, currency order by n desc
                rows between unbounded preceding and 1 preceding)
        ) m on m.merchant_id = a.merchant_id and m.currency = a.currency
    )
    select * from after
    """,
)
# Balances of merchants in currencies, locked in the order in which everybody locks them.
LOCK_MANY = Query(
    Balance,
    """
    select b.* from unnest(:merchant_id::text[], :currency::text[])
        as wanted (merchant_id, currency)
    join balances b on b.merchant_id = wanted.merchant_id and b.currency = wanted.currency
    order by b.merchant_id, b.currency for update of b
    """,
)
# The row that postings change. Not an upsert of the posting itself: PostgreSQL holds the row that
# an upsert proposes against the constraints, and a change alone may lower what the balance holds.
OPEN = Command(
    """
    insert into balances (merchant_id, currency, pending, available, frozen, reserve, gateway, bank,
        platform, entries, last_at)
    values (:merchant_id, :currency, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    on conflict (merchant_id, currency) do nothing
    """,
)
BALANCE = Query(
    Balance, "select * from balances where merchant_id = :merchant_id and currency = :currency"
)
BALANCES = Query(
    Balance, "select * from balances where merchant_id = :merchant_id order by currency"
)
# The last entry before a time: ids sort by number within a millisecond (decision 0011).
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
LIST = lists(Entry, "entries")
LIST_BY_TYPE = lists(Entry, "entries", "type")
CURRENCY = Value(str, "select settlement_currency from merchants where id = :merchant_id")
ENTRIES = Value(int, "select count(*) from entries")

# What `opentill ledger check` looks for; each returns the places where its rule does not hold.
_SIGNED = """
    (case e.to_account when '{0}' then e.amount_minor else 0 end
     - case e.from_account when '{0}' then e.amount_minor else 0 end)
"""


def _running(account: str) -> str:
    return (
        f"{account}_after <> lag({account}_after, 1, 0) over following + "
        + _SIGNED.format(account).strip()
    )


RULES = (
    Query(
        Violation,
        f"""
        select 'each balance after is the one before plus this entry, numbered 1, 2, 3 …' as rule,
            merchant_id, id as subject, 'entry ' || number || ' of ' || currency as detail
        from (
            select e.merchant_id, e.id, e.number, e.currency,
                ({_running("pending")}) or ({_running("available")}) or ({_running("frozen")})
                or ({_running("reserve")}) or number <> lag(number, 1, 0::bigint) over following + 1
                or created_at < lag(created_at, 1, 0::bigint) over following as wrong
            from entries e
            window following as (partition by merchant_id, currency order by number)
        ) as checked where wrong
        """,  # noqa: S608 - the account names are constants of ours
    ),
    Query(
        Violation,
        """
        select 'the balance equals the sum of its entries' as rule, b.merchant_id,
            b.currency as subject, 'the balance row and its entries differ' as detail
        from balances b left join (
            select merchant_id, currency, count(*) as entries, max(created_at) as last_at,
                sum(case to_account when 'pending' then amount_minor else 0 end
                    - case from_account when 'pending' then amount_minor else 0 end) as pending,
                sum(case to_account when 'available' then amount_minor else 0 end
                    - case from_account when 'available' then amount_minor else 0 end) as available,
                sum(case to_account when 'frozen' then amount_minor else 0 end
                    - case from_account when 'frozen' then amount_minor else 0 end) as frozen,
                sum(case to_account when 'reserve' then amount_minor else 0 end
                    - case from_account when 'reserve' then amount_minor else 0 end) as reserve,
                sum(case to_account when 'gateway' then amount_minor else 0 end
                    - case from_account when 'gateway' then amount_minor else 0 end) as gateway,
                sum(case to_account when 'bank' then amount_minor else 0 end
                    - case from_account when 'bank' then amount_minor else 0 end) as bank,
                sum(case to_account when 'platform' then amount_minor else 0 end
                    - case from_account when 'platform' then amount_minor else 0 end) as platform
            from entries group by merchant_id, currency
        ) e using (merchant_id, currency)
        where (b.entries, b.last_at, b.pending, b.available, b.frozen, b.reserve, b.gateway,
               b.bank, b.platform)
            is distinct from (e.entries, e.last_at, e.pending, e.available, e.frozen, e.reserve,
               e.gateway, e.bank, e.platform)
        """,
    ),
    Query(
        Violation,
        """
        select 'the sum over all accounts is zero' as rule, merchant_id, currency as subject,
            'the accounts do not add up' as detail
        from balances
        where pending + available + frozen + reserve + gateway + bank + platform <> 0
        """,
    ),
    Query(
        Violation,
        """
        select 'entries have a balance row' as rule, e.merchant_id, e.currency as subject,
            'entries without a balance' as detail
        from entries e left join balances b using (merchant_id, currency)
        where b.merchant_id is null group by e.merchant_id, e.currency
        """,
    ),
)
# The values are the columns of the table of movements; `:shown` are their signs.
UNKNOWN_MOVES = Query(
    Violation,
    """
    select 'every entry is a movement of the table' as rule, merchant_id, id as subject,
        type || ' from ' || from_account || ' to ' || to_account as detail
    from entries e where not exists (
        select from unnest(:type::text[], :source::text[], :target::text[], :shown::int[])
            as p (type, source, target, shown)
        where (p.type, p.source, p.target, p.shown * e.amount_minor)
            = (e.type, e.from_account, e.to_account, e.shown_minor))
    """,
)
CHECKED = Query(
    Checked,
    """
    select coalesce(sum(violations), 0)::bigint as violations,
        coalesce(sum(greatest(entries, checked_to)), 0)::bigint as entries
    from ledger_checks
    """,
)
