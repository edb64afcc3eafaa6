-- An out_trade_no that was never paid can be submitted again once its session has ended: each time it
-- is another order under the same number. The version before places the first of each only.
alter table epay_orders add column submission integer not null default 1;
alter table epay_orders add constraint epay_orders_submissions_count_from_one
    check (submission >= 1) not valid;
