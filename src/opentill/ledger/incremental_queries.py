"""SQL of the incremental check, about one range of a balance's entries at a time."""

from typing import Final

from opentill.db.query import Command, Query
from opentill.ledger import queries
from opentill.ledger.model import Progress, RangeSums, Violation

_RANGE_S: Final = 600.0  # for what reads a range, on a disk that is busy
# The balance that has waited longest, never one whose round ended after `:until` (real time, Unix
# ms). One whose round is unfinished waits with all others: however many entries it has, or however
# often they cannot be read, the others have their turns.
NEXT = Query(
    Progress,
    f"""
    select m.id as merchant_id, coalesce(b.currency, m.settlement_currency) as currency,
        coalesce(c.checked_to, 0) as checked_to, {queries.each("coalesce(c.{0}, 0) as {0}")},
        coalesce(c.last_at, 0) as last_at,
        case when c.checked_to > 0 then c.found else 0 end as found,
        case when c.checked_to > 0 then c.found_rows else '[]' end as found_rows
    from merchants m left join balances b on b.merchant_id = m.id
    left join ledger_checks c on c.merchant_id = m.id
        and c.currency = coalesce(b.currency, m.settlement_currency)
    where c.checked_at is null or c.checked_to > 0 or c.checked_at <= :until
    order by c.checked_at nulls first limit 1
    """,  # noqa: S608 - the names of accounts are constants of ours
)
_SUMS: Final = queries.each(f"coalesce(sum({queries.MOVED}), 0)::bigint as {{0}}")
SUMS = Query(
    RangeSums,
    f"""
    select count(*) as entries, coalesce(max(number), :after) as last,
        coalesce(max(created_at), 0) as last_at, {_SUMS}
    from (
        select * from entries
        where merchant_id = :merchant_id and currency = :currency and number > :after
        order by number limit :limit
    ) as range
    """,  # noqa: S608 - as above
    timeout_s=_RANGE_S,
)
WRONG = Query(
    Violation,
    queries.rule_text(
        queries.FOLLOWS_HOLDS,
        f"""
    select :merchant_id::text as merchant_id, id as subject,
        'entry ' || number || ' of ' || :currency as detail
    from (
        select id, number, {queries.FOLLOWS} as follows
        from entries
        where merchant_id = :merchant_id and currency = :currency
            and number >= :after and number <= :last
        window following as (order by number)
    ) as checked where not follows and number > :after order by number limit 1000
        """,  # noqa: S608 - as above
    ),
    timeout_s=_RANGE_S,
)
UNKNOWN = Query(
    Violation,
    queries.rule_text(
        queries.MOVES_HOLDS,
        f"""
    select merchant_id, id as subject,
        type || ' from ' || from_account || ' to ' || to_account as detail
    from entries e
    where merchant_id = :merchant_id and currency = :currency
        and number > :after and number <= :last and {queries.IS_UNKNOWN}
    order by number limit 1000
        """,  # noqa: S608 - as above
    ),
    timeout_s=_RANGE_S,
)
# Nothing is written if another worker was faster: the round is not at `:checked_from` any more, or,
# with `:stored_at`, something was stored after that.
# `:checked_to` is 0 at the end of a round, `:entries` null before it; `:checked_at` is real time.
# `:whole`: nothing of the round is left or could not be checked. Until then what the last whole one
# found stands, unless this one found more; its end is 0 if there was none.
SAVE = Command(
    f"""
    insert into ledger_checks as c (merchant_id, currency, checked_to, {queries.each("{0}")},
        last_at, found, found_rows, violations, violation_rows, entries, checked_at, finished_at)
    values (:merchant_id, :currency, :checked_to, {queries.each(":{0}")}, :last_at, :found,
        :found_rows, :found, :found_rows, coalesce(:entries, 0), :checked_at,
        case when :whole then :checked_at::bigint else 0 end)
    on conflict (merchant_id, currency) do update set checked_to = :checked_to,
        {queries.each("{0} = :{0}")}, last_at = :last_at, found = :found,
        found_rows = :found_rows, checked_at = :checked_at, entries = coalesce(:entries, c.entries),
        violations = case when :whole then :found else greatest(c.violations, :found) end,
        violation_rows = case
            when :whole or (:entries::bigint is not null and :found > c.violations)
                then :found_rows
            else c.violation_rows end,
        finished_at = case when :whole then :checked_at else coalesce(c.finished_at, 0) end
    where c.checked_to = :checked_from
        and (:stored_at::bigint is null or c.checked_at = :stored_at)
    """,  # noqa: S608 - as above
)
