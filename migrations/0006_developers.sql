-- What the developers' pages show: names and last use of API keys, and refused requests.

alter table api_keys
    add column name text not null default '' check (length(name) <= 100),
    -- to the minute, and written at most once a minute (merchants/key_uses.py)
    add column last_used_at bigint check (last_used_at % 60000 = 0);

-- [http] The last requests of a merchant that the API refused, and why: at most 200 of a merchant,
-- and seven days. Nothing that was sent stands here but method, path and names of query parameters.
create table refused_requests (
    merchant_id text not null,
    at          bigint not null,
    id          text not null,  -- of the request, as its response and the log have it
    key_id      text not null,
    method      text not null check (length(method) <= 20),
    path        text not null check (length(path) <= 500),
    status      integer not null check (status between 400 and 599),
    code        integer not null,
    field       text not null check (length(field) <= 100),
    reason      text not null check (length(reason) <= 500),
    ignored     text not null check (length(ignored) <= 1024),  -- fields of the body that nobody reads
    primary key (merchant_id, at, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index refused_requests_old on refused_requests (at);
