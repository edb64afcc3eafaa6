-- The whole schema, feature by feature; each later change is a file of its own beside this one.
--
-- Times are Unix milliseconds (bigint), amounts whole minor units (…_minor). Ids, times and random
-- values are made by the application; there are no sequences. merchant_id leads every key and index
-- of the tables that hold merchants' rows, so that a statement about one merchant touches only that
-- merchant's rows. The package that owns a table, and alone writes to it, stands in brackets.
--
-- Indexes are named after their table and what they are for: …_by_… finds rows, …_newest… serves
-- lists, …_due is what the worker looks for, …_old what it deletes. Constraints of one column,
-- primary and foreign keys have the names that PostgreSQL gives them; all others say what they hold.

-- ── Rows that never change ────────────────────────────────────────────────────────────────────

create function refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% rows are never updated or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;

-- For the history of orders, of which the operator may have old rows deleted
-- (OPENTILL_HISTORY_DAYS): rows older than a year may go, in a transaction that says that it deletes
-- them. The deleting statement leaves each order's last row, which explains the order's status.
create function refuse_history_change() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' and current_setting('opentill.prunes_history', true) = 'yes'
            and old.at < extract(epoch from now()) * 1000 - 365 * 86400000::bigint then
        return old;
    end if;
    raise exception '% rows are never updated or deleted', tg_table_name
        using errcode = 'integrity_constraint_violation';
end $$;

create function refuse_removal() returns trigger language plpgsql as $$
begin
    raise exception '% rows are never deleted, and never become another merchant''s or currency''s',
        tg_table_name using errcode = 'integrity_constraint_violation';
end $$;

-- ── Merchants ─────────────────────────────────────────────────────────────────────────────────

-- [merchants] A merchant with the terms that hold for sessions opened from now on.
create table merchants (
    id                    text primary key,
    name                  text not null check (length(name) between 1 and 200),
    settlement_currency   text not null check (settlement_currency ~ '^[A-Z]{3}$'),
    terms_version         integer not null,
    platform_fee_rate     numeric not null check (platform_fee_rate >= 0 and platform_fee_rate < 1),
    fees                  text not null,  -- JSON: fee rates by method and currency, fixed parts
    refund_fee_policy     text not null check (refund_fee_policy in ('KEPT', 'RETURNED')),
    overdraft_minor       bigint not null check (overdraft_minor >= 0),
    settlement_delay_days integer not null check (settlement_delay_days between 0 and 365),
    settlement_calendar   text not null check (settlement_calendar in ('EVERY_DAY', 'WEEKDAYS')),
    reserve_rate          numeric not null check (reserve_rate >= 0 and reserve_rate < 1),
    reserve_days          integer not null check (reserve_days between 0 and 3650),
    dispute_fee_minor     bigint not null check (dispute_fee_minor >= 0),
    payout_minimum_minor  bigint not null check (payout_minimum_minor >= 0),
    ip_allowlist          text[] not null,
    created_at            bigint not null,
    updated_at            bigint not null
);

-- [merchants] Every version of a merchant's terms. An order keeps the version that it was opened with.
create table merchant_terms (
    merchant_id           text not null references merchants (id),
    version               integer not null check (version > 0),
    platform_fee_rate     numeric not null check (platform_fee_rate >= 0 and platform_fee_rate < 1),
    fees                  text not null,
    refund_fee_policy     text not null check (refund_fee_policy in ('KEPT', 'RETURNED')),
    overdraft_minor       bigint not null check (overdraft_minor >= 0),
    settlement_delay_days integer not null check (settlement_delay_days between 0 and 365),
    settlement_calendar   text not null check (settlement_calendar in ('EVERY_DAY', 'WEEKDAYS')),
    reserve_rate          numeric not null check (reserve_rate >= 0 and reserve_rate < 1),
    reserve_days          integer not null check (reserve_days between 0 and 3650),
    dispute_fee_minor     bigint not null check (dispute_fee_minor >= 0),
    payout_minimum_minor  bigint not null check (payout_minimum_minor >= 0),
    ip_allowlist          text[] not null,
    who                   text not null,
    reason                text not null,
    created_at            bigint not null,
    primary key (merchant_id, version)
);
create trigger merchant_terms_are_final before update or delete on merchant_terms
    for each row execute function refuse_change();

