-- The limit above which money takes two persons counts all that one person moves in 24 hours, and
-- manual actions of staff on payments, refunds, disputes and payouts can need a second person.

-- [merchants] An amount that one person moved without a second one; it counts against the limit.
create table solo_movements (
    merchant_id  text not null references merchants (id),
    id           text not null,          -- of what was moved: an adjustment, order, payout …
    kind         text not null,
    maker        text not null,          -- the person's id, or the name of a system user
    amount_minor bigint not null check (amount_minor > 0),
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    at           bigint not null,
    primary key (merchant_id, id, kind)
);
create index solo_movements_by_maker on solo_movements (merchant_id, maker, at);

-- [approvals] A request of staff for a manual action above the limit: it has no effect before somebody
-- else approves it. ``details`` is JSON of what the action needs beside its subject.
create table approval_requests (
    merchant_id  text not null references merchants (id),
    id           text not null,
    action       text not null check (action in ('confirm', 'refund', 'refund-failed', 'refund-reversed',
        'dispute-won', 'dispute-recovered', 'payout-failed', 'payout-returned')),
    status       text not null check (status in ('WAITING', 'APPROVED', 'REJECTED')),
    subject      text not null,          -- an order, refund, dispute or payout
    details      text not null,
    amount_minor bigint not null check (amount_minor > 0),
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    reason       text not null,
    asked_by     text not null,
    decided_by   text,
    rejection    text,
    created_at   bigint not null,
    decided_at   bigint,
    primary key (merchant_id, id),
    constraint approval_requests_are_decided_by_somebody check (
        (status = 'WAITING') = (decided_by is null) and (decided_by is null) = (decided_at is null)
        and (status = 'REJECTED') = (rejection is not null)),
    constraint approval_requests_need_two_persons check (
        status <> 'APPROVED' or lower(decided_by) <> lower(asked_by))
);
create unique index approval_requests_waiting
    on approval_requests (merchant_id, action, subject) where status = 'WAITING';
create index approval_requests_due on approval_requests (created_at, id) where status = 'WAITING';
