"""The SQL of the list of what comes in and goes out, without transfers between accounts."""

from typing import Final

from opentill.db.query import Query
from opentill.http.paging import PageQuery
from opentill.ledger.model import Entry
from opentill.ledger.postings import TRANSFERS, TYPES
from opentill.list_counts import lists

_MONEY: Final = ", ".join(f"'{name}'" for name in TYPES if name not in (*TRANSFERS, "FEE"))


def _money_rows(direction: str) -> Query[Entry]:
    """Build the list of what comes in and goes out, in the order ``asc`` or ``desc``.

    The newest of each type are merged, since a day's transfers may be as many as its payments, and
    a list that skips them would read all of them. Fees of payments are in the row of the payment.
    """
    return Query(
        Entry,
        f"""
        select * from (
            select entry.* from unnest(array[{_MONEY}]) as kind (name)
            cross join lateral (
                select * from entries
                where merchant_id = :merchant_id and type = kind.name
                    and created_at between :since and :until
                order by created_at {direction}, id {direction}
                limit :limit::bigint + :offset::bigint
            ) entry
            union all
            select * from entries
            where merchant_id = :merchant_id and source_type in ('payout', 'operator')
                and type = 'FEE' and created_at between :since and :until
            union all
            select * from (
                select * from entries
                where merchant_id = :merchant_id
                    and (from_account = 'prepaid' or to_account = 'prepaid') and type = 'FEE'
                    and created_at between :since and :until
                order by created_at {direction}, id {direction}
                limit :limit::bigint + :offset::bigint
            ) fee
        ) movement
        order by created_at {direction}, id {direction} limit :limit offset :offset
        """,  # noqa: S608 - interpolates constants of this program only
    )


# Without transfers between the merchant's accounts too.
MONEY_LISTS: Final = {
    filters: statements._replace(newest=_money_rows("desc"), oldest=_money_rows("asc"))
    for filters, statements in lists(
        Entry,
        "entries",
        PageQuery,
        only=(
            f"(type in ({_MONEY}) or (type = 'FEE' and (source_type in ('payout', 'operator')"
            " or from_account = 'prepaid' or to_account = 'prepaid')))"
        ),
    ).items()
}
