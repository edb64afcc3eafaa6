"""All SQL about payouts."""

from typing import Annotated, Final

from msgspec import Meta

from opentill.db.query import Command, Query, Value
from opentill.http.paging import PageQuery
from opentill.list_counts import lists
from opentill.payouts.model import (
    ACCOUNT_REASON,
    BANK_REFERENCE,
    AccountOfPayout,
    CountedPayout,
    DuePayout,
    InRun,
    Payout,
    Run,
    RunSums,
    Status,
    StoredAccount,
    Transfer,
    UnsentPayout,
    WaitingPayout,
)

# To avoid a deadlock, the caller must have locked the head of the audit log before.
LOCK_AVAILABLE = Value(
    int,
    """
    select available from balances
    where merchant_id = :merchant_id and currency = :currency for update
    """,
)
BY_ID = Query(Payout, "select * from payouts where merchant_id = :merchant_id and id = :id")
BY_REFERENCE = Query(
    Payout, "select * from payouts where merchant_id = :merchant_id and reference = :reference"
)
# For the operator, who has only the payout's id. One index lookup per merchant.
ANYWHERE = Query(
    Payout,
    """
    select p.* from merchants m
    cross join lateral (select * from payouts where merchant_id = m.id and id = :id) p
    """,
)
INSERT = Query(
    Payout,
    """
    insert into payouts (merchant_id, id, status, amount_minor, fee_minor, currency, reference,
        bank_reference, failure_reason, reason, created_by, approved_by, created_at, updated_at)
    values (:merchant_id, :id, :status, :amount_minor, :fee_minor, :currency, :reference, '', '',
        :reason, :created_by, :approved_by, :now, :now)
    returning *
    """,
)
REQUEST_OF_REFERENCE = Query(
    WaitingPayout,
    "select * from payout_requests where merchant_id = :merchant_id and reference = :reference",
)
# For the operator, who has only the request's id. One index lookup per merchant.
REQUEST_ANYWHERE = Query(
    WaitingPayout,
    """
    select r.* from merchants m
    cross join lateral (select * from payout_requests where merchant_id = m.id and id = :id) r
    """,
)
INSERT_REQUEST = Query(
    WaitingPayout,
    """
    insert into payout_requests (merchant_id, id, status, amount_minor, fee_minor, currency,
        reference, reason, asked_by, created_at)
    values (:merchant_id, :id, 'WAITING', :amount_minor, :fee_minor, :currency, :reference,
        :reason, :asked_by, :now)
    returning *
    """,
)
DECIDE_REQUEST = Query(
    WaitingPayout,
    """
    update payout_requests set status = :status, decided_by = :decided_by, rejection = :rejection,
        payout_id = :payout_id, decided_at = greatest(created_at, :now::bigint)
    where merchant_id = :merchant_id and id = :id and status = 'WAITING'
    returning *
    """,
)
REQUESTS_WAITING = Query(
    WaitingPayout,
    "select * from payout_requests where status = 'WAITING' order by created_at, id",
)
REQUESTS_DECIDED = Query(
    WaitingPayout,
    """
    select * from payout_requests where status <> 'WAITING'
    order by decided_at desc, id limit :limit
    """,
)
# If the bank returns a payout, the reference and the time of its payment are kept.
TRANSITION = Query(
    Payout,
    """
    update payouts set status = :target, updated_at = greatest(updated_at, :now::bigint),
        failure_reason = :failure_reason,
        bank_reference = case when :target = 'PAID' then :bank_reference else bank_reference end,
        paid_at = case when :target = 'PAID' then :now::bigint else paid_at end,
        failed_at = case when :target = 'FAILED' then :now::bigint end
    where merchant_id = :merchant_id and id = :id and status = :source
    returning *
    """,
)


class ListQuery(PageQuery, frozen=True, rename="camel"):
    """Which payouts to list."""

    status: Annotated[Status, Meta(description="PENDING, PAID or FAILED")] | None = None


