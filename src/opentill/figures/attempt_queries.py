"""SQL of the figures that are counted from attempts: failed ones and direct payments (0169)."""

from opentill.db.query import Command, Value

OPEN_ATTEMPTS = Command(
    """
    insert into attempt_figures (merchant_id, since, failed) values (:merchant_id, 0, 0)
    on conflict do nothing
    """
)
LOCK_ATTEMPTS = Value(
    str,
    """
    select merchant_id from attempt_figures
    where merchant_id = :merchant_id and since = 0 for update
    """,
)
# Insert missing rows of quarter hours; ADD_FAILED then adds to these rows and all later ones.
OPEN_QUARTERS = Command(
    """
    insert into attempt_figures (merchant_id, since, failed)
    select :merchant_id, wanted.since, before.failed
    from unnest(:since::bigint[]) as wanted (since)
    cross join lateral (
        select failed from attempt_figures f
        where f.merchant_id = :merchant_id and f.since <= wanted.since
        order by f.since desc limit 1
    ) before
    on conflict do nothing
    """
)
ADD_FAILED = Command(
    """
    update attempt_figures f set failed = f.failed + more.failed
    from (
        select later.since, sum(c.failed) as failed
        from unnest(:since::bigint[], :failed::bigint[]) as c (since, failed)
        join attempt_figures later
            on later.merchant_id = :merchant_id and later.since >= c.since
        group by later.since
    ) more
    where f.merchant_id = :merchant_id and f.since = more.since and more.failed <> 0
    """
)

# Insert missing rows of quarter hours, and of the time 0; ADD_DIRECT then adds to these and all
# later rows. The caller holds the lock of LOCK_ATTEMPTS.
OPEN_DIRECT = Command(
    """
    insert into direct_figures (merchant_id, currency, since, payments, paid_minor)
    select :merchant_id, c.currency, c.since, coalesce(before.payments, 0),
        coalesce(before.paid_minor, 0)
    from (
        select currency, since
        from unnest(:currency::text[], :since::bigint[]) as one (currency, since)
        union select currency, 0 from unnest(:currency::text[]) as one (currency)
    ) c
    left join lateral (
        select payments, paid_minor from direct_figures f
        where f.merchant_id = :merchant_id and f.currency = c.currency and f.since <= c.since
        order by f.since desc limit 1
    ) before on true
    on conflict do nothing
    """
)
ADD_DIRECT = Command(
    """
    update direct_figures f
    set payments = f.payments + more.payments, paid_minor = f.paid_minor + more.paid_minor
    from (
        select later.currency, later.since, sum(c.payments)::bigint as payments,
            sum(c.paid_minor)::bigint as paid_minor
        from unnest(:currency::text[], :since::bigint[], :payments::bigint[],
            :paid_minor::bigint[]) as c (currency, since, payments, paid_minor)
        join direct_figures later on later.merchant_id = :merchant_id
            and later.currency = c.currency and later.since >= c.since
        group by later.currency, later.since
    ) more
    where f.merchant_id = :merchant_id and f.currency = more.currency and f.since = more.since
    """
)
