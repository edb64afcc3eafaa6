"""All SQL about merchants and keys."""

from opentill.core.db import Command, Query, Value
from opentill.core.limits import HIT_SQL
from opentill.merchants.model import Entered, Key, Merchant, TermsVersion

_KEY_COLUMNS = "id, merchant_id, hint, environment, created_at, expires_at, revoked_at"

# The terms come last, in the order of ``Terms``.
INSERT = Command(
    """
    insert into merchants (id, name, settlement_currency, created_at, updated_at, terms_version,
        platform_fee_rate, fees, refund_fee_policy, overdraft_minor, settlement_delay_days,
        settlement_calendar, reserve_rate, reserve_days, dispute_fee_minor, payout_minimum_minor,
        ip_allowlist)
    values ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
    """,
)
BY_ID = Query(Merchant, "select * from merchants where id = $1")
# Not "for update": each new row that refers to the merchant would wait for it, and so, with the
# head of the audit log, operators for each other.
LOCKED = Query(Merchant, "select * from merchants where id = $1 for no key update")
ALL = Query(Merchant, "select * from merchants order by id")
UPDATE = Command(
    """
    update merchants set name = $2, updated_at = $3, terms_version = $4, platform_fee_rate = $5,
        fees = $6, refund_fee_policy = $7, overdraft_minor = $8, settlement_delay_days = $9,
        settlement_calendar = $10, reserve_rate = $11, reserve_days = $12, dispute_fee_minor = $13,
        payout_minimum_minor = $14, ip_allowlist = $15
    where id = $1
    """,
)
INSERT_TERMS = Command(
    """
    insert into merchant_terms (merchant_id, version, created_at, platform_fee_rate, fees,
        refund_fee_policy, overdraft_minor, settlement_delay_days, settlement_calendar,
        reserve_rate, reserve_days, dispute_fee_minor, payout_minimum_minor, ip_allowlist, who,
        reason)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
    """,
)
TERMS = Query(TermsVersion, "select * from merchant_terms where merchant_id = $1 order by version")
INSERT_KEY = Command(
    """
    insert into api_keys (id, merchant_id, key_sha256, hint, environment, created_at, expires_at)
    values ($1, $2, $3, $4, $5, $6, $7)
    """,
)
KEYS = Query(
    Key,
    f"select {_KEY_COLUMNS} from api_keys where merchant_id = $1 order by created_at, id",  # noqa: S608 - ours
)
REVOKE_KEY = Query(
    Key,
    f"""
    update api_keys set revoked_at = $2 where id = $1 and revoked_at is null
    returning {_KEY_COLUMNS}
    """,  # noqa: S608 - a constant of ours
)

# One statement at the door: count the request against its address and find the caller.
# $1 scope, $2 address, $3 limit, $4 now, $5 SHA-256 of the key.
_CALLER_SQL = """
    select k.id as key_id, k.merchant_id, k.environment, m.ip_allowlist
    from api_keys k join merchants m on m.id = k.merchant_id
    where k.key_sha256 = $5 and k.revoked_at is null and (k.expires_at is null or k.expires_at > $4)
"""
ENTER_LIMITED = Query(
    Entered,
    f"""
    with hit as ({HIT_SQL}), caller as ({_CALLER_SQL})
    select exists (select from hit) as allowed, caller.*
    from (select) as always left join caller on true
    """,  # noqa: S608 - constants of ours
)
ENTER = Query(
    Entered,
    """
    select true as allowed, k.id as key_id, k.merchant_id, k.environment, m.ip_allowlist
    from api_keys k join merchants m on m.id = k.merchant_id
    where k.key_sha256 = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > $2)
    """,
)
EXISTS = Value(bool, "select exists (select from merchants where id = $1)")
