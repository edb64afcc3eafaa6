-- Orders and merchants of an old Epay server (decision 0175). The version before writes none of them.

-- [orders] Whether an order was imported, paid or not: its payment is part of its merchant's opening balance,
-- so it has no entries of its own. A constant default costs no rewrite.
alter table orders add column imported boolean not null default false;

-- [epay] The number that the old server gave an imported order; null: the order is not imported.
alter table epay_orders add column old_trade_no text;

-- [epay] Merchants of an old server keep their pid, which may be shorter than nine digits.
alter table epay_credentials
    drop constraint epay_credentials_pid_check,
    add constraint epay_credentials_pid_has_up_to_nine_digits check (pid between 1 and 999999999) not valid;

-- [epay_import] Merchants that were imported from an old Epay server. `RUNNING`: rows may be missing, so the merchant
-- is switched off; the import that continues it finishes it.
create table epay_imports (
    merchant_id text primary key references merchants (id),
    pid         bigint not null,
    state       text not null check (state in ('RUNNING', 'FINISHED')),
    created_at  bigint not null,
    finished_at bigint,
    constraint epay_imports_finished_has_its_time check ((state = 'FINISHED') = (finished_at is not null))
);
