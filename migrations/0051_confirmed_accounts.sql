-- Payouts wait after the bank returned one, until the account is changed or staff confirm it; and a
-- refund that staff record can wait for a second person.

-- [payouts] Staff confirmed that payouts may go to an account again.
create table bank_account_confirmations (
    merchant_id text not null,
    version     integer not null,
    at          bigint not null,
    who         text not null,
    reason      text not null,
    primary key (merchant_id, version, at),
    foreign key (merchant_id, version) references bank_accounts (merchant_id, version)
);
create trigger bank_account_confirmations_are_final
    before update or delete on bank_account_confirmations
    for each row execute function refuse_change();

-- [approvals] The version before reads no other actions, and stores none of the new one.
alter table approval_requests
    drop constraint approval_requests_action_check,
    add constraint approval_requests_action_check check (action in ('confirm', 'refund',
        'refund-recorded', 'refund-failed', 'refund-reversed', 'dispute-won', 'dispute-recovered',
        'payout-failed', 'payout-returned')) not valid;
