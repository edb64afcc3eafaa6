-- Merchants come and go: the status of each, what it may do, and how that came about. Columns with a
-- constant default cost no rewrite; the version before makes merchants that are ACTIVE, as it did.

-- [merchants] A capability that is off has the reason that the merchant reads, and is null while it
-- is on: what asks for one reads one column (merchants/standing.py).
alter table merchants
    add column status     text not null default 'ACTIVE'
        check (status in ('APPLIED', 'ACTIVE', 'SUSPENDED', 'CLOSED')),
    add column charge_off text check (length(charge_off) between 1 and 500),
    add column refund_off text check (length(refund_off) between 1 and 500),
    add column payout_off text check (length(payout_off) between 1 and 500),
    add constraint merchants_status_takes_capabilities check (
        (status = 'ACTIVE' or (charge_off is not null and payout_off is not null))
        and (status in ('ACTIVE', 'SUSPENDED') or refund_off is not null));

-- The applications that wait are read, and counted before another one is taken.
create index merchants_applied on merchants (id) where status = 'APPLIED';

-- [merchants] What became of a merchant: each change of its status and of a capability, and notes of
-- the operator's own. Written in one transaction with what it says, and never changed.
create table merchant_history (
    merchant_id text not null references merchants (id),
    number      integer not null check (number > 0),
    at          bigint not null,
    event       text not null check (event in ('created', 'applied', 'approved', 'declined',
        'suspended', 'resumed', 'closed', 'capability_on', 'capability_off', 'noted')),
    from_status text check (from_status in ('APPLIED', 'ACTIVE', 'SUSPENDED', 'CLOSED')),
    to_status   text not null check (to_status in ('APPLIED', 'ACTIVE', 'SUSPENDED', 'CLOSED')),
    capability  text check (capability in ('charge', 'refund', 'payout')),
    who         text not null,
    reason      text not null,  -- the merchant reads it where a capability is off
    notes       text not null,  -- only staff do; "" without any
    primary key (merchant_id, number),
    check ((capability is not null) = (event in ('capability_on', 'capability_off')))
);
create trigger merchant_history_is_final before update or delete on merchant_history
    for each row execute function refuse_change();

-- [merchants] What somebody has entered who wants to become a merchant.
create table merchant_applications (
    merchant_id text primary key references merchants (id),
    name        text not null check (length(name) between 1 and 200),  -- of the person
    email       text not null check (length(email) between 3 and 254),
    website     text not null check (length(website) <= 2048),
    business    text not null check (length(business) between 1 and 2000),
    address     text not null,  -- where it was sent from; "" by command
    applied_at  bigint not null
);