-- [merchants] API keys, by their digest: the keys themselves are not stored.
create table api_keys (
    id          text primary key,
    merchant_id text not null references merchants (id),
    key_sha256  bytea not null unique check (length(key_sha256) = 32),
    hint        text not null,  -- prefix and last four characters, to distinguish keys
    environment text not null check (environment in ('production', 'staging')),
    created_at  bigint not null,
    expires_at  bigint,
    revoked_at  bigint
);
create index api_keys_by_merchant on api_keys (merchant_id, created_at);

-- Which merchant a public id belongs to that comes without one: session ids in the addresses of
-- payment pages, attempt ids in callbacks of gateways, Epay merchant numbers (pid_…). Each is
-- written by the package whose id it is.
create table directory (
    id          text primary key,
    merchant_id text not null
);

-- [merchants] What operators and merchants changed, and why. Each row's hash covers the row and the
-- hash before it (merchants/audit.py). A row without a number or hash was not written by OpenTill,
-- which the verification reports.
create table audit_log (
    number      bigint check (number > 0),
    id          text primary key,
    at          bigint not null,
    who         text not null,
    action      text not null,
    merchant_id text not null,
    subject     text not null,
    reason      text not null,
    hash        bytea check (length(hash) = 32)
);
create unique index audit_log_by_number on audit_log (number);
create trigger audit_log_is_final before update or delete on audit_log
    for each row execute function refuse_change();
create trigger audit_log_is_not_truncated before truncate on audit_log
    for each statement execute function refuse_change();

-- [merchants] Number and hash of the audit log's last row. Its lock orders those who write.
create table audit_head (
    only_one boolean primary key default true check (only_one),
    number   bigint not null,
    hash     bytea not null check (length(hash) = 32)
);
insert into audit_head (number, hash) values (0, sha256('opentill audit log'));
create trigger audit_head_is_not_deleted before delete on audit_head
    for each row execute function refuse_change();
create trigger audit_head_is_not_truncated before truncate on audit_head
    for each statement execute function refuse_change();

-- ── Exchange rates and products ───────────────────────────────────────────────────────────────

-- [rates] One unit of base is worth rate units of quote from valid_from on.
create table exchange_rates (
    base       text not null check (base ~ '^[A-Z]{3}$'),
    quote      text not null check (quote ~ '^[A-Z]{3}$'),
    valid_from bigint not null,
    rate       numeric not null check (rate > 0),
    primary key (base, quote, valid_from)
);

-- [products] What a merchant offers; an order copies it when its session is opened.
create table products (
    merchant_id text not null references merchants (id),
    id          text not null,
    name        text not null check (length(name) between 1 and 200),
    description text not null check (length(description) <= 1000),
    image       text check (length(image) <= 2048),
    price_minor bigint not null check (price_minor > 0),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    status      text not null check (status in ('ACTIVE', 'ARCHIVED')),
    metadata    text not null,  -- JSON text exactly as the merchant sent it
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (merchant_id, id)
);
create index products_newest on products (merchant_id, created_at desc, id desc);
create index products_newest_by_status on products (merchant_id, status, created_at desc, id desc);

-- ── Checkout sessions and orders ──────────────────────────────────────────────────────────────

-- [checkouts] An offer to pay for one product, with a page of its own. Its order is made with it.
create table checkouts (
    merchant_id           text not null references merchants (id),
    id                    text not null,
    product_id            text not null,
    order_id              text not null,
    amount_minor          bigint not null check (amount_minor > 0),
    currency              text not null,
    status                text not null check (status in ('OPEN', 'COMPLETE', 'EXPIRED')),
    method                text check (method in  -- the only one, where an Epay request names it
        ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO', 'BANK_TRANSFER')),
    success_url           text,
    cancel_url            text,
    customer_email        text not null,  -- "" if not prefilled
    customer_name         text,
    display_merchant_name text not null,
    expires_at            bigint not null,
    created_at            bigint not null,
    updated_at            bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, product_id) references products (merchant_id, id)
);
create index checkouts_due on checkouts (expires_at) where status = 'OPEN';

