-- [gateways] When accounts of the environment are to be paused by themselves, as the columns of the
-- same names in gateway_accounts. A change adds 1 to the revision of the routing rules, which
-- processes poll.
create table environment_breakers (
    gateway             text primary key check (gateway ~ '^[a-z0-9][a-z0-9_-]{0,39}$'),
    break_below_percent integer check (break_below_percent between 1 and 99),
    break_slower_ms     integer check (break_slower_ms between 100 and 60000),
    break_texts         text[] not null,
    break_minutes       integer not null check (break_minutes between 1 and 1440),
    broken_at           bigint,
    broken_reason       text,
    retry_at            bigint,
    constraint environment_breakers_broken_have_reason check
        (num_nonnulls(broken_at, broken_reason, retry_at) in (0, 3))
);
-- Processes that have read the rules before this table existed read them again.
update routing_rule_head set revision = revision + 1;
