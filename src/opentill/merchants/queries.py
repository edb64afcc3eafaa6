"""SQL for merchants and API keys."""

from opentill.db.query import Command, Query, Value
from opentill.db.rate_limits import HIT_SQL
from opentill.merchants.model import (
    Application,
    AuditHead,
    AuditRow,
    Authentication,
    Key,
    Logo,
    Merchant,
    MerchantChange,
    MerchantName,
    MovedSum,
    PendingApplication,
    Seller,
    SettlementCurrency,
    TermsVersion,
)

_KEY_COLUMNS = (
    "id, merchant_id, name, hint, environment, created_at, expires_at, revoked_at, last_used_at,"
    " scopes, made_by, replaced_by"
)

INSERT = Command(
    """
    insert into merchants (id, name, settlement_currency, created_at, updated_at, terms_version,
        platform_fee_rate, fees, refund_fee_policy, overdraft_minor, settlement_delay_days,
        settlement_calendar, reserve_rate, reserve_days, dispute_fee_minor, payout_minimum_minor,
        ip_allowlist, time_zone, display_name, accent_color, support_email, support_url, terms_url,
        legal_name, legal_address, tax_number, tax_rate, logo_sha256, status, charge_off,
        refund_off, payout_off)
    values (:id, :name, :settlement_currency, :created_at, :updated_at, :terms_version,
        :platform_fee_rate, :fees, :refund_fee_policy, :overdraft_minor, :settlement_delay_days,
        :settlement_calendar, :reserve_rate, :reserve_days, :dispute_fee_minor,
        :payout_minimum_minor, :ip_allowlist, :time_zone, :display_name, :accent_color,
        :support_email, :support_url, :terms_url, :legal_name, :legal_address, :tax_number,
        :tax_rate, :logo_sha256, :status, :charge_off, :refund_off, :payout_off)
    """,
)
BY_ID = Query(Merchant, "select * from merchants where id = :merchant_id")
# "for update" would block new rows that refer to the merchant, such as orders.
LOCKED = Query(Merchant, "select * from merchants where id = :merchant_id for no key update")
# Serializes operators' actions on a merchant, so that no other action uses a reference or changes a
# count between an action's checks and its writes.
LOCK = Value(str, "select id from merchants where id = :merchant_id for no key update")
# For changes of the standing: waits for transactions that rely on it, such as opening a session
# (decision 0082).
LOCK_FOR_UPDATE = Query(Merchant, "select * from merchants where id = :merchant_id for update")
# For transactions that rely on the standing. The lock is shared, so that they do not block each
# other.
FIND_SHARED = Query(
    Merchant,
    "select * from merchants where id = :merchant_id for key share",
)
SET_STANDING = Command(
    """
    update merchants set status = :status, charge_off = :charge_off, refund_off = :refund_off,
        payout_off = :payout_off, updated_at = :updated_at
    where id = :id
    """,
)
INSERT_CHANGE = Query(
    MerchantChange,
    """
    insert into merchant_history (merchant_id, number, at, event, from_status, to_status,
        capability, who, reason, notes)
    select :merchant_id, coalesce(max(number), 0) + 1, :at::bigint, :event, :from_status,
        :to_status, :capability, :who, :reason, :notes
    from merchant_history where merchant_id = :merchant_id
    returning *
    """,
)
HISTORY = Query(
    MerchantChange,
    """
    select * from merchant_history where merchant_id = :merchant_id
    order by number desc limit :limit
    """,
)
# The newest change of each capability, by one index lookup for each.
STANDING = Query(
    MerchantChange,
    """
    select h.* from unnest(:capability::text[]) as c (capability)
    cross join lateral (
        select * from merchant_history
        where merchant_id = :merchant_id and capability = c.capability
        order by number desc limit 1
    ) h
    """,
)
CLOSED_AT = Value(
    int, "select at from merchant_history where merchant_id = :merchant_id and event = 'closed'"
)
INSERT_APPLICATION = Command(
    """
    insert into merchant_applications (merchant_id, name, email, website, business, address,
        applied_at, visitor)
    values (:merchant_id, :name, :email, :website, :business, :address, :applied_at, :visitor)
    """,
)
APPLICATION = Query(
    Application, "select * from merchant_applications where merchant_id = :merchant_id"
)
COUNT_APPLIED = Value(int, "select count(*) from merchants where status = 'APPLIED'")
APPLIED_BY = Value(
    str,
    """
    select a.merchant_id from merchants m join merchant_applications a on a.merchant_id = m.id
    where m.status = 'APPLIED' and a.email = :email limit 1
    """,
)
# The time of the visitor's application with exactly `:before` newer ones; no row if the visitor has
# sent fewer since `:since`.
APPLIED_FROM = Value(
    int,
    """
    select applied_at from merchant_applications
    where visitor = :visitor and applied_at > :since
    order by applied_at desc offset :before limit 1
    """,
)
WAITS_FROM = Value(
    bool,
    """
    select exists (
        select from merchant_applications a join merchants m on m.id = a.merchant_id
        where a.visitor = :visitor and m.status = 'APPLIED')
    """,
)
WAITING = Query(
    PendingApplication,
    """
    select a.*, m.name as merchant_name, m.settlement_currency
    from merchants m join merchant_applications a on a.merchant_id = m.id
    where m.status = 'APPLIED' order by a.applied_at, a.merchant_id limit :limit
    """,
)
ALL = Query(
    Merchant,
    """
    select * from merchants where :status::text is null or status = :status order by id
    """,
)
# Merchants whose name contains a text (`:like` is its pattern) or whose id equals it (`:text`).
_MATCHES = """
    from merchants
    where (:text = '' or id = :text or name ilike :like or display_name ilike :like)
        and (:status::text is null or status = :status)
"""
SEARCH = Query(
    Merchant,
    f"select * {_MATCHES} order by created_at desc, id desc limit :limit offset :offset",
)
COUNT_FOUND = Value(int, f"select count(*) {_MATCHES}")
SETTLEMENT_CURRENCIES = Query(
    SettlementCurrency, "select distinct settlement_currency as currency from merchants"
)
BY_NAME = Query(
    MerchantName,
    """
    select id, name from merchants
    where lower(name) = lower(:name) or lower(display_name) = lower(:name)
    order by id
    """,
)
ALL_NAMES = Query(MerchantName, "select id, name from merchants order by id")
NAMES = Query(MerchantName, "select id, name from merchants where id = any(:ids::text[])")
UPDATE = Command(
    """
    update merchants set name = :name, updated_at = :updated_at, terms_version = :terms_version,
        platform_fee_rate = :platform_fee_rate, fees = :fees,
        refund_fee_policy = :refund_fee_policy, overdraft_minor = :overdraft_minor,
        settlement_delay_days = :settlement_delay_days, settlement_calendar = :settlement_calendar,
        reserve_rate = :reserve_rate, reserve_days = :reserve_days,
        dispute_fee_minor = :dispute_fee_minor, payout_minimum_minor = :payout_minimum_minor,
        ip_allowlist = :ip_allowlist, time_zone = :time_zone
    where id = :id
    """,
)
SET_PROFILE = Command(
    """
    update merchants set display_name = :display_name, accent_color = :accent_color,
        support_email = :support_email, support_url = :support_url, terms_url = :terms_url,
        time_zone = :time_zone, legal_name = :legal_name, legal_address = :legal_address,
        tax_number = :tax_number, tax_rate = :tax_rate, updated_at = :updated_at
    where id = :merchant_id
    """,
)
STORE_SELLER = Command(
    """
    insert into merchant_sellers (merchant_id, since, legal_name, legal_address, tax_number,
        tax_rate)
    values (:merchant_id, :since, :legal_name, :legal_address, :tax_number, :tax_rate)
    on conflict (merchant_id, since) do update set legal_name = excluded.legal_name,
        legal_address = excluded.legal_address, tax_number = excluded.tax_number,
        tax_rate = excluded.tax_rate
    """,
)
# The details in force at a time or, before the first details, the first ones.
SELLER_AT = Query(
    Seller,
    """
    select legal_name, legal_address, tax_number, tax_rate from (
        (select * from merchant_sellers where merchant_id = :merchant_id and since <= :at
            order by since desc limit 1)
        union all
        (select * from merchant_sellers where merchant_id = :merchant_id and since > :at
            order by since limit 1)
    ) nearest
    order by since limit 1
    """,
)
SET_LOGO = Command(
    """
    update merchants set logo_sha256 = :logo_sha256, updated_at = :updated_at
    where id = :merchant_id
    """,
)
UPSERT_LOGO = Command(
    """
    insert into merchant_logos (merchant_id, sha256, media_type, width, height, content, created_at)
    values (:merchant_id, :sha256, :media_type, :width, :height, :content, :created_at)
    on conflict (merchant_id) do update set sha256 = excluded.sha256,
        media_type = excluded.media_type, width = excluded.width, height = excluded.height,
        content = excluded.content, created_at = excluded.created_at
    """,
)
DELETE_LOGO = Command("delete from merchant_logos where merchant_id = :merchant_id")
LOGO = Query(
    Logo, "select * from merchant_logos where merchant_id = :merchant_id and sha256 = :sha256"
)
INSERT_TERMS = Command(
    """
    insert into merchant_terms (merchant_id, version, created_at, platform_fee_rate, fees,
        refund_fee_policy, overdraft_minor, settlement_delay_days, settlement_calendar,
        reserve_rate, reserve_days, dispute_fee_minor, payout_minimum_minor, ip_allowlist, who,
        reason)
    values (:merchant_id, :version, :created_at, :platform_fee_rate, :fees, :refund_fee_policy,
        :overdraft_minor, :settlement_delay_days, :settlement_calendar, :reserve_rate,
        :reserve_days, :dispute_fee_minor, :payout_minimum_minor, :ip_allowlist, :who, :reason)
    """,
)
TERMS = Query(
    TermsVersion, "select * from merchant_terms where merchant_id = :merchant_id order by version"
)
INSERT_KEY = Command(
    """
    insert into api_keys (id, merchant_id, key_sha256, name, hint, environment, created_at,
        expires_at, scopes, made_by)
    values (:id, :merchant_id, :key_sha256, :name, :hint, :environment, :now, :expires_at,
        :scopes, :made_by)
    """,
)
KEYS = Query(
    Key,
    f"select {_KEY_COLUMNS} from api_keys where merchant_id = :merchant_id order by created_at, id",  # noqa: S608 - interpolates constants of this program only
)
# Keys of all merchants. A sequential scan suffices: keys are few, and people are rarely removed.
KEYS_MADE_BY = Query(
    Key,
    f"select {_KEY_COLUMNS} from api_keys where made_by = :made_by order by created_at, id",  # noqa: S608 - interpolates constants of this program only
)
REVOKE_KEY = Query(
    Key,
    f"""
    update api_keys set revoked_at = :now where id = :id and revoked_at is null
    returning {_KEY_COLUMNS}
    """,  # noqa: S608 - interpolates constants of this program only
)
LOCKED_KEY = Query(
    Key,
    f"""
    select {_KEY_COLUMNS} from api_keys where id = :id and revoked_at is null for no key update
    """,  # noqa: S608 - interpolates constants of this program only
)
# ``least`` ignores null: a key never lives longer because it was replaced.
REPLACE_KEY = Command(
    """
    update api_keys set replaced_by = :replaced_by, revoked_at = :revoked_at,
        expires_at = least(expires_at, :expires_at)
    where id = :id
    """,
)
RENAME_KEY = Query(
    Key,
    f"""
    update api_keys set name = :name where merchant_id = :merchant_id and id = :id
    returning {_KEY_COLUMNS}
    """,  # noqa: S608 - interpolates constants of this program only
)
# Skips keys that another transaction is writing, because it writes the same minute or revokes the
# key. A stored time over an hour ahead was written before the clock was set back, and is replaced.
UPDATE_LAST_USED = Command(
    """
    with used as (
        select k.id, uses.used_at
        from unnest(:id::text[], :used_at::bigint[]) as uses (id, used_at)
        join api_keys k on k.id = uses.id
        where k.last_used_at is null
            or k.last_used_at not between uses.used_at and uses.used_at + 3600000
        order by k.id for no key update of k skip locked
    )
    update api_keys set last_used_at = used.used_at from used where api_keys.id = used.id
    """,
)

