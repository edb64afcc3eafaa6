-- What was sold by each payment link, summed up where it is noted, so that reading it does not depend on
-- how often the link was used; and events that no mail can be made of (decision 0103).

-- [payment_links] Uses of a link that are PAID, by currency. Written by the trigger below, so that no
-- statement can forget it, and no worker of another version.
create table payment_link_sales (
    merchant_id     text not null,
    payment_link_id text not null,
    currency        text not null,
    paid            bigint not null check (paid > 0),
    paid_minor      bigint not null check (paid_minor > 0),
    primary key (merchant_id, payment_link_id, currency),
    foreign key (merchant_id, payment_link_id) references payment_links (merchant_id, id)
);

create function sum_paid_uses() returns trigger language plpgsql as $$
begin
    insert into payment_link_sales as sales
        (merchant_id, payment_link_id, currency, paid, paid_minor)
    select u.merchant_id, u.payment_link_id, u.currency, count(*), sum(u.amount_minor)
    from uses_now u
    join uses_before was on was.merchant_id = u.merchant_id and was.order_id = u.order_id
    where u.state = 'PAID' and was.state <> 'PAID'
    group by u.merchant_id, u.payment_link_id, u.currency
    order by u.merchant_id, u.payment_link_id, u.currency
    on conflict (merchant_id, payment_link_id, currency) do update
        set paid = sales.paid + excluded.paid, paid_minor = sales.paid_minor + excluded.paid_minor;
    return null;
end $$;
-- From here until the end nobody notes a use, so that each is summed once.
create trigger payment_link_uses_sum_paid after update on payment_link_uses
    referencing old table as uses_before new table as uses_now
    for each statement execute function sum_paid_uses();

insert into payment_link_sales (merchant_id, payment_link_id, currency, paid, paid_minor)
select merchant_id, payment_link_id, currency, count(*), sum(amount_minor) from payment_link_uses
where state = 'PAID' group by merchant_id, payment_link_id, currency;

-- [mail] Events that no mail could be made of, each with the reason: those after it are read on.
create table mail_events_put_aside (
    merchant_id text not null,
    number      bigint not null,
    event_id    text not null,
    reason      text not null check (length(reason) <= 300),
    created_at  bigint not null,
    primary key (merchant_id, number)
);
create index mail_events_put_aside_newest on mail_events_put_aside (created_at, merchant_id, number);
