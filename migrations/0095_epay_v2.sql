-- The Epay V2 API: requests are signed with the merchant's RSA key, and responses and notifications with the
-- platform's (decision 0166). The version before reads and writes none of this: its merchants have V1 only.

-- [epay] Which versions of the Epay API a merchant accepts, and the public half of its key for V2.
-- Constant defaults cost no rewrite.
alter table epay_credentials
    add column versions text not null default 'V1',
    add column public_key text,
    add column public_key_at bigint,
    add constraint epay_credentials_have_versions check (versions in ('V1', 'V2', 'BOTH')) not valid,
    add constraint epay_credentials_v2_has_a_key check
        (versions = 'V1' or public_key is not null) not valid,
    add constraint epay_credentials_key_has_a_time check
        ((public_key is null) = (public_key_at is null)) not valid;

-- [epay] The version of the Epay API that placed an order: its shop is notified by it.
alter table epay_orders
    add column version integer not null default 1,
    add constraint epay_orders_version_is_1_or_2 check (version in (1, 2)) not valid;

-- [epay] The keys with which the platform signs for V2, of which the one with the highest number is used.
-- Private halves are encrypted, see core/encryption.py; older keys stay, so that what they signed can be
-- verified.
create table epay_platform_keys (
    number     integer primary key check (number >= 1),
    public_key text not null,
    sealed_key bytea not null,
    created_at bigint not null
);

-- [epay] The signatures of V2 that were used in the last minutes, by their SHA-256: none is accepted on
-- another path.
create table epay_signatures (
    merchant_id text not null,
    signature   bytea not null check (octet_length(signature) = 32),
    path        text not null check (length(path) between 1 and 32),
    created_at  bigint not null,
    primary key (merchant_id, signature)
);
create index epay_signatures_old on epay_signatures (created_at);
