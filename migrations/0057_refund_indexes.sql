-- concurrently
-- The lists of payments by the state of their refunds, newest first. Only orders in that state are in
-- the index, so that a payment writes nothing there.
create index concurrently orders_partially_refunded on orders (merchant_id, created_at desc, id desc)
    where refunded_minor > 0 and refunded_minor < amount_minor;
create index concurrently orders_refund_pending on orders (merchant_id, created_at desc, id desc)
    where refund_held_minor > refunded_minor;
create index concurrently orders_refund_failed on orders (merchant_id, created_at desc, id desc)
    where refund_failed;
-- Failed refunds that nobody has handled: those of an order or a merchant, and those of all.
create index concurrently refunds_failed on refunds (merchant_id, order_id)
    where status = 'FAILED' and handled_at is null;
create index concurrently refunds_failed_newest on refunds (failed_at desc, id)
    where status = 'FAILED' and handled_at is null;