LISTS = lists(Payout, "payouts", ListQuery)
# Payouts of some merchants with a reference.
OF_REFERENCE = Query(
    Payout,
    """
    select p.* from unnest(:merchant_id::text[]) as m (merchant_id)
    join payouts p on p.merchant_id = m.merchant_id and p.reference = :reference
    order by p.created_at desc, p.id desc limit :limit
    """,
)
# Payouts of all merchants that the bank has paid with a reference.
OF_BANK_REFERENCE = Query(
    Payout,
    """
    select * from payouts where bank_reference = :reference and bank_reference <> ''
    order by created_at desc, id desc limit :limit
    """,
)
# Payouts with an exact id, a part of a reference, or one of some amounts, among the newest
# `:scanned`. `:like` is a pattern.
MATCHING = Query(
    Payout,
    """
    select * from (
        select * from payouts where merchant_id = :merchant_id
        order by created_at desc, id desc limit :scanned
    ) newest
    where id = :text or reference ilike :like or bank_reference ilike :like
        or (amount_minor, currency) in (
            select * from unnest(:amount_minor::bigint[], :currency::text[]))
    order by created_at desc, id desc limit :limit
    """,
)
FAILED_SINCE = Query(
    Payout,
    """
    select * from payouts
    where merchant_id = :merchant_id and failed_at >= :since
    order by failed_at desc limit :limit
    """,
)
# Payouts that the bank has returned since a time. Left out are those after which the account was
# changed or confirmed, or another payout was created.
RETURNED = Query(
    Payout,
    """
    select p.* from payouts p
    where p.failed_at >= :since and p.status = 'FAILED' and p.paid_at is not null
        and not exists (
            select from bank_accounts a
            where a.merchant_id = p.merchant_id and a.created_at >= p.failed_at)
        and not exists (
            select from bank_account_confirmations c
            where c.merchant_id = p.merchant_id and c.at >= p.failed_at)
        and not exists (
            select from payouts later
            where later.merchant_id = p.merchant_id and later.created_at >= p.failed_at
                and later.status <> 'FAILED')
    order by p.failed_at, p.merchant_id, p.id limit :limit
    """,
)
SEARCH = Query(
    Payout,
    """
    select * from payouts
    where (:merchant_id::text is null or merchant_id = :merchant_id)
        and (:status::text is null or status = :status)
    order by created_at desc, id desc limit :limit
    """,
)
# SQL for when the bank last returned a payout to the account ``a``, or refused one because of the
# account (Unix ms). It is null if the bank never did, or if staff have confirmed the account since.
# Versions of an account that differ only in the holder's address have the same usable_from
# (``accounts.change``). If the bank named the holder or the address (BE), a new address counts as
# another account. A payout outside a run has no recorded account: it belongs to the account that
# was current when it failed.
_BANKS_REASON: Final = f"split_part(p.failure_reason, '{BANK_REFERENCE}', 1)"
_HELD_SINCE: Final = f"""(
        select max(p.failed_at) from payouts p
        left join payout_transfers t on t.merchant_id = p.merchant_id and t.payout_id = p.id
        left join bank_accounts sent
            on sent.merchant_id = t.merchant_id and sent.version = t.account_version
        where p.merchant_id = a.merchant_id and p.failed_at is not null
            and (p.paid_at is not null or {_BANKS_REASON} ~ '{ACCOUNT_REASON}')
            and not exists (
                select from bank_account_confirmations c
                where c.merchant_id = p.merchant_id and c.at >= p.failed_at)
            and case
                when {_BANKS_REASON} ~ '(^|[^A-Za-z0-9])BE[0-9][0-9]' then
                    coalesce(sent.version = a.version, p.failed_at > a.created_at)
                else coalesce(sent.usable_from = a.usable_from, p.failed_at > (
                    select min(same.created_at) from bank_accounts same
                    where same.merchant_id = a.merchant_id and same.usable_from = a.usable_from))
            end)"""  # noqa: S608 - interpolates constants of this program only
HELD_SINCE = Value(
    int,
    f"""
    select {_HELD_SINCE} from bank_accounts a
    where a.merchant_id = :merchant_id and a.version = :version
    """,  # noqa: S608 - interpolates constants of this program only
)
CONFIRM_ACCOUNT = Command(
    """
    insert into bank_account_confirmations (merchant_id, version, at, who, reason)
    values (:merchant_id, :version, :at, :who, :reason)
    """
)
# Merchants with an available balance, with their accounts and what may withhold it.
_DUE: Final = f"""
    select b.merchant_id, m.name as merchant_name, b.currency, b.available,
        m.payout_minimum_minor as minimum, m.payout_off, m.settlement_currency,
        a.hint as account, a.usable_from, a.held_since, (
            select max(p.created_at) from payouts p
            where p.merchant_id = b.merchant_id and p.currency = b.currency
                and p.status <> 'FAILED'
        ) as last_at
    from balances b join merchants m on m.id = b.merchant_id
    left join lateral (
        select a.hint, a.usable_from, {_HELD_SINCE} as held_since from bank_accounts a
        where a.merchant_id = b.merchant_id order by a.version desc limit 1
    ) a on true
    where b.available > 0
"""  # noqa: S608 - interpolates constants of this program only
DUE = Query(DuePayout, _DUE + "order by b.currency, b.available desc, b.merchant_id limit :limit")
# The next batch of merchants for a run: those whose id is greater than `:after`.
NEXT_DUE_MERCHANTS = Query(
    DuePayout,
    _DUE
    + """
        and b.currency = :currency and m.settlement_currency = b.currency
        and m.payout_off is null and b.merchant_id > :after
    order by b.merchant_id limit :limit
    """,
)

