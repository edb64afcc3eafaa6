-- What accepted requests of merchants send that nobody reads, beside what was refused.

-- [http] The same fields at the same route are one row: at most 50 of a merchant, and seven days.
-- Nothing that was sent stands here but the names of fields.
create table ignored_fields (
    merchant_id text not null,
    method      text not null check (length(method) <= 20),
    route       text not null check (length(route) <= 200),  -- such as /v1/products/{id}
    fields      text not null check (length(fields) <= 1024),
    requests    bigint not null check (requests > 0),
    last_at     bigint not null,
    last_id     text not null,  -- of the last request, as its response and the log have it
    key_id      text not null,  -- of the last request
    primary key (merchant_id, method, route, fields)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index ignored_fields_old on ignored_fields (last_at);
