-- What multiplies is throttled (decision 0032).

-- When a gateway was last asked what became of an attempt, by whomever. Null: not since there is this
-- column.
alter table attempts add column asked_at bigint;

-- The hosts that events are sent to. Like a lane, a host is one worker's for as long as its lease
-- lasts, so that what a host bears at once holds over all endpoints, merchants and workers. Real time.
create table webhook_hosts (
    host  text primary key,        -- in lower case, without port
    owner text not null,
    until bigint not null
);
