"""All SQL of mail."""

from opentill.db.query import Command, Query, Value
from opentill.mail.digest_model import DigestMerchant
from opentill.mail.model import (
    AuditEntry,
    DeadLetter,
    GatewayOutage,
    Head,
    Mail,
    NearDeadline,
    NewLogin,
    Preferences,
    QueueState,
    StaffRecipient,
    UnreadMerchant,
)
from opentill.mail.prepaid_model import PrepaidNotice

# ── the outbox ─────────────────────────────────────────────────────────────────────────────────

# Insert mails; skip each whose merchant, cause and recipient equal those of a queued mail.
QUEUE = Query(
    Mail,
    """
    insert into mails (merchant_id, id, topic, cause, recipient, order_id, language, data, secret,
        message_id, status, attempts, due_at, result, created_at, updated_at)
    select *, 'WAITING', 0, :now, '', :now, :now
    from unnest(:merchant_id::text[], :id::text[], :topic::text[], :cause::text[],
        :recipient::text[], :order_id::text[], :language::text[], :data::text[], :secret::bytea[],
        :message_id::text[])
    on conflict (merchant_id, cause, recipient) do nothing
    returning *
    """,
)
BY_ID = Query(Mail, "select * from mails where merchant_id = :merchant_id and id = :id")
# For the operator, who has only the mail's id: one index lookup per merchant.
ANYWHERE = Query(
    Mail,
    """
    select w.* from (select id from merchants union all select '') m
    cross join lateral (select * from mails where merchant_id = m.id and id = :id) w
    """,
)
BY_CAUSE = Query(
    Mail,
    """
    select * from mails
    where merchant_id = :merchant_id and cause = :cause and recipient = :recipient
    """,
)
# The newest mails with any of these statuses. Each subquery reads the newest mails of one status
# from the index by status. Without the subqueries PostgreSQL might read the primary key, and nearly
# all mails to find a few with a rare status.
LIST = Query(
    Mail,
    """
    select m.* from unnest(:status::text[]) as statuses (status)
    cross join lateral (
        select * from mails
        where merchant_id = :merchant_id and (status, id) >= (statuses.status, '')
            and (status, id) < (statuses.status, :before)
        order by status desc, id desc limit :limit
    ) m
    order by m.id desc limit :limit
    """,
)
LIST_TO = Query(
    Mail,
    """
    select m.* from unnest(:status::text[]) as statuses (status)
    cross join lateral (
        select * from mails
        where merchant_id = :merchant_id
            and (recipient, status, id) >= (:recipient, statuses.status, '')
            and (recipient, status, id) < (:recipient, statuses.status, :before)
        order by recipient desc, status desc, id desc limit :limit
    ) m
    order by m.id desc limit :limit
    """,
)
OF_ORDER = Query(
    Mail,
    """
    select * from mails where merchant_id = :merchant_id and order_id = :order_id
    order by id desc limit :limit
    """,
)
# For the operator: the mails of all merchants.
NEWEST = Query(
    Mail,
    """
    select m.* from unnest(:status::text[]) as statuses (status)
    cross join lateral (
        select * from mails
        where status = statuses.status
            and (updated_at, id) < (:before_at::bigint, :before_id::text)
        order by updated_at desc, id desc limit :limit
    ) m
    order by m.updated_at desc, m.id desc limit :limit
    """,
)

# ── sending ────────────────────────────────────────────────────────────────────────────────────

