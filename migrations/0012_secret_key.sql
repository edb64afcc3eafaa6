-- With which key Epay keys and webhook secrets are encrypted: a fingerprint, of which the key cannot be
-- told. Another key is refused at the start, instead of encrypting some of them with it.
create table secret_key (
    only_one    boolean primary key default true check (only_one),
    fingerprint bytea not null check (octet_length(fingerprint) = 32)
);
