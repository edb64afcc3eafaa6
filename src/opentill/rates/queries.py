"""All SQL about exchange rates."""

from decimal import Decimal
from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.rates.model import ListedRate, MissingRate, Rate

# Whether a person entered the rate. Rows that an earlier version wrote lack `typed`: of these, the
# rates that are valid from midnight come from files, and the others were entered.
_IS_TYPED: Final = "coalesce(typed, valid_from % 86400000 <> 0)"
# The newest rate of a pair at a time. A rate in the other direction is inverted and rounded to 12
# significant digits. If both directions have a rate of the same time, the requested direction
# counts.
_NEWEST: Final = f"""
        select <shown>
        from (
            (select false as turned, rate, valid_from, {_IS_TYPED} as is_typed
                from exchange_rates
                where base = {{base}} and quote = {{quote}} and valid_from <= {{at}}
                order by valid_from desc limit 1)
            union all
            (select true, rate, valid_from, {_IS_TYPED} from exchange_rates
                where base = {{quote}} and quote = {{base}} and valid_from <= {{at}}
                order by valid_from desc limit 1)
            order by valid_from desc, turned limit 1
        ) newest
"""  # noqa: S608 - interpolates constants of this program only
# An entered rate is valid until it is replaced. A rate of a file is valid if its valid_from is at
# least ``oldest``, until a later day of a file lacks its currencies.
_COUNTS: Final = """
        where is_typed or (valid_from >= {oldest} and not exists (
            select from rate_days later
            where later.valid_from > newest.valid_from and later.valid_from <= {at}))
"""
_RATE: Final = """case when not turned then rate
            else round(1 / rate, 11 - floor(log(1 / rate))::int) end"""
# SQL that returns the rate, null if no rate is valid. The statement that opens a session uses it.
LOOKUP_SQL: Final = f"""
    (case when {{base}} = {{quote}} then 1 else (
        {_NEWEST.replace("<shown>", _RATE)}{_COUNTS}
    ) end)::numeric
"""
NEWEST_RATE = Query(
    Rate,
    _NEWEST.replace(
        "<shown>", f":base::text as base, :quote::text as quote, valid_from, {_RATE} as rate"
    ).format(base=":base::text", quote=":quote::text", at=":at"),
)
FIND = Value(
    Decimal,
    "select "
    + LOOKUP_SQL.format(base=":base::text", quote=":quote::text", at=":at", oldest=":oldest"),
)
PUT = Command(
    """
    insert into exchange_rates (base, quote, valid_from, rate, typed)
    values (:base, :quote, :valid_from, :rate, true)
    on conflict (base, quote, valid_from) do update set rate = excluded.rate, typed = true
    """,
)
PUT_MANY = Command(
    """
    insert into exchange_rates (base, quote, valid_from, rate, typed)
    select *, false
    from unnest(:base::text[], :quote::text[], :valid_from::bigint[], :rate::numeric[])
    on conflict (base, quote, valid_from) do update set rate = excluded.rate, typed = false
    """,
)
PUT_DAYS = Command(
    """
    insert into rate_days (valid_from) select unnest(:valid_from::bigint[])
    on conflict (valid_from) do nothing
    """,
)
# The rate of each pair of currencies that applies at a time.
CURRENT = Query(
    ListedRate,
    f"""
    select newest.*, not is_typed and exists (
            select from rate_days later
            where later.valid_from > newest.valid_from and later.valid_from <= :at) as is_dropped
    from (
        select distinct on (base, quote) base, quote, valid_from, rate, {_IS_TYPED} as is_typed
        from exchange_rates
        where valid_from <= :at and (:base::text is null or base = :base)
            and (:quote::text is null or quote = :quote)
        order by base, quote, valid_from desc
    ) newest
    order by base, quote
    """,  # noqa: S608 - interpolates constants of this program only
)
_NEEDED_RATE: Final = LOOKUP_SQL.format(
    base="wanted.base", quote="wanted.quote", at=":at::bigint", oldest=":oldest::bigint"
)
# The missing rates of existing merchants and products at `:at`. `:oldest` bounds the age of a valid
# rate (see above).
MISSING = Query(
    MissingRate,
    f"""
    with wanted as (
        select p.currency as base, m.settlement_currency as quote, true as opening
        from products p join merchants m on m.id = p.merchant_id where p.status = 'ACTIVE'
        union
        select currency, 'USD', false from products where status = 'ACTIVE'
        union
        select settlement_currency, 'USD', false from merchants
    )
    select base, quote, bool_or(opening) as opening from wanted
    where base <> quote and case when opening then {_NEEDED_RATE} is null
        else not exists (
            select from exchange_rates r
            where r.base = wanted.base and r.quote = wanted.quote and r.valid_from <= :at
        ) and not exists (
            select from exchange_rates r
            where r.base = wanted.quote and r.quote = wanted.base and r.valid_from <= :at
        ) end
    group by base, quote order by base, quote
    """,  # noqa: S608 - interpolates constants of this program only
)
