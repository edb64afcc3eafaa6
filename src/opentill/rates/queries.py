"""All SQL about exchange rates."""

from decimal import Decimal
from typing import Final

from opentill.core.db import Command, Query, Value
from opentill.rates.model import Rate

# The newest rate that counts at a time, read in the direction that is there, given before turned
# round; null if there is none. A rate that is turned round gets 12 significant digits, half up.
# Also a part of the statement that opens a session. ``oldest`` is the earliest valid_from.
LOOKUP_SQL: Final = """
    (case when {base} = {quote} then 1 else (
        select case when not turned then rate
            else round(1 / rate, 11 - floor(log(1 / rate))::int) end
        from (
            (select false as turned, rate, valid_from from rates
                where base = {base} and quote = {quote} and valid_from between {oldest} and {at}
                order by valid_from desc limit 1)
            union all
            (select true, rate, valid_from from rates
                where base = {quote} and quote = {base} and valid_from between {oldest} and {at}
                order by valid_from desc limit 1)
        ) found
        order by valid_from desc, turned limit 1
    ) end)::numeric
"""
FIND = Value(
    Decimal,
    "select " + LOOKUP_SQL.format(base="$1::text", quote="$2::text", at="$3", oldest="$4"),
)
PUT = Command(
    """
    insert into rates (base, quote, valid_from, rate) values ($1, $2, $3, $4)
    on conflict (base, quote, valid_from) do update set rate = excluded.rate
    """,
)
# $1 bases, $2 quotes, $3 times, $4 rates.
PUT_MANY = Command(
    """
    insert into rates (base, quote, valid_from, rate)
    select * from unnest($1::text[], $2::text[], $3::bigint[], $4::numeric[])
    on conflict (base, quote, valid_from) do update set rate = excluded.rate
    """,
)
# The one of each pair that holds at the time $1.
NEWEST = Query(
    Rate,
    """
    select distinct on (base, quote) base, quote, valid_from, rate from rates
    where valid_from <= $1 and ($2::text is null or base = $2)
        and ($3::text is null or quote = $3)
    order by base, quote, valid_from desc
    """,
)
