-- Accounts of merchants at payment providers: the provider pays the merchant, and the platform's fee
-- comes out of a prepaid balance (decision 0165).

-- [ledger] The prepaid balance is the fifth account of the merchant. `prepaid_reserved` is the part of it
-- that attempts which may still be paid have reserved; it may exceed a balance that a late payment
-- overdrew. Constant defaults cost no rewrite. The version before writes neither column: its entries show
-- no prepaid balance, so the trigger below refuses them once there is one.
alter table balances
    add column prepaid bigint not null default 0,
    add column prepaid_reserved bigint not null default 0,
    drop constraint balances_sum_to_zero,
    add constraint balances_add_up_to_zero check
        (pending + available + frozen + reserve + prepaid + gateway + bank + platform = 0) not valid,
    add constraint balances_reserve_no_less_than_nothing check (prepaid_reserved >= 0) not valid;
alter table entries add column prepaid_after bigint not null default 0;
alter table ledger_checks add column prepaid bigint not null default 0;

create or replace function entry_keeps_rules(
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
            'FEE prepaid platform -',
            'FEE platform prepaid +',
            'SETTLEMENT pending available +',
            'PAYOUT available bank -',
            'PAYOUT bank available +',
            'FREEZE available frozen -',
            'FREEZE pending frozen -',
            'FREEZE available prepaid -',
            'UNFREEZE frozen available +',
            'UNFREEZE frozen pending +',
            'UNFREEZE prepaid available +',
            'REFUND frozen gateway -',
            'REFUND pending gateway -',
            'REFUND available gateway -',
            'REFUND gateway pending +',
            'REFUND gateway available +',
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
            'ADMIN_RECHARGE bank prepaid +',
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

create or replace function check_and_count_entries() returns trigger language plpgsql as $$
declare
    wrong record;
begin
    select last.merchant_id, last.currency, last.number into wrong
    from (
        select distinct on (merchant_id, currency) * from new_rows
        order by merchant_id, currency, number desc
    ) last
    left join balances b on b.merchant_id = last.merchant_id and b.currency = last.currency
    where (b.entries, b.pending, b.available, b.frozen, b.reserve, b.prepaid, b.last_at)
        is distinct from (last.number, last.pending_after, last.available_after, last.frozen_after,
            last.reserve_after, last.prepaid_after, last.created_at)
    limit 1;
    if found then
        raise exception 'entry % of % in % does not show the balance', wrong.number,
            wrong.merchant_id, wrong.currency using errcode = 'foreign_key_violation';
    end if;
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'entries', '', created_at / 3600000 * 3600000, type, null, count(*)
    from new_rows group by merchant_id, created_at / 3600000, type;
    return null;
end $$;

-- [orders] The fee that an attempt through an account of its merchant takes from the prepaid balance if it
-- is paid; null: the account belongs to the operator, or an older version started it. `prepaid_held`:
-- whether the fee is part of `balances.prepaid_reserved`.
alter table payment_attempts
    add column prepaid_minor bigint,
    add column prepaid_held boolean not null default false;
-- [orders] Whether the provider paid the merchant directly, so that the money is in none of our accounts.
alter table orders add column paid_directly boolean not null default false;

-- [refunds] The part of the platform's fee that a refund of a direct payment gives back to the prepaid
-- balance, in the currency of the debit.
alter table refunds add column fee_returned_minor bigint not null default 0;

-- [adjustments] Top-ups of the prepaid balance, and transfers between it and the available balance.
alter table adjustments
    drop constraint adjustments_kind_check,
    add constraint adjustments_have_a_kind check (kind in
        ('freeze', 'unfreeze', 'recharge', 'correct', 'fee', 'topup', 'prepay', 'unprepay')) not valid;