-- [orders] What is bought, with the rates and terms that it was opened with; checkouts opens it.
create table orders (
    merchant_id           text not null references merchants (id),
    id                    text not null,
    checkout_id           text not null,
    source                text not null check (source in ('API', 'EPAY')),
    status                text not null check (status in
        ('CREATING', 'PENDING', 'PAID', 'SETTLED', 'REFUNDED', 'DISPUTED', 'CHARGEBACK',
         'FAILED', 'CLOSED', 'REVOKED')),
    history_number        integer not null,  -- of the last row of its history
    livemode              boolean,  -- whether its money is real; null: see orders/livemode.py

    -- what is bought
    product_id            text not null,
    product_name          text not null,
    product_description   text not null,
    product_image         text,
    currency              text not null,
    amount_minor          bigint not null check (amount_minor > 0),

    -- what it is for the merchant, in the currency that the balance is in
    platform_fee_minor    bigint not null,
    settled_currency      text not null,
    exchange_rate         numeric not null check (exchange_rate > 0),
    usd_exchange_rate     numeric check (usd_exchange_rate > 0),  -- null: none was there yet
    hkd_exchange_rate     numeric check (hkd_exchange_rate > 0),
    gross_settled_minor   bigint not null check (gross_settled_minor > 0),
    net_settled_minor     bigint not null,

    -- the merchant's terms
    terms_version         integer not null,
    platform_fee_rate     numeric not null,
    fees                  text not null,
    refund_fee_policy     text not null check (refund_fee_policy in ('KEPT', 'RETURNED')),
    settlement_delay_days integer not null,
    settlement_calendar   text not null check (settlement_calendar in ('EVERY_DAY', 'WEEKDAYS')),
    reserve_rate          numeric not null,
    reserve_days          integer not null,
    dispute_fee_minor     bigint not null,

    -- how it was paid
    payment_method        text check (payment_method in
        ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO', 'BANK_TRANSFER')),
    paid_attempt_id       text,
    customer_email        text not null,
    customer_name         text,
    payer_ip              text not null,
    paid_at               bigint,

    -- settlement and reserve
    due_at                bigint,  -- when it settles by its terms
    settle_at             bigint,  -- when the worker next looks whether it can be settled
    settled_at            bigint,
    reserve_minor         bigint not null check (reserve_minor >= 0),
    reserve_status        text not null check (reserve_status in
        ('NONE', 'HELD', 'OFFSET', 'RELEASED')),
    reserve_release_at    bigint,

    -- what went back
    refunded_minor        bigint not null,  -- succeeded refunds
    refund_held_minor     bigint not null,  -- accepted refunds: processing and succeeded
    refund_debit_minor    bigint not null,  -- what these take from the merchant, as settled
    charged_back_minor    bigint not null default 0  -- lost and not recovered, as settled
        check (charged_back_minor >= 0),

    metadata              text not null,
    created_at            bigint not null,
    updated_at            bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, checkout_id) references checkouts (merchant_id, id),
    constraint orders_fee_within_amount check (platform_fee_minor between 0 and amount_minor),
    constraint orders_net_within_gross check (net_settled_minor between 0 and gross_settled_minor),
    constraint orders_refunded_within_held check (refunded_minor between 0 and refund_held_minor),
    constraint orders_held_within_amount check (refund_held_minor <= amount_minor),
    constraint orders_debit_within_gross
        check (refund_debit_minor between 0 and gross_settled_minor),
    constraint orders_paid_has_its_time check
        (status not in ('PAID', 'SETTLED', 'REFUNDED', 'DISPUTED', 'CHARGEBACK')
         or paid_at is not null),
    constraint orders_settled_has_its_time check (status <> 'SETTLED' or settled_at is not null),
    constraint orders_refunded_in_full check (status <> 'REFUNDED' or refunded_minor = amount_minor)
);
create index orders_newest on orders (merchant_id, created_at desc, id desc);
create index orders_newest_by_status on orders (merchant_id, status, created_at desc, id desc);
create index orders_newest_by_product on orders (merchant_id, product_id, created_at desc, id desc);
create index orders_newest_by_product_and_status on orders
    (merchant_id, product_id, status, created_at desc, id desc);
create index orders_due on orders (settle_at) where settle_at is not null;
create index orders_due_by_merchant on orders (merchant_id, settle_at) where settle_at is not null;
create index orders_reserve_due on orders (reserve_release_at)
    where reserve_status = 'HELD' and status <> 'DISPUTED';
-- Orders whose payment is on its way, to be found when that takes too long.
create index orders_creating_due on orders (updated_at) where status = 'CREATING';
-- How many paid orders of a day there are, for act=query of the Epay API.
create index orders_paid_by_epay on orders (merchant_id, created_at)
    where source = 'EPAY' and status in ('PAID', 'SETTLED');

-- [orders] Which transitions an order took, when and why, and what else happened to it.
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
create index order_history_old on order_history (at) where number = 1;
create trigger order_history_is_final before update or delete on order_history
    for each row execute function refuse_history_change();
create trigger order_history_is_not_truncated before truncate on order_history
    for each statement execute function refuse_change();

