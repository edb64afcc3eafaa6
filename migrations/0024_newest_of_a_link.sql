-- The newest payments of a link are read by the index that its sales are read by, which takes the place
-- of the one without times; the version before goes on by it.
create index payment_link_uses_newest
    on payment_link_uses (merchant_id, payment_link_id, state, created_at desc, order_id desc)
    include (currency, amount_minor);
drop index payment_link_uses_by_link;
