-- [mail] What was mailed about a prepaid balance since it was topped up: `level` is the worst level, and entries
-- up to `number` were read for top-ups. The version before mails nothing and needs no row.
create table prepaid_notices (
    merchant_id text not null references merchants (id),
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    level       text not null check (level in ('ENOUGH', 'LOW', 'EMPTY')),
    number      bigint not null check (number >= 0),
    primary key (merchant_id, currency)
);