-- [orders] One try to pay an order through one gateway. The row is committed before the gateway is
-- called; check_at is when the worker next asks the gateway (null: nothing to ask).
create table payment_attempts (
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
    asked_at     bigint,  -- when the gateway was last asked, by the worker or for a payer
    created_at   bigint not null,
    updated_at   bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);
create index payment_attempts_by_order on payment_attempts (merchant_id, order_id, id);
create index payment_attempts_due on payment_attempts (check_at) where check_at is not null;

-- ── The ledger ────────────────────────────────────────────────────────────────────────────────

-- [ledger] A merchant's balance in one currency: one row holds every account. The accounts of the
-- world outside (gateway, bank, platform) are kept for each merchant too, so that a posting never
-- locks a row that merchants share.
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
    constraint balances_sum_to_zero check
        (pending + available + frozen + reserve + gateway + bank + platform = 0),
    constraint balances_hold_no_less_than_nothing check (frozen >= 0 and reserve >= 0)
);
create trigger balances_stay before delete or update of merchant_id, currency on balances
    for each row execute function refuse_removal();
create trigger balances_are_not_truncated before truncate on balances
    for each statement execute function refuse_removal();

-- [ledger] One movement of money from one account to another, with the merchant's balances after it.
-- No foreign key leads to the balance: the trigger below compares both, which is stronger.
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
    shown_minor     bigint not null,  -- the amount with the sign that the merchant sees
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
    constraint entries_shown_is_the_amount check (abs(shown_minor) = amount_minor),
    constraint entries_change_account check (from_account <> to_account),
    -- ledger/postings.py: type, from, to, and the sign that the merchant sees
    constraint entries_follow_postings check
        ((type, from_account, to_account, sign(shown_minor)) in (
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
    -- what is posted for one cause is posted once, whatever is repeated
    constraint entries_once unique
        (merchant_id, source_type, source_id, type, from_account, to_account)
);
create index entries_newest on entries (merchant_id, created_at desc, id desc);
create index entries_newest_by_type on entries (merchant_id, type, created_at desc, id desc);
create trigger entries_are_final before update or delete on entries
    for each row execute function refuse_change();
create trigger entries_are_not_truncated before truncate on entries
    for each statement execute function refuse_change();

-- [ledger] How far the worker's check has come with each balance: the number of the last entry that
-- it checked, the sums of all accounts up to that entry, and what it found.
create table ledger_checks (
    merchant_id text not null,
    currency    text not null,
    checked_to  bigint not null,
    pending     bigint not null,
    available   bigint not null,
    frozen      bigint not null,
    reserve     bigint not null,
    gateway     bigint not null,
    bank        bigint not null,
    platform    bigint not null,
    last_at     bigint not null,  -- time of the last entry that was checked
    found       bigint not null,  -- violations of this pass so far
    violations  bigint not null,  -- of the last pass that was finished, or of this one
    entries     bigint not null,  -- checked in the last pass that was finished
    checked_at  bigint not null,  -- real time
    primary key (merchant_id, currency)
);

-- ── Refunds, disputes, payouts, adjustments ───────────────────────────────────────────────────

-- [refunds] try_at is when the worker next sends the refund or asks about it (null: nothing to do).
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
    constraint refunds_succeeded_has_its_time
        check ((status = 'SUCCEEDED') = (succeeded_at is not null)),
    constraint refunds_failed_has_its_time check ((status = 'FAILED') = (failed_at is not null)),
    constraint refunds_processing_is_due check ((status = 'PROCESSING') = (try_at is not null))
);
create unique index refunds_by_number on refunds (merchant_id, refund_no) where refund_no is not null;
create index refunds_by_order on refunds (merchant_id, order_id, created_at desc, id desc);
create index refunds_due on refunds (try_at) where try_at is not null;

-- [disputes] A payment that the customer takes back through the bank: one at a time for an order.
create table disputes (
    merchant_id    text not null,
    id             text not null,
    order_id       text not null,
    attempt_id     text not null,
    gateway        text not null,
    gateway_ref    text,  -- the provider's name of it, null if an operator opened it
    status         text not null check (status in ('OPEN', 'WON', 'LOST', 'RECOVERED')),
    amount_minor   bigint not null check (amount_minor >= 0),
    currency       text not null,
    debit_minor    bigint not null check (debit_minor >= 0),  -- in the settled currency
    fee_minor      bigint not null check (fee_minor >= 0),
    debit_currency text not null,
    disputed_from  text not null check (disputed_from in ('PAID', 'SETTLED')),
    offset_minor   bigint not null check (offset_minor >= 0),  -- reserve used for its loss
    reason         text not null,
    created_at     bigint not null,
    updated_at     bigint not null,
    closed_at      bigint,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    constraint disputes_closed_has_its_time check ((status = 'OPEN') = (closed_at is null))
);
create unique index disputes_open on disputes (merchant_id, order_id) where status = 'OPEN';
create unique index disputes_by_ref on disputes (merchant_id, gateway, gateway_ref)
    where gateway_ref is not null;