ACCOUNT = Query(
    StoredAccount,
    """
    select * from bank_accounts where merchant_id = :merchant_id order by version desc limit 1
    """,
)
# The accounts of payouts: of a run, the version in its file; else the newest at the payout's time.
ACCOUNTS_OF_PAYOUTS = Query(
    AccountOfPayout,
    """
    select distinct on (p.id) a.*, p.id as payout_id from payouts p
    left join payout_transfers t on t.merchant_id = p.merchant_id and t.payout_id = p.id
    join bank_accounts a on a.merchant_id = p.merchant_id and (a.version = t.account_version
        or (t.account_version is null and a.created_at <= p.created_at))
    where p.merchant_id = :merchant_id and p.id = any (:ids::text[])
    order by p.id, a.version desc
    """,
)
ADD_ACCOUNT = Query(
    StoredAccount,
    """
    insert into bank_accounts (merchant_id, version, holder, number, hint, country, bic, bank_code,
        usable_from, who, reason, created_at, address)
    values (:merchant_id, :version, :holder, :number, :hint, :country, :bic, :bank_code,
        :usable_from, :who, :reason, :created_at, :address)
    returning *
    """,
)

RUN = Query(Run, "select * from payout_runs where id = :id")
RUN_OF_REFERENCE = Query(Run, "select * from payout_runs where reference = :reference")
# Lock a run. Adding a payout to the run takes this lock too, so that none is added once the run is
# READY.
RUN_LOCKED = Query(Run, "select * from payout_runs where id = :id for update")
RUNS = Query(Run, "select * from payout_runs order by created_at desc, id desc limit :limit")
READY_RUNS = Query(
    Run,
    """
    select * from payout_runs where status = 'READY' order by created_at desc, id desc limit :limit
    """,
)
START_RUN = Query(
    Run,
    """
    insert into payout_runs (id, reference, status, currency, fee_minor, pay_on, from_holder,
        from_number, from_country, from_bic, from_bank_code, from_address, reason, created_by,
        created_at)
    values (:id, :reference, 'OPEN', :currency, :fee_minor, :pay_on, :from_holder, :from_number,
        :from_country, :from_bic, :from_bank_code, :from_address, :reason, :created_by, :now)
    on conflict (reference) do nothing
    returning *
    """,
)
# A run without payouts remains OPEN, so that it can be continued.
FINISH_RUN = Query(
    Run,
    """
    update payout_runs set status = 'READY', ready_at = :now
    where id = :id and status = 'OPEN' and exists (
        select from payout_transfers where run_id = :id)
    returning *
    """,
)
SEND_RUN = Query(
    Run,
    """
    update payout_runs set status = 'SENT', sent_at = :now, sent_by = :who, form = :form
    where id = :id and status = 'READY'
    returning *
    """,
)
# Condition: the merchant has changed the account since the payout was created.
_CHANGED: Final = """exists (
            select from bank_accounts later
            where later.merchant_id = t.merchant_id and later.version > t.account_version)"""
