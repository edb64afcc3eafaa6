-- Figures of merchants (decision 0066): what happened in each quarter hour, counted by the worker
-- after the commit, and when money becomes available.

-- [figures] How many of a balance's entries are counted: all up to this number. Its lock orders the
-- workers that count the same balance.
create table figure_heads (
    merchant_id text not null,
    currency    text not null,
    number      bigint not null check (number >= 0),
    primary key (merchant_id, currency),
    foreign key (merchant_id, currency) references balances (merchant_id, currency)
);

-- [figures] A merchant's figures in one settlement currency, each the sum of all time until the end
-- of the quarter hour that begins at since. A quarter hour without entries has no row.
create table figures (
    merchant_id    text not null,
    currency       text not null,
    since          bigint not null check (since % 900000 = 0),
    payments       bigint not null,
    paid_minor     bigint not null,
    refunds        bigint not null,
    refunded_minor bigint not null,
    disputes       bigint not null,  -- that were lost
    disputed_minor bigint not null,  -- lost and not recovered
    fees_minor     bigint not null,
    primary key (merchant_id, currency, since)
);

-- [figures] How many payment attempts failed, of all time until the end of a quarter hour. Each
-- merchant has a row of the time 0, whose lock orders the workers.
create table attempt_figures (
    merchant_id text not null,
    since       bigint not null check (since % 900000 = 0),
    failed      bigint not null check (failed >= 0),
    primary key (merchant_id, since)
);

-- [figures] Money that waits in an account, by the quarter hour in which it is due to become
-- available: pending by the time at which its order settles, reserve by that of its release.
create table awaited_figures (
    merchant_id  text not null,
    currency     text not null,
    account      text not null check (account in ('pending', 'reserve')),
    since        bigint not null check (since % 900000 = 0),
    amount_minor bigint not null check (amount_minor <> 0),
    primary key (merchant_id, currency, account, since)
);

-- [orders] The quarter hour under which a failed attempt is counted. The index has the attempts whose
-- count is not what it should be: failed ones that are not counted, and counted ones whose money
-- arrived after all.
alter table payment_attempts add column counted_at bigint;
create index payment_attempts_uncounted on payment_attempts (merchant_id, updated_at)
    where (status in ('DECLINED', 'REFUSED', 'VOIDED')) <> (counted_at is not null);

-- [merchants] The zone of the IANA database whose days and times a merchant's pages show.
alter table merchants add column time_zone text not null default 'UTC';