create index disputes_by_order on disputes (merchant_id, order_id, created_at desc);
create index disputes_newest on disputes (merchant_id, created_at desc, id desc);

-- [disputes] What operators and the merchant noted of a dispute.
create table dispute_notes (
    merchant_id text not null,
    dispute_id  text not null,
    number      integer not null,
    at          bigint not null,
    who         text not null,
    note        text not null,
    primary key (merchant_id, dispute_id, number),
    foreign key (merchant_id, dispute_id) references disputes (merchant_id, id)
);
create trigger dispute_notes_are_final before update or delete on dispute_notes
    for each row execute function refuse_change();

-- [disputes] What a gateway reports of disputes that cannot be applied to their order now, such as a
-- second one while one is open. It is tried again until it can be applied, the gateway withdraws it
-- or an operator closes it.
create table unmatched_disputes (
    merchant_id  text not null,
    gateway      text not null,
    gateway_ref  text not null,
    order_id     text not null,
    attempt_id   text not null,
    status       text not null check (status in ('OPENED', 'WON', 'LOST', 'RECOVERED')),
    amount_minor bigint not null,  -- as the gateway names it
    currency     text not null,
    reason       text not null,
    refusal      text not null,  -- why it cannot be applied
    try_at       bigint not null,
    tries        integer not null,
    created_at   bigint not null,
    updated_at   bigint not null,
    closed_at    bigint,
    closed_by    text,
    primary key (merchant_id, gateway, gateway_ref),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    constraint unmatched_disputes_are_closed_by_somebody
        check ((closed_at is null) = (closed_by is null))
);
create index unmatched_disputes_due on unmatched_disputes (try_at) where closed_at is null;

-- [payouts] What was available, sent to the merchant's bank.
create table payouts (
    merchant_id    text not null references merchants (id),
    id             text not null,
    status         text not null check (status in ('PENDING', 'PAID', 'FAILED')),
    amount_minor   bigint not null check (amount_minor > 0),
    fee_minor      bigint not null check (fee_minor >= 0),
    currency       text not null,
    reference      text not null,  -- the operator's: the same reference is the same payout
    bank_reference text not null,
    failure_reason text not null,
    reason         text not null,
    created_by     text not null,
    approved_by    text,  -- above the deployment's limit: a second operator
    created_at     bigint not null,
    updated_at     bigint not null,
    paid_at        bigint,
    failed_at      bigint,
    primary key (merchant_id, id),
    constraint payouts_need_two_operators check (lower(approved_by) <> lower(created_by)),
    constraint payouts_paid_has_its_time check ((status = 'PAID') = (paid_at is not null)),
    constraint payouts_paid_has_its_reference check ((status = 'PAID') = (bank_reference <> '')),
    constraint payouts_failed_has_its_time check ((status = 'FAILED') = (failed_at is not null)),
    constraint payouts_failed_has_its_reason check ((status = 'FAILED') = (failure_reason <> ''))
);
create unique index payouts_by_reference on payouts (merchant_id, reference);
create index payouts_newest on payouts (merchant_id, created_at desc, id desc);
create index payouts_newest_by_status on payouts (merchant_id, status, created_at desc, id desc);

-- [adjustments] What an operator moves beside payouts. Above a limit it waits for a second operator.
create table adjustments (
    merchant_id  text not null references merchants (id),
    id           text not null,
    kind         text not null check (kind in
        ('freeze', 'unfreeze', 'recharge', 'correct', 'fee')),
    status       text not null check (status in ('WAITING', 'DONE', 'REJECTED')),
    amount_minor bigint not null check (amount_minor <> 0),  -- negative: a correction that takes
    currency     text not null,
    account      text not null check (account in ('pending', 'available')),
    order_id     text,
    reference    text not null,  -- the operator's: the same reference is the same adjustment
    reason       text not null,
    asked_by     text not null,
    decided_by   text,
    created_at   bigint not null,
    decided_at   bigint,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    constraint adjustments_only_corrections_take
        check (kind = 'correct' or (amount_minor > 0 and account = 'available')),
    constraint adjustments_corrections_have_an_order
        check ((kind = 'correct') = (order_id is not null)),
    constraint adjustments_decided_has_its_time
        check ((status = 'WAITING') = (decided_at is null)),
    constraint adjustments_are_rejected_by_somebody
        check (status <> 'REJECTED' or decided_by is not null),
    constraint adjustments_need_two_operators
        check (status <> 'DONE' or lower(decided_by) <> lower(asked_by))
);
create unique index adjustments_by_reference on adjustments (merchant_id, reference);
create index adjustments_due on adjustments (created_at) where status = 'WAITING';

