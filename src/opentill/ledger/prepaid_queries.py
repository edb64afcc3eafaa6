"""SQL about prepaid balances. The index of their entries is `entries_newest_of_prepaid`."""

from opentill.db.query import Command, Query, Value
from opentill.ledger.model import Entry

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
# The fees among the newest entries of a prepaid balance, less those that were given back.
FEES = Value(
    int,
    """
    select coalesce(-sum(shown_minor), 0)::bigint from (
        select shown_minor from entries
        where merchant_id = :merchant_id and (from_account = 'prepaid' or to_account = 'prepaid')
            and currency = :currency and type = 'FEE' and created_at >= :since
        order by created_at desc, id desc limit :limit
    ) fees
    """,
)
