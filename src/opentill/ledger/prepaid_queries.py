"""SQL about prepaid balances. The index of their entries is `entries_newest_of_prepaid`."""

from opentill.db.query import Command, Query, Value
from opentill.ledger.model import Entry, PrepaidFees

FREE = Value(
    int,
    """
    select prepaid - prepaid_reserved from balances
    where merchant_id = :merchant_id and currency = :currency
    """,
)
RELEASE = Command(
    """
    update balances set prepaid_reserved = prepaid_reserved - :amount_minor
    where merchant_id = :merchant_id and currency = :currency
    """,
)
NEWEST = Query(
    Entry,
    """
    select * from entries
    where merchant_id = :merchant_id and (from_account = 'prepaid' or to_account = 'prepaid')
    order by created_at desc, id desc limit :limit
    """,
)
# The fees among the newest entries of a prepaid balance, less those that were given back, and the
# smallest of them. `first_at` is the time of the oldest of `number` summed entries.
FEES = Query(
    PrepaidFees,
    """
    select coalesce(-sum(shown_minor), 0)::bigint as fees_minor,
        coalesce(min(-shown_minor) filter (where shown_minor < 0), 0) as smallest_minor,
        count(*) as number, coalesce(min(created_at), 0) as first_at
    from (
        select shown_minor, created_at from entries
        where merchant_id = :merchant_id and (from_account = 'prepaid' or to_account = 'prepaid')
            and currency = :currency and type = 'FEE' and created_at >= :since
        order by created_at desc, id desc limit :limit
    ) fees
    """,
)
# The highest prepaid balance right after a top-up, among entries of a range of numbers. They are
# read by the primary key, not by the index of all prepaid entries.
HIGHEST_TOP_UP = Value(
    int,
    """
    with numbered as materialized (
        select from_account, to_account, prepaid_after from entries
        where merchant_id = :merchant_id and currency = :currency
            and number > :after and number <= :last
    )
    select max(prepaid_after) from numbered
    where to_account = 'prepaid' and from_account <> 'platform'
    """,
)
