"""SQL of the incremental check of one range of a balance's entries."""

from typing import Final

from opentill.db.query import Command, Query
from opentill.ledger import queries
from opentill.ledger.model import Progress, RangeSums, Violation

_RANGE_S: Final = 600.0  # time limit of reading a range from a busy disk
# The balance that has waited longest, except those whose pass ended after `:until` (real time, Unix
# ms). A balance with an unfinished pass waits like all others, so that neither many entries nor
# failures to read them keep others from their turns.
NEXT = Query(
    Progress,
    f"""
    select m.id as merchant_id, coalesce(b.currency, m.settlement_currency) as currency,
        coalesce(c.checked_to, 0) as checked_to, {queries.each("coalesce(c.{0}, 0) as {0}")},
        coalesce(c.last_at, 0) as last_at,
        case when c.checked_to > 0 then c.found else 0 end as pass_violations,
        case when c.checked_to > 0 then c.found_rows else '[]' end as pass_violation_rows
    from merchants m left join balances b on b.merchant_id = m.id
    left join ledger_checks c on c.merchant_id = m.id
        and c.currency = coalesce(b.currency, m.settlement_currency)
    where c.checked_at is null or c.checked_to > 0 or c.checked_at <= :until
    order by c.checked_at nulls first limit 1
    """,  # noqa: S608 - interpolates constants of this program only
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
    """,  # noqa: S608 - interpolates constants of this program only
    timeout_s=_RANGE_S,
)
WRONG = Query(
    Violation,
    queries.rule_sql(
        queries.FOLLOWS_SENTENCE,
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
        """,  # noqa: S608 - interpolates constants of this program only
    ),
    timeout_s=_RANGE_S,
)
UNKNOWN = Query(
    Violation,
    queries.rule_sql(
        queries.MOVES_SENTENCE,
        f"""
    select merchant_id, id as subject,
        type || ' from ' || from_account || ' to ' || to_account as detail
    from entries e
    where merchant_id = :merchant_id and currency = :currency
        and number > :after and number <= :last and {queries.IS_UNKNOWN}
    order by number limit 1000
        """,  # noqa: S608 - interpolates constants of this program only
    ),
    timeout_s=_RANGE_S,
)
# Writes nothing if another worker was faster: the pass is no longer at `:checked_from`, or, if
# `:stored_at` is given, it was stored after that time. `:checked_to` is 0 at the end of a pass, and
# `:entries` is null before the end. `:checked_at` is real time. `:whole` means that this pass has
# checked everything: until then the violations of the last whole pass remain, unless this pass
# found more. `finished_at` is the end of the last whole pass, 0 if there was none.
SAVE = Command(
    f"""
    insert into ledger_checks as c (merchant_id, currency, checked_to, {queries.each("{0}")},
        last_at, found, found_rows, violations, violation_rows, entries, checked_at, finished_at)
    values (:merchant_id, :currency, :checked_to, {queries.each(":{0}")}, :last_at,
        :pass_violations, :pass_violation_rows, :pass_violations, :pass_violation_rows,
        coalesce(:entries, 0), :checked_at, case when :whole then :checked_at::bigint else 0 end)
    on conflict (merchant_id, currency) do update set checked_to = :checked_to,
        {queries.each("{0} = :{0}")}, last_at = :last_at, found = :pass_violations,
        found_rows = :pass_violation_rows, checked_at = :checked_at,
        entries = coalesce(:entries, c.entries),
        violations = case when :whole then :pass_violations
            else greatest(c.violations, :pass_violations) end,
        violation_rows = case
            when :whole or (:entries::bigint is not null and :pass_violations > c.violations)
                then :pass_violation_rows
            else c.violation_rows end,
        finished_at = case when :whole then :checked_at else coalesce(c.finished_at, 0) end
    where c.checked_to = :checked_from
        and (:stored_at::bigint is null or c.checked_at = :stored_at)
    """,  # noqa: S608 - interpolates constants of this program only
)
