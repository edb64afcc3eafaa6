-- [payouts] The postal address of an account's holder, encrypted as its number is; null without one.
alter table bank_accounts add column address bytea;
-- [payouts] The operator's own address in a run's file, as JSON; null without one.
alter table payout_runs add column from_address text;
