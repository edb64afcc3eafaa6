"""Checking a balance's entries a bounded range at a time, from the first to the last.

Each range begins with the entry that the one before ended with, and carries the sums of all
accounts on, so that the ranges together check what ``ledger.check`` does in one go.
"""

from typing import Any, Final

import msgspec

from opentill.db.database import Tx
from opentill.db.query import Command, Query
from opentill.ledger import queries
from opentill.ledger.model import Accounts, Violation
from opentill.ledger.postings import ACCOUNTS
from opentill.ledger.service import known_moves

RANGE: Final = 50_000


class Progress(Accounts, frozen=True, kw_only=True):
    """How far a balance is checked in this round, and the sums of all accounts up to there."""

    merchant_id: str
    currency: str
    checked_to: int
    last_at: int
    found: int


class Range(Accounts, frozen=True, kw_only=True):
    """What stands in a range: how many entries, the last one, what they move."""

    entries: int
    last: int
    last_at: int


# The balance that waits longest; one that is half checked comes first, one that was finished after
# `:until` (real time, Unix ms) not yet.
NEXT = Query(
    Progress,
    f"""
    select m.id as merchant_id, coalesce(b.currency, m.settlement_currency) as currency,
        coalesce(c.checked_to, 0) as checked_to, {queries.each("coalesce(c.{0}, 0) as {0}")},
        coalesce(c.last_at, 0) as last_at, coalesce(c.found, 0) as found
    from merchants m left join balances b on b.merchant_id = m.id
    left join ledger_checks c on c.merchant_id = m.id
        and c.currency = coalesce(b.currency, m.settlement_currency)
    where c.checked_at is null or c.checked_to > 0 or c.checked_at <= :until
    order by c.checked_to > 0 desc nulls last, c.checked_at nulls first limit 1
    """,  # noqa: S608 - the names of accounts are constants of ours
)
_SUMS: Final = queries.each(f"coalesce(sum({queries.MOVED}), 0)::bigint as {{0}}")
SUMS = Query(
    Range,
    f"""
    select count(*) as entries, coalesce(max(number), :after) as last,
        coalesce(max(created_at), 0) as last_at, {_SUMS}
    from (
        select * from entries
        where merchant_id = :merchant_id and currency = :currency and number > :after
        order by number limit :limit
    ) as range
    """,  # noqa: S608 - as above
)
WRONG = Query(
    Violation,
    f"""
    select 'each balance after is the one before plus this entry, numbered 1, 2, 3 …' as rule,
        :merchant_id::text as merchant_id, id as subject,
        'entry ' || number || ' of ' || :currency as detail
    from (
        select id, number, {queries.FOLLOWS} as follows
        from entries
        where merchant_id = :merchant_id and currency = :currency
            and number >= :after and number <= :last
        window following as (order by number)
    ) as checked where not follows and number > :after order by number limit 1000
    """,  # noqa: S608 - as above
)
UNKNOWN = Query(
    Violation,
    """
    select 'every entry is a movement of the table' as rule, merchant_id, id as subject,
        type || ' from ' || from_account || ' to ' || to_account as detail
    from entries e
    where merchant_id = :merchant_id and currency = :currency
        and number > :after and number <= :last and not exists (
        select from unnest(:type::text[], :source::text[], :target::text[], :shown::int[])
            as p (type, source, target, shown)
        where (p.type, p.source, p.target, p.shown * e.amount_minor)
            = (e.type, e.from_account, e.to_account, e.shown_minor))
    order by number limit 1000
    """,
)
# Nothing is written if another worker was faster: the round is not at `:checked_from` any more.
# `:checked_to` is 0 at the end of a round, `:entries` null before it; `:checked_at` is real time.
SAVE = Command(
    f"""
    insert into ledger_checks as c (merchant_id, currency, checked_to, {queries.each("{0}")},
        last_at, found, violations, entries, checked_at)
    values (:merchant_id, :currency, :checked_to, {queries.each(":{0}")}, :last_at, :found, :found,
        coalesce(:entries, 0), :checked_at)
    on conflict (merchant_id, currency) do update set checked_to = :checked_to,
        {queries.each("{0} = :{0}")}, last_at = :last_at, found = :found,
        checked_at = :checked_at, entries = coalesce(:entries, c.entries),
        violations = case when :entries::bigint is null then greatest(c.violations, :found)
            else :found end
    where c.checked_to = :checked_from
    """,  # noqa: S608 - as above
)


class Checked(msgspec.Struct, frozen=True):
    """What the check of a range found: how far the balance is checked, and if that is its end."""

    progress: Progress
    entries: int
    finished: bool
    violations: list[Violation]


async def check_range(tx: Tx, before: Progress, limit: int = RANGE) -> Checked:
    """Check the next range of a balance; ``tx`` is a snapshot, so that it sees one moment."""
    key = {"merchant_id": before.merchant_id, "currency": before.currency}
    found = await SUMS.one(tx, **key, after=before.checked_to, limit=limit)
    balance = await queries.BALANCE.first(tx, **key)
    span: dict[str, Any] = {**key, "after": before.checked_to, "last": found.last}
    wrong = [*await WRONG.all(tx, **span), *await UNKNOWN.all(tx, **span, **known_moves())]
    sums = {name: getattr(before, name) + getattr(found, name) for name in ACCOUNTS}
    last_at = max(before.last_at, found.last_at)
    finished = found.entries < limit
    if finished:
        expected = {name: 0 if balance is None else getattr(balance, name) for name in ACCOUNTS}
        there = (0, 0) if balance is None else (balance.entries, balance.last_at)
        if expected != sums or there != (found.last, last_at):
            rule = "the balance equals the sum of its entries"
            detail = "the balance row and its entries differ"
            wrong.append(Violation(rule, before.merchant_id, before.currency, detail))
    after = msgspec.structs.replace(
        before, checked_to=found.last, last_at=last_at, found=before.found + len(wrong), **sums
    )
    return Checked(after, found.entries, finished, wrong)


async def save(tx: Tx, before: Progress, made: Checked, found: int, now: int) -> bool:
    """Save how far a balance is checked, and ``found`` of this round; False: another was faster.

    At the end the next round begins at the first entry. ``now`` is real time, Unix ms.
    """
    after = msgspec.structs.replace(made.progress, found=found)
    entries = None
    if made.finished:
        entries = after.checked_to
        start = dict.fromkeys(ACCOUNTS, 0)
        after = msgspec.structs.replace(after, checked_to=0, last_at=0, **start)
    return bool(
        await SAVE.run(tx, after, checked_from=before.checked_to, entries=entries, checked_at=now)
    )
