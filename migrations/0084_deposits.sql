-- [orders] How many receiving addresses were derived from an extended public key. Numbers are counted
-- by key and not by account, so that two accounts with one key never share an address.
create table deposit_keys (
    key_id      text primary key check (key_id ~ '^[0-9a-f]{32}$'),
    next_number bigint not null check (next_number between 0 and 2147483648)
);

-- [orders] The address that was reserved for a payment attempt through an account that takes tokens.
create table deposit_addresses (
    address      text primary key check (address ~ '^0x[0-9a-f]{40}$'),
    account      text not null,
    chain_id     bigint not null check (chain_id > 0),
    key_id       text not null references deposit_keys (key_id),
    number       bigint not null check (number between 0 and 2147483647),
    attempt_id   text not null unique,
    amount_minor bigint not null check (amount_minor > 0),
    currency     text not null check (currency ~ '^[A-Z]{3}$'),
    due          numeric(40) not null check (due > 0),  -- in multiples of 10**-18
    expires_at   bigint,           -- the end of the session, business time; null: it has none
    monitored_until  bigint not null,  -- business time
    reserved_at  bigint not null,  -- real time, which can be compared with that of blocks
    unique (key_id, number)
);
create index deposit_addresses_monitored on deposit_addresses (account, monitored_until);
create trigger deposit_addresses_stay before delete on deposit_addresses
    for each row execute function refuse_removal();

-- [deposits] How far an account's chain was read: every transfer until this block is stored.
create table deposit_positions (
    account       text not null,
    chain_id      bigint not null,
    number        bigint not null check (number >= 0),
    hash          text not null check (hash ~ '^0x[0-9a-f]{64}$'),
    claimed_until bigint not null,  -- the end of a process's lease, real time in Unix ms
    next_at       bigint not null,  -- when it is to be read again, real time
    failure       text,             -- why the chain cannot be read; null: it can
    failing_since bigint,
    primary key (account, chain_id),
    constraint deposit_positions_failure_has_time check ((failure is null) = (failing_since is null))
);

-- [deposits] Transfers to reserved addresses in blocks with enough confirmations, also of tokens that
-- the account does not take: these have scaled 0.
create table deposit_transfers (
    account      text not null,
    chain_id     bigint not null,
    block_hash   text not null check (block_hash ~ '^0x[0-9a-f]{64}$'),
    log_index    bigint not null,
    block_number bigint not null,
    transaction  text not null check (transaction ~ '^0x[0-9a-f]{64}$'),
    token        text not null,
    sender       text not null,
    address      text not null references deposit_addresses (address),
    units        numeric(78) not null check (units > 0),
    scaled       numeric(98) not null check (scaled >= 0),  -- in multiples of 10**-18
    stored_at    bigint not null,
    removed_at   bigint,  -- when a reorganisation of the chain was noticed that removed it
    primary key (account, chain_id, block_hash, log_index)
);
create index deposit_transfers_of_address on deposit_transfers (address);
create index deposit_transfers_by_block on deposit_transfers (account, chain_id, block_number);

-- [deposits] The sum that arrived at an address, and the part of it that its attempt knows.
create table deposit_sums (
    address  text primary key references deposit_addresses (address),
    received numeric(98) not null check (received >= 0),
    reported numeric(98) not null check (reported >= 0),
    seen_at  bigint  -- when enough money was seen in blocks without enough confirmations
);
create index deposit_sums_due on deposit_sums (address) where received <> reported;

-- [deposits] What staff must look at, until they record what they did.
create table deposit_cases (
    id          text primary key check (id ~ '^dpc_[0-9a-z]{26}$'),
    kind        text not null check (kind in ('EXCESS', 'UNKNOWN_TOKEN', 'REORGANIZED')),
    account     text not null,
    attempt_id  text not null,
    address     text not null references deposit_addresses (address),
    transaction text not null,
    log_index   bigint not null,
    token       text not null,
    units       numeric(78) not null check (units > 0),
    opened_at   bigint not null,
    closed_at   bigint,
    closed_by   text,
    resolution  text,
    unique (kind, account, transaction, log_index),
    constraint deposit_cases_are_closed_by_somebody
        check (num_nonnulls(closed_at, closed_by, resolution) in (0, 3))
);
create index deposit_cases_open on deposit_cases (opened_at) where closed_at is null;
create index deposit_cases_of_address on deposit_cases (address);

-- [deposits] The transaction by which staff sent a refund; each one counts once.
create table deposit_refunds (
    refund_id   text primary key,
    account     text not null,
    chain_id    bigint not null,
    transaction text not null check (transaction ~ '^0x[0-9a-f]{64}$'),
    log_index   bigint not null,
    recipient   text not null check (recipient ~ '^0x[0-9a-f]{40}$'),
    token       text not null,
    units       numeric(78) not null check (units > 0),
    recorded_at bigint not null,
    unique (account, chain_id, transaction, log_index)
);