# Claim due mails. The claim is committed before the mail server is called, and the result must be
# stored by `:lease_until`.
CLAIM = Query(
    Mail,
    """
    with due as (
        select merchant_id, id from mails where due_at <= :now and status = 'WAITING'
        order by due_at limit :limit for update skip locked
    )
    update mails m set status = 'SENDING', attempts = m.attempts + 1, due_at = :lease_until,
        updated_at = :now
    from due where m.merchant_id = due.merchant_id and m.id = due.id
    returning m.*
    """,
)
HAS_DUE = Value(
    bool, "select exists (select 1 from mails where due_at <= :now and status = 'WAITING')"
)
# Store the result of an attempt, even after its lease has expired.
RECORD = Command(
    """
    update mails set status = :status, due_at = :due_at, result = :result, updated_at = :now,
        secret = case when :due_at::bigint is null then null else secret end
    where merchant_id = :merchant_id and id = :id and attempts = :attempts
        and status in ('SENDING', 'UNKNOWN')
    """,
)
# Put a claimed mail back into the queue. The attempt does not count, because no conversation with
# the mail server began.
RELEASE = Command(
    """
    update mails set status = 'WAITING', attempts = attempts - 1, due_at = :due_at,
        result = :result, updated_at = :now
    where merchant_id = :merchant_id and id = :id and attempts = :attempts and status = 'SENDING'
    """,
)
# Cancel a mail, unless a worker has begun to send it.
CANCEL = Value(
    str,
    """
    update mails set status = 'FAILED', due_at = null, secret = null, result = :result,
        updated_at = greatest(updated_at, :now)
    where merchant_id = :merchant_id and id = :id and status = 'WAITING'
    returning id
    """,
)
# Mark mails as UNKNOWN whose lease expired before a result was stored.
EXPIRE_LEASES = Command(
    """
    with due as (
        select merchant_id, id from mails where due_at <= :now and status = 'SENDING'
        order by due_at limit :limit for update skip locked
    )
    update mails m set status = 'UNKNOWN', due_at = null, secret = null, result = :result,
        updated_at = :now
    from due where m.merchant_id = due.merchant_id and m.id = due.id
    """,
)
GIVE_UP = Command(
    """
    with old as (
        select merchant_id, id from mails
        where due_at is not null and status = 'WAITING' and created_at < :before
        order by due_at limit :limit for update skip locked
    )
    update mails m set status = 'FAILED', due_at = null, secret = null, updated_at = :now,
        result = left('given up after three days; ' || m.result, 300)
    from old where m.merchant_id = old.merchant_id and m.id = old.id
    """,
)
# After a restore: mark all waiting mails as UNKNOWN, because they may have been sent since the
# backup.
SKIP_WAITING = Command(
    """
    update mails set status = 'UNKNOWN', due_at = null, secret = null,
        result = 'skipped after a restore', updated_at = :now
    where due_at is not null
    """
)
# After a restore: ignore all earlier events, and mark the audit log as read.
SKIP_UNREAD = Command(
    """
    update mail_heads h set since = greatest(h.since, :now),
        number = case when h.merchant_id = '' then audited.number else h.number end
    from (select coalesce(max(number), 0) as number from audit_log) audited
    """
)
MAKE_DUE = Command(
    "update mails set due_at = :now where status = 'WAITING' and due_at > :now",
)
PRUNE = Command(
    """
    delete from mails where (merchant_id, id) in (
        select old.merchant_id, old.id
        from unnest(array['SENT', 'FAILED', 'UNKNOWN']) as ended (status)
        cross join lateral (
            select merchant_id, id from mails
            where status = ended.status and updated_at < :before order by updated_at limit :limit
        ) old
        limit :limit
    )
    """,
)
QUEUE_STATE = Query(
    QueueState,
    """
    select
        (select count(*) from (select 1 from mails where due_at is not null limit 10000) q)
            as waiting,
        (select min(due_at) from mails where due_at is not null) as oldest,
        (select count(*) from (select 1 from mails where updated_at >= :since
            and status = 'UNKNOWN' limit 10000) u) as unknown,
        (select count(*) from (select 1 from mails where updated_at >= :since
            and status = 'FAILED' limit 10000) f) as failed,
        (select count(*) from (select 1 from mail_events_put_aside where created_at >= :since
            limit 10000) p) as dead_letters
    """,
)

# ── reading events and the audit log ────────────────────────────────────────────────────────────

OPEN_HEAD = Command(
    """
    insert into mail_heads (merchant_id, number, since) values (:merchant_id, :number, :since)
    on conflict (merchant_id) do nothing
    """,
)
HEAD = Query(Head, "select number, since from mail_heads where merchant_id = :merchant_id")
LOCK_HEAD = Value(int, "select number from mail_heads where merchant_id = :merchant_id for update")
MOVE_HEAD = Command("update mail_heads set number = :number where merchant_id = :merchant_id")
STORE_DEAD_LETTER = Command(
    """
    insert into mail_events_put_aside (merchant_id, number, event_id, reason, created_at)
    values (:merchant_id, :number, :event_id, :reason, :now)
    on conflict (merchant_id, number) do update set reason = excluded.reason
    """,
)
# Dead letters of all merchants, or of one, after a given row, so that a retry reads each once.
DEAD_LETTERS_AFTER = Query(
    DeadLetter,
    """
    select merchant_id, number, event_id, reason, created_at from mail_events_put_aside
    where (merchant_id, number) > (:merchant_id::text, :number::bigint)
        and (:only_merchant_id::text is null or merchant_id = :only_merchant_id)
    order by merchant_id, number limit :limit
    """,
)
DELETE_DEAD_LETTER = Command(
    "delete from mail_events_put_aside where merchant_id = :merchant_id and number = :number",
)
# For the operator: the dead letters of all merchants.
DEAD_LETTERS = Query(
    DeadLetter,
    """
    select merchant_id, number, event_id, reason, created_at from mail_events_put_aside
    order by created_at desc, merchant_id desc, number desc limit :limit
    """,
)
PRUNE_DEAD_LETTERS = Command(
    """
    delete from mail_events_put_aside where (merchant_id, number) in (
        select merchant_id, number from mail_events_put_aside
        where created_at < :before order by created_at limit :limit
    )
    """,
)
LAST_AUDIT_NUMBER = Value(int, "select coalesce(max(number), 0) from audit_log")
# Merchants with unread events, including events that have no number yet.
UNREAD_MERCHANTS = Query(
    UnreadMerchant,
    """
    select m.id as merchant_id, coalesce(k.number, 0) as number
    from merchants m
    left join mail_heads k on k.merchant_id = m.id
    left join event_heads h on h.merchant_id = m.id
    where m.id > :after and (h.number > coalesce(k.number, 0)
        or exists (select from events e where e.merchant_id = m.id and e.number is null))
    order by m.id limit :limit
    """,
)
AUDIT_ENTRIES = Query(
    AuditEntry,
    """
    select number, at, who, action, merchant_id, subject, reason from audit_log
    where number > :after order by number limit :limit
    """,
)
# Logins that no job has read, including those that have ended. A person's first login, with which
# they joined, is left out, and a login that may still prove its second factor.
NEW_LOGINS = Query(
    NewLogin,
    """
    select l.id, l.person_id, p.email, l.address, l.device, l.created_at,
        coalesce(p.language, (
            select f.language from members m
            join mail_preferences f on f.merchant_id = m.merchant_id
            where m.person_id = l.person_id order by m.created_at limit 1), 'en') as language,
        l.pending
    from begun_logins l join persons p on p.id = l.person_id
    where l.created_at >= :since and l.created_at > p.created_at
        and (l.created_at <= :pending_until or not l.pending
            or not exists (select from logins o where o.id = l.id))
    order by l.created_at limit :limit
    """,
)
DIGEST_MERCHANTS = Query(
    DigestMerchant,
    """
    select p.merchant_id, m.time_zone
    from mail_preferences p join merchants m on m.id = p.merchant_id
    where p.digest and m.status <> 'CLOSED'
    """,
)

