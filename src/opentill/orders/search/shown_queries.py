"""SQL of the status that pages show, which lists, filters and counts of payments share.

The same rule as ``orders.statuses.shown_status``. A status that pages show is one or several ranges
of indexes, so that a list of it reads no other orders.
"""

from typing import Final

from opentill.db.query import Query, Value
from opentill.orders.search.model import ShownCount
from opentill.orders.statuses import RefundProgress, ShownStatus, Status

# The condition of each progress of an order's refunds. Each is that of a partial index.
REFUNDS: Final[dict[RefundProgress, str]] = {
    "PARTIALLY_REFUNDED": "o.refunded_minor > 0 and o.refunded_minor < o.amount_minor",
    "REFUND_PENDING": "o.refund_held_minor > o.refunded_minor",
    "REFUND_FAILED": "o.refund_failed",
}
_IS_PAID: Final = "o.status in ('PAID', 'SETTLED')"
_PARTIAL, _HELD, _FAILED = (
    f"({REFUNDS[name]})" for name in ("PARTIALLY_REFUNDED", "REFUND_PENDING", "REFUND_FAILED")
)
# The status that pages show, of an order `o`.
SHOWN: Final = f"""
    case when {_FAILED} then 'REFUND_FAILED'
        when {_IS_PAID} and {_HELD} then 'REFUND_PENDING'
        when {_IS_PAID} and {_PARTIAL} then 'PARTIALLY_REFUNDED'
        when o.status = 'SETTLED' then 'PAID'
        when o.closed_as = 'DECLINED' then 'FAILED'
        when o.closed_as = 'CANCELED' then 'REVOKED'
        when o.status = 'PENDING' and o.attempt_failed then 'ATTEMPT_FAILED'
        else o.status end
"""
_UNREFUNDED: Final = f"not {_FAILED} and not {_HELD} and not {_PARTIAL}"
# Orders for which the status that pages show does not follow from their status alone, by index.
_EXCEPTIONS: Final[dict[ShownStatus, str]] = {
    "REFUND_FAILED": _FAILED,
    "REFUND_PENDING": f"{_HELD} and {_IS_PAID} and not {_FAILED}",
    "PARTIALLY_REFUNDED": f"{_PARTIAL} and {_IS_PAID} and not {_HELD} and not {_FAILED}",
    "FAILED": "o.closed_as = 'DECLINED'",
    "REVOKED": "o.closed_as = 'CANCELED'",
    "ATTEMPT_FAILED": "o.attempt_failed and o.status = 'PENDING'",
}


def _has(status: Status) -> str:
    # The subquery keeps PostgreSQL from choosing an index of a job, whose rows are not in the
    # order of lists.
    return f"o.status = (select '{status}')"


# Each status that pages show → conditions that exclude each other, each served by an index.
CONDITIONS: Final[dict[ShownStatus, tuple[str, ...]]] = {
    "PAID": (f"{_has('PAID')} and {_UNREFUNDED}", f"{_has('SETTLED')} and {_UNREFUNDED}"),
    "PARTIALLY_REFUNDED": (_EXCEPTIONS["PARTIALLY_REFUNDED"],),
    "REFUNDED": (f"{_has('REFUNDED')} and not {_FAILED}",),
    "REFUND_PENDING": (_EXCEPTIONS["REFUND_PENDING"],),
    "REFUND_FAILED": (_EXCEPTIONS["REFUND_FAILED"],),
    "DISPUTED": (f"{_has('DISPUTED')} and not {_FAILED}",),
    "CHARGEBACK": (f"{_has('CHARGEBACK')} and not {_FAILED}",),
    "FAILED": (_has("FAILED"), _EXCEPTIONS["FAILED"]),
    "ATTEMPT_FAILED": (_EXCEPTIONS["ATTEMPT_FAILED"],),
    "CREATING": (_has("CREATING"),),
    "PENDING": (f"{_has('PENDING')} and not o.attempt_failed",),
    "REVOKED": (_has("REVOKED"), _EXCEPTIONS["REVOKED"]),
    "CLOSED": (f"{_has('CLOSED')} and o.closed_as is null",),
}
# The number of orders in a range of time for which the status that pages show does not follow from
# their status alone. Each part reads a partial index, and the orders.
EXCEPTIONS = Query(
    ShownCount,
    " union all ".join(
        f"""
        select o.status, '{name}' as shown, count(*) as rows from orders o
        where o.merchant_id = :merchant_id and {condition}
            and o.created_at between :since and :until
            and (:product_id::text is null or o.product_id = :product_id)
        group by o.status
        """  # noqa: S608 - interpolates constants of this program only
        for name, condition in _EXCEPTIONS.items()
    ),
)
# The same for a method. Only paid orders have one, so that closed orders are not read.
EXCEPTIONS_OF_METHOD = Query(
    ShownCount,
    " union all ".join(
        f"""
        select o.status, '{name}' as shown, count(*) as rows from orders o
        where o.merchant_id = :merchant_id and {_EXCEPTIONS[name]}
            and o.created_at between :since and :until and o.payment_method = :method
            and (:product_id::text is null or o.product_id = :product_id)
        group by o.status
        """  # noqa: S608 - interpolates constants of this program only
        for name in REFUNDS
    ),
)
# The number of orders of each status that were paid by a method, from the index of methods.
STATUSES_OF_METHOD = Query(
    ShownCount,
    """
    select of_status.status, of_status.status as shown, counted.rows
    from unnest(:status::text[]) as of_status (status)
    cross join lateral (
        select count(*) as rows from orders o
        where o.merchant_id = :merchant_id and o.payment_method = :method
            and o.status = of_status.status and o.created_at between :since and :until
    ) counted
    where counted.rows > 0
    """,
)
# The same for a product, by reading the orders.
STATUSES_OF_METHOD_AND_PRODUCT = Query(
    ShownCount,
    """
    select o.status, o.status as shown, count(*) as rows from orders o
    where o.merchant_id = :merchant_id and o.payment_method = :method
        and o.product_id = :product_id and o.created_at between :since and :until
    group by o.status
    """,
)
# The number of orders of each status in a range of time, by reading them.
STATUSES = Query(
    ShownCount,
    """
    select o.status, o.status as shown, count(*) as rows from orders o
    where o.merchant_id = :merchant_id and o.created_at between :since and :until
        and (:product_id::text is null or o.product_id = :product_id)
    group by o.status
    """,
)
# The number of a merchant's orders whose refunds have this progress, whatever their status.
COUNT_BY_REFUNDS: Final[dict[tuple[RefundProgress], tuple[Value[int]]]] = {
    (progress,): (
        Value(
            int,
            f"select count(*) from orders o where o.merchant_id = :merchant_id and {condition}",  # noqa: S608 - interpolates constants of this program only
        ),
    )
    for progress, condition in REFUNDS.items()
}
