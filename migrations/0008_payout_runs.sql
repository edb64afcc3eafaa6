-- Runs of payouts with a file for the bank, and an inbox of what reports say and the books do not.

-- [payouts] Where a merchant's payouts go. The last version counts; what came before stays, since
-- files for the bank are made of it. number is encrypted; hint is the last of it.
create table bank_accounts (
    merchant_id text not null references merchants (id),
    version     integer not null check (version > 0),
    holder      text not null check (length(holder) between 1 and 70),
    number      bytea not null,
    hint        text not null check (length(hint) between 1 and 4),
    country     text not null check (country ~ '^[A-Z]{2}$'),
    bic         text not null check (bic ~ '^([A-Z0-9]{8}([A-Z0-9]{3})?)?$'),
    bank_code   text not null check (bank_code ~ '^[0-9]{0,12}$'),
    usable_from bigint not null,  -- payouts wait until then
    who         text not null,
    reason      text not null,
    created_at  bigint not null,
    primary key (merchant_id, version)
);
create trigger bank_accounts_are_final before update or delete on bank_accounts
    for each row execute function refuse_change();

-- [payouts] Payouts of one currency that go to the bank in one file. OPEN: payouts are being made.
-- READY: all are there. SENT: somebody took the file, in one form, and gets the same bytes again.
create table payout_runs (
    id             text primary key,
    reference      text not null unique,  -- the operator's: the same reference is the same run
    status         text not null check (status in ('OPEN', 'READY', 'SENT')),
    currency       text not null check (currency ~ '^[A-Z]{3}$'),
    fee_minor      bigint not null check (fee_minor >= 0),
    pay_on         text not null check (pay_on ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}$'),
    from_holder    text not null,
    from_number    text not null,
    from_country   text not null,
    from_bic       text not null,
    from_bank_code text not null,
    reason         text not null,
    created_by     text not null,
    created_at     bigint not null,
    ready_at       bigint,
    sent_at        bigint,
    sent_by        text,
    form           text check (form in ('xml', 'csv')),
    sha256         text check (sha256 ~ '^[0-9a-f]{64}$'),  -- of the file, once it was made
    constraint payout_runs_are_ready_at_a_time check ((status = 'OPEN') = (ready_at is null)),
    constraint payout_runs_are_sent_by_somebody check (
        (status = 'SENT') = (sent_at is not null)
        and (sent_at is null) = (sent_by is null) and (sent_at is null) = (form is null)
        and (sha256 is null or form is not null))
);
create index payout_runs_newest on payout_runs (created_at desc, id desc);

-- [payouts] A payout of a run, and the account that it goes to. A payout is in one run, and a run has
-- one payout of a merchant.
create table payout_transfers (
    merchant_id     text not null,
    payout_id       text not null,
    run_id          text not null,
    account_version integer not null,
    in_file         boolean not null default false,  -- it was still PENDING when the file was taken
    primary key (merchant_id, payout_id),
    constraint payout_transfers_once_in_a_run unique (merchant_id, run_id),
    foreign key (merchant_id, payout_id) references payouts (merchant_id, id),
    foreign key (merchant_id, account_version) references bank_accounts (merchant_id, version)
);
create index payout_transfers_of_run on payout_transfers (run_id);

-- [reconciliation] A file that was read: a gateway's settlement report, or a report of the bank. The
-- same bytes are read once.
create table reconciliation_files (
    id         text primary key,
    source     text not null,  -- the gateway, or 'bank'
    sha256     text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    name       text not null check (length(name) <= 200),
    status     text not null check (status in ('OPEN', 'DONE')),
    rows       bigint not null,
    matched    bigint not null,
    found      bigint not null,
    who        text not null,
    created_at bigint not null,
    done_at    bigint,
    constraint reconciliation_files_once unique (source, sha256),
    constraint reconciliation_files_are_done_at_a_time check ((status = 'DONE') = (done_at is not null))
);

-- [reconciliation] The inbox: what a report says and the books do not, or the other way round. The
-- same difference is there once, whichever files have it.
create table reconciliation_differences (
    id          text primary key,
    file_id     text not null references reconciliation_files (id),
    source      text not null,
    what        text not null,
    kind        text not null,
    reference   text not null,
    line        bigint,
    merchant_id text not null,  -- '' where nobody knows whose it is
    ours        text not null,
    theirs      text not null,
    created_at  bigint not null,
    resolved_at bigint,
    resolved_by text,
    resolution  text,
    constraint reconciliation_differences_once
        unique (source, what, kind, reference, ours, theirs),
    constraint reconciliation_differences_are_resolved_by_somebody check (
        (resolved_at is null) = (resolved_by is null)
        and (resolved_at is null) = (resolution is null))
);
create index reconciliation_differences_open
    on reconciliation_differences (created_at, id) where resolved_at is null;
