"""That movements by hand explain their entries and the other way round."""

from typing import Final

from opentill.adjustments.model import MOVES
from opentill.db.query import Query
from opentill.ledger import Violation

_TABLE: Final = ", ".join(
    f"('{m.kind}', '{m.account}', {m.sign}, '{m.posting}', '{m.source}', '{m.target}')"
    for m in MOVES
)

RULES: Final = (
    Query(
        Violation,
        f"""
        select 'a movement by hand has its one entry exactly when it is done' as rule,
            o.merchant_id, o.id as subject,
            o.kind || ' of ' || o.amount_minor || ' ' || o.currency || ' is ' || o.status || ': '
                || coalesce(e.type || ' of ' || e.amount_minor || ' ' || e.currency || ' from '
                    || e.from_account || ' to ' || e.to_account, 'no entry') as detail
        from adjustments o
        left join (values {_TABLE}) as t (kind, account, sign, type, from_account, to_account)
            on (t.kind, t.account, t.sign) = (o.kind, o.account, sign(o.amount_minor)::int)
        left join entries e on e.merchant_id = o.merchant_id
            and e.source_type = 'operator' and e.source_id = o.id
        where (o.status = 'DONE') <> (e.id is not null)
            or (e.type, e.from_account, e.to_account, e.amount_minor, e.currency) is distinct from
                (t.type, t.from_account, t.to_account, abs(o.amount_minor), o.currency)
                and e.id is not null
        """,  # noqa: S608 - constants of ours
    ),
    Query(
        Violation,
        """
        select 'every entry of an operator has its movement' as rule, e.merchant_id,
            e.id as subject, 'movement ' || e.source_id || ' is not there' as detail
        from entries e where e.source_type = 'operator' and not exists (
            select from adjustments o
            where o.merchant_id = e.merchant_id and o.id = e.source_id)
        """,
    ),
    Query(
        Violation,
        """
        select 'operators unfreeze only what operators froze' as rule, merchant_id,
            currency as subject,
            'frozen by hand: ' || sum(case kind when 'freeze' then amount_minor
                else -amount_minor end) as detail
        from adjustments where status = 'DONE' and kind in ('freeze', 'unfreeze')
        group by merchant_id, currency
        having sum(case kind when 'freeze' then amount_minor else -amount_minor end) < 0
        """,
    ),
)
