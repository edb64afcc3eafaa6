-- Orders found by a part of the customer's name or e-mail, and by an amount in a currency
-- (decision 0060).

-- [orders] The parts of customers' names and e-mail addresses. A word is as orders/search/customer_words.py
-- compares it; term and place are those by which search_terms has the customer's orders.
create table search_words (
    merchant_id text not null,
    word        text collate "C" not null check (length(word) between 1 and 100),
    term        text collate "C" not null,
    place       text collate "C" not null,
    primary key (merchant_id, word, term, place)
);

-- [orders] Merchants whose older orders are to be indexed again, since the index has no words and no
-- currencies for them. Those before this time and id are still to be done.
create table search_reindexing (
    merchant_id text primary key,
    before_at   bigint not null,
    before_id   text not null
);
insert into search_reindexing (merchant_id, before_at, before_id)
select id, 9007199254740991, '' from merchants m
where exists (select from orders o where o.merchant_id = m.id);

-- Another name is indexed too. The e-mail is recorded even if it is the same, because an empty `was`
-- means a new order.
create or replace trigger orders_note_changed_email after update of customer_email, customer_name
    on orders for each row
    when (old.customer_email is distinct from new.customer_email
        or old.customer_name is distinct from new.customer_name)
    execute function note_changed_email();
