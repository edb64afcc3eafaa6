-- [products] Images of products that merchants uploaded, recognised by what is in them. An image stays
-- when its product gets another one, because orders and payment pages keep its address.
create table product_images (
    merchant_id text not null references merchants (id),
    sha256      text not null check (sha256 ~ '^[0-9a-f]{64}$'),
    media_type  text not null check (media_type in ('image/png', 'image/jpeg', 'image/webp')),
    width       integer not null check (width > 0),
    height      integer not null check (height > 0),
    content     bytea not null check (length(content) <= 1048576),
    created_at  bigint not null,
    primary key (merchant_id, sha256)
);
