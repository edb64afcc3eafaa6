"""All SQL about exchange rates."""

from decimal import Decimal
from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.rates.model import Lacking, Rate

# The newest rate that counts at a time, of either direction; of two of the same time the one in the
# wanted direction. The other one is inverted, to 12 significant digits, half up.
_NEWEST: Final = """
        select <shown>
        from (
            (select false as turned, rate, valid_from from exchange_rates
                where base = {base} and quote = {quote} and valid_from between {oldest} and {at}
                order by valid_from desc limit 1)
            union all
            (select true, rate, valid_from from exchange_rates
                where base = {quote} and quote = {base} and valid_from between {oldest} and {at}
                order by valid_from desc limit 1)
        ) found
        order by valid_from desc, turned limit 1
"""
_RATE: Final = """case when not turned then rate
            else round(1 / rate, 11 - floor(log(1 / rate))::int) end"""
# Null if there is none. Also a part of the statement that opens a session. ``oldest`` is the
# earliest valid_from.
LOOKUP_SQL: Final = f"""
    (case when {{base}} = {{quote}} then 1 else (
        {_NEWEST.replace("<shown>", _RATE)}
    ) end)::numeric
"""
LATEST = Query(
    Rate,
    _NEWEST.replace(
        "<shown>", f":base::text as base, :quote::text as quote, valid_from, {_RATE} as rate"
    ).format(base=":base::text", quote=":quote::text", at=":at", oldest="0"),
)
FIND = Value(
    Decimal,
    "select "
    + LOOKUP_SQL.format(base=":base::text", quote=":quote::text", at=":at", oldest=":oldest"),
)
PUT = Command(
    """
    insert into exchange_rates (base, quote, valid_from, rate)
    values (:base, :quote, :valid_from, :rate)
    on conflict (base, quote, valid_from) do update set rate = excluded.rate
    """,
)
PUT_MANY = Command(
    """
    insert into exchange_rates (base, quote, valid_from, rate)
    select * from unnest(:base::text[], :quote::text[], :valid_from::bigint[], :rate::numeric[])
    on conflict (base, quote, valid_from) do update set rate = excluded.rate
    """,
)
# The one of each pair that holds at a time.
NEWEST = Query(
    Rate,
    """
    select distinct on (base, quote) base, quote, valid_from, rate from exchange_rates
    where valid_from <= :at and (:base::text is null or base = :base)
        and (:quote::text is null or quote = :quote)
    order by base, quote, valid_from desc
    """,
)
# The rates that the existing merchants need at a time and that are missing: to open a session, none
# older than `:oldest`; to show a refund in USD, of any age.
LACKING = Query(
    Lacking,
    """
    with wanted as (
        select p.currency as base, m.settlement_currency as quote, true as opening
        from products p join merchants m on m.id = p.merchant_id where p.status = 'ACTIVE'
        union
        select currency, 'USD', false from products where status = 'ACTIVE'
        union
        select settlement_currency, 'USD', false from merchants
    )
    select base, quote, bool_or(opening) as opening from wanted
    where base <> quote and not exists (
        select from exchange_rates
        where exchange_rates.base = wanted.base and exchange_rates.quote = wanted.quote
            and valid_from between case when opening then :oldest::bigint else 0 end and :at
    ) and not exists (
        select from exchange_rates
        where exchange_rates.base = wanted.quote and exchange_rates.quote = wanted.base
            and valid_from between case when opening then :oldest::bigint else 0 end and :at
    )
    group by base, quote order by base, quote
    """,
)
