-- The first schema. Times are Unix milliseconds (bigint), amounts whole minor units (…_minor).
-- merchant_id leads every key and index of the tenant tables, so that an engine that spreads
-- PostgreSQL over machines can distribute them by it; merchants, api_keys and rates are small
-- reference tables. Ids, times and random values are made by the application.

create table merchants (
    id                    text primary key,
    name                  text not null check (length(name) between 1 and 200),
    settlement_currency   text not null check (settlement_currency ~ '^[A-Z]{3}$'),
    platform_fee_rate     numeric not null check (platform_fee_rate >= 0 and platform_fee_rate < 1),
    refund_fee_policy     text not null check (refund_fee_policy in ('KEPT', 'RETURNED')),
    overdraft_minor       bigint not null check (overdraft_minor >= 0),
    settlement_delay_days integer not null check (settlement_delay_days between 0 and 365),
    reserve_rate          numeric not null check (reserve_rate >= 0 and reserve_rate < 1),
    reserve_days          integer not null check (reserve_days between 0 and 3650),
    ip_allowlist          text[] not null,
    created_at            bigint not null,
    updated_at            bigint not null
);

create table api_keys (
    id          text primary key,
    merchant_id text not null references merchants (id),
    key_sha256  bytea not null unique check (length(key_sha256) = 32),
    hint        text not null,               -- prefix and last four characters, to tell keys apart
    environment text not null check (environment in ('production', 'staging')),
    created_at  bigint not null,
    expires_at  bigint,
    revoked_at  bigint
);
create index api_keys_of_merchant on api_keys (merchant_id, created_at);

-- One unit of base is worth rate units of quote from valid_from on.
create table rates (
    base       text not null check (base ~ '^[A-Z]{3}$'),
    quote      text not null check (quote ~ '^[A-Z]{3}$'),
    valid_from bigint not null,
    rate       numeric not null check (rate > 0),
    primary key (base, quote, valid_from)
);

-- Which merchant a bare public id belongs to: session ids in page addresses, attempt ids in
-- gateway callbacks.
create table directory (
    id          text primary key,
    merchant_id text not null
);

create table products (
    merchant_id text not null references merchants (id),
    id          text not null,
    name        text not null check (length(name) between 1 and 200),
    description text not null check (length(description) <= 1000),
    image       text check (length(image) <= 2048),
    price_minor bigint not null check (price_minor > 0),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    status      text not null check (status in ('ACTIVE', 'ARCHIVED')),
    metadata    text not null,               -- JSON text exactly as the merchant sent it
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (merchant_id, id)
);
create index products_newest on products (merchant_id, created_at desc, id desc);
create index products_newest_by_status on products (merchant_id, status, created_at desc, id desc);

create table checkouts (
    merchant_id           text not null references merchants (id),
    id                    text not null,
    product_id            text not null,
    order_id              text not null,
    amount_minor          bigint not null check (amount_minor > 0),
    currency              text not null,
    status                text not null check (status in ('OPEN', 'COMPLETE', 'EXPIRED')),
    success_url           text,
    cancel_url            text,
    customer_email        text not null,     -- "" if not prefilled
    customer_name         text,
    display_merchant_name text not null,
    expires_at            bigint not null,
    created_at            bigint not null,
    updated_at            bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, product_id) references products (merchant_id, id)
);
create index checkouts_due on checkouts (expires_at) where status = 'OPEN';

create table orders (
    merchant_id           text not null references merchants (id),
    id                    text not null,
    checkout_id           text not null,
    product_id            text not null,
    product_name          text not null,
    product_description   text not null,
    product_image         text,
    source                text not null check (source in ('API', 'EPAY')),
    status                text not null check (status in
        ('CREATING', 'PENDING', 'PAID', 'SETTLED', 'REFUNDED', 'DISPUTED', 'CHARGEBACK',
         'FAILED', 'CLOSED', 'REVOKED')),
    steps                 integer not null,  -- number of the last row of its history
    currency              text not null,
    amount_minor          bigint not null check (amount_minor > 0),
    platform_fee_rate     numeric not null,
    platform_fee_minor    bigint not null check (platform_fee_minor between 0 and amount_minor),
    settled_currency      text not null,
    exchange_rate         numeric not null check (exchange_rate > 0),
    usd_exchange_rate     numeric not null check (usd_exchange_rate > 0),
    hkd_exchange_rate     numeric check (hkd_exchange_rate > 0),
    gross_settled_minor   bigint not null check (gross_settled_minor > 0),
    net_settled_minor     bigint not null check (net_settled_minor between 0 and gross_settled_minor),
    refund_fee_policy     text not null check (refund_fee_policy in ('KEPT', 'RETURNED')),
    payment_method        text check (payment_method in
        ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO', 'BANK_TRANSFER')),
    paid_attempt_id       text,
    customer_email        text not null,
    customer_name         text,
    payer_ip              text not null,
    paid_at               bigint,
    settled_at            bigint,
    refunded_minor        bigint not null,   -- succeeded refunds
    refund_held_minor     bigint not null,   -- accepted refunds: processing and succeeded
    refund_debit_minor    bigint not null,   -- what the accepted refunds take from the merchant,
                                             -- in the settled currency
    reserve_rate          numeric not null,
    reserve_minor         bigint not null check (reserve_minor >= 0),
    reserve_status        text not null check (reserve_status in
        ('NONE', 'HELD', 'OFFSET', 'RELEASED')),
    reserve_release_at    bigint,
    metadata              text not null,
    created_at            bigint not null,
    updated_at            bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, checkout_id) references checkouts (merchant_id, id),
    check (refunded_minor between 0 and refund_held_minor),
    check (refund_held_minor <= amount_minor),
    check (refund_debit_minor between 0 and gross_settled_minor),
    check (status not in ('PAID', 'SETTLED', 'REFUNDED', 'DISPUTED', 'CHARGEBACK')
           or paid_at is not null),
    check (status <> 'SETTLED' or settled_at is not null),
    check (status <> 'REFUNDED' or refunded_minor = amount_minor)
);
create index orders_newest on orders (merchant_id, created_at desc, id desc);
create index orders_newest_by_status on orders (merchant_id, status, created_at desc, id desc);
create index orders_newest_by_product on orders (merchant_id, product_id, created_at desc, id desc);

