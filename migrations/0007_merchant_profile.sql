-- What customers see of a merchant on the payment page: its profile and its logo. Columns that may be
-- empty cost no rewrite, and a server of the version before leaves them as they are.

-- [merchants] A name that is not there is the merchant's own; a colour or a contact that is not there
-- is not shown. logo_sha256 is that of the row in merchant_logos.
alter table merchants
    add column display_name  text check (length(display_name) between 1 and 80),
    add column accent_color  text check (accent_color ~ '^#[0-9a-f]{6}$'),
    add column support_email text check (length(support_email) <= 254),
    add column support_url   text check (length(support_url) <= 2048),
    add column terms_url     text check (length(terms_url) <= 2048),
    add column logo_sha256   text check (logo_sha256 ~ '^[0-9a-f]{64}$');

-- [merchants] A merchant's logo, as it was uploaded and recognised by what is in it.
create table merchant_logos (
    merchant_id text primary key references merchants (id),
    sha256      text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    media_type  text not null check (media_type in ('image/png', 'image/jpeg', 'image/webp')),
    width       integer not null check (width > 0),
    height      integer not null check (height > 0),
    content     bytea not null check (length(content) <= 262144),
    created_at  bigint not null
);
