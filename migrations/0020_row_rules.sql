-- The rules of the busiest tables, those of each table in one function (decision 0110).
--
-- PostgreSQL reads, plans and prepares every check constraint of a table anew for each statement that
-- writes to the table: the 23 of orders, the 9 of entries, the 6 of checkouts and the 3 of
-- payment_attempts were a fifth of what opening a session cost, and a seventh of what confirming a
-- payment by itself cost. A function is prepared once for each connection. The rules and their names
-- are as before, and a statement that breaks one gets the same error. A rule whose value is null is
-- kept, as it is in a check constraint. The functions name nothing else of the schema, so that a
-- restore can call them before all of it is there.
--
-- The version before writes to these tables as it did. What is in them kept the same rules; the next
-- migration reads it once more, under a lock that stops nobody.

-- [orders]
create function order_keeps_rules(
    source text, status text, amount_minor bigint, exchange_rate numeric,
    usd_exchange_rate numeric, hkd_exchange_rate numeric, gross_settled_minor bigint,
    refund_fee_policy text, payment_method text, reserve_minor bigint, reserve_status text,
    charged_back_minor bigint, settlement_calendar text, quantity integer,
    client_reference text, platform_fee_minor bigint, net_settled_minor bigint,
    refund_held_minor bigint, refunded_minor bigint, refund_debit_minor bigint, paid_at bigint,
    settled_at bigint
) returns boolean language plpgsql immutable as $$
declare
    broken text := case
        when not source in ('API', 'EPAY') then 'orders_source_check'
        when not status in ('CREATING', 'PENDING', 'PAID', 'SETTLED', 'REFUNDED', 'DISPUTED',
            'CHARGEBACK', 'FAILED', 'CLOSED', 'REVOKED') then 'orders_status_check'
        when not amount_minor > 0 then 'orders_amount_minor_check'
        when not exchange_rate > 0 then 'orders_exchange_rate_check'
        when not usd_exchange_rate > 0 then 'orders_usd_exchange_rate_check'
        when not hkd_exchange_rate > 0 then 'orders_hkd_exchange_rate_check'
        when not gross_settled_minor > 0 then 'orders_gross_settled_minor_check'
        when not refund_fee_policy in ('KEPT', 'RETURNED') then 'orders_refund_fee_policy_check'
        when not payment_method in ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO',
            'BANK_TRANSFER') then 'orders_payment_method_check'
        when not reserve_minor >= 0 then 'orders_reserve_minor_check'
        when not reserve_status in ('NONE', 'HELD', 'OFFSET', 'RELEASED')
            then 'orders_reserve_status_check'
        when not charged_back_minor >= 0 then 'orders_charged_back_minor_check'
        when not settlement_calendar in ('EVERY_DAY', 'WEEKDAYS')
            then 'orders_settlement_calendar_check'
        when not quantity between 2 and 99 then 'orders_quantity'
        when not length(client_reference) between 1 and 200 then 'orders_client_reference'
        when not platform_fee_minor between 0 and amount_minor then 'orders_fee_within_amount'
        when not net_settled_minor between 0 and gross_settled_minor
            then 'orders_net_within_gross'
        when not refund_held_minor <= amount_minor then 'orders_held_within_amount'
        when not refunded_minor between 0 and refund_held_minor
            then 'orders_refunded_within_held'
        when not refund_debit_minor between 0 and gross_settled_minor
            then 'orders_debit_within_gross'
        when not (status <> 'REFUNDED' or refunded_minor = amount_minor)
            then 'orders_refunded_in_full'
        when not (status not in ('PAID', 'SETTLED', 'REFUNDED', 'DISPUTED', 'CHARGEBACK')
            or paid_at is not null) then 'orders_paid_has_its_time'
        when not (status <> 'SETTLED' or settled_at is not null)
            then 'orders_settled_has_its_time'
    end;
begin
    if broken is null then
        return true;
    end if;
    raise exception 'new row for relation "orders" violates check constraint "%"', broken
        using errcode = 'check_violation', table = 'orders', constraint = broken;
end $$;

-- [orders]
create function attempt_keeps_rules(
    method text, status text, amount_minor bigint
) returns boolean language plpgsql immutable as $$
declare
    broken text := case
        when not method in ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO',
            'BANK_TRANSFER') then 'payment_attempts_method_check'
        when not status in ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING', 'SUCCEEDED', 'DECLINED',
            'REFUSED', 'VOIDED', 'DUPLICATE', 'GIVEN_BACK') then 'payment_attempts_status_check'
        when not amount_minor > 0 then 'payment_attempts_amount_minor_check'
    end;
begin
    if broken is null then
        return true;
    end if;
    raise exception 'new row for relation "payment_attempts" violates check constraint "%"', broken
        using errcode = 'check_violation', table = 'payment_attempts', constraint = broken;
end $$;

-- [orders] A session is written with its order.
create function session_keeps_rules(
    amount_minor bigint, status text, method text, quantity integer, methods text[],
    client_reference text
) returns boolean language plpgsql immutable as $$
declare
    broken text := case
        when not amount_minor > 0 then 'checkouts_amount_minor_check'
        when not status in ('OPEN', 'COMPLETE', 'EXPIRED') then 'checkouts_status_check'
        when not method in ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO',
            'BANK_TRANSFER') then 'checkouts_method_check'
        when not quantity between 2 and 99 then 'checkouts_quantity'
        when not cardinality(methods) >= 1 then 'checkouts_methods'
        when not length(client_reference) between 1 and 200 then 'checkouts_client_reference'
    end;