# Authenticate in one statement: find the caller, and count the request against its address's limit.
_CALLER_SQL = """
    select k.id as key_id, k.merchant_id, k.environment, m.ip_allowlist, k.scopes
    from api_keys k join merchants m on m.id = k.merchant_id
    where k.key_sha256 = :key_sha256 and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > :now) and m.status <> 'CLOSED'
"""
AUTHENTICATE_LIMITED = Query(
    Authentication,
    f"""
    with hit as ({HIT_SQL}), caller as ({_CALLER_SQL})
    select exists (select from hit) as allowed, caller.*
    from (select) as always left join caller on true
    """,  # noqa: S608 - interpolates constants of this program only
)
AUTHENTICATE = Query(
    Authentication,
    f"select true as allowed, caller.* from ({_CALLER_SQL}) as caller",  # noqa: S608 - interpolates constants of this program only
)
OF_KEY = Value(str, "select merchant_id from api_keys where id = :id")
EXISTS = Value(bool, "select exists (select from merchants where id = :merchant_id)")

# ── the limit above which a second person must approve ──
SOLO_SUMS = Query(
    MovedSum,
    """
    select currency, sum(amount_minor)::bigint as amount_minor from solo_movements
    where merchant_id = :merchant_id and maker = :maker and at > :since
    group by currency
    """,
)
# A refund that is requested again with the same number counts only once against the limit.
RECORD_SOLO_MOVEMENTS = Command(
    """
    insert into solo_movements (merchant_id, id, kind, maker, amount_minor, currency, at)
    select moved.*, :now::bigint
    from unnest(:merchant_id::text[], :id::text[], :kind::text[], :maker::text[],
        :amount_minor::bigint[], :currency::text[]) as moved
    on conflict (merchant_id, id, kind) do nothing
    """,
)

