-- [figures] Payments of a merchant by month, method, card brand and currency, with which the number and
-- amount of disputes are compared. The worker counts them with the other figures; those of the version
-- before are counted anew.
create table brand_figures (
    merchant_id  text not null,
    month        bigint not null,  -- the first millisecond of the month in UTC
    method       text not null,
    brand        text not null,    -- as the gateway names it; '' if it is unknown, and for other methods
    currency     text not null,    -- that customers paid in
    payments     bigint not null,
    volume_minor bigint not null,
    primary key (merchant_id, month, method, brand, currency)
);
create index brand_figures_of_all on brand_figures (month);
