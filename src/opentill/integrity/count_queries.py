"""SQL of the integrity rule of list counts, which is long."""

from typing import Final

# The counts plus the changes that they lack must equal the numbers of rows, for each span.
TOTALS_OF_LISTS: Final = """
    select merchant_id,
        list || ' ' || span as subject,
        kind || coalesce(' of ' || nullif(part, ''), '') || ' since ' || since || ': '
            || sum(counted) || ' counted, ' || sum(there) || ' there' as detail
    from (
        select merchant_id, list, part, span, since, kind, rows as counted, 0 as there
        from list_counts
        union all
        select merchant_id, list, p.part, s.span, s.since, kind, counted, there
        from (
            select merchant_id, list, part, at / 3600000 * 3600000 as hour, kind,
                sum(counted) as counted, sum(there) as there
            from (
                select merchant_id, list, part, at, kind, rows as counted, 0 as there
                from list_changes where kind is not null
                union all
                select merchant_id, list, part, at, was, -rows, 0
                from list_changes where was is not null
                union all
                select merchant_id, 'orders', product_id, created_at, status, 0, 1 from orders
                union all
                select merchant_id, 'shown', product_id, created_at, kind, 0, 1 from orders
                cross join lateral shown_exception(status, closed_as, attempt_failed,
                    refund_failed, refund_held_minor, refunded_minor, amount_minor) as kind
                where kind is not null
                union all
                select merchant_id, 'entries', '', created_at, type, 0, 1 from entries
            ) as each_row
            group by 1, 2, 3, 4, 5
        ) as hours
        cross join unnest(case when part = '' then array[''] else array[part, ''] end) as p (part)
        cross join unnest(array['all', 'day', 'hour'],
            array[0, hour / 86400000 * 86400000, hour]) as s (span, since)
    ) as both_sides
    group by merchant_id, list, part, span, since, kind
    having sum(counted) <> sum(there)
    """