# Puts payouts into the file. Left out are payouts that have ended, and payouts of merchants whose
# payouts were switched off, whose account was changed, or to whose account the bank returned
# another payout since the run was created.
PUT_IN_FILE = Command(
    f"""
    update payout_transfers t set in_file = true
    from payouts p join merchants m on m.id = p.merchant_id
        join bank_accounts a on a.merchant_id = p.merchant_id
    where t.run_id = :run_id and p.merchant_id = t.merchant_id and p.id = t.payout_id
        and a.version = t.account_version
        and p.status = 'PENDING' and m.payout_off is null
        and not {_CHANGED} and {_HELD_SINCE} is null
    """  # noqa: S608 - interpolates constants of this program only
)
# The PENDING payouts of a run that are in no file; only `:payout_id` if it is given.
WAITING_OF_RUN = Query(
    UnsentPayout,
    f"""
    select t.merchant_id, t.payout_id, p.amount_minor, p.currency, a.version, a.holder, a.number,
        a.hint, a.country, a.bic, a.bank_code, a.usable_from, a.who, a.reason, a.created_at,
        a.address, {_CHANGED} as is_changed, {_HELD_SINCE} as held_since
    from payout_transfers t
    join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
    join bank_accounts a on a.merchant_id = t.merchant_id and a.version = t.account_version
    where t.run_id = :run_id and not t.in_file and p.status = 'PENDING'
        and (:payout_id::text is null or t.payout_id = :payout_id)
    order by t.merchant_id
    """,  # noqa: S608 - interpolates constants of this program only
)
STORE_DIGEST = Command(
    "update payout_runs set sha256 = :sha256 where id = :id and status = 'SENT' and sha256 is null"
)
SUMS_OF_RUNS = Query(
    RunSums,
    """
    select r.run_id, count(t.run_id) as payouts,
        count(*) filter (where p.status = 'PENDING') as pending,
        count(*) filter (where p.status = 'PAID') as paid,
        count(*) filter (where p.status = 'FAILED') as failed,
        count(*) filter (where t.in_file) as in_file,
        coalesce(sum(p.amount_minor), 0)::bigint as amount_minor,
        coalesce(sum(p.amount_minor) filter (where t.in_file), 0)::bigint as file_minor,
        coalesce(max(p.amount_minor + p.fee_minor), 0)::bigint as most_minor,
        count(*) filter (where t.run_id is not null and a.address is null) as without_address
    from unnest(:run_id::text[]) as r (run_id)
    left join payout_transfers t on t.run_id = r.run_id
    left join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
    left join bank_accounts a
        on a.merchant_id = t.merchant_id and a.version = t.account_version
    group by r.run_id
    """,
)
# Whether a PENDING payout of the run, plus the amounts that `:maker` has moved alone at the same
# merchant after `:since`, exceeds `:most_minor`. A merchant has one settlement currency, so all
# these amounts are in the run's currency.
RUN_EXCEEDS = Value(
    bool,
    """
    select exists (
        select from payout_transfers t
        join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
        where t.run_id = :run_id and p.status = 'PENDING'
            and p.amount_minor + p.fee_minor + coalesce((
                select sum(s.amount_minor) from solo_movements s
                where s.merchant_id = t.merchant_id and s.maker = :maker
                    and s.currency = p.currency and s.at > :since), 0) > :most_minor)
    """,
)
MOVED_BY_RUN = Query(
    CountedPayout,
    """
    select p.merchant_id, p.id, p.amount_minor + p.fee_minor as amount_minor
    from payout_transfers t
    join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
    where t.run_id = :run_id and t.in_file
    """,
)
IN_RUN = Query(
    InRun,
    """
    select t.merchant_id, m.name as merchant_name, t.payout_id, p.status, p.amount_minor,
        p.fee_minor, p.currency, a.hint, a.country, p.bank_reference, p.failure_reason, t.in_file,
        a.address is not null as has_address
    from payout_transfers t
    join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
    join bank_accounts a on a.merchant_id = t.merchant_id and a.version = t.account_version
    join merchants m on m.id = t.merchant_id
    where t.run_id = :run_id and t.merchant_id > :after
    order by t.merchant_id limit :limit
    """,
)
# The payouts in the bank's file, in the order of the file.
TRANSFERS = Query(
    Transfer,
    """
    select t.merchant_id, t.payout_id, p.amount_minor, p.currency, a.version, a.holder, a.number,
        a.hint, a.country, a.bic, a.bank_code, a.usable_from, a.who, a.reason, a.created_at,
        a.address
    from payout_transfers t
    join payouts p on p.merchant_id = t.merchant_id and p.id = t.payout_id
    join bank_accounts a on a.merchant_id = t.merchant_id and a.version = t.account_version
    where t.run_id = :run_id and t.in_file
    order by t.merchant_id
    """,
)
IS_IN_RUN = Value(
    bool,
    """
    select exists (
        select from payout_transfers where merchant_id = :merchant_id and run_id = :run_id)
    """,
)
ADD_TRANSFER = Command(
    """
    insert into payout_transfers (merchant_id, payout_id, run_id, account_version)
    values (:merchant_id, :payout_id, :run_id, :account_version)
    """
)
# Payouts of any merchant, such as those that a bank's report names.
BY_IDS = Query(Payout, "select * from payouts where id = any(:ids)")
