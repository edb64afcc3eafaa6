-- [gateways] When an account is to be paused by itself, for break_minutes: if fewer of its last payments
-- succeed, if it responds more slowly, or if it reports one of the errors; null, {}: never. While
-- retry_at is in the future, it takes no payments; afterwards it is tried until a payment succeeds.
alter table gateway_accounts
    add column break_below_percent integer check (break_below_percent between 1 and 99),
    add column break_slower_ms integer check (break_slower_ms between 100 and 60000),
    add column break_texts text[] not null default '{}',
    add column break_minutes integer not null default 10 check (break_minutes between 1 and 1440),
    add column broken_at bigint,
    add column broken_reason text,
    add column retry_at bigint,
    add constraint gateway_accounts_broken_have_reason check
        (num_nonnulls(broken_at, broken_reason, retry_at) in (0, 3));