# The columns of the audit log, with ``hash`` in hexadecimal.
_AUDIT_COLUMNS = (
    "number, id, at, who, action, merchant_id, subject, reason, encode(hash, 'hex') as hash"
)
AUDIT_HEAD = Query(AuditHead, "select number, encode(hash, 'hex') as hash from audit_head")
LOCK_AUDIT_HEAD = Query(
    AuditHead, "select number, encode(hash, 'hex') as hash from audit_head for update"
)
INSERT_AUDIT = Command(
    """
    with headed as (update audit_head set number = :number, hash = decode(:hash, 'hex'))
    insert into audit_log (number, id, at, who, action, merchant_id, subject, reason, hash)
    values (:number, :id, :at, :who, :action, :merchant_id, :subject, :reason, decode(:hash, 'hex'))
    """,
)
AUDIT_CHAIN = Query(
    AuditRow,
    f"select {_AUDIT_COLUMNS} from audit_log order by number nulls first, id",  # noqa: S608 - interpolates constants of this program only
)
# Rows whose number is below `:before` and whose actor, action, subject or reason matches `:like`.
SEARCH_AUDIT = Query(
    AuditRow,
    f"""
    select {_AUDIT_COLUMNS} from audit_log
    where number < :before and at between :since and :until
        and (:action = '' or action = :action)
        and (:merchant_id = '' or merchant_id = :merchant_id)
        and (:text = '' or who ilike :like or action ilike :like or subject ilike :like
            or reason ilike :like)
    order by number desc limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
NEWEST_AUDIT = Query(
    AuditRow,
    f"""
    select {_AUDIT_COLUMNS} from audit_log
    where (:merchant_id::text is null or merchant_id = :merchant_id)
    order by number desc nulls first limit :limit
    """,  # noqa: S608 - interpolates constants of this program only
)
