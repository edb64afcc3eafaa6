-- Mail (decisions 0084 to 0086): what is sent to customers, members, people and staff, and how far
-- the worker has read what happened. Nothing here is written on the way of a payment.

-- [mail] One message for one recipient. merchant_id is "" for what is no merchant's, such as the link to
-- a new password. cause names what happened: with the recipient it is there once, so that nothing
-- is sent for the same event twice. due_at is when a WAITING one is to be sent, and until when the
-- worker that has begun a SENDING one says how it ended.
create table mails (
    merchant_id text not null,
    id          text not null,
    topic       text not null check (length(topic) <= 40),
    cause       text not null check (length(cause) <= 200),
    recipient   text not null check (length(recipient) <= 254),
    order_id    text,
    language    text not null check (language in ('en', 'zh-Hans', 'zh-Hant')),
    data        text not null,  -- JSON: what the message says
    secret      bytea,  -- encrypted: the path of a link, until it is sent
    message_id  text not null,
    status      text not null check (status in ('WAITING', 'SENDING', 'SENT', 'FAILED', 'UNKNOWN')),
    attempts    integer not null check (attempts >= 0),
    due_at      bigint,
    result      text not null check (length(result) <= 300),
    created_at  bigint not null,
    updated_at  bigint not null,
    primary key (merchant_id, id),
    unique (merchant_id, cause, recipient),
    constraint mails_due_until_they_have_ended
        check ((due_at is null) = (status in ('SENT', 'FAILED', 'UNKNOWN')))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index mails_due on mails (due_at) where due_at is not null;
create index mails_by_order on mails (merchant_id, order_id) where order_id is not null;
create index mails_old on mails (updated_at);

-- [mail] Up to which number a merchant's events are read; of the merchant "": the audit log. What
-- happened before since is not mailed. Its lock orders the workers that read.
create table mail_heads (
    merchant_id text primary key,
    number      bigint not null check (number >= 0),
    since       bigint not null
);

-- [mail] What a merchant wants to have mailed, and in which language its members read. Without a row
-- all is as mail/preferences.py has it.
create table mail_preferences (
    merchant_id text primary key references merchants (id),
    receipts    boolean not null,  -- to customers
    refunds     boolean not null,  -- to customers
    digest      boolean not null,  -- to owner and finance, every day
    language    text not null check (language in ('en', 'zh-Hans', 'zh-Hant')),
    updated_at  bigint not null
);
