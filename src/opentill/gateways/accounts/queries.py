"""All SQL about gateway accounts."""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.gateways.account import Breaker, GatewayAccount
from opentill.gateways.accounts.model import (
    AllowedGateway,
    FreePrepaid,
    PausedGateway,
    StoredAccount,
)

_LIMITS: Final = """
    coalesce((select array_agg(l.currency order by l.currency)
        from gateway_account_limits l where l.account_id = a.id), '{}') as limit_currencies,
    coalesce((select array_agg(l.smallest_minor order by l.currency)
        from gateway_account_limits l where l.account_id = a.id), '{}') as smallest_minor,
    coalesce((select array_agg(l.largest_minor order by l.currency)
        from gateway_account_limits l where l.account_id = a.id), '{}') as largest_minor,
    coalesce((select array_agg(l.day_minor order by l.currency)
        from gateway_account_limits l where l.account_id = a.id), '{}') as day_minor,
    coalesce((select array_agg(l.day_number order by l.currency)
        from gateway_account_limits l where l.account_id = a.id), '{}') as day_number,
    coalesce((select array_agg(c.currency order by c.currency)
        from gateway_account_costs c where c.account_id = a.id), '{}') as cost_currencies,
    coalesce((select array_agg(c.rate_bp order by c.currency)
        from gateway_account_costs c where c.account_id = a.id), '{}') as cost_rate_bp,
    coalesce((select array_agg(c.fixed_minor order by c.currency)
        from gateway_account_costs c where c.account_id = a.id), '{}') as cost_fixed_minor
"""
_SHOWN: Final = f"""
    a.id, a.gateway, a.label, a.merchant_id, a.livemode, a.status, a.credential_hints,
    a.previous_until, a.methods, a.priority, a.weight, a.break_below_percent, a.break_slower_ms,
    a.break_texts, a.break_minutes, a.broken_at, a.broken_reason, a.retry_at, a.by_merchant,
    a.paused_by_merchant, a.revision, a.created_at, a.updated_at,
    {_LIMITS}
"""
_ALL: Final = f"{_SHOWN}, a.credentials, a.previous_credentials"

