-- Refunds that a provider reverses, and refunds that are made at the provider and not by us.

-- [ledger] A refund made at the provider takes the money from where the order's money is; one that is
-- reversed brings it back there. The rows that are there kept the narrower rule, so nothing is read
-- and nobody waits.
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
            'SETTLEMENT pending available +',
            'PAYOUT available bank -',
            'PAYOUT bank available +',
            'FREEZE available frozen -',
            'FREEZE pending frozen -',
            'UNFREEZE frozen available +',
            'UNFREEZE frozen pending +',
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

-- [refunds] A reversed refund keeps the time at which it succeeded. The version before writes neither.
alter table refunds
    add column source text not null default 'REQUEST',
    drop constraint refunds_succeeded_has_its_time,
    add constraint refunds_succeeded_has_its_time check (case status
        when 'SUCCEEDED' then succeeded_at is not null
        when 'PROCESSING' then succeeded_at is null
        else true end) not valid,
    add constraint refunds_source_check check (source in ('REQUEST', 'GATEWAY')) not valid,
    add constraint refunds_made_at_the_provider_succeeded
        check (source = 'REQUEST' or (succeeded_at is not null and provider_ref <> '')) not valid;

-- [refunds] What staff must look at: refunds that were reversed, and refunds made at the provider that
-- cannot be applied to their order.
create table refund_cases (
    merchant_id  text not null,
    gateway      text not null,
    gateway_ref  text not null,  -- the provider's name of the refund; ours of one that was reversed
    kind         text not null check (kind in ('REVERSED', 'UNMATCHED')),
    order_id     text not null,
    attempt_id   text not null,
    refund_id    text,
    status       text not null check (status in ('SUCCEEDED', 'REFUSED')),
    amount_minor bigint not null,  -- as the gateway names it
    currency     text not null,
    reason       text not null,
    refusal      text not null,  -- why it cannot be applied
    try_at       bigint not null,
    tries        integer not null,
    created_at   bigint not null,
    updated_at   bigint not null,
    closed_at    bigint,
    closed_by    text,
    primary key (merchant_id, gateway, gateway_ref),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    constraint refund_cases_are_closed_by_somebody
        check ((closed_at is null) = (closed_by is null)),
    constraint refund_cases_reversed_have_their_refund
        check (kind = 'UNMATCHED' or refund_id is not null)
);
create index refund_cases_due on refund_cases (try_at)
    where closed_at is null and kind = 'UNMATCHED';
create index refund_cases_open on refund_cases (created_at desc, gateway_ref)
    where closed_at is null;