-- ── Events and webhooks ───────────────────────────────────────────────────────────────────────
-- No foreign keys from events and deliveries: they are written along with every payment, and each
-- would look up and lock a row of its own.

-- [webhooks] What happened, as merchants are notified; body is what every delivery sends, byte for
-- byte. number is the place in the merchant's own order, given after the commit by whoever reads
-- events (webhooks/queries.py): null until then.
create table events (
    merchant_id text not null,
    id          text not null,
    number      bigint check (number > 0),
    type        text not null check (type in
        ('order.paid', 'order.refunded', 'order.closed', 'order.settled', 'refund.failed',
         'dispute.created', 'dispute.closed', 'checkout.completed', 'checkout.expired',
         'payout.paid', 'payout.failed')),
    body        text not null,
    created_at  bigint not null,
    primary key (merchant_id, id)
);
create unique index events_by_number on events (merchant_id, number) where number is not null;
create index events_unnumbered on events (merchant_id, id) where number is null;

-- [webhooks] The number of a merchant's last event that has one.
create table event_heads (
    merchant_id text primary key references merchants (id),
    number      bigint not null check (number >= 0)
);

-- [webhooks] An address that a merchant wants events at.
create table webhook_endpoints (
    merchant_id      text not null references merchants (id),
    id               text not null,
    url              text not null check (length(url) between 1 and 2048),
    description      text not null check (length(description) <= 255),
    types            text[] not null,  -- empty: all, also those to come
    status           text not null check (status in ('ENABLED', 'DISABLED', 'DELETED')),
    disabled_reason  text not null,  -- "" unless it is DISABLED
    secret           bytea not null,  -- encrypted, see core/encryption.py
    old_secret       bytea,  -- signs as well until old_secret_until
    old_secret_until bigint,
    created_at       bigint not null,
    updated_at       bigint not null,
    primary key (merchant_id, id),
    constraint webhook_endpoints_old_secret_has_its_end
        check ((old_secret is null) = (old_secret_until is null)),
    constraint webhook_endpoints_disabled_has_its_reason
        check ((status = 'DISABLED') = (disabled_reason <> ''))
);

-- [webhooks] Which worker sends to an endpoint: one at a time, until its lease (real time) is over.
-- Apart from the endpoint's own row, which every payment reads.
create table endpoint_leases (
    merchant_id   text not null,
    endpoint_id   text not null,
    owner         text not null,
    until         bigint not null,
    failing_since bigint,  -- the first failure since the last success
    primary key (merchant_id, endpoint_id),
    foreign key (merchant_id, endpoint_id) references webhook_endpoints (merchant_id, id)
);

-- [webhooks] Which worker sends to a host, so that the limit of concurrent requests to a host holds
-- over all endpoints, merchants and workers. Real time.
create table host_leases (
    host  text primary key,  -- in lower case, without port
    owner text not null,
    until bigint not null
);

-- [webhooks] One event for one endpoint. A delivery that is sent again begins its schedule anew.
create table webhook_deliveries (
    merchant_id text not null,
    endpoint_id text not null,
    event_id    text not null,
    type        text not null,
    status      text not null check (status in ('PENDING', 'SUCCEEDED', 'FAILED')),
    attempts    integer not null,  -- in all
    step        integer not null check (step >= 0),  -- attempts since its schedule began
    try_at      bigint,
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (merchant_id, endpoint_id, event_id),
    constraint webhook_deliveries_step_within_attempts check (attempts >= step),
    constraint webhook_deliveries_pending_is_due check ((status = 'PENDING') = (try_at is not null))
);
create index webhook_deliveries_due on webhook_deliveries (merchant_id, endpoint_id, try_at)
    where try_at is not null;

-- [webhooks] One request of a delivery, without the event's body, and the beginning of the response.
create table delivery_attempts (
    merchant_id text not null,
    endpoint_id text not null,
    event_id    text not null,
    number      integer not null check (number > 0),
    at          bigint not null,
    duration_ms bigint not null check (duration_ms >= 0),
    outcome     text not null check (outcome in
        ('delivered', 'refused', 'no_answer', 'unreachable', 'forbidden')),
    http_status integer,
    request     text not null,
    answer      text not null,
    error       text not null,
    primary key (merchant_id, endpoint_id, event_id, number)
);

