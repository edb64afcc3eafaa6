-- People who log in: persons, their roles, logins and links.
--
-- A person is one, of however many merchants, so that persons and what is theirs alone have no
-- merchant_id. Secrets are random and stand here as SHA-256 only; passwords as Argon2id.

-- [people] Somebody who logs in. The address is in lower case: two that differ in capitals are one.
create table persons (
    id           text primary key,
    email        text not null unique check (email = lower(email) and length(email) <= 254),
    name         text not null check (length(name) between 1 and 200),
    password     text not null check (password like '$argon2id$%'),
    totp_secret  bytea,  -- encrypted; of the authenticator that is the second factor
    totp_pending bytea,  -- encrypted; of one that is not confirmed yet
    totp_period  bigint not null,  -- the last 30 seconds of which a code was used
    created_at   bigint not null,
    updated_at   bigint not null
);

-- [people] Codes that stand in for an authenticator, each once; what was used has no row.
create table recovery_codes (
    person_id   text not null references persons (id),
    code_sha256 bytea not null check (length(code_sha256) = 32),
    primary key (person_id, code_sha256)
);

-- [people] Passkeys: public keys whose private part a person's device has.
create table passkeys (
    id         text primary key,
    person_id  text not null references persons (id),
    credential bytea not null unique,
    public_key bytea not null,
    sign_count bigint not null check (sign_count >= 0),
    name       text not null check (length(name) between 1 and 100),
    created_at bigint not null,
    used_at    bigint
);
create index passkeys_by_person on passkeys (person_id, created_at);

-- [people] What a browser was asked to sign with a passkey, to be used once. person_id: whose
-- passkey is to be made; without it somebody wants to log in.
create table passkey_challenges (
    challenge  bytea primary key,
    person_id  text references persons (id),
    expires_at bigint not null
);
create index passkey_challenges_old on passkey_challenges (expires_at);

-- [people] A person's role at a merchant.
create table members (
    merchant_id text not null references merchants (id),
    person_id   text not null references persons (id),
    role        text not null
        check (role in ('owner', 'finance', 'support', 'developer', 'viewer')),
    created_at  bigint not null,
    primary key (merchant_id, person_id)
);
create index members_by_person on members (person_id, merchant_id);

-- [people] A person's role at the deployment.
create table staff (
    person_id  text primary key references persons (id),
    role       text not null check (role in ('admin', 'finance', 'support', 'auditor')),
    created_at bigint not null
);

-- [people] Where a person is logged in, until it is over; what ended has no row. The token is in
-- the browser's cookie only. proved_at: when the person last proved who they are.
create table logins (
    id           text primary key,
    person_id    text not null references persons (id),
    token_sha256 bytea not null unique check (length(token_sha256) = 32),
    created_at   bigint not null,
    proved_at    bigint not null,
    used_at      bigint not null,
    strong       boolean not null,  -- with a second factor, or a passkey
    address      text not null,
    device       text not null check (length(device) <= 300),
    -- of the API: at which merchant, and the part of the refresh token that changes at each use
    merchant_id    text references merchants (id),
    refresh_sha256 bytea check (length(refresh_sha256) = 32),
    constraint login_of_the_api_is_whole check ((merchant_id is null) = (refresh_sha256 is null))
);
create index logins_by_person on logins (person_id, created_at);
create index logins_old on logins (used_at);

-- [people] Links that are followed once: an invitation to a merchant or to the staff, or a new
-- password for a person who has forgotten theirs.
create table person_links (
    id           text primary key,
    token_sha256 bytea not null unique check (length(token_sha256) = 32),
    kind         text not null check (kind in ('INVITATION', 'RESET')),
    email        text not null check (email = lower(email)),
    merchant_id  text references merchants (id),
    role         text check (role in ('owner', 'finance', 'support', 'developer', 'viewer')),
    staff_role   text check (staff_role in ('admin', 'finance', 'support', 'auditor')),
    created_by   text not null,
    created_at   bigint not null,
    expires_at   bigint not null,
    used_at      bigint,
    constraint person_link_leads_somewhere check (
        (kind = 'RESET' and merchant_id is null and role is null and staff_role is null)
        or (kind = 'INVITATION' and merchant_id is not null and role is not null
            and staff_role is null)
        or (kind = 'INVITATION' and merchant_id is null and role is null
            and staff_role is not null))
);
create index person_links_by_merchant on person_links (merchant_id, created_at);
-- Whoever is invited again, or asks again, has one link that works: the newest.
create unique index person_links_open
    on person_links (email, kind, coalesce(merchant_id, '')) where used_at is null;
create index person_links_old on person_links (expires_at);

-- [people] Attempts to log in that have not succeeded, by what they are counted under
-- (people/limits.py): a digest, an address. The next one counts from next_at on.
create table login_limits (
    subject  text primary key,
    failures integer not null check (failures >= 0),
    next_at  bigint not null,
    last_at  bigint not null
);
create index login_limits_old on login_limits (last_at);

-- [people] Which merchant's pages staff have looked at, once for each login: with it goes an entry
-- of the audit log.
create table staff_visits (
    login_id    text not null references logins (id) on delete cascade,
    merchant_id text not null references merchants (id),
    at          bigint not null,
    primary key (login_id, merchant_id)
);

-- [agreement] Which version of the agreement a merchant's owner has accepted: exactly what, who,
-- when and from where.
create table agreement_acceptances (
    merchant_id       text not null references merchants (id),
    agreement_version text not null,
    template_sha256   text not null check (template_sha256 ~ '^[0-9a-f]{64}$'),
    document_sha256   text not null check (document_sha256 ~ '^[0-9a-f]{64}$'),
    person_id         text not null,
    person            text not null,  -- name and address, as they were
    accepted_at       bigint not null,
    address           text not null,
    device            text not null check (length(device) <= 300),
    primary key (merchant_id, agreement_version)
);
create index agreement_acceptances_newest on agreement_acceptances (merchant_id, accepted_at desc);
create trigger agreement_acceptances_are_final before update or delete on agreement_acceptances
    for each row execute function refuse_change();
create trigger agreement_acceptances_are_not_truncated before truncate on agreement_acceptances
    for each statement execute function refuse_change();
