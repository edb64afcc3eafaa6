-- The Epay door. What another version does not know is nullable or has a default, so that the version
-- before goes on serving meanwhile.

-- A merchant's Epay credentials. Which merchant a pid is of stands in the directory, as pid_<number>.
create table epay_credentials (
    merchant_id text primary key references merchants (id),
    pid         bigint not null check (pid between 100000000 and 999999999),
    sealed_key  bytea not null,              -- see core/encryption.py: MD5 needs the key itself
    state       text not null check (state in ('ENABLED', 'DISABLED')),
    created_at  bigint not null,
    rotated_at  bigint,
    updated_at  bigint not null
);

-- The product that a merchant's Epay orders in a currency stand on: each has a name and an amount of
-- its own.
create table epay_products (
    merchant_id text not null,
    currency    text not null check (currency ~ '^[A-Z]{3}$'),
    product_id  text not null,
    primary key (merchant_id, currency),
    foreign key (merchant_id, product_id) references products (merchant_id, id)
);

-- What was submitted for an order, as it came: it goes back in notices word for word.
create table epay_orders (
    merchant_id  text not null,
    out_trade_no text not null check (out_trade_no ~ '^[A-Za-z0-9._|-]{1,64}$'),
    order_id     text not null,
    checkout_id  text not null,
    type         text not null check (type in
        ('', 'alipay', 'wxpay', 'creditcard', 'crypto', 'paynow', 'bank')),  -- '': as the customer chose
    name         text not null check (octet_length(name) between 1 and 127),
    money        text not null check (money ~ '^[0-9]{1,8}(\.[0-9]{1,2})?$'),
    money_type   text not null check (money_type ~ '^[A-Z]{3}$'),
    notify_url   text not null check (length(notify_url) <= 2048),
    return_url   text not null check (length(return_url) <= 2048),  -- '' if there is none
    param        text not null check (length(param) <= 2048),
    created_at   bigint not null,
    primary key (merchant_id, out_trade_no),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);
create unique index epay_orders_by_order on epay_orders (merchant_id, order_id);
create index epay_orders_newest on epay_orders (merchant_id, created_at desc, order_id desc);

-- That an order was paid, to be told to who placed it. Written by the step that makes an Epay order
-- PAID; due_at is when it is tried next (null: delivered, or given up).
create table order_notices (
    merchant_id  text not null,
    order_id     text not null,
    state        text not null check (state in ('WAITING', 'DELIVERED', 'FAILED')),
    due_at       bigint,
    tries        integer not null check (tries >= 0),
    answer       text not null,              -- what the last try came to
    created_at   bigint not null,
    updated_at   bigint not null,
    primary key (merchant_id, order_id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id),
    check ((state = 'WAITING') = (due_at is not null))
);
create index order_notices_due on order_notices (due_at) where due_at is not null;
create index order_notices_due_of_merchant on order_notices (merchant_id, due_at) where due_at is not null;
create index order_notices_newest on order_notices (merchant_id, created_at desc, order_id desc);

-- How many paid orders there are of a day, for act=query.
create index orders_paid_by_epay on orders (merchant_id, created_at)
    where source = 'EPAY' and status in ('PAID', 'SETTLED');

-- A session that can be paid by one method only: the one that an Epay request names.
alter table checkouts add column method text check (method in
    ('CREDIT_CARD', 'ALIPAY', 'WECHAT_PAY', 'PAYNOW', 'CRYPTO', 'BANK_TRANSFER'));