HAS_CAUSE = Value(
    bool,
    "select exists (select from mails where merchant_id = :merchant_id and cause = :cause)",
)
STAFF = Query(
    StaffRecipient,
    """
    select s.person_id, p.email, coalesce(p.language, 'en') as language
    from staff s join persons p on p.id = s.person_id
    where s.role = any (:roles::text[]) order by p.email
    """,
)
# Open disputes of all merchants with a deadline up to `:until`, after `(:after, :after_id)`, for
# which no reminder of a stage is queued. `:stage` names the stage; `:length` is how long before the
# deadline it begins. `responded`: the merchant has accepted or contested it, or added a file or a
# note. `handled`: the operator has recorded after that that it was forwarded to the bank; without a
# response a note of the operator suffices.
NEAR_DEADLINES = Query(
    NearDeadline,
    """
    select d.merchant_id, d.id, d.order_id, d.amount_minor, d.currency, d.reason, d.respond_by,
        m.name as merchant_name, evidence.at is not null as responded,
        case when evidence.at is null then exists (
            select from dispute_notes n
            where n.merchant_id = d.merchant_id and n.dispute_id = d.id and not n.by_merchant
        ) else exists (
            select from order_history h
            where h.merchant_id = d.merchant_id and h.order_id = d.order_id
                and h.event = 'dispute_forwarded' and starts_with(h.cause, d.id)
                and h.at >= evidence.at
        ) end as handled
    from disputes d
    join merchants m on m.id = d.merchant_id
    cross join lateral (select greatest(
        (select max(e.at) from dispute_evidence e
            where e.merchant_id = d.merchant_id and e.dispute_id = d.id),
        (select max(n.at) from dispute_notes n
            where n.merchant_id = d.merchant_id and n.dispute_id = d.id and n.by_merchant),
        d.responded_at
    ) as at) evidence
    where d.status = 'OPEN' and d.respond_by <= :until
        and (d.respond_by, d.id) > (:after::bigint, :after_id::text)
        and d.respond_by - d.created_at >= :length
        and not exists (
            select from mails w where w.merchant_id in (d.merchant_id, '')
                and w.cause = concat('deadline ', d.id, ' ', d.respond_by, ' ', :stage::text)
        )
    order by d.respond_by, d.id limit :limit
    """,
)
# Gateways that leave at least `:least` payments from before `:before` unanswered.
OUTAGES = Query(
    GatewayOutage,
    """
    select gateway, count(*) as payments, min(created_at) as since from payment_attempts
    where check_at is not null and status = 'SUBMITTED' and created_at < :before
    group by gateway having count(*) >= :least order by gateway
    """,
)

# ── prepaid balances ───────────────────────────────────────────────────────────────────────────

OPEN_PREPAID_NOTICE = Command(
    """
    insert into prepaid_notices (merchant_id, currency, level, number)
    values (:merchant_id, :currency, 'ENOUGH', 0)
    on conflict (merchant_id, currency) do nothing
    """,
)
LOCK_PREPAID_NOTICE = Query(
    PrepaidNotice,
    """
    select * from prepaid_notices where merchant_id = :merchant_id and currency = :currency
    for update
    """,
)
SET_PREPAID_NOTICE = Command(
    """
    update prepaid_notices set level = :level, number = :number
    where merchant_id = :merchant_id and currency = :currency
    """,
)

# ── preferences ────────────────────────────────────────────────────────────────────────────────

PREFERENCES = Query(Preferences, "select * from mail_preferences where merchant_id = :merchant_id")
SET_PREFERENCES = Command(
    """
    insert into mail_preferences (merchant_id, receipts, refunds, digest, language, updated_at)
    values (:merchant_id, :receipts, :refunds, :digest, :language, :updated_at)
    on conflict (merchant_id) do update set receipts = excluded.receipts,
        refunds = excluded.refunds, digest = excluded.digest, language = excluded.language,
        updated_at = excluded.updated_at
    """,
)