-- ── The Epay API ──────────────────────────────────────────────────────────────────────────────

-- [epay] A merchant's Epay credentials. The directory has the merchant of a pid, as pid_<number>.
create table epay_credentials (
    merchant_id text primary key references merchants (id),
    pid         bigint not null check (pid between 100000000 and 999999999),
    sealed_key  bytea not null,  -- see core/encryption.py: MD5 needs the key itself
    state       text not null check (state in ('ENABLED', 'DISABLED')),
    created_at  bigint not null,
    rotated_at  bigint,
    updated_at  bigint not null
);

-- [epay] The product that a merchant's Epay orders in a currency belong to; each order has a name and
-- an amount of its own.
create table epay_products (
    merchant_id text not null,
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    product_id  text not null,
    primary key (merchant_id, currency),
    foreign key (merchant_id, product_id) references products (merchant_id, id)
);

-- [epay] What was submitted for an order, as it came: notifications repeat it word for word.
create table epay_orders (
    merchant_id    text not null,
    out_trade_no   text not null check (out_trade_no ~ '^[A-Za-z0-9._|-]{1,64}$'),
    order_id       text not null,
    checkout_id    text not null,
    type           text not null check (type in
        ('', 'alipay', 'wxpay', 'creditcard', 'crypto', 'paynow', 'bank')),  -- '': the payer's choice
    requested_type text check (length(requested_type) between 1 and 32),  -- one we do not have
    name           text not null check (octet_length(name) between 1 and 127),
    money          text not null check
        (money ~ '^[0-9]{1,8}(\.[0-9]{1,2}0*)?$' and length(money) <= 32),
    money_type     text not null check (money_type ~ '^[A-Z]{3}$'),
    notify_url     text not null check (length(notify_url) <= 2048),
    return_url     text not null check (length(return_url) <= 2048),  -- '' if there is none
    param          text not null check (length(param) <= 2048),
    created_at     bigint not null,
    primary key (merchant_id, out_trade_no),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);
create unique index epay_orders_by_order on epay_orders (merchant_id, order_id);
create index epay_orders_newest on epay_orders (merchant_id, created_at desc, order_id desc);

