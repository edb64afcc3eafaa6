-- What an order is in USD is shown by its refunds and by nothing else, so an order without a rate to
-- USD is an order all the same: the refund takes the newest rate that there is by then (decision 0035).
alter table orders alter column usd_exchange_rate drop not null;
