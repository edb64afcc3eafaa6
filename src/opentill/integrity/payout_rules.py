"""That payouts explain their entries and the other way round, for ``opentill ledger check``."""

from typing import Final

from opentill.db.query import Query
from opentill.ledger import Violation

RULES: Final = (
    Query(
        Violation,
        """
        select 'a payout has left with its fee, and is back with it exactly when it failed' as rule,
            p.merchant_id, p.id as subject,
            p.status || ' of ' || p.amount_minor || ', fee ' || p.fee_minor || ': out ' || e.sent
                || ', fee ' || e.fee || ', back ' || e.back || ', fee back ' || e.fee_back
                || ', others ' || e.odd as detail
        from payouts p cross join lateral (
            select
                coalesce(sum(e.amount_minor) filter (where
                    (e.type, e.from_account) = ('PAYOUT', 'available')), 0) as sent,
                coalesce(sum(e.amount_minor) filter (where
                    (e.type, e.from_account) = ('FEE', 'available')), 0) as fee,
                coalesce(sum(e.amount_minor) filter (where
                    (e.type, e.from_account) = ('PAYOUT', 'bank')), 0) as back,
                coalesce(sum(e.amount_minor) filter (where (e.type, e.from_account, e.to_account)
                    = ('BALANCE_CORRECTION', 'platform', 'available')), 0) as fee_back,
                count(*) filter (where e.currency <> p.currency
                    or (e.type, e.from_account, e.to_account) not in (
                        ('PAYOUT', 'available', 'bank'), ('FEE', 'available', 'platform'),
                        ('PAYOUT', 'bank', 'available'),
                        ('BALANCE_CORRECTION', 'platform', 'available'))) as odd
            from entries e where e.merchant_id = p.merchant_id
                and e.source_type = 'payout' and e.source_id = p.id
        ) e
        where e.odd > 0 or (e.sent, e.fee, e.back, e.fee_back) <> (p.amount_minor, p.fee_minor,
            case p.status when 'FAILED' then p.amount_minor else 0 end,
            case p.status when 'FAILED' then p.fee_minor else 0 end)
        """,
    ),
    Query(
        Violation,
        """
        select 'every entry of a payout has one' as rule, e.merchant_id, e.id as subject,
            'payout ' || e.source_id || ' is not there' as detail
        from entries e where e.source_type = 'payout' and not exists (
            select from payouts p where p.merchant_id = e.merchant_id and p.id = e.source_id)
        """,
    ),
)
