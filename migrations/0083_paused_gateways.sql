-- [gateways] Accounts of the environment that take no new payments, by the names of their gateways. A
-- change adds 1 to the revision of the routing rules, which processes poll.
create table paused_gateways (
    gateway   text primary key check (gateway ~ '^[a-z0-9][a-z0-9_-]{0,39}$'),
    paused_at bigint not null
);
