-- [gateways] Merchants who add gateway accounts themselves (decision 0167).

-- The gateways of which a merchant may add and change own accounts; no row: of none.
create table merchant_gateways (
    merchant_id text primary key references merchants (id),
    gateways    text[] not null check (cardinality(gateways) between 1 and 50)
);
-- `by_merchant`: the merchant has entered the credentials, so adapters call only addresses that merchants
-- may name. `paused_by_merchant`: the merchant has paused the account, and may resume it. The version
-- before writes neither column; an account that it pauses is the operator's to resume.
alter table gateway_accounts
    add column by_merchant boolean not null default false,
    add column paused_by_merchant boolean not null default false,
    add constraint gateway_accounts_by_merchant_have_one check
        (not by_merchant or merchant_id is not null);
-- A label is unique among the accounts of its owner, so that merchants learn nothing of each other.
create unique index gateway_accounts_by_owner_and_label on gateway_accounts
    (coalesce(merchant_id, ''), lower(label)) where status <> 'RETIRED';
drop index gateway_accounts_by_label;
