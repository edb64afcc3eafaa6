-- [gateways] How much an account takes in a currency on one day (UTC): a sum, a number of payments, or
-- both; null: no limit. A row may now have only these.
alter table gateway_account_limits
    add column day_minor bigint check (day_minor > 0),
    add column day_number integer check (day_number > 0),
    drop constraint gateway_account_limits_are_some,
    add constraint gateway_account_limits_have_some check
        (num_nonnulls(smallest_minor, largest_minor, day_minor, day_number) > 0);

-- [gateways] What a payment costs at an account: a share in basis points and a fixed amount.
create table gateway_account_costs (
    account_id  text not null references gateway_accounts (id),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    rate_bp     integer not null check (rate_bp between 0 and 10000),
    fixed_minor bigint not null check (fixed_minor between 0 and 10000000000000000),
    primary key (account_id, currency)
);

-- [orders] The payments that an account with a day limit has taken, or may still take, by the day on
-- which they began. A payment is added by the statement that records the attempt, and removed once if
-- the attempt fails or its session ends without a payment.
create table gateway_day_totals (
    account_id text not null,
    currency   text not null check (currency ~ '^[A-Z]{3}$'),
    day        bigint not null check (day % 86400000 = 0),  -- its beginning, Unix ms
    payments   integer not null check (payments >= 0),
    sum_minor  bigint not null check (sum_minor >= 0),
    primary key (account_id, currency, day)
);

-- [orders] The day to whose total an attempt was added; null: its account had no day limit. Null
-- columns cost no rewrite, and a server of the version before leaves them as they are.
alter table payment_attempts
    add column limit_day bigint,
    add column limit_released boolean not null default false;  -- whether it was removed from the total
