-- Details of the seller on receipts: its legal name, address and tax number, and the rate of the tax
-- that its prices include. Nothing of this is read or written when a payment is opened or confirmed.

-- [merchants] The current details; null: none. The rate is a share with at most five decimals, as
-- text, so that what was entered is what is shown.
alter table merchants
    add column legal_name    text check (length(legal_name) between 1 and 120),
    add column legal_address text check (length(legal_address) between 1 and 400),
    add column tax_number    text check (length(tax_number) between 1 and 40),
    add column tax_rate      text check (tax_rate ~ '^0(\.[0-9]{1,5})?$');

-- [merchants] Every version of the details, each in force from since on. A receipt shows those that
-- were in force when its order was paid, so that it stays the same.
create table merchant_sellers (
    merchant_id   text not null references merchants (id),
    since         bigint not null,
    legal_name    text check (length(legal_name) between 1 and 120),
    legal_address text check (length(legal_address) between 1 and 400),
    tax_number    text check (length(tax_number) between 1 and 40),
    tax_rate      text check (tax_rate ~ '^0(\.[0-9]{1,5})?$'),
    primary key (merchant_id, since)
);
