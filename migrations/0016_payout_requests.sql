-- [payouts] A payout above the deployment's limit, which waits for a second person. Its payout is made
-- when that person approves; the amount is what was asked for, whatever is available by then.
create table payout_requests (
    merchant_id  text not null references merchants (id),
    id           text not null,
    status       text not null check (status in ('WAITING', 'APPROVED', 'REJECTED')),
    amount_minor bigint not null check (amount_minor > 0),
    fee_minor    bigint not null check (fee_minor >= 0),
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    reference    text not null,
    reason       text not null,
    asked_by     text not null,
    decided_by   text,
    rejection    text,
    payout_id    text,
    created_at   bigint not null,
    decided_at   bigint,
    primary key (merchant_id, id),
    constraint payout_requests_once unique (merchant_id, reference),
    foreign key (merchant_id, payout_id) references payouts (merchant_id, id),
    constraint payout_requests_are_decided_by_somebody check (
        (status = 'WAITING') = (decided_by is null) and (decided_by is null) = (decided_at is null)
        and (status = 'APPROVED') = (payout_id is not null)
        and (status = 'REJECTED') = (rejection is not null))
);
create index payout_requests_waiting on payout_requests (created_at, id) where status = 'WAITING';
