-- More fields of a session and of its order, and payment links (decisions 0087, 0088 and 0089).
--
-- The new columns of checkouts and orders are null wherever they are not used, which costs no rewrite
-- and no byte of a row. The version before writes none of them and leaves them as they are. Their
-- constraints hold for new rows; there is nothing in old ones that they could refuse, so the tables
-- are not read for it while they are locked.
alter table checkouts
    add column quantity         integer,  -- null: one
    add column methods          text[],   -- those that it may be paid by; null: all on offer
    add column locale           text,     -- of its page, where the reader has chosen none
    add column client_reference text;     -- the shop's own number, shown to the customer
alter table checkouts
    add constraint checkouts_quantity check (quantity between 2 and 99) not valid,
    add constraint checkouts_methods check (cardinality(methods) >= 1) not valid,
    add constraint checkouts_client_reference
        check (length(client_reference) between 1 and 200) not valid;

alter table orders
    add column quantity         integer,  -- null: one
    add column client_reference text,
    add column payment_link_id  text;     -- null: not opened by a link
alter table orders
    add constraint orders_quantity check (quantity between 2 and 99) not valid,
    add constraint orders_client_reference
        check (length(client_reference) between 1 and 200) not valid;

-- [payment_links] An address that opens a session for each visitor who goes on. It sells a product, or
-- an item of its own: from least_minor to most_minor, which are equal for a fixed price.
create table payment_links (
    merchant_id      text not null references merchants (id),
    id               text not null,
    slug             text not null check (slug ~ '^[0-9a-z]{32}$'),  -- in its address; see directory
    active           boolean not null,
    product_id       text,
    name             text check (length(name) between 1 and 200),
    description      text not null check (length(description) <= 1000),
    image            text check (length(image) <= 2048),
    currency         text check (currency ~ '^[A-Z]{3}$'),
    least_minor      bigint check (least_minor > 0),
    most_minor       bigint,
    max_quantity     integer not null check (max_quantity between 1 and 99),
    expires_at       bigint,   -- null: never
    max_uses         integer check (max_uses between 1 and 100000),  -- null: any number
    success_url      text check (length(success_url) <= 2048),
    methods          text[] check (cardinality(methods) >= 1),
    locale           text,
    client_reference text check (length(client_reference) between 1 and 200),
    metadata         text not null,  -- JSON text exactly as the merchant sent it
    opened           bigint not null check (opened >= 0),  -- sessions so far
    created_at       bigint not null,
    updated_at       bigint not null,
    primary key (merchant_id, id),
    foreign key (merchant_id, product_id) references products (merchant_id, id),
    constraint payment_links_sell_one_thing check (case when product_id is null
        then name is not null and currency is not null and least_minor is not null
            and most_minor is not null and most_minor >= least_minor
        else name is null and currency is null and least_minor is null and most_minor is null end),
    constraint payment_links_open_amounts_are_of_one check (
        max_quantity = 1 or product_id is not null or least_minor = most_minor)
);
create index payment_links_by_slug on payment_links (merchant_id, slug);
create index payment_links_newest on payment_links (merchant_id, created_at desc, id desc);
create index payment_links_newest_by_active
    on payment_links (merchant_id, active, created_at desc, id desc);

-- [payment_links] A session that a link has opened: OPEN until its order is paid or closed, which the
-- worker notes some time later. Amount and currency are the order's.
create table payment_link_uses (
    merchant_id     text not null,
    payment_link_id text not null,
    order_id        text not null,
    checkout_id     text not null,
    state           text not null check (state in ('OPEN', 'PAID', 'ENDED')),
    amount_minor    bigint not null check (amount_minor > 0),
    currency        text not null,
    created_at      bigint not null,
    primary key (merchant_id, order_id),
    foreign key (merchant_id, payment_link_id) references payment_links (merchant_id, id),
    foreign key (merchant_id, order_id) references orders (merchant_id, id)
);
create index payment_link_uses_by_link
    on payment_link_uses (merchant_id, payment_link_id, state) include (currency, amount_minor);
create index payment_link_uses_open on payment_link_uses (created_at, merchant_id, order_id)
    where state = 'OPEN';
