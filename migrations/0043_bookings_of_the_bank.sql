-- concurrently
-- The bank's bookings that concern no payout, which are listed beside the inbox.
create index concurrently reconciliation_differences_bookings
    on reconciliation_differences (created_at desc, id desc) where kind = 'booking';
