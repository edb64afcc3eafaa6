-- Rates of files age, and end with their currency's last day; rates that were typed do not.

-- [rates] Whether somebody typed it. Null: the version before wrote it, which does not say; the days of
-- files begin at midnight (UTC), so such a rate counts as one of a file.
alter table exchange_rates add column typed boolean;

-- [rates] The days that files had. A rate of a file ends with a later day that lacks its currencies.
create table rate_days (
    valid_from bigint primary key
);
