-- concurrently
-- The newest payments of a link are read by an index with times, which takes the place of the one that
-- sales were summed by; it is built while others write.
create index concurrently payment_link_uses_newest
    on payment_link_uses (merchant_id, payment_link_id, state, created_at desc, order_id desc);
drop index concurrently payment_link_uses_by_link;