begin
    if broken is null then
        return true;
    end if;
    raise exception 'new row for relation "checkouts" violates check constraint "%"', broken
        using errcode = 'check_violation', table = 'checkouts', constraint = broken;
end $$;

-- [ledger] The postings are those of ledger/postings.py: type, from, to, and the sign that the
-- merchant sees.
create function entry_keeps_rules(
    number bigint, amount_minor bigint, shown_minor bigint, source_type text, type text,
    from_account text, to_account text
) returns boolean language plpgsql immutable as $$
declare
    broken text := case
        when not number > 0 then 'entries_number_check'
        when not amount_minor > 0 then 'entries_amount_minor_check'
        when not abs(shown_minor) = amount_minor then 'entries_shown_is_the_amount'
        when not source_type in ('order', 'refund', 'dispute', 'payout', 'operator')
            then 'entries_source_type_check'
        when not concat_ws(' ', type, from_account, to_account,
            case when shown_minor > 0 then '+' else '-' end) in (
            'PAYMENT gateway pending +',
            'FEE pending platform -',
            'FEE available platform -',
            'SETTLEMENT pending available +',
            'PAYOUT available bank -',
            'PAYOUT bank available +',
            'FREEZE available frozen -',
            'FREEZE pending frozen -',
            'UNFREEZE frozen available +',
            'UNFREEZE frozen pending +',
            'REFUND frozen gateway -',
            'CHARGEBACK available gateway -',
            'CHARGEBACK pending gateway -',
            'CHARGEBACK_FEE available platform -',
            'CHARGEBACK_FEE pending platform -',
            'CHARGEBACK_RECOVERY gateway available +',
            'ROLLING_RESERVE available reserve -',
            'ROLLING_RESERVE_RELEASE reserve available +',
            'ROLLING_RESERVE_OFFSET reserve available +',
            'ROLLING_RESERVE_RECOVERY available reserve -',
            'ADMIN_RECHARGE bank available +',
            'BALANCE_CORRECTION available platform -',
            'BALANCE_CORRECTION platform available +',
            'BALANCE_CORRECTION pending platform -',
            'BALANCE_CORRECTION platform pending +'
        ) then 'entries_follow_postings'
    end;
begin
    if broken is null then
        return true;
    end if;
    raise exception 'new row for relation "entries" violates check constraint "%"', broken
        using errcode = 'check_violation', table = 'entries', constraint = broken;
end $$;

alter table orders
    drop constraint orders_source_check,
    drop constraint orders_status_check,
    drop constraint orders_amount_minor_check,
    drop constraint orders_exchange_rate_check,
    drop constraint orders_usd_exchange_rate_check,
    drop constraint orders_hkd_exchange_rate_check,
    drop constraint orders_gross_settled_minor_check,
    drop constraint orders_refund_fee_policy_check,
    drop constraint orders_payment_method_check,
    drop constraint orders_reserve_minor_check,
    drop constraint orders_reserve_status_check,
    drop constraint orders_charged_back_minor_check,
    drop constraint orders_settlement_calendar_check,
    drop constraint orders_quantity,
    drop constraint orders_client_reference,
    drop constraint orders_fee_within_amount,
    drop constraint orders_net_within_gross,
    drop constraint orders_held_within_amount,
    drop constraint orders_refunded_within_held,
    drop constraint orders_debit_within_gross,
    drop constraint orders_refunded_in_full,
    drop constraint orders_paid_has_its_time,
    drop constraint orders_settled_has_its_time,
    add constraint orders_keep_rules check (order_keeps_rules(
        source, status, amount_minor, exchange_rate, usd_exchange_rate,
        hkd_exchange_rate, gross_settled_minor, refund_fee_policy, payment_method,
        reserve_minor, reserve_status, charged_back_minor, settlement_calendar,
        quantity, client_reference, platform_fee_minor, net_settled_minor,
        refund_held_minor, refunded_minor, refund_debit_minor, paid_at, settled_at
    )) not valid;
alter table payment_attempts
    drop constraint payment_attempts_method_check,
    drop constraint payment_attempts_status_check,
    drop constraint payment_attempts_amount_minor_check,
    add constraint payment_attempts_keep_rules check (attempt_keeps_rules(
        method, status, amount_minor
    )) not valid;
alter table checkouts
    drop constraint checkouts_amount_minor_check,
    drop constraint checkouts_status_check,
    drop constraint checkouts_method_check,
    drop constraint checkouts_quantity,
    drop constraint checkouts_methods,
    drop constraint checkouts_client_reference,
    add constraint checkouts_keep_rules check (session_keeps_rules(
        amount_minor, status, method, quantity, methods, client_reference
    )) not valid;
-- That type and accounts are known, and the accounts two, follows from the list of postings.
alter table entries
    drop constraint entries_number_check,
    drop constraint entries_amount_minor_check,
    drop constraint entries_shown_is_the_amount,
    drop constraint entries_source_type_check,
    drop constraint entries_type_check,
    drop constraint entries_from_account_check,
    drop constraint entries_to_account_check,
    drop constraint entries_change_account,
    drop constraint entries_follow_postings,
    add constraint entries_keep_rules check (entry_keeps_rules(
        number, amount_minor, shown_minor, source_type, type, from_account, to_account
    )) not valid;
