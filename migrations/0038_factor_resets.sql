-- [people] The end of somebody's second factors, after a time in which they can stop it. LOST: asked
-- for by one administrator and confirmed by another, or by the machine's owner; the factors work
-- until then. PASSWORD: of a new password that was chosen without a factor; they open nothing until
-- then, and the password alone does not either.
create table factor_resets (
    id           text primary key,
    person_id    text not null references persons (id),
    kind         text not null check (kind in ('LOST', 'PASSWORD')),
    status       text not null check (status in ('ASKED', 'WAITING', 'DONE', 'STOPPED')),
    asked_by     text not null,
    reason       text not null check (reason <> ''),
    confirmed_by text,
    due_at       bigint,  -- of one that waits
    stop_sha256  bytea unique check (length(stop_sha256) = 32),  -- of the link that stops it
    created_at   bigint not null,
    ended_at     bigint,
    ended_by     text,
    constraint factor_reset_takes_two check (confirmed_by <> asked_by),
    constraint factor_reset_waits check ((status = 'WAITING') = (due_at is not null)),
    constraint factor_reset_ends check ((status in ('DONE', 'STOPPED')) = (ended_at is not null))
);
create unique index factor_resets_open on factor_resets (person_id)
    where status in ('ASKED', 'WAITING');
create index factor_resets_due on factor_resets (due_at) where due_at is not null;
