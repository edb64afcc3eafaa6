-- [gateways] Accounts at payment providers, beside those of the environment, whose ids are the names
-- of their gateways. The id of an account stands in the columns named gateway of attempts, refund
-- cases, disputes, figures, tests and reports, so that everything about a payment is bound to the
-- account that took it. The version before knows no account and writes none.
create table gateway_accounts (
    -- ga_: real money; gat_: test money. The mode is part of the id, so that no statement about a
    -- payment needs this table to know it.
    id                   text primary key check (id ~ '^gat?_[0-9a-z]{26}$'),
    gateway              text not null check (gateway ~ '^[a-z0-9][a-z0-9_-]{0,39}$'),
    label                text not null check (length(label) between 1 and 60),
    merchant_id          text references merchants (id),  -- null: the operator's
    livemode             boolean not null,
    status               text not null check (status in ('ACTIVE', 'PAUSED', 'RETIRED')),
    credentials          bytea not null,  -- encrypted JSON
    credential_hints     text not null,   -- JSON that may be shown
    -- Credentials before the last rotation, which still verify callbacks until that time.
    previous_credentials bytea,
    previous_until       bigint,
    methods              text not null check (length(methods) <= 1000),  -- '': all of the gateway
    priority             integer not null check (priority between 1 and 1000),
    weight               integer not null check (weight between 1 and 1000),
    -- Every change adds 1, so that the sum over all rows shows whether anything has changed.
    revision             bigint not null check (revision > 0),
    created_at           bigint not null,
    updated_at           bigint not null check (updated_at >= created_at),
    constraint gateway_accounts_mode_is_in_id check (livemode = (id like 'ga\_%')),
    constraint gateway_accounts_previous_has_end check
        ((previous_credentials is null) = (previous_until is null)),
    constraint gateway_accounts_sandbox_is_test check (gateway <> 'sandbox' or not livemode),
    constraint gateway_accounts_not_by_operator check (gateway <> 'manual')
);
create unique index gateway_accounts_by_label on gateway_accounts (lower(label))
    where status <> 'RETIRED';
-- Payments, refunds and disputes name their account for ever.
create trigger gateway_accounts_stay before delete on gateway_accounts
    for each row execute function refuse_removal();
create trigger gateway_accounts_stay_all before truncate on gateway_accounts
    for each statement execute function refuse_removal();

-- [gateways] The smallest and largest payment of an account in a currency; null: no limit.
create table gateway_account_limits (
    account_id     text not null references gateway_accounts (id),
    currency       text not null check (currency ~ '^[A-Z]{3}$'),
    smallest_minor bigint check (smallest_minor > 0),
    largest_minor  bigint check (largest_minor > 0),
    primary key (account_id, currency),
    constraint gateway_account_limits_are_some check
        (smallest_minor is not null or largest_minor is not null),
    constraint gateway_account_limits_are_ordered check (smallest_minor <= largest_minor)
);
