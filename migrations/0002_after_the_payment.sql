-- Money after the payment: settlement, reserve, disputes, payouts, terms with history, operators.
-- Every new column has a default, so that the version before goes on serving meanwhile.

-- A merchant's terms over time. An order keeps the version that it was opened with.
create table merchant_terms (
    merchant_id           text not null references merchants (id),
    version               integer not null check (version > 0),
    platform_fee_rate     numeric not null check (platform_fee_rate >= 0 and platform_fee_rate < 1),
    fees                  text not null,     -- JSON: fee rates by method and currency, fixed parts
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
create trigger terms_are_final before update or delete on merchant_terms
    for each row execute function refuse_change();

alter table merchants
    add column terms_version        integer not null default 0,
    add column fees                 text not null default '[]',
    add column settlement_calendar  text not null default 'EVERY_DAY'
        check (settlement_calendar in ('EVERY_DAY', 'WEEKDAYS')),
    add column dispute_fee_minor    bigint not null default 1500 check (dispute_fee_minor >= 0),
    add column payout_minimum_minor bigint not null default 0 check (payout_minimum_minor >= 0);
update merchants set terms_version = 1;
insert into merchant_terms (merchant_id, version, platform_fee_rate, fees, refund_fee_policy,
    overdraft_minor, settlement_delay_days, settlement_calendar, reserve_rate, reserve_days,
    dispute_fee_minor, payout_minimum_minor, ip_allowlist, who, reason, created_at)
select id, terms_version, platform_fee_rate, fees, refund_fee_policy, overdraft_minor,
    settlement_delay_days, settlement_calendar, reserve_rate, reserve_days, dispute_fee_minor,
    payout_minimum_minor, ip_allowlist, 'opentill', 'terms before they had versions', updated_at
from merchants;

alter table orders
    add column terms_version         integer not null default 0,
    add column fees                  text not null default '[]',
    add column settlement_delay_days integer not null default 7,
    add column settlement_calendar   text not null default 'EVERY_DAY'
        check (settlement_calendar in ('EVERY_DAY', 'WEEKDAYS')),
    add column reserve_days          integer not null default 180,
    add column dispute_fee_minor     bigint not null default 1500,
    add column charged_back_minor    bigint not null default 0  -- lost and not recovered, settled
        check (charged_back_minor >= 0),
    add column due_at                bigint,  -- when it settles by its terms
    add column settle_at             bigint;  -- when the worker next looks at it for that
create index orders_due on orders (settle_at) where settle_at is not null;
create index orders_due_of_merchant on orders (merchant_id, settle_at) where settle_at is not null;
create index orders_reserve_due on orders (reserve_release_at)
    where reserve_status = 'HELD' and status <> 'DISPUTED';
-- Orders that are there already keep their merchant's delay and reserve; only the dispute fee is new.
update orders o set settlement_delay_days = m.settlement_delay_days, reserve_days = m.reserve_days
from merchants m where m.id = o.merchant_id
    and (o.settlement_delay_days, o.reserve_days) <> (m.settlement_delay_days, m.reserve_days);
update orders set due_at = paid_at + settlement_delay_days * 86400000::bigint,
    settle_at = paid_at + settlement_delay_days * 86400000::bigint
where paid_at is not null and settled_at is null;

create table disputes (
    merchant_id   text not null,
    id            text not null,
    order_id      text not null,
    attempt_id    text not null,
    gateway       text not null,
    gateway_ref   text,                     -- the provider's name of it, null if opened by hand
    status        text not null check (status in ('OPEN', 'WON', 'LOST', 'RECOVERED')),
    amount_minor  bigint not null check (amount_minor >= 0),
    currency      text not null,
    debit_minor   bigint not null check (debit_minor >= 0),  -- in the settled currency
    fee_minor     bigint not null check (fee_minor >= 0),
    debit_currency text not null,
    disputed_from text not null check (disputed_from in ('PAID', 'SETTLED')),
    offset_minor  bigint not null check (offset_minor >= 0),  -- reserve used for its loss
    reason        text not null,
    created_at    bigint not null,
    updated_at    bigint not null,
    closed_at     bigint,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    check ((status = 'OPEN') = (closed_at is null))
);
create unique index disputes_open on disputes (merchant_id, order_id) where status = 'OPEN';
create unique index disputes_by_ref on disputes (merchant_id, gateway, gateway_ref)
    where gateway_ref is not null;
create index disputes_newest on disputes (merchant_id, created_at desc, id desc);
create index disputes_of_order on disputes (merchant_id, order_id, created_at desc);

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

-- What a gateway says of disputes that cannot be applied to their order now, such as a second one
-- while one is open. It is tried again until it can be, the gateway takes it back or an operator
-- has seen to it.
create table unmatched_disputes (
    merchant_id  text not null,
    gateway      text not null,
    gateway_ref  text not null,
    order_id     text not null,
    attempt_id   text not null,
    status       text not null check (status in ('OPENED', 'WON', 'LOST', 'RECOVERED')),
    amount_minor bigint not null,           -- as the gateway names it
    currency     text not null,
    reason       text not null,
    refusal      text not null,             -- why it cannot be applied
    try_at       bigint not null,
    tries        integer not null,
    created_at   bigint not null,
    updated_at   bigint not null,
    closed_at    bigint,
    closed_by    text,
    primary key (merchant_id, gateway, gateway_ref),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    check ((closed_at is null) = (closed_by is null))
);
create index unmatched_disputes_due on unmatched_disputes (try_at) where closed_at is null;

create table payouts (
    merchant_id    text not null references merchants (id),
    id             text not null,
    status         text not null check (status in ('PENDING', 'PAID', 'FAILED')),
    amount_minor   bigint not null check (amount_minor > 0),
    fee_minor      bigint not null check (fee_minor >= 0),
    currency       text not null,
    reference      text not null,            -- ours: the same reference is the same payout
    bank_reference text not null,
    failure_reason text not null,
    reason         text not null,
    created_by     text not null,
    approved_by    text,                     -- above the deployment's limit: a second operator
    created_at     bigint not null,
    updated_at     bigint not null,
    paid_at        bigint,
    failed_at      bigint,
    primary key (merchant_id, id),
    check (lower(approved_by) <> lower(created_by)),
    check ((status = 'PAID') = (paid_at is not null)),
    check ((status = 'PAID') = (bank_reference <> '')),
    check ((status = 'FAILED') = (failed_at is not null)),
    check ((status = 'FAILED') = (failure_reason <> ''))
);
create unique index payouts_by_reference on payouts (merchant_id, reference);
create index payouts_newest on payouts (merchant_id, created_at desc, id desc);
create index payouts_newest_by_status on payouts (merchant_id, status, created_at desc, id desc);

-- What an operator moves by hand, beside payouts: waits for a second operator above a limit.
create table operator_movements (
    merchant_id  text not null references merchants (id),
    id           text not null,
    kind         text not null check (kind in
        ('freeze', 'unfreeze', 'recharge', 'correct', 'fee')),
    status       text not null check (status in ('WAITING', 'DONE', 'REJECTED')),
    amount_minor bigint not null check (amount_minor <> 0),  -- negative: a correction that takes
    currency     text not null,
    account      text not null check (account in ('pending', 'available')),
    order_id     text,
    reference    text not null,
    reason       text not null,
    asked_by     text not null,
    decided_by   text,
    created_at   bigint not null,
    decided_at   bigint,
    primary key (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    check (kind = 'correct' or (amount_minor > 0 and account = 'available')),
    check ((kind = 'correct') = (order_id is not null)),
    check ((status = 'WAITING') = (decided_at is null)),
    check (status <> 'REJECTED' or decided_by is not null),
    check (status <> 'DONE' or lower(decided_by) <> lower(asked_by))
);
create unique index operator_movements_by_reference on operator_movements (merchant_id, reference);
create index operator_movements_waiting on operator_movements (created_at) where status = 'WAITING';

-- The audit log becomes a chain: each row's hash covers the row and the hash before it, see
-- merchants/audit.py. What is there already is chained here; a row without a number was written past
-- the chain.
alter table audit_log
    add column number bigint check (number > 0),
    add column hash   bytea check (length(hash) = 32);
create unique index audit_log_in_order on audit_log (number);
create table audit_head (
    only_one boolean primary key default true check (only_one),
    number   bigint not null,
    hash     bytea not null check (length(hash) = 32)
);
create trigger audit_head_is_not_deleted before delete on audit_head
    for each row execute function refuse_change();
create trigger audit_head_is_not_truncated before truncate on audit_head
    for each statement execute function refuse_change();
alter table audit_log disable trigger audit_is_final;
do $$
declare
    entry audit_log;
    field text;
    chained bigint := 0;
    link bytea := sha256('opentill audit log');
begin
    for entry in select * from audit_log order by at, id loop
        chained := chained + 1;
        foreach field in array array[chained::text, entry.id, entry.at::text, entry.who, entry.action,
                entry.merchant_id, entry.subject, entry.reason] loop
            link := link || int4send(octet_length(convert_to(field, 'UTF8'))) || convert_to(field, 'UTF8');
        end loop;
        link := sha256(link);
        update audit_log set number = chained, hash = link where id = entry.id;
    end loop;
    insert into audit_head (number, hash) values (chained, link);
end $$;
alter table audit_log enable trigger audit_is_final;

-- Business time for trying things out, with the sandbox only: how far it is ahead.
create table business_clock (
    only_one boolean primary key default true check (only_one),
    ahead_ms bigint not null check (ahead_ms >= 0)
);
insert into business_clock (ahead_ms) values (0);

-- How far the worker's check of the books has come with each balance: the number of the last entry
-- that was checked in this round, the sums of all accounts up to it, and what was found.
create table books_checks (
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
    last_at     bigint not null,            -- time of the last entry that was checked
    found       bigint not null,            -- violations of this round so far
    violations  bigint not null,            -- of the last round that was finished, or of this one
    entries     bigint not null,            -- checked in the last round that was finished
    checked_at  bigint not null,            -- real time
    primary key (merchant_id, currency)
);

-- Orders whose payment is on its way, to be found when that takes too long.
create index orders_creating on orders (updated_at) where status = 'CREATING';