-- [epay] The notification of a paid Epay order to the shop that placed it. orders writes it with the
-- transition to PAID; due_at is when it is tried next (null: delivered, or given up).
create table epay_notifications (
    merchant_id  text not null,
    order_id     text not null,
    state        text not null check (state in ('WAITING', 'DELIVERED', 'FAILED')),
    due_at       bigint,
    tries        integer not null check (tries >= 0),
    answer       text not null,  -- what the last try came to
    created_at   bigint not null,
    updated_at   bigint not null,
    primary key (merchant_id, order_id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    constraint epay_notifications_waiting_is_due check ((state = 'WAITING') = (due_at is not null))
);
create index epay_notifications_due on epay_notifications (due_at) where due_at is not null;
create index epay_notifications_due_by_merchant on epay_notifications (merchant_id, due_at)
    where due_at is not null;
create index epay_notifications_newest on epay_notifications
    (merchant_id, created_at desc, order_id desc);

-- [epay] A refund that act=refund asked for, by the SHA-256 of the signed text. The same request
-- within a day is the same refund; after that the row is deleted.
create table epay_refunds (
    merchant_id text not null,
    request     bytea not null check (octet_length(request) = 32),
    refund_id   text not null,
    created_at  bigint not null,
    primary key (merchant_id, request),
    foreign key (merchant_id, refund_id) references refunds (merchant_id, id)
);
create index epay_refunds_old on epay_refunds (created_at);

-- ── Counts of long lists ──────────────────────────────────────────────────────────────────────
-- How many rows a list has, without counting them (decision 0028): counts by filter and time, and
-- the changes that the counts do not hold yet. Both together are the number, in every snapshot.

-- [list_counts]
create table list_counts (
    merchant_id text not null,
    list        text not null check (list in ('orders', 'entries')),
    part        text not null,  -- orders: a product, or "" for all of them
    span        text not null check (span in ('all', 'day', 'hour')),
    since       bigint not null,  -- where its day or hour begins; 0 for all time
    kind        text not null,  -- orders: status; entries: type
    rows        bigint not null,
    primary key (merchant_id, list, part, span, since, kind)
);

-- [list_counts] Rows that came (kind), went (was) or changed, at the hour of their creation. Written
-- by the triggers below, so that no statement can forget it, and no server of another version. It has
-- no primary key, which nothing would ever look up: whole rows identify themselves to replication.
create table list_changes (
    merchant_id text not null,
    list        text not null,
    part        text not null,
    at          bigint not null,
    kind        text,
    was         text,
    rows        bigint not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
alter table list_changes replica identity full;
create index list_changes_by_merchant on list_changes (merchant_id, list);

-- Orders come one by one; a batch that changes many is looked at once (decision 0031).
create function count_new_order() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    values (new.merchant_id, 'orders', new.product_id, new.created_at / 3600000 * 3600000,
        new.status, null, 1);
    return null;
end $$;
create trigger orders_count_new after insert on orders
    for each row execute function count_new_order();

create function count_deleted_orders() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'orders', product_id, created_at / 3600000 * 3600000, null, status, count(*)
    from old_rows group by merchant_id, product_id, created_at / 3600000, status;
    return null;
end $$;
create trigger orders_count_deleted after delete on orders
    referencing old table as old_rows
    for each statement execute function count_deleted_orders();

-- The full join is for what the product never changes, but somebody in SQL might: an order's product,
-- time or key.
create function count_changed_orders() returns trigger language plpgsql as $$
begin
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'orders', product_id, created_at / 3600000 * 3600000, new_rows.status,
        old_rows.status, count(*)
    from new_rows full join old_rows using (merchant_id, id, product_id, created_at)
    where new_rows.status is distinct from old_rows.status
    group by merchant_id, product_id, created_at / 3600000, new_rows.status, old_rows.status;
    return null;
end $$;
create trigger orders_count_changed after update on orders
    referencing old table as old_rows new table as new_rows
    for each statement execute function count_changed_orders();

-- Entries are counted, and what the last one says of the balance must be the balance.
create function check_and_count_entries() returns trigger language plpgsql as $$
declare
    wrong record;
begin
    select last.merchant_id, last.currency, last.number into wrong
    from (
        select distinct on (merchant_id, currency) * from new_rows
        order by merchant_id, currency, number desc
    ) last
    left join balances b on b.merchant_id = last.merchant_id and b.currency = last.currency
    where (b.entries, b.pending, b.available, b.frozen, b.reserve, b.last_at) is distinct from
        (last.number, last.pending_after, last.available_after, last.frozen_after,
            last.reserve_after, last.created_at)
    limit 1;
    if found then
        raise exception 'entry % of % in % does not show the balance', wrong.number,
            wrong.merchant_id, wrong.currency using errcode = 'foreign_key_violation';
    end if;
    insert into list_changes (merchant_id, list, part, at, kind, was, rows)
    select merchant_id, 'entries', '', created_at / 3600000 * 3600000, type, null, count(*)
    from new_rows group by merchant_id, created_at / 3600000, type;
    return null;
end $$;
create trigger entries_check_and_count after insert on entries
    referencing new table as new_rows
    for each statement execute function check_and_count_entries();

-- ── Requests ──────────────────────────────────────────────────────────────────────────────────

-- [http] What a POST with an Idempotency-Key came to: its repetition gets the same response.
create table idempotency_keys (
    merchant_id text not null,
    key         text not null,
    fingerprint bytea not null,  -- SHA-256 of method, path and body
    status      smallint,  -- null only inside the transaction that makes it
    body        bytea,
    created_at  bigint not null,
    primary key (merchant_id, key)
);
create index idempotency_keys_old on idempotency_keys (created_at);

-- [db] Sliding windows of the rate limits: the times of the requests that passed in the last minute,
-- and how many passed at each. Unlogged: written at every request and worth nothing after a crash.
create unlogged table rate_limit_windows (
    scope   text not null,
    subject text not null,
    hits    bigint[] not null,
    counts  integer[] not null,
    last_at bigint not null,
    primary key (scope, subject)
);
create index rate_limit_windows_old on rate_limit_windows (last_at);

-- ── The deployment ────────────────────────────────────────────────────────────────────────────

-- [db] Business time, which the operator of a sandbox may move ahead to try things out.
create table business_clock (
    only_one boolean primary key default true check (only_one),
    ahead_ms bigint not null check (ahead_ms >= 0)
);
insert into business_clock (ahead_ms) values (0);

-- [db] With which key Epay keys and webhook secrets are encrypted: a fingerprint that does not reveal
-- the key. Another key is refused at the start, before anything is encrypted with it.
create table secret_key (
    only_one    boolean primary key default true check (only_one),
    fingerprint bytea not null check (octet_length(fingerprint) = 32)
);
