-- Events and their delivery to merchants. No foreign keys from events and deliveries: they are
-- written along with every payment, and each would look up and lock a row of its own.

-- What happened, as merchants are told; body is what every delivery sends, byte for byte. number is
-- the place in the merchant's own order, given after the commit by whoever reads them
-- (webhooks/queries.py): null until then.
create table events (
    merchant_id text not null,
    id          text not null,
    number      bigint check (number > 0),
    type        text not null check (type in
        ('order.paid', 'order.refunded', 'order.closed', 'order.settled', 'refund.failed',
         'dispute.created', 'dispute.closed', 'checkout.completed', 'checkout.expired',
         'payout.paid', 'payout.failed')),
    body        text not null,
    created_at  bigint not null,
    primary key (merchant_id, id)
);
create unique index events_in_order on events (merchant_id, number) where number is not null;
create index events_unnumbered on events (merchant_id, id) where number is null;

-- The number of a merchant's last event that has one.
create table event_heads (
    merchant_id text primary key references merchants (id),
    number      bigint not null check (number >= 0)
);

create table webhook_endpoints (
    merchant_id      text not null references merchants (id),
    id               text not null,
    url              text not null check (length(url) between 1 and 2048),
    description      text not null check (length(description) <= 255),
    types            text[] not null,         -- empty: all, also those to come
    status           text not null check (status in ('ENABLED', 'DISABLED', 'DELETED')),
    disabled_reason  text not null,           -- "" unless it is DISABLED
    secret           bytea not null,          -- sealed, see core/encryption.py
    old_secret       bytea,                   -- signs along until old_secret_until
    old_secret_until bigint,
    created_at       bigint not null,
    updated_at       bigint not null,
    primary key (merchant_id, id),
    check ((old_secret is null) = (old_secret_until is null)),
    check ((status = 'DISABLED') = (disabled_reason <> ''))
);

-- Who sends to an endpoint now: one worker at a time, until its lease (real time) is over. Apart
-- from the endpoint, which every payment reads.
create table webhook_lanes (
    merchant_id   text not null,
    endpoint_id   text not null,
    owner         text not null,
    until         bigint not null,
    failing_since bigint,                     -- the first failure since the last success
    primary key (merchant_id, endpoint_id),
    foreign key (merchant_id, endpoint_id) references webhook_endpoints (merchant_id, id)
);

-- One event for one endpoint. step is how many attempts of its schedule are over, attempts how many
-- there were in all: a delivery that is sent again begins its schedule anew.
create table webhook_deliveries (
    merchant_id text not null,
    endpoint_id text not null,
    event_id    text not null,
    type        text not null,
    status      text not null check (status in ('PENDING', 'SUCCEEDED', 'FAILED')),
    attempts    integer not null check (attempts >= step),
    step        integer not null check (step >= 0),
    try_at      bigint,
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (merchant_id, endpoint_id, event_id),
    check ((status = 'PENDING') = (try_at is not null))
);
create index webhook_deliveries_due on webhook_deliveries (merchant_id, endpoint_id, try_at)
    where try_at is not null;

-- One try of a delivery: what was sent, but for the event's body, and the head of the answer.
create table webhook_attempts (
    merchant_id text not null,
    endpoint_id text not null,
    event_id    text not null,
    number      integer not null check (number > 0),
    at          bigint not null,
    duration_ms bigint not null check (duration_ms >= 0),
    outcome     text not null check (outcome in
        ('delivered', 'refused', 'no_answer', 'unreachable', 'forbidden')),
    http_status integer,
    request     text not null,
    answer      text not null,
    error       text not null,
    primary key (merchant_id, endpoint_id, event_id, number)
);
