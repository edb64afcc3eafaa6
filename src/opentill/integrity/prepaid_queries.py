"""The integrity rules of payments that went to the merchant directly, and of their prepaid fees."""

from typing import Final

# Each rule's sentence, and the statement that finds its violations (``queries.py``).
RULES: Final = {
    "prepaid balances reserve the fees of attempts that may still be paid": """
    select merchant_id, currency as subject, sum(reserved) || ' more than that' as detail
    from (
        select merchant_id, currency, prepaid_reserved as reserved from balances
        union all
        select a.merchant_id, o.settled_currency, - a.prepaid_minor
        from payment_attempts a join orders o on o.merchant_id = a.merchant_id
            and o.id = a.order_id
        where a.prepaid_held
    ) as held
    group by merchant_id, currency
    having sum(reserved) <> 0
    """,
    "an order was paid directly exactly if its attempt took a prepaid fee": """
    select o.merchant_id, o.id as subject,
        'paid by ' || a.id || case when a.prepaid_held then ', whose fee is still reserved'
            else '' end as detail
    from orders o join payment_attempts a on a.merchant_id = o.merchant_id
        and a.id = o.paid_attempt_id
    where o.paid_directly <> (a.prepaid_minor is not null) or a.prepaid_held
    """,
}