STORED = Query(StoredAccount, f"select {_ALL} from gateway_accounts a order by a.id")  # noqa: S608 - interpolates constants of this program only
LIST = Query(
    GatewayAccount,
    f"""
    select {_SHOWN} from gateway_accounts a
    order by array_position(array['ACTIVE', 'PAUSED', 'RETIRED'], a.status), a.priority, a.id
    """,  # noqa: S608 - interpolates constants of this program only
)
LIST_OWN = Query(
    GatewayAccount,
    f"""
    select {_SHOWN} from gateway_accounts a where a.merchant_id = :merchant_id
    order by array_position(array['ACTIVE', 'PAUSED', 'RETIRED'], a.status), a.id
    """,  # noqa: S608 - interpolates constants of this program only
)
BY_ID = Query(GatewayAccount, f"select {_SHOWN} from gateway_accounts a where a.id = :id")  # noqa: S608 - interpolates constants of this program only
STORED_BY_ID = Query(StoredAccount, f"select {_ALL} from gateway_accounts a where a.id = :id")  # noqa: S608 - interpolates constants of this program only
HAS_LABEL = Value(
    bool,
    """
    select exists (select from gateway_accounts
        where lower(label) = lower(:label) and status <> 'RETIRED' and id <> :except_id
            and coalesce(merchant_id, '') = coalesce(:merchant_id::text, ''))
    """,
)
IDS_OF = Query(
    GatewayAccount,
    f"select {_SHOWN} from gateway_accounts a where a.gateway = any(:gateways)",  # noqa: S608 - interpolates constants of this program only
)
INSERT = Command(
    """
    insert into gateway_accounts (id, gateway, label, merchant_id, livemode, status, credentials,
        credential_hints, methods, priority, weight, by_merchant, revision, created_at, updated_at)
    values (:id, :gateway, :label, :merchant_id, :livemode, :status, :credentials,
        :credential_hints, :methods, :priority, :weight, :by_merchant, 1, :now, :now)
    """,
)
INSERT_LIMIT = Command(
    """
    insert into gateway_account_limits (account_id, currency, smallest_minor, largest_minor,
        day_minor, day_number)
    values (:account_id, :currency, :smallest_minor, :largest_minor, :day_minor, :day_number)
    """,
)
INSERT_COST = Command(
    """
    insert into gateway_account_costs (account_id, currency, rate_bp, fixed_minor)
    values (:account_id, :currency, :rate_bp, :fixed_minor)
    """,
)
DELETE_LIMITS = Command("delete from gateway_account_limits where account_id = :account_id")
DELETE_COSTS = Command("delete from gateway_account_costs where account_id = :account_id")
# Changes nothing if the account has changed since it was read.
UPDATE = Command(
    """
    update gateway_accounts
    set label = :label, methods = :methods, priority = :priority, weight = :weight,
        break_below_percent = :break_below_percent, break_slower_ms = :break_slower_ms,
        break_texts = :break_texts, break_minutes = :break_minutes,
        revision = revision + 1, updated_at = greatest(updated_at, :now)
    where id = :id and revision = :revision
    """,
)
# Changes nothing unless the status is one of `:allowed`.
SET_STATUS = Command(
    """
    update gateway_accounts
    set status = :status, paused_by_merchant = :by_merchant and :status = 'PAUSED',
        revision = revision + 1, updated_at = greatest(updated_at, :now)
    where id = :id and status = any(:allowed)
    """,
)
# Pauses an account for its failures, unless it is paused already.
BREAK = Command(
    """
    update gateway_accounts
    set broken_at = :now, broken_reason = :reason,
        retry_at = :now + break_minutes::bigint * 60000, revision = revision + 1
    where id = :id and status = 'ACTIVE' and coalesce(retry_at, 0) <= :now
    """,
)
MEND = Command(
    """
    update gateway_accounts
    set broken_at = null, broken_reason = null, retry_at = null, revision = revision + 1
    where id = :id and broken_at is not null
    """,
)
ROTATE = Command(
    """
    update gateway_accounts
    set previous_credentials = credentials, previous_until = :previous_until,
        credentials = :credentials, credential_hints = :credential_hints,
        by_merchant = by_merchant or :by_merchant, revision = revision + 1,
        updated_at = greatest(updated_at, :now)
    where id = :id
    """,
)
ALLOWED_GATEWAYS = Query(
    AllowedGateway,
    """
    select unnest(gateways) as gateway from merchant_gateways where merchant_id = :merchant_id
    """,
)
ALLOW_GATEWAYS = Command(
    """
    insert into merchant_gateways (merchant_id, gateways) values (:merchant_id, :gateways)
    on conflict (merchant_id) do update set gateways = excluded.gateways
    """,
)
ALLOW_NO_GATEWAYS = Command("delete from merchant_gateways where merchant_id = :merchant_id")
# The free prepaid balances of merchants, from which fees of their own accounts are taken.
FREE_PREPAID = Query(
    FreePrepaid,
    """
    select merchant_id, currency, prepaid - prepaid_reserved as free_minor from balances
    where merchant_id = any (:merchant_ids::text[])
    """,
)


# ── Pauses and breakers of the environment's accounts ──

HAS_ENVIRONMENT_BREAKERS = Value(bool, "select to_regclass('environment_breakers') is not null")
ENVIRONMENT_BREAKERS = Query(
    Breaker,
    """
    select gateway as id, break_below_percent, break_slower_ms, break_texts, break_minutes,
        broken_at, broken_reason, retry_at
    from environment_breakers order by gateway
    """,
)
SET_ENVIRONMENT_BREAKER = Command(
    """
    insert into environment_breakers (gateway, break_below_percent, break_slower_ms, break_texts,
        break_minutes)
    values (:gateway, :break_below_percent, :break_slower_ms, :break_texts, :break_minutes)
    on conflict (gateway) do update set break_below_percent = excluded.break_below_percent,
        break_slower_ms = excluded.break_slower_ms, break_texts = excluded.break_texts,
        break_minutes = excluded.break_minutes
    """,
)
# Pauses an account for its failures, unless it is paused already.
BREAK_ENVIRONMENT = Command(
    """
    update environment_breakers
    set broken_at = :now, broken_reason = :reason,
        retry_at = :now + break_minutes::bigint * 60000
    where gateway = :gateway and coalesce(retry_at, 0) <= :now
        and not exists (select from paused_gateways p where p.gateway = :gateway)
    """,
)
MEND_ENVIRONMENT = Command(
    """
    update environment_breakers set broken_at = null, broken_reason = null, retry_at = null
    where gateway = :gateway and broken_at is not null
    """,
)

PAUSED = Query(PausedGateway, "select gateway from paused_gateways")
PAUSE_GATEWAY = Command(
    """
    insert into paused_gateways (gateway, paused_at) values (:gateway, :now)
    on conflict (gateway) do nothing
    """,
)
RESUME_GATEWAY = Command("delete from paused_gateways where gateway = :gateway")