create table order_history (
    merchant_id text not null,
    order_id    text not null,
    number      integer not null,
    at          bigint not null,
    event       text not null,
    from_status text,
    to_status   text not null,
    cause       text not null,
    primary key (merchant_id, order_id, number),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);

-- One try to pay an order through one gateway. The row is committed before the gateway is called;
-- check_at is when the worker next asks the gateway (null: nothing to ask).
create table attempts (
    merchant_id  text not null,
    id           text not null,
    order_id     text not null,
    gateway      text not null,
    method       text not null check (method in
        ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO', 'BANK_TRANSFER')),
    status       text not null check (status in
        ('SUBMITTED', 'ACTION_REQUIRED', 'PENDING', 'SUCCEEDED', 'DECLINED', 'REFUSED', 'VOIDED',
         'DUPLICATE', 'GIVEN_BACK')),
    amount_minor bigint not null check (amount_minor > 0),
    currency     text not null,
    provider_ref text not null,
    action_url   text not null,
    qr_text      text not null,
    reason       text not null,
    locale       text not null,
    payer_ip     text not null,
    check_at     bigint,
    checks       integer not null,
    created_at   bigint not null,
    updated_at   bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);
create index attempts_of_order on attempts (merchant_id, order_id, id);
create index attempts_due on attempts (check_at) where check_at is not null;

-- try_at is when the worker next sends the refund or asks about it (null: nothing to do).
create table refunds (
    merchant_id              text not null,
    id                       text not null,
    order_id                 text not null,
    attempt_id               text not null,
    status                   text not null check (status in ('PROCESSING', 'SUCCEEDED', 'FAILED')),
    amount_minor             bigint not null check (amount_minor > 0),
    currency                 text not null,
    debit_minor              bigint not null check (debit_minor >= 0),
    debit_currency           text not null,
    held_from                text not null check (held_from in ('pending', 'available')),
    user_refund_usd_minor    bigint not null,
    merchant_debit_usd_minor bigint not null,
    reason                   text not null check (length(reason) <= 255),
    refund_no                text check (length(refund_no) between 1 and 64),
    error_message            text,
    provider_ref             text not null,
    sent                     boolean not null,  -- the gateway may know of it
    try_at                   bigint,
    tries                    integer not null,
    created_at               bigint not null,
    updated_at               bigint not null,
    succeeded_at             bigint,
    failed_at                bigint,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    check ((status = 'SUCCEEDED') = (succeeded_at is not null)),
    check ((status = 'FAILED') = (failed_at is not null)),
    check ((status = 'PROCESSING') = (try_at is not null))
);
create unique index refunds_by_number on refunds (merchant_id, refund_no) where refund_no is not null;
create index refunds_of_order on refunds (merchant_id, order_id, created_at desc, id desc);
create index refunds_due on refunds (try_at) where try_at is not null;

-- The ledger. One balance row per merchant and currency holds every account; the world's accounts
-- are kept per merchant too, so that a posting never touches a shared row.
create table balances (
    merchant_id text not null references merchants (id),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    pending     bigint not null,
    available   bigint not null,
    frozen      bigint not null,
    reserve     bigint not null,
    gateway     bigint not null,
    bank        bigint not null,
    platform    bigint not null,
    entries     bigint not null check (entries >= 0),
    last_at     bigint not null,
    primary key (merchant_id, currency),
    constraint balances_books check
        (pending + available + frozen + reserve + gateway + bank + platform = 0),
    constraint balances_holds check (frozen >= 0 and reserve >= 0)
);

create table entries (
    merchant_id     text not null,
    currency        text not null,
    number          bigint not null check (number > 0),
    id              text not null,
    type            text not null check (type in
        ('PAYMENT', 'SETTLEMENT', 'PAYOUT', 'FREEZE', 'UNFREEZE', 'CHARGEBACK', 'CHARGEBACK_FEE',
         'CHARGEBACK_RECOVERY', 'ROLLING_RESERVE_RECOVERY', 'ROLLING_RESERVE',
         'ROLLING_RESERVE_RELEASE', 'ROLLING_RESERVE_OFFSET', 'ADMIN_RECHARGE', 'REFUND', 'FEE',
         'BALANCE_CORRECTION')),
    from_account    text not null check (from_account in
        ('pending', 'available', 'frozen', 'reserve', 'gateway', 'bank', 'platform')),
    to_account      text not null check (to_account in
        ('pending', 'available', 'frozen', 'reserve', 'gateway', 'bank', 'platform')),
    amount_minor    bigint not null check (amount_minor > 0),
    shown_minor     bigint not null check (abs(shown_minor) = amount_minor),
    pending_after   bigint not null,
    available_after bigint not null,
    frozen_after    bigint not null,
    reserve_after   bigint not null,
    source_type     text not null check (source_type in
        ('order', 'refund', 'dispute', 'payout', 'operator')),
    source_id       text not null,
    description     text not null,
    created_at      bigint not null,
    primary key (merchant_id, currency, number),
    foreign key (merchant_id, currency) references balances (merchant_id, currency)
        deferrable initially deferred,
    check (from_account <> to_account),
    -- The table of postings: type, from, to, and the sign that the merchant sees.
    constraint entries_moves check ((type, from_account, to_account, sign(shown_minor)) in (
        ('PAYMENT', 'gateway', 'pending', 1),
        ('FEE', 'pending', 'platform', -1), ('FEE', 'available', 'platform', -1),
        ('SETTLEMENT', 'pending', 'available', 1),
        ('PAYOUT', 'available', 'bank', -1), ('PAYOUT', 'bank', 'available', 1),
        ('FREEZE', 'available', 'frozen', -1), ('FREEZE', 'pending', 'frozen', -1),
        ('UNFREEZE', 'frozen', 'available', 1), ('UNFREEZE', 'frozen', 'pending', 1),
        ('REFUND', 'frozen', 'gateway', -1),
        ('CHARGEBACK', 'available', 'gateway', -1), ('CHARGEBACK', 'pending', 'gateway', -1),
        ('CHARGEBACK_FEE', 'available', 'platform', -1),
        ('CHARGEBACK_FEE', 'pending', 'platform', -1),
        ('CHARGEBACK_RECOVERY', 'gateway', 'available', 1),
        ('ROLLING_RESERVE', 'available', 'reserve', -1),
        ('ROLLING_RESERVE_RELEASE', 'reserve', 'available', 1),
        ('ROLLING_RESERVE_OFFSET', 'reserve', 'available', 1),
        ('ROLLING_RESERVE_RECOVERY', 'available', 'reserve', -1),
        ('ADMIN_RECHARGE', 'bank', 'available', 1),
        ('BALANCE_CORRECTION', 'available', 'platform', -1),
        ('BALANCE_CORRECTION', 'platform', 'available', 1),
        ('BALANCE_CORRECTION', 'pending', 'platform', -1),
        ('BALANCE_CORRECTION', 'platform', 'pending', 1))),
    constraint entries_once unique
        (merchant_id, source_type, source_id, type, from_account, to_account)
);
create index entries_newest on entries (merchant_id, created_at desc, id desc);
create index entries_newest_by_type on entries (merchant_id, type, created_at desc, id desc);

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% rows are never updated or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;
create trigger entries_are_final before update or delete on entries
    for each row execute function refuse_change();
create trigger entries_are_not_truncated before truncate on entries
    for each statement execute function refuse_change();
create trigger history_is_final before update or delete on order_history
    for each row execute function refuse_change();
create trigger history_is_not_truncated before truncate on order_history
    for each statement execute function refuse_change();

create table idempotency_keys (
    merchant_id text not null,
    key         text not null,
    fingerprint bytea not null,              -- SHA-256 of method, path and body
    status      smallint,                    -- null only inside the transaction that makes it
    body        bytea,
    created_at  bigint not null,
    primary key (merchant_id, key)
);
create index idempotency_keys_old on idempotency_keys (created_at);

-- Sliding windows of the rate limits: the times of the requests that passed in the last minute, and
-- how many passed then.
-- Unlogged: it is written at every request and worth nothing after a crash.
create unlogged table rate_windows (
    scope   text not null,
    subject text not null,
    hits    bigint[] not null,
    counts  integer[] not null,
    last_at bigint not null,
    primary key (scope, subject)
);
create index rate_windows_old on rate_windows (last_at);

create table audit_log (
    id          text primary key,
    at          bigint not null,
    who         text not null,
    action      text not null,
    merchant_id text not null,
    subject     text not null,
    reason      text not null
);
create trigger audit_is_final before update or delete on audit_log
    for each row execute function refuse_change();
create trigger audit_is_not_truncated before truncate on audit_log
    for each statement execute function refuse_change();
