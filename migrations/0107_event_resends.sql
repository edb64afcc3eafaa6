-- [webhooks] Events that were resent, in the sequence of the merchant's events, for readers of events who ask for them.
-- The version before writes no rows, so its resends reach only the endpoint.
create table event_resends (
    merchant_id text not null,
    number      bigint not null check (number > 0),
    event_id    text not null,
    primary key (merchant_id, number)
);
