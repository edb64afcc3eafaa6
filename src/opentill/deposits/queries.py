"""All SQL about deposits."""

from typing import Final

from opentill.db.query import Command, Query, Value
from opentill.deposits.model import (
    ChainState,
    DepositCase,
    DueReport,
    Position,
    Progress,
    RefundEvidence,
    StoredTransfer,
)

# Claims the chain of an account for one process if it is due, or if an address was reserved since
# it was read last. A claim ends by itself if its process dies.
CLAIM = Query(
    Position,
    """
    update deposit_positions p set claimed_until = :claimed_until
    where p.account = :account and p.chain_id = :chain_id and p.claimed_until < :now
        and (p.next_at <= :now or exists (
            select from deposit_addresses a
            where a.account = :account and a.monitored_until > :business_now
                and a.reserved_at > p.next_at - :idle_ms))
    returning p.number, p.hash, p.claimed_until
    """,
)
EXISTS = Value(
    bool,
    """
    select exists (select from deposit_positions
        where account = :account and chain_id = :chain_id)
    """,
)
BEGIN = Command(
    """
    insert into deposit_positions (account, chain_id, number, hash, claimed_until, next_at)
    values (:account, :chain_id, :number, :hash, 0, :now)
    on conflict (account, chain_id) do nothing
    """,
)
# Nothing is written if the claim has ended, or if another process has moved the position.
ADVANCE = Command(
    """
    update deposit_positions set number = :number, hash = :hash
    where account = :account and chain_id = :chain_id and claimed_until = :claimed_until
        and number = :from_number and hash = :from_hash
    """,
)
RELEASE = Command(
    """
    update deposit_positions set claimed_until = 0, next_at = :next_at, failure = :failure::text,
        failing_since = case when :failure is null then null else coalesce(failing_since, :now) end
    where account = :account and chain_id = :chain_id and claimed_until = :claimed_until
    """,
)
CHAINS = Query(
    ChainState,
    """
    select account, chain_id, number, failure, failing_since from deposit_positions
    order by failing_since nulls last, account, chain_id
    """,
)
_TRANSFER: Final = """
    block_number, block_hash, transaction, log_index, token, sender, address, units, scaled
"""
TRANSFERS_OF_BLOCKS = Query(
    StoredTransfer,
    f"""
    select {_TRANSFER} from deposit_transfers
    where account = :account and chain_id = :chain_id and block_number between :first and :last
        and removed_at is null
    order by block_number, log_index
    """,  # noqa: S608 - interpolates constants of this program only
)
TRANSFERS_OF_ADDRESS = Query(
    StoredTransfer,
    f"""
    select {_TRANSFER} from deposit_transfers where address = :address and removed_at is null
    order by block_number, log_index
    """,  # noqa: S608 - interpolates constants of this program only
)
# A transfer that a reorganisation removed may return. Of tokens that the account does not take,
# only some are stored, because anybody can send worthless ones.
STORE = Value(
    bool,
    """
    insert into deposit_transfers as t (account, chain_id, block_hash, log_index, block_number,
        transaction, token, sender, address, units, scaled, stored_at)
    select :account::text, :chain_id::bigint, :block_hash::text, :log_index::bigint,
        :block_number::bigint, :transaction::text, :token::text, :sender::text, :address::text,
        :units::numeric, :scaled::numeric, :now::bigint
    where :scaled > 0 or (
        select count(*) from deposit_transfers where address = :address and scaled = 0
    ) < :most_unknown
    on conflict (account, chain_id, block_hash, log_index) do update set removed_at = null
        where t.removed_at is not null
    returning true
    """,
)
REMOVE = Command(
    """
    update deposit_transfers set removed_at = :now
    where account = :account and chain_id = :chain_id and block_hash = :block_hash
        and log_index = :log_index and removed_at is null
    """,
)
ADD_UP = Command(
    """
    insert into deposit_sums (address, received, reported)
    select a.address, coalesce(sum(t.scaled) filter (where t.removed_at is null), 0), 0
    from unnest(:address::text[]) as a (address)
    left join deposit_transfers t on t.address = a.address
    group by a.address
    on conflict (address) do update set received = excluded.received
    """,
)
MARK_SEEN = Value(
    bool,
    """
    insert into deposit_sums as s (address, received, reported, seen_at)
    values (:address, 0, 0, :now)
    on conflict (address) do update set seen_at = :now where s.seen_at is null
    returning true
    """,
)
# Too little money is reported when the session has ended.
DUE = Query(
    DueReport,
    """
    select a.address, a.attempt_id, a.amount_minor, a.currency, a.due, s.received, s.reported
    from deposit_sums s join deposit_addresses a on a.address = s.address
    where s.received <> s.reported and a.account = :account
        and (s.received >= a.due or a.expires_at < :now)
    order by a.address limit :limit
    """,
)
LOCK_DUE = Query(
    DueReport,
    """
    select a.address, a.attempt_id, a.amount_minor, a.currency, a.due, s.received, s.reported
    from deposit_sums s join deposit_addresses a on a.address = s.address
    where s.address = :address and s.received <> s.reported for update of s
    """,
)
SET_REPORTED = Command(
    "update deposit_sums set reported = :reported where address = :address",
)
PROGRESS = Query(
    Progress,
    """
    select a.address, a.due, coalesce(s.received, 0) as received, s.seen_at
    from deposit_addresses a left join deposit_sums s on s.address = a.address
    where a.attempt_id = :attempt_id
    """,
)
OPEN_CASE = Command(
    """
    insert into deposit_cases (id, kind, account, attempt_id, address, transaction, log_index,
        token, units, opened_at)
    values (:id, :kind, :account, :attempt_id, :address, :transaction, :log_index, :token, :units,
        :now)
    on conflict (kind, account, transaction, log_index) do nothing
    """,
)
_CASE: Final = """
    select c.id, c.kind, c.account, a.merchant_id, a.order_id, c.attempt_id, c.address,
        c.transaction, c.log_index, c.token, c.units, c.opened_at, c.closed_at, c.closed_by,
        c.resolution
    from {cases} c
    join directory d on d.id = c.attempt_id
    join payment_attempts a on a.merchant_id = d.merchant_id and a.id = d.id
"""
OPEN_CASES = Query(
    DepositCase,
    _CASE.format(cases="deposit_cases")
    + "where c.closed_at is null order by c.opened_at desc, c.id limit :limit",
)
COUNT_OPEN = Value(
    int,
    """
    select count(*) from (
        select from deposit_cases where closed_at is null limit :limit
    ) open_cases
    """,
)
CASES_OF_ATTEMPTS = Query(
    DepositCase,
    _CASE.format(cases="deposit_cases")
    + """
    join deposit_addresses reserved on reserved.address = c.address
    where reserved.attempt_id = any(:attempt_ids::text[]) order by c.opened_at, c.id
    """,
)
_CLOSED: Final = """
    with closed as (
        update deposit_cases set closed_at = :now, closed_by = :closed_by, resolution = :resolution
        where id = :id and closed_at is null returning *
    )
"""
CLOSE_CASE = Query(DepositCase, _CLOSED + _CASE.format(cases="closed"))
RECORD_REFUND = Command(
    """
    insert into deposit_refunds (refund_id, account, chain_id, transaction, log_index, recipient,
        token, units, recorded_at)
    values (:refund_id, :account, :chain_id, :transaction, :log_index, :recipient, :token, :units,
        :now)
    on conflict do nothing
    """,
)
REFUND = Query(
    RefundEvidence,
    """
    select refund_id, account, chain_id, transaction, log_index, recipient, token, units
    from deposit_refunds where refund_id = :refund_id
    """,
)
