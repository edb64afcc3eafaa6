-- concurrently
-- Payments found by the first groups of a receipt's number after its day.
create index concurrently orders_by_receipt_number on orders (merchant_id, left(right(id, 12), 4));
