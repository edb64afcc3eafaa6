-- A number may have several orders from now on, each with a submission of its own. Two that submit the
-- same number at once still collide, those of the version before as well.
alter table epay_orders drop constraint epay_orders_pkey;
alter table epay_orders add constraint epay_orders_pkey primary key using index epay_orders_by_submission;
