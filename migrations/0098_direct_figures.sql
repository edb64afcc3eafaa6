-- Figures of payments that went to merchants' own accounts directly (decisions 0165, 0169).

-- [figures] Direct payments of a merchant by settlement currency: sums of all time until the end of the
-- quarter hour that begins at since. A currency that was ever counted has a row of the time 0.
create table direct_figures (
    merchant_id text not null,
    currency    text not null,
    since       bigint not null check (since % 900000 = 0),
    payments    bigint not null check (payments >= 0),
    paid_minor  bigint not null,
    primary key (merchant_id, currency, since)
);
create index direct_figures_currencies on direct_figures (merchant_id, currency) where since = 0;

-- [orders] The quarter hour in which a direct payment is counted; null: it is not counted yet. The version
-- before does not write it, and the index of 0099 finds what it has left.
alter table payment_attempts add column direct_counted_at bigint;
