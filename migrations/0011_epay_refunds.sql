-- What Epay clients met. What another version does not know is a table of its own or nullable, so
-- that the version before goes on serving meanwhile.

-- That a refund was asked for by act=refund, by what was asked for: the SHA-256 of the text that the
-- sign covers. The same request within a day is the same refund; after it the row is of no use and pruned.
create table epay_refunds (
    merchant_id text not null,
    request     bytea not null check (octet_length(request) = 32),
    refund_id   text not null,
    created_at  bigint not null,
    primary key (merchant_id, request),
    foreign key (merchant_id, refund_id) references refunds (merchant_id, id)
);
create index epay_refunds_old on epay_refunds (created_at);

-- A payment type that is none of ours, as it was requested: it goes back in notices. Beside it type
-- is '', which the version before takes for "as the customer chose".
alter table epay_orders add column requested_type text check (length(requested_type) between 1 and 32);

-- More zeros than two decimals are harmless, and go back in notices as they came.
alter table epay_orders drop constraint epay_orders_money_check;
alter table epay_orders add constraint epay_orders_money_check
    check (money ~ '^[0-9]{1,8}(\.[0-9]{1,2}0*)?$' and length(money) <= 32);
