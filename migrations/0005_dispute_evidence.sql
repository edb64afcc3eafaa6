-- What a merchant says to a dispute: until when, in notes, and with files as evidence.

-- Until when evidence counts, as the gateway or the operator named it; null if nobody has.
alter table disputes add column respond_by bigint;
alter table unmatched_disputes add column respond_by bigint;
-- A member of the merchant wrote it, and not the operator.
alter table dispute_notes add column by_merchant boolean not null default false;

-- Pages show what is open first.
create index disputes_open_first
    on disputes (merchant_id, (status <> 'OPEN'), created_at desc, id desc);

-- [disputes] A file that a merchant gives as evidence; the same file of a dispute is there once.
create table dispute_evidence (
    merchant_id text not null,
    id          text not null,
    dispute_id  text not null,
    number      integer not null check (number between 1 and 10),
    name        text not null check (length(name) between 1 and 120),
    kind        text not null check (kind in ('application/pdf', 'image/png', 'image/jpeg')),
    size        integer not null check (size between 1 and 5242880),
    sha256      bytea not null,
    content     bytea not null,
    who         text not null,
    at          bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, dispute_id) references disputes (merchant_id, id),
    constraint dispute_evidence_once unique (merchant_id, dispute_id, sha256),
    constraint dispute_evidence_is_numbered unique (merchant_id, dispute_id, number),
    constraint dispute_evidence_is_whole check (
        size = octet_length(content) and sha256 = sha256(content))
);
alter table dispute_evidence alter column content set storage external;  -- compressed already
create trigger dispute_evidence_is_final before update or delete on dispute_evidence
    for each row execute function refuse_change();
